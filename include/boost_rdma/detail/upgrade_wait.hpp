//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_UPGRADE_WAIT_HPP
#define BOOST_RDMA_DETAIL_UPGRADE_WAIT_HPP

#include <boost_rdma/detail/control_stream.hpp>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

namespace rdma::detail {

// An operation of the connection service that waits for an operation on another executor. Used only
// on the service's thread.
//
// Ownership is circular: the handler owns the connection, which owns this object. As with
// operations of a socket, the service's io_context breaks the circle by destroying its handlers.
// The handler is therefore stored in the wait of a timer that never expires.
class upgrade_wait : public std::enable_shared_from_this<upgrade_wait>
{
public:
  // Data of the other executor's operation, which may outlive the connection and its buffers.
  using transfer = std::array<char, 1024>;

  explicit upgrade_wait(boost::asio::io_context& io)
    : timer_(io.get_executor())
  {
  }

  // `to` receives the data of a read.
  void start(const boost::asio::mutable_buffer& to, control_stream::handler_type handler)
  {
    to_ = to;
    waits_ = true;
    timer_.expires_at(std::chrono::steady_clock::time_point::max());
    timer_.async_wait(
      [self = shared_from_this(), handler = std::move(handler)](const error_code&) mutable
      { std::move(handler)(self->ec_, self->count_); });
  }

  // Causes the call of the handler, but not inside this function. Has no effect after the first
  // call.
  void finish(const error_code& ec, std::size_t count = 0, const transfer* data = nullptr)
  {
    if (!std::exchange(waits_, false))
      return;
    ec_ = ec;
    count_ = count;
    if (data != nullptr)
      std::memcpy(to_.data(), data->data(), std::min(count_, to_.size()));
    timer_.cancel();
  }

private:
  using clock = std::chrono::steady_clock;

  boost::asio::basic_waitable_timer<clock, boost::asio::wait_traits<clock>,
    boost::asio::io_context::executor_type>
    timer_;
  boost::asio::mutable_buffer to_;
  bool waits_ = false;
  error_code ec_;
  std::size_t count_ = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_UPGRADE_WAIT_HPP
