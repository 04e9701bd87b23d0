//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CONNECTION_HPP
#define BOOST_RDMA_LIB_CONNECT_CONNECTION_HPP

#include "boost_rdma/detail/queue_pair_core.hpp"
#include "connect/control_frame.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

namespace rdma::detail {

// What every step of a coroutine here waits with: the error goes to ec.
inline auto into(error_code& ec)
{
  return boost::asio::redirect_error(boost::asio::use_awaitable, ec);
}

// The TCP connection behind a queue pair: first it carries the handshake, then it is the control channel.
//
// Lives on the service's thread, where all members run unless they say otherwise. Its owners are the
// coroutines and handlers there; the queue pair has a guard that refers to it, and it refers to the
// queue pair, both weakly: neither keeps the other.
class connection : public std::enable_shared_from_this<connection>
{
public:
  using socket_type = boost::asio::basic_stream_socket<boost::asio::ip::tcp,
    boost::asio::io_context::executor_type>;

  explicit connection(boost::asio::io_context& io);
  explicit connection(socket_type socket);

  // How far the handshake has come. What counts for least is given up first when there are too many.
  enum class stage
  {
    refused,     // only waits for the peer to read why
    unproven,    // the peer has not said anything of use
    negotiating, // it has
    established,
  };

  socket_type socket;
  boost::beast::flat_buffer buffer; // what was read beyond the last message
  stage progress = stage::unproven;

  // Any thread. The queue pair that the connection belongs to; false when it cannot be connected.
  bool adopt(const std::shared_ptr<queue_pair_core>& core);
  [[nodiscard]] std::shared_ptr<queue_pair_core> core() const { return core_.lock(); }

  // The handshake fails with handshake_timeout unless establish() is called before.
  void set_deadline(std::chrono::steady_clock::duration time_limit);
  void establish();

  // Ends the handshake with this error, or an established connection with a farewell. Only the
  // first call counts.
  void stop(const error_code& why);

  // As stop(), but leaves an established connection alone.
  void cancel_handshake();

  // The error to report for an operation of ours that failed with ec: why it was stopped, if it was.
  [[nodiscard]] error_code failure(const error_code& ec) const { return why_ ? why_ : ec; }
  [[nodiscard]] bool stopped() const noexcept { return static_cast<bool>(why_); }

  boost::asio::awaitable<error_code> send(frame_type type);

  // Waits for a frame of this type; others are skipped.
  boost::asio::awaitable<error_code> receive(frame_type type);

  // Watches the peer until either side closes, and tells the queue pair.
  boost::asio::awaitable<void> watch();

  // Any thread: stop() for the user who closes the queue pair.
  static void post_stop(const std::weak_ptr<connection>& link);

  // The same for cancel_handshake().
  static void post_cancel(const std::weak_ptr<connection>& link);

private:
  boost::asio::awaitable<error_code> read_frame(std::uint8_t& type);
  boost::asio::awaitable<void> let_sends_finish();
  void close();

  boost::asio::steady_timer timer_;
  std::weak_ptr<queue_pair_core> core_;
  error_code why_;
  frame_reader frames_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_CONNECTION_HPP
