//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_MAIN_PROCESS_HPP
#define BOOST_RDMA_TOOLS_PERF_MAIN_PROCESS_HPP

#include "measure/control_channel.hpp"
#include "perf/command_line.hpp"

namespace perf {

/// The client process: measures everything requested, prints it and writes the files.
int measure_all(bench::control_channel& control, const command_line& how);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_MAIN_PROCESS_HPP
