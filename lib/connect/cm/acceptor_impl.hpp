//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CM_ACCEPTOR_IMPL_HPP
#define BOOST_RDMA_LIB_CONNECT_CM_ACCEPTOR_IMPL_HPP

#include "boost_rdma/cm/detail/cm_core.hpp"
#include "completion/waiting_list.hpp"
#include "connect/cm/connection.hpp"
#include "connect/cm/held_request.hpp"
#include "connect/connection_service.hpp"
#include "connect/unclaimed_queue_pair.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace rdma::cm::detail {

// Listens on an rdma_cm_id, accepts those who ask while somebody wants a queue pair, and hands
// requests to those who want to decide. What can be called from the user's threads takes the mutex;
// the rest runs on the service's thread.
class acceptor_impl final
  : public acceptor_core
  , public rdma::detail::abandonable
  , public event_sink
  , public std::enable_shared_from_this<acceptor_impl>
{
public:
  acceptor_impl(std::shared_ptr<const acceptor_settings> settings, event_channel& channel);

  void listen(const boost::asio::ip::tcp::endpoint& endpoint, error_code& ec);

  [[nodiscard]] boost::asio::ip::tcp::endpoint local_endpoint() const override { return local_; }
  [[nodiscard]] bool is_open() const override;
  void accept(const boost::asio::any_io_executor& executor, accept_handler_type handler) override;
  void get_request(
    const boost::asio::any_io_executor& executor, request_handler_type handler) override;
  void cancel() override;
  void close() override;
  void abandon() noexcept override;
  void end_in_child() override;

  void on_event(const event& what) override;

  // A client was accepted for the accept that waits the longest, or the next to come; or could not
  // be.
  void finished(rdma::detail::unclaimed_queue_pair queue_pair, const error_code& ec);

private:
  void try_listen(const boost::asio::ip::tcp::endpoint& endpoint, error_code& ec);
  template <class Handler>
  void assign_slot(Handler& handler, std::uint64_t number);
  void withdraw(std::uint64_t number);
  void end_waiting(std::unique_lock<std::mutex>& lock, const error_code& ec);
  void post_serve();
  void serve();

  const std::shared_ptr<const acceptor_settings> settings_;
  event_channel&
    channel_; // goes before an acceptor may that something owns which the io_context destroys last
  boost::asio::ip::tcp::endpoint local_;

  const rdma::detail::process_mark process_;
  mutable std::mutex mutex_;
  unique_id id_; // what listens, while open
  std::uint64_t last_number_ = 0;
  rdma::detail::waiting_list<std::shared_ptr<queue_pair_core>> accepts_;
  rdma::detail::waiting_list<std::shared_ptr<request_core>> requests_;
  std::deque<std::shared_ptr<connection>> asking_;          // not answered yet
  std::size_t accepting_ = 0;                               // being accepted
  std::deque<rdma::detail::unclaimed_queue_pair> finished_; // only while nobody waits
};

} // namespace rdma::cm::detail

#endif // BOOST_RDMA_LIB_CONNECT_CM_ACCEPTOR_IMPL_HPP
