//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_ACCEPTOR_IMPL_HPP
#define BOOST_RDMA_LIB_CONNECT_ACCEPTOR_IMPL_HPP

#include "boost_rdma/detail/acceptor_core.hpp"
#include "completion/handler_slot.hpp"
#include "connect/accept_queue.hpp"
#include "connect/client_admission.hpp"
#include "connect/connection.hpp"
#include "connect/connection_service.hpp"
#include "connect/discovery.hpp"
#include "connect/handshake.hpp"
#include "connect/tcp_control_stream.hpp"
#include "connect/unclaimed_client.hpp"

#include <boost/asio/steady_timer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

namespace rdma::detail {

// Accepts TCP connections while accept operations wait, and performs the handshakes on all of them
// concurrently. Functions that user threads can call take the mutex; the others run on the
// service's thread.
class acceptor_impl final : public accept_queue<acceptor_core, unclaimed_client, connected_peer>
{
public:
  acceptor_impl(const boost::asio::any_io_executor& executor,
    const boost::asio::any_io_executor& inner, const protection_domain& domain,
    const acceptor_options& options, clients which, connection_service& service);

  void listen(const boost::asio::ip::tcp::endpoint& endpoint, error_code& ec);

  void close() override;
  void abandon() noexcept override;

  // For the handshake of one client.
  [[nodiscard]] const acceptor_options& options() const noexcept { return options_; }
  [[nodiscard]] const queue_pair_settings& settings() const noexcept { return settings_; }
  [[nodiscard]] const client_admission& admission() const noexcept { return admission_; }

  // Returns true if the client asks for a queue pair. Otherwise only its socket is accepted.
  service_awaitable<bool> wants_queue_pair(connection& link);

  // The client is connected.
  void finished(connection& link, unclaimed_queue_pair queue_pair);
  void finished_plain(connection& link);

  // The handshake has succeeded or failed.
  void remove_handshake(const std::shared_ptr<connection>& link);

private:
  using socket_type = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp,
    boost::asio::io_context::executor_type>;

  struct handshake
  {
    std::shared_ptr<connection> link;
    boost::asio::ip::address from;
  };

  struct eviction
  {
    boost::asio::ip::address from;
    std::chrono::steady_clock::time_point at;
  };

  struct waiting_client
  {
    tcp_control_stream::socket_type socket;
    boost::asio::ip::address from;
  };

  [[nodiscard]] std::shared_ptr<acceptor_impl> self()
  {
    return std::static_pointer_cast<acceptor_impl>(shared_from_this());
  }
  [[nodiscard]] bool is_wanted(const lock_type& lock) const
  {
    return open_ && waiting<accepted>(lock) != 0;
  }
  void listen_once(
    const boost::asio::ip::tcp::endpoint& endpoint, error_code& ec, const lock_type& lock);
  void on_changed(const lock_type& lock) override;
  void start_accepting(const lock_type& lock);
  error_code take_client(const lock_type& lock);
  void on_readable(error_code ec);
  void admit(lock_type lock);
  [[nodiscard]] bool has_place(const boost::asio::ip::address& from, const lock_type& lock);
  [[nodiscard]] std::shared_ptr<connection> take_waiting(const lock_type& lock);
  void thin_out(const lock_type& lock);
  [[nodiscard]] bool wastes_places(
    const boost::asio::ip::address& from, const lock_type& lock) const;
  void serve(const std::shared_ptr<connection>& link);
  void look_again(std::chrono::steady_clock::duration pause, const lock_type& lock);
  bool evict_handshake(const boost::asio::ip::address* from, const lock_type& lock);

  const acceptor_options options_;
  const clients clients_;
  const std::size_t per_address_max_;
  const queue_pair_settings settings_;
  const client_admission admission_;
  boost::asio::io_context& io_;
  const std::shared_ptr<inbox> inbox_;
  const std::shared_ptr<discovery_server> discovery_; // null for acceptors of queue pairs

  // Protected by the mutex:
  bool accepting_ = false;            // socket_ waits for a client
  bool looks_again_ = false;          // timer_ runs
  bool pauses_ = false;               // until then no client is accepted
  handler_slot accept_slot_;          // of the wait for a client
  std::optional<socket_type> socket_; // empty after abandon(), like timer_
  std::optional<boost::asio::steady_timer> timer_;
  std::array<eviction, 64> evicted_; // the last ones
  std::size_t evictions_ = 0;
  std::chrono::steady_clock::time_point finished_at_; // the last handshake
  std::list<handshake> handshakes_;                   // the oldest first
  std::list<waiting_client> pending_;                 // without a place; at most handshakes_max
};

// One of the acceptor's places for handshakes. Its destructor gives the place back: if there is no
// memory for an operation, Asio destroys the coroutine that waits for it.
class handshake_place
{
public:
  handshake_place(
    const std::shared_ptr<acceptor_impl>& acceptor, std::shared_ptr<connection> link) noexcept;
  handshake_place(handshake_place&&) noexcept = default;
  ~handshake_place();

  void give_back();

private:
  std::weak_ptr<acceptor_impl> acceptor_;
  std::shared_ptr<connection> link_; // null if the place was given back
};

// Serves one client until its queue pair has gone.
service_awaitable<void> run_server(
  std::shared_ptr<acceptor_impl> acceptor, std::shared_ptr<connection> link, handshake_place place);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_ACCEPTOR_IMPL_HPP
