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

// The largest measured message.
constexpr std::uint32_t size_max = 64u << 20;

void add_options(CLI::App& app, settings& to, int& rounds, int& milliseconds, int& overload_seconds)
{
  app.add_flag("--quick", to.quick, "run fewer and shorter rounds, and fewer sizes");
  app
    .add_option("--wire", to.wires,
      "wires of the software device to measure, as \"local,tcp\" (default: all available wires)")
    ->delimiter(',');
  app.add_option("--only", to.only,
    "measure only the groups whose name contains this text: send_latency, streams, many_streams, "
    "operations, latency_by_size, bandwidth_by_size, large, first_write, small, reads, overhead, "
    "idle, overload");
  app.add_option("--case", to.only_case,
    "measure only the cases whose name contains this text, as \"local, send, event\"");
  app
    .add_option("--sizes", to.sizes, "message sizes of the sweeps in bytes, as \"64,4096,1048576\"")
    ->delimiter(',')
    ->check(CLI::Range(1u, size_max));
  app.add_option("--rounds", rounds, "number of rounds")->check(CLI::Range(1, 1000));
  app.add_option("--milliseconds", milliseconds, "duration of each case in a round")
    ->check(CLI::Range(1, 30'000));
  app.add_option("--overload", overload_seconds, "duration of the group overload in seconds")
    ->check(CLI::Range(1, 3600));
  app
    .add_option("--processors", to.processors,
      "processors for the client and the server, as \"0,1\" (default: chosen by the "
      "scheduler)")
    ->expected(2)
    ->delimiter(',');
  app.add_flag("--instructions", to.instructions,
    "count the instructions of an operation with callgrind (valgrind)");
  app.add_option("--rdma-soft", to.rdma_soft,
    "the launcher that runs perftest on the software device (default: tools/rdma_soft)");
  app.add_option("--gid-index", to.gid_index, "perftest's -x: the index of the GID that it uses")
    ->check(CLI::Range(0, 255));
}

void set_defaults(settings& of, int rounds, int milliseconds, int overload_seconds)
{
  of.overload = std::chrono::seconds(overload_seconds > 0 ? overload_seconds : of.quick ? 1 : 10);
  of.rounds = rounds > 0 ? rounds : of.quick ? 2 : 5;
  of.duration = std::chrono::milliseconds(milliseconds > 0 ? milliseconds : of.quick ? 4 : 40);
  if (of.sizes.empty())
    of.sizes = of.quick ? std::vector<std::uint32_t>{64, 65536}
                        : std::vector<std::uint32_t>{8, 64, 512, 4096, 32768, 262'144, 1u << 20};
  std::ranges::sort(of.sizes);
}

} // namespace

std::optional<int> command_line::parse(int argc, char** argv)
{
  int rounds = 0;
  int milliseconds = 0;
  int overload_seconds = 0;
  CLI::App app(
    "Measures RDMA operations between two processes on this machine, compared with raw verbs "
    "calls, plain Asio "
    "TCP, memcpy, and UCX and perftest if they are installed.");
  add_options(app, measured, rounds, milliseconds, overload_seconds);
  app.add_option("--json", json_file, "write all results to this file");
  app.add_option("--svg", svg_file, "draw a chart of the results to this file");
  app.add_option("--hgrm", histogram_directory,
    "write the percentile distribution of each latency to a file in this directory, in "
    "HdrHistogram's "
    "format");
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
  set_defaults(measured, rounds, milliseconds, overload_seconds);
  return std::nullopt;
}

} // namespace perf
