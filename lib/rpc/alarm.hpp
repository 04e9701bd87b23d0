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
// context running, and a call does not set a timer of the kernel.
class alarm
{
public:
  explicit alarm(connection_service& by)
    : io_(&by.io())
    , inbox_(by.service_inbox())
  {
  }

  // Calls object->on_alarm() at this time, if the object exists. Calls of earlier set() remain.
  template <class Object>
  void set(std::chrono::steady_clock::time_point time, std::weak_ptr<Object> object)
  {
    inbox_->post(
      [io = io_, time, object = std::move(object)]
      {
        auto timer = std::make_unique<boost::asio::steady_timer>(*io, time);
        auto& waits = *timer;
        waits.async_wait(
          [timer = std::move(timer), object](const error_code&)
          {
            if (const auto found = object.lock())
              found->on_alarm();
          });
      });
  }

private:
  boost::asio::io_context* io_; // used on its thread
  std::shared_ptr<inbox> inbox_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_ALARM_HPP
