//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_GOALS_HPP
#define BOOST_RDMA_TOOLS_PERF_GOALS_HPP

#include "perf/results.hpp"

#include <vector>

namespace perf {

/// Where this library's goals of speed stand in this run. One whose figures were not measured says
/// so.
std::vector<goal> goals_of(const report& all);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_GOALS_HPP
