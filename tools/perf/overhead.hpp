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

/// Measures the library's overhead over verbs calls. Both sides drive the same queue pair in the
/// same way, but posting and polling of its device are replaced and complete everything
/// immediately. No wire and no other process takes part, so only the library's own cost remains. On
/// a real wire, the variation of the wire would hide it.
overhead measure_overhead(const settings& how, progress& shown);
std::size_t overhead_steps(const settings& how);

/// For --instructions: runs the operations of one side in this process, under callgrind. Call it
/// for one side only.
void probe_instructions(const std::string& side, std::uint64_t count);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_OVERHEAD_HPP
