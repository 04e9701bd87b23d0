//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/command_line.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace perf {
namespace {

// The largest message that is measured.
constexpr std::uint32_t size_max = 64u << 20;

} // namespace

std::optional<int> command_line::parse(int argc, char** argv)
{
  int rounds = 0;
  int milliseconds = 0;
  CLI::App app("Measures RDMA operations between two processes on this machine, beside raw verbs "
               "calls, plain Asio "
               "TCP, memcpy, and UCX and perftest where they are installed.");
  app.add_flag("--quick", measured.quick, "fewer and shorter rounds, fewer sizes");
  app
    .add_option("--wire", measured.wires,
      "wires of the software device to measure, as \"local,tcp\" (default: all that there are)")
    ->delimiter(',');
  app.add_option("--only", measured.only,
    "only the groups whose name has this in it: send_latency, operations, latency_by_size, "
    "bandwidth_by_size, large, "
    "small, overhead, idle");
  app
    .add_option(
      "--sizes", measured.sizes, "bytes of the messages of the sweeps, as \"64,4096,1048576\"")
    ->delimiter(',')
    ->check(CLI::Range(1u, size_max));
  app.add_option("--rounds", rounds, "how often each case runs")->check(CLI::Range(1, 1000));
  app.add_option("--milliseconds", milliseconds, "how long each time")
    ->check(CLI::Range(1, 30'000));
  app
    .add_option("--processors", measured.processors,
      "processors to keep the client and the server on, as \"0,1\" (default: the scheduler's "
      "choice)")
    ->expected(2)
    ->delimiter(',');
  app.add_flag("--instructions", measured.instructions,
    "count instructions of an operation, by callgrind (valgrind)");
  app.add_option("--json", json_file, "write all that was measured into this file");
  app.add_option("--svg", svg_file, "draw it into this file");
  app.add_option("--hgrm", histogram_directory,
    "write each latency's percentile distribution into a file of this directory, as HdrHistogram's "
    "plotters read them");
  app.add_option("--rdma-soft", measured.rdma_soft,
    "the launcher by which perftest sees the software device (default: tools/rdma_soft)");
  app
    .add_option(
      "--gid-index", measured.gid_index, "perftest's -x: the GID of the device that it uses")
    ->check(CLI::Range(0, 255));
  app.add_option("--instruction-probe", probe)->group("");
  app.add_option("--instruction-count", probe_count)->group("");
  try
  {
    app.parse(argc, argv);
  }
  catch (const CLI::ParseError& failure)
  {
    return app.exit(failure);
  }
  measured.rounds = rounds > 0 ? rounds : measured.quick ? 2 : 5;
  measured.duration = std::chrono::milliseconds(milliseconds > 0 ? milliseconds
      : measured.quick                                           ? 4
                                                                 : 40);
  if (measured.sizes.empty())
    measured.sizes = measured.quick
      ? std::vector<std::uint32_t>{64, 65536}
      : std::vector<std::uint32_t>{8, 64, 512, 4096, 32768, 262'144, 1u << 20};
  std::ranges::sort(measured.sizes);
  return std::nullopt;
}

} // namespace perf
