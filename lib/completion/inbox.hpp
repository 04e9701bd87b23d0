//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_INBOX_HPP
#define BOOST_RDMA_LIB_COMPLETION_INBOX_HPP

#include "boost_rdma/detail/process_mark.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <mutex>
#include <utility>

namespace rdma::detail {

// Passes functions from other threads to the thread of the connection service. A queue pair's
// completions may arrive by another execution context, whose threads may outlive the service:
// functions that they post then are dropped. A function must refer to objects of the service
// weakly, so that their last owner is always the service's thread.
class inbox
{
public:
  explicit inbox(boost::asio::io_context& io)
    : io_(&io)
  {
  }

  template <class Function>
  void post(Function function)
  {
    if (process_.foreign())
      return; // the thread is the parent's, and another thread there may have held the mutex
    const std::lock_guard lock(mutex_);
    if (io_ != nullptr)
      boost::asio::post(*io_, std::move(function));
  }

  // The service ends.
  void close()
  {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
  }

private:
  const process_mark process_;
  std::mutex mutex_;
  boost::asio::io_context* io_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_INBOX_HPP
