//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_ALARM_HPP
#define BOOST_RDMA_LIB_RPC_ALARM_HPP

#include "connect/connection_service.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <utility>

namespace rdma::detail::rpc {

// Waits on the thread of connections, so that a deadline does not keep the program's execution
// context running, and a call does not set a timer of the kernel. A copy is another alarm.
class alarm
{
public:
  explicit alarm(connection_service& by)
    : alarm(by.io(), by.service_inbox())
  {
  }
  alarm(boost::asio::io_context& io, std::shared_ptr<inbox> of)
    : io_(&io)
    , inbox_(std::move(of))
  {
  }
  alarm(const alarm& of)
    : io_(of.io_)
    , inbox_(of.inbox_)
  {
  }
  alarm& operator=(const alarm&) = delete;

  // Calls object->on_alarm() at this time instead of the last one, if the object exists.
  template <class Object>
  void set(std::chrono::steady_clock::time_point time, std::weak_ptr<Object> object)
  {
    inbox_->post(
      [io = io_, current = current_, time, object = std::move(object)]
      {
        if (const auto last = current->lock())
          last->cancel();
        // The handler owns the timer, so that it ends on this thread.
        const auto timer = std::make_shared<timer_type>(*io, time);
        *current = timer;
        timer->async_wait(
          [timer, object](const error_code& ec)
          {
            if (const auto found = object.lock(); found && !ec)
              found->on_alarm();
          });
      });
  }

private:
  using timer_type = boost::asio::steady_timer;

  boost::asio::io_context* io_; // used on its thread
  std::shared_ptr<inbox> inbox_;
  // Also used on its thread only.
  std::shared_ptr<std::weak_ptr<timer_type>> current_ =
    std::make_shared<std::weak_ptr<timer_type>>();
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_ALARM_HPP
