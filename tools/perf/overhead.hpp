//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_OVERHEAD_HPP
#define BOOST_RDMA_TOOLS_PERF_OVERHEAD_HPP

#include "perf/plan.hpp"
#include "perf/progress.hpp"
#include "perf/results.hpp"

#include <cstdint>
#include <string>

namespace perf {

/// What this library adds to verbs calls: both drive the same queue pair in the same way, while
/// posting and polling are taken from its device and complete everything at once. Neither a wire
/// nor another process takes part, so that what is left is the library's own, to the nanosecond; on
/// a real wire it is lost in the wire's changes.
overhead measure_overhead(const settings& how, progress& shown);
std::size_t overhead_steps(const settings& how);

/// For --instructions: what callgrind counts in this process, which runs the operations of one
/// side. Never both.
void probe_instructions(const std::string& side, std::uint64_t count);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_OVERHEAD_HPP
