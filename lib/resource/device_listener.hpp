//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_DEVICE_LISTENER_HPP
#define BOOST_RDMA_LIB_RESOURCE_DEVICE_LISTENER_HPP

#include "boost_rdma/device_event.hpp"

#include <cstdint>

namespace rdma::detail {

// An asynchronous event that is already acknowledged: the object that it is about may be destroyed.
struct async_event
{
  device_event_type type = device_event_type::device_fatal;
  std::uint8_t port = 0;
  std::uint32_t queue_pair_number = 0;
};

// Receives a device's events on the thread that reads them. Must not block that thread for long.
class device_listener
{
public:
  virtual ~device_listener() = default;
  virtual void on_device_event(const async_event& event) noexcept = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_DEVICE_LISTENER_HPP
