//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_RUNNER_HPP
#define BOOST_RDMA_TOOLS_PERF_RUNNER_HPP

#include "bench/control_channel.hpp"
#include "perf/other_programs.hpp"
#include "perf/plan.hpp"
#include "perf/progress.hpp"
#include "perf/results.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace perf {

/// The server's process: its part of every case that the client asks for, until the client ends.
void serve_all(bench::control_channel& control);

/// The client's: runs groups of cases, round by round, each case once a round, so that what else
/// the machine does meets all of them.
class runner
{
public:
  runner(bench::control_channel& control, const settings& how, progress& shown);

  void run(group& what);

  /// Leaves a connection unused for a while, in event mode: plain TCP's and each transport's.
  std::vector<idleness> idle();

  /// Of run() and idle(), for the progress to count.
  [[nodiscard]] static std::size_t steps(const group& what, const settings& how);
  [[nodiscard]] static std::size_t idle_steps();

private:
  void run_ours(result& to, std::uint64_t& count);

  bench::control_channel& control_;
  const settings& how_;
  progress& shown_;
  other_programs others_;
};

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_RUNNER_HPP
