//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_OTHER_PROGRAMS_HPP
#define BOOST_RDMA_TOOLS_PERF_OTHER_PROGRAMS_HPP

#include "perf/plan.hpp"
#include "perf/results.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace perf {

/// Runs UCX and perftest if they are installed, each with its own server and client on this
/// machine.
class other_programs
{
public:
  explicit other_programs(const settings& how);

  /// Runs one round of this contender's cases. Cases that cannot run are marked as absent, with the
  /// reason.
  /** Returns the number of its cases. */
  std::size_t run(contender who, std::vector<result>& all);

private:
  struct figure
  {
    double microseconds = 0; ///< the median latency
    double rate = 0;         ///< operations per second
  };

  // The output of a server and a client; `problem` is the reason if there is none.
  struct output
  {
    std::string text;
    std::string problem;
  };

  void run_ucx(const std::vector<result*>& cases);
  std::map<std::size_t, figure> ucx_round(const std::vector<result*>& cases,
    const std::vector<std::uint64_t>& counts, std::string& problem);
  void run_perftest(result& one);

  output server_and_client(const std::vector<std::string>& server,
    const std::vector<std::string>& client,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::string& server_is_ready);
  [[nodiscard]] std::optional<unsigned> processor(std::size_t side) const;

  const settings& how_;
  std::map<const result*, std::uint64_t> counts_; ///< operations that take about the set duration
};

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_OTHER_PROGRAMS_HPP
