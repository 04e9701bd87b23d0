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
#include "completion/waiting_handler.hpp"
#include "connect/client_admission.hpp"
#include "connect/connection.hpp"
#include "connect/connection_service.hpp"
#include "connect/handshake.hpp"
#include "connect/tcp_control_stream.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

namespace rdma::detail {

// Accepts TCP connections while somebody wants a queue pair, and shakes hands on all of them at a
// time. What can be called from the user's threads takes the mutex; the rest runs on the service's
// thread.
class acceptor_impl final
  : public acceptor_core
  , public abandonable
  , public std::enable_shared_from_this<acceptor_impl>
{
public:
  acceptor_impl(const boost::asio::any_io_executor& executor,
    const boost::asio::any_io_executor& inner, const protection_domain& domain,
    const acceptor_options& options, connection_service& service);

  void listen(const boost::asio::ip::tcp::endpoint& endpoint, error_code& ec);

  [[nodiscard]] boost::asio::ip::tcp::endpoint local_endpoint() const override { return local_; }
  [[nodiscard]] bool is_open() const override;
  void accept(const boost::asio::any_io_executor& executor, handler_type handler) override;
  void cancel() override;
  void close() override;
  void abandon() noexcept override;
  void end_in_child() override;

  // For the handshake of one client.
  [[nodiscard]] const acceptor_options& options() const noexcept { return options_; }
  [[nodiscard]] const server_settings& settings() const noexcept { return settings_; }
  [[nodiscard]] const client_admission& admission() const noexcept { return admission_; }

  // The client is ready: for the accept that waits the longest, or the next to come.
  void finished(unclaimed_queue_pair queue_pair);

  // The handshake is over, one way or the other.
  void forget(const std::shared_ptr<connection>& link);

private:
  using socket_type = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp,
    boost::asio::io_context::executor_type>;

  struct waiting_accept
  {
    std::uint64_t id;
    waiting_handler<std::shared_ptr<queue_pair_core>> handler;
  };

  struct handshake
  {
    std::shared_ptr<connection> link;
    boost::asio::ip::address from;
    std::chrono::steady_clock::time_point since;
  };

  void start_accepting();
  void pause_accepting();
  error_code take_client();
  void on_readable(error_code ec);
  void admit(std::unique_lock<std::mutex>& lock);
  void serve(const std::shared_ptr<connection>& link);
  void back_off(std::chrono::steady_clock::duration pause);
  bool make_room(const boost::asio::ip::address* from);
  void withdraw(std::uint64_t id);

  const acceptor_options options_;
  const server_settings settings_;
  const client_admission admission_;
  boost::asio::io_context& io_;
  const std::shared_ptr<inbox> words_;
  boost::asio::ip::tcp::endpoint local_;

  const process_mark process_;
  mutable std::mutex mutex_;
  bool open_ = false;
  bool accepting_ = false;            // socket_ waits for a client, or timer_ for better times
  handler_slot accept_slot_;          // of the wait for a client
  std::optional<socket_type> socket_; // both gone once abandoned
  std::optional<boost::asio::steady_timer> timer_;
  std::uint64_t back_offs_ = 0;
  std::uint64_t last_id_ = 0;
  std::list<waiting_accept> waiting_;
  std::deque<unclaimed_queue_pair> finished_;              // only while nobody waits
  std::list<handshake> handshakes_;                        // the oldest first
  std::optional<tcp_control_stream::socket_type> in_hand_; // a client for whom there is no room yet
};

// Serves one client until its queue pair has gone.
boost::asio::awaitable<void> run_server(
  std::shared_ptr<acceptor_impl> acceptor, std::shared_ptr<connection> link);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_ACCEPTOR_IMPL_HPP
