//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_OVERLOAD_HPP
#define BOOST_RDMA_TOOLS_PERF_OVERLOAD_HPP

#include "measure/control_channel.hpp"
#include "perf/results.hpp"

#include <chrono>

namespace perf {

/// Measures what a server can take, and then offers twice as many calls for the duration.
/** The times of the calls are chosen before, so that slow calls do not delay the next ones. */
overload overload_client(std::chrono::milliseconds duration, bench::control_channel& control);
void serve_overload(bench::control_channel& control);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_OVERLOAD_HPP
