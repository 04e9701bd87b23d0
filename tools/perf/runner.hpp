//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_RUNNER_HPP
#define BOOST_RDMA_TOOLS_PERF_RUNNER_HPP

#include "measure/control_channel.hpp"
#include "perf/other_programs.hpp"
#include "perf/plan.hpp"
#include "perf/progress.hpp"
#include "perf/results.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace perf {

/// The server process: serves every case of the client until the client ends.
void serve_all(bench::control_channel& control);

/// The client process: runs groups of cases round by round, each case once per round, so that other
/// load on the machine affects all of them.
class runner
{
public:
  runner(bench::control_channel& control, const settings& how, progress& shown);

  void run(group& what);

  /// Measures an unused connection in event mode: one of plain TCP and one of each transport.
  std::vector<idleness> idle();
  overload overloaded();

  /// Steps of run() and idle(), for the progress display.
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
