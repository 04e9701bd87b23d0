//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DEVICE_EVENTS_HPP
#define BOOST_RDMA_DEVICE_EVENTS_HPP

#include <boost_rdma/basic_device_events.hpp>

namespace rdma {

/// Device events with the default executor type.
using device_events = basic_device_events<>;

} // namespace rdma

#endif // BOOST_RDMA_DEVICE_EVENTS_HPP
