//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_AGENT_LEASE_WORKER_HPP
#define BOOST_RDMA_LIB_AGENT_LEASE_WORKER_HPP

#include "boost_rdma/detail/process_mark.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace rdma::detail {

// The thread of an execution context that makes and releases large leases. To map, clear, register
// and unmap their memory takes milliseconds, in which the program's threads serve other peers.
class lease_worker final : public boost::asio::execution_context::service
{
public:
  using key_type = lease_worker;
  static boost::asio::execution_context::id id;

  explicit lease_worker(boost::asio::execution_context& owner);

  // Calls a function, which must not throw, after those that were passed before. Calls it at once
  // if there is no thread or no memory. When the execution context is destroyed, functions that are
  // still waiting are destroyed.
  template <class Function>
  static void run(const boost::asio::any_io_executor& executor, Function function)
  {
    std::shared_ptr<Function> kept;
    try
    {
      kept = std::make_shared<Function>(std::move(function)); // allocates before it moves
      of(executor).post([kept] { (*kept)(); });
      return;
    }
    catch (const std::exception&)
    {
    }
    kept ? (*kept)() : function();
  }

private:
  static lease_worker& of(const boost::asio::any_io_executor& executor);

  template <class Function>
  void post(Function function)
  {
    const std::lock_guard lock(mutex_);
    boost::asio::post(threads(lock), std::move(function));
  }

  using mutex_held = const std::lock_guard<std::mutex>&;
  boost::asio::thread_pool& threads(mutex_held held);
  void shutdown() override;
  void notify_fork(boost::asio::execution_context::fork_event event) override;

  std::mutex mutex_;
  process_mark process_;
  std::unique_ptr<boost::asio::thread_pool> threads_; // null before the first use
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_LEASE_WORKER_HPP
