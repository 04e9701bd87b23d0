//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_DISCOVERY_HPP
#define BOOST_RDMA_LIB_CONNECT_DISCOVERY_HPP

#include "boost_rdma/error.hpp"
#include "completion/handler_slot.hpp"
#include "connect/connection.hpp"
#include "connect/discovery_message.hpp"
#include "connect/question_list.hpp"
#include "connect/tcp_control_stream.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

// How a client finds out if a server accepts streams, before a byte of them is sent: by a datagram
// to the UDP port with the number of the server's TCP port.

namespace rdma::detail {

// The server: answers questions, and remembers who asked. Functions may be called by any thread.
class discovery_server : public std::enable_shared_from_this<discovery_server>
{
public:
  explicit discovery_server(boost::asio::io_context& io,
    std::shared_ptr<question_list> questions = std::make_shared<question_list>())
    : socket_(io)
    , questions_(std::move(questions))
  {
  }

  // `listener`: the TCP socket, whose options are used.
  void open(const boost::asio::ip::tcp::endpoint& at, int listener, error_code& ec);

  // Instead of open(): answers at a copy of another server's socket.
  void assign(const boost::asio::ip::tcp& protocol, int native, error_code& ec);
  [[nodiscard]] int native_handle() { return socket_->native_handle(); }

  void close() noexcept; // also required before the io_context ends

  // Returns true if a client with this address has asked, and no preamble has arrived since.
  [[nodiscard]] bool expects(const boost::asio::ip::address& from);

  // A preamble with this token has arrived.
  void arrived(const discovery_message::token_type& token);

private:
  using socket_type = boost::asio::basic_datagram_socket<boost::asio::ip::udp,
    boost::asio::io_context::executor_type>;
  using lock_type = std::unique_lock<std::mutex>;
  void open_socket(const boost::asio::ip::udp::endpoint& local, int listener, error_code& ec);
  void wait(const lock_type& lock);
  void answer_all(const lock_type& lock);
  [[nodiscard]] bool answer_next(const lock_type& lock);

  std::mutex mutex_;
  std::optional<socket_type> socket_; // empty after close()
  handler_slot wait_slot_;
  bool always_ = false; // another process may have been asked
  const std::shared_ptr<question_list> questions_;
};

// Returns true if the client asks for RDMA by a preamble, which is then taken. Waits for the bytes
// of a client that is expected to send one, at most for this time.
service_awaitable<bool> takes_preamble(
  connection& link, discovery_server& discovery, bool expected, std::chrono::milliseconds most);

// The unread bytes of a connection, or its end. Does not wait.
enum class first_bytes
{
  none,
  part, // of a preamble
  preamble,
  other,
};
first_bytes look_at_first_bytes(int socket) noexcept;

// The client. On the thread of the io_context, except for ask(), which comes first.
class discovery_client : public std::enable_shared_from_this<discovery_client>
{
public:
  explicit discovery_client(boost::asio::io_context& io);

  [[nodiscard]] const discovery_message::token_type& token() const noexcept { return token_; }

  // Asks, unless the server was silent before; `again`: also then. `from`: the address of the TCP
  // connection, if it is known.
  void ask(const boost::asio::ip::tcp::endpoint& server, bool again,
    const boost::asio::ip::address& from = {});

  // Waits for the answer, for a short time. Returns why there is no RDMA; empty: there is.
  // `repeats`: asks once more first.
  service_awaitable<std::string> answer(bool is_same_host, bool repeats = true);

  // Ends the question. Required, because it owns itself until it has an answer.
  void end(std::string why);

private:
  void send(error_code& ec);
  void receive();
  void on_received(const error_code& ec, std::size_t size);

  boost::asio::basic_datagram_socket<boost::asio::ip::udp, boost::asio::io_context::executor_type>
    socket_;
  boost::asio::basic_waitable_timer<std::chrono::steady_clock,
    boost::asio::wait_traits<std::chrono::steady_clock>, boost::asio::io_context::executor_type>
    timer_;
  boost::asio::ip::tcp::endpoint server_;
  discovery_message::token_type token_;
  std::array<std::byte, discovery_message::size + 1> received_; // one more: a message too long
  std::optional<std::string> result_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_DISCOVERY_HPP
