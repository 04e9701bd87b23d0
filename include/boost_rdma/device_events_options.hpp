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

/// Options of basic_device_events.
struct device_events_options
{
  /// Name of one of the context's devices; empty means the default one.
  std::string device;

  /// Number of events that are kept between two waits. Beyond it the oldest event is dropped and
  /// counted in device_event::lost.
  std::size_t capacity = 256;
};

} // namespace rdma

#endif // BOOST_RDMA_DEVICE_EVENTS_OPTIONS_HPP
