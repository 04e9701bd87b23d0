//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_IDLE_SIDE_HPP
#define BOOST_RDMA_TOOLS_PERF_IDLE_SIDE_HPP

#include "measure/control_channel.hpp"
#include "perf/results.hpp"

#include <chrono>

namespace perf {

/// Connects, waits for a message that does not arrive, and measures the processor time of both
/// processes.
idleness idle_client(
  const test_case& what, std::chrono::milliseconds duration, bench::control_channel& control);
void serve_idle(bench::control_channel& control);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_IDLE_SIDE_HPP
