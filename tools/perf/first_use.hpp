//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_FIRST_USE_HPP
#define BOOST_RDMA_TOOLS_PERF_FIRST_USE_HPP

#include "measure/control_channel.hpp"
#include "perf/side.hpp"
#include "perf/test_case.hpp"

namespace perf {

/// Connects, with new memory on both sides, and measures the operation number `what.use` on it.
seconds first_use_client(const test_case& what, bench::control_channel& control);
void serve_first_use(bench::control_channel& control);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_FIRST_USE_HPP
