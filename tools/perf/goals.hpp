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

/// Compares this run with the library's performance goals. A goal without measured figures reports
/// that.
std::vector<goal> goals_of(const report& all);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_GOALS_HPP
