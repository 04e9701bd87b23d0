//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CM_ACCEPTOR_IMPL_HPP
#define BOOST_RDMA_LIB_CONNECT_CM_ACCEPTOR_IMPL_HPP

#include "boost_rdma/cm/detail/cm_core.hpp"
#include "completion/handler_slot.hpp"
#include "connect/accept_queue.hpp"
#include "connect/cm/connection.hpp"
#include "connect/cm/held_request.hpp"
#include "connect/connection_service.hpp"

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace rdma::cm::detail {

// Listens on one rdma_cm_id for each device, accepts clients while accept operations wait, and
// passes requests to operations that leave the decision to the program. Functions that user threads
// can call take the mutex; the others run on the service's thread.
class acceptor_impl final
  : public rdma::detail::accept_queue<acceptor_core, rdma::detail::unclaimed_queue_pair,
      std::shared_ptr<queue_pair_core>, std::shared_ptr<request_core>>
{
public:
  explicit acceptor_impl(const acceptor_options& options);

  // Before listen(): adds a device to listen on.
  void add(std::shared_ptr<const acceptor_settings> settings, event_channel& channel);

  // All devices listen on the same port.
  void listen(const boost::asio::ip::tcp::endpoint& endpoint, error_code& ec);

  void get_request(
    const boost::asio::any_io_executor& executor, request_handler_type handler) override;
  void close() override;
  void abandon() noexcept override;

  // A client's queue pair is connected, or could not be connected.
  void finished(rdma::detail::unclaimed_queue_pair queue_pair, const error_code& ec);

private:
  struct listener final : event_sink
  {
    listener(acceptor_impl& of, std::shared_ptr<const acceptor_settings> with,
      event_channel& from) noexcept
      : owner(of)
      , settings(std::move(with))
      , channel(from)
    {
    }
    void on_event(const event& what) override { owner.on_event(*this, what); }

    acceptor_impl& owner;
    const std::shared_ptr<const acceptor_settings> settings;
    event_channel& channel; // may be destroyed before the acceptor, together with the io_context
    unique_id id;           // listens while the acceptor is open; protected by its mutex
  };

  struct waiting_client
  {
    std::shared_ptr<connection> link;
    const listener* at;
  };

  void on_event(listener& at, const event& what);
  static void try_listen(
    listener& at, const boost::asio::ip::tcp::endpoint& endpoint, error_code& ec);
  [[nodiscard]] std::shared_ptr<acceptor_impl> self()
  {
    return std::static_pointer_cast<acceptor_impl>(shared_from_this());
  }
  [[nodiscard]] boost::asio::io_context& io() { return listeners_.front().channel.io(); }
  void on_adding(const lock_type&) override { post_serve(); } // serve() waits for the mutex
  void post_serve();
  void serve();
  void stop_listening();

  const acceptor_options options_;
  std::deque<listener> listeners_; // not changed after listen()

  // Protected by the mutex:
  std::list<waiting_client> pending_; // clients without an answer
  std::size_t accepting_ = 0;         // clients that are being accepted
  bool stops_ = false;                // the function for that is posted

  rdma::detail::handler_slot stop_slot_; // of that function: close() needs no memory
};

} // namespace rdma::cm::detail

#endif // BOOST_RDMA_LIB_CONNECT_CM_ACCEPTOR_IMPL_HPP
