//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_INBOX_HPP
#define BOOST_RDMA_LIB_CONNECT_INBOX_HPP

#include "boost_rdma/detail/process_mark.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <mutex>
#include <utility>

namespace rdma::detail {

// Where other threads leave word for the connection service's. A queue pair's completions may
// arrive by another execution context, whose threads run on when the one with the service goes:
// what they post then is dropped. What is posted refers to objects of the service's weakly, so that
// their last owner is always its thread.
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
      return; // the thread is the parent's, another of whose threads may have held the mutex
    const std::lock_guard lock(mutex_);
    if (io_ != nullptr)
      boost::asio::post(*io_, std::move(function));
  }

  // The service is going.
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

#endif // BOOST_RDMA_LIB_CONNECT_INBOX_HPP
