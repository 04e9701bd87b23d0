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

// An operation of the connection service's that waits for one on another executor. On the service's
// thread only.
//
// The handler owns the connection, and that owns us. As with a socket's operation, the circle is
// broken by the service's io_context, which destroys the handlers that it has when it goes: this
// one is a timer's, which never expires.
class upgrade_wait : public std::enable_shared_from_this<upgrade_wait>
{
public:
  // What goes through the other executor's operation: it may outlast the connection and its
  // buffers.
  using transfer = std::array<char, 1024>;

  explicit upgrade_wait(boost::asio::io_context& io)
    : timer_(io.get_executor())
  {
  }

  // `to` is for what is read.
  void start(const boost::asio::mutable_buffer& to, control_stream::handler_type handler)
  {
    to_ = to;
    waits_ = true;
    timer_.expires_at(std::chrono::steady_clock::time_point::max());
    timer_.async_wait(
      [self = shared_from_this(), handler = std::move(handler)](const error_code&) mutable
      { std::move(handler)(self->ec_, self->count_); });
  }

  // The handler is called, but not in here; nothing happens when it has been already.
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
