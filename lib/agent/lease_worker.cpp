//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/lease_worker.hpp"

#include "verbs/signals_blocked.hpp"

namespace rdma::detail {

namespace asio = boost::asio;

asio::execution_context::id lease_worker::id;

lease_worker::lease_worker(asio::execution_context& owner)
  : asio::execution_context::service(owner)
{
}

lease_worker& lease_worker::of(const asio::any_io_executor& executor)
{
  return asio::use_service<lease_worker>(asio::query(executor, asio::execution::context));
}

asio::thread_pool& lease_worker::threads(mutex_held)
{
  if (!threads_)
  {
    const signals_blocked blocked; // the new thread inherits the mask
    threads_ = std::make_unique<asio::thread_pool>(1);
  }
  return *threads_;
}

void lease_worker::shutdown()
{
  if (process_.foreign())
    return static_cast<void>(threads_.release()); // the thread is the parent's
  if (threads_)
    threads_->stop();
  threads_.reset(); // joins
}

// Called by io_context::notify_fork(). The parent's leases end in a child that uses the context.
void lease_worker::notify_fork(asio::execution_context::fork_event event)
{
  if (event != asio::execution_context::fork_child || !process_.foreign())
    return;
  static_cast<void>(threads_.release());
  process_ = process_mark();
}

} // namespace rdma::detail
