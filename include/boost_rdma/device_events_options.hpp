//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DEVICE_EVENTS_OPTIONS_HPP
#define BOOST_RDMA_DEVICE_EVENTS_OPTIONS_HPP

#include <cstddef>
#include <string>

namespace rdma {

/// Which device is listened to, and how much it may say while nobody waits.
struct device_events_options
{
  /// Which of the context's devices, by name; empty for the default one.
  std::string device;

  /// Events that are kept between two waits. The oldest gives way; device_event::lost counts them.
  std::size_t capacity = 256;
};

} // namespace rdma

#endif // BOOST_RDMA_DEVICE_EVENTS_OPTIONS_HPP
