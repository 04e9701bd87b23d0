//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Compares the costs of many simultaneous connections: queue pairs on the software device, and
// plain Asio TCP connections with one HTTP exchange each, between two processes on this machine:
//
//   rdma_connections [--connections N] [--at-a-time N] [--exchanges N] [--rounds N]
//                    [--quick] [--json]
//
// Every round starts two new processes for each kind, one kind after the other. Memory is the
// growth of Private_Dirty in /proc/self/smaps_rollup. It does not include the kernel's memory for
// sockets, which belongs to no process, and the shared memory of links.

#include "connection_sides.hpp"
#include "measure/host.hpp"
#include "measure/two_processes.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

using namespace bench;

constexpr double memory_goal_kib = 64;
constexpr double connect_goal = 2;
constexpr unsigned measurement_seconds_max = 300;
constexpr std::uint64_t other_descriptors = 64;

enum class kind
{
  tcp,
  rdma,
  rdma_shallow,
};
constexpr std::array kinds{kind::tcp, kind::rdma, kind::rdma_shallow};

struct settings
{
  load what{.connections = 2000, .at_a_time = 32, .exchanges = 4};
  int rounds = 3;
  bool quick = false;
  bool json = false;
};

template <class Connection>
void run_server(control_channel& control, int descriptor, const load& what, std::uint32_t depth)
{
  asio::io_context io(1);
  typename Connection::shared all(io, what.connections + 1, depth);
  connection_server<Connection>(all, what, control, descriptor);
}

template <class Connection>
figures run_client(control_channel& control, const load& what, std::uint32_t depth)
{
  asio::io_context io(1);
  typename Connection::shared all(io, what.connections + 1, depth);
  return connection_client<Connection>(all, what, control).measure();
}

void run_server(kind which, control_channel& control, int descriptor, const load& what)
{
  if (which == kind::tcp)
    run_server<tcp_connection>(control, descriptor, what, 0);
  else
    run_server<rdma_connection>(control, descriptor, what, which == kind::rdma_shallow ? 8 : 0);
}

figures run_client(kind which, control_channel& control, const load& what)
{
  if (which == kind::tcp)
    return run_client<tcp_connection>(control, what, 0);
  return run_client<rdma_connection>(control, what, which == kind::rdma_shallow ? 8 : 0);
}

void on_alarm(int)
{
  constexpr char text[] =
    "error: a measurement timed out. Retry with fewer --connections or --exchanges.\n";
  (void)!::write(STDERR_FILENO, text, sizeof(text) - 1);
  ::_exit(1);
}

// Runs in a process of its own, which forks the server's process.
int measure(kind which, const load& what, control_channel& result)
{
  ::alarm(measurement_seconds_max);
  const two_processes sides;
  const char* const side = sides.in_child() ? "server" : "client";
  try
  {
    {
      control_channel control(sides.descriptor());
      if (sides.in_child())
        run_server(which, control, sides.descriptor(), what);
      else
        result.send(run_client(which, control, what));
    }
    return sides.in_child() || sides.wait() ? 0 : 1;
  }
  catch (const std::exception& failure)
  {
    std::cerr << "error: " << side << ": " << failure.what() << '\n';
    return 1;
  }
}

// Does not return in the child processes.
figures measure_in_new_processes(kind which, const load& what)
{
  const two_processes both;
  control_channel channel(both.descriptor());
  if (both.in_child())
    std::_Exit(measure(which, what, channel));
  figures result;
  if (!channel.receive(result) || !both.wait())
    throw std::runtime_error("a measurement process failed; its own message is above");
  return result;
}

double median(const std::vector<figures>& of, double (*value)(const figures&))
{
  std::vector<double> values;
  for (const figures& each : of)
    values.push_back(value(each));
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct row
{
  const char* key;
  const char* text;
  double (*value)(const figures&);
};

// The goals refer to rows 0, 1 and 2.
constexpr std::array rows{
  row{"connect_cpu_us", "connect, CPU time of both sides, us",
    [](const figures& f) { return f.client.cpu_us + f.server.cpu_us; }},
  row{"idle_kib_most", "idle connection, larger side, KiB",
    [](const figures& f) { return std::max(f.client.idle_kib, f.server.idle_kib); }},
  row{"connect_us", "connect, elapsed, us",
    [](const figures& f) { return 1e6 / f.connects_per_second; }},
  row{"first_connect_us", "first connect, elapsed, us",
    [](const figures& f) { return f.first_connect_us; }},
  row{"connects_per_second", "connects per second",
    [](const figures& f) { return f.connects_per_second; }},
  row{"client_cpu_us", "  CPU time, client, us", [](const figures& f) { return f.client.cpu_us; }},
  row{"server_cpu_us", "  CPU time, server, us", [](const figures& f) { return f.server.cpu_us; }},
  row{"client_connected_kib", "just connected, client, KiB",
    [](const figures& f) { return f.client.connected_kib; }},
  row{"server_connected_kib", "just connected, server, KiB",
    [](const figures& f) { return f.server.connected_kib; }},
  row{"client_idle_kib", "idle after the exchanges, client, KiB",
    [](const figures& f) { return f.client.idle_kib; }},
  row{"server_idle_kib", "idle after the exchanges, server, KiB",
    [](const figures& f) { return f.server.idle_kib; }},
  row{"round_trips_per_second", "64 B round trips/s, all concurrent",
    [](const figures& f) { return f.round_trips_per_second; }},
  row{"client_descriptors", "descriptors per connection, client",
    [](const figures& f) { return f.client.descriptors; }},
  row{"server_descriptors", "descriptors per connection, server",
    [](const figures& f) { return f.server.descriptors; }},
  row{"client_threads", "threads, client", [](const figures& f) { return f.client.threads; }},
  row{"server_threads", "threads, server", [](const figures& f) { return f.server.threads; }},
};

using samples = std::array<std::vector<figures>, kinds.size()>;

double ratio(const samples& all, double (*value)(const figures&))
{
  return median(all[1], value) / median(all[0], value);
}

void print_json(const settings& how, const samples& all)
{
  std::printf(
    "{\n  \"connections\": %u,\n  \"at_a_time\": %u,\n  \"exchanges\": %u,\n  \"rounds\": %d,\n",
    how.what.connections, how.what.at_a_time, how.what.exchanges, how.rounds);
  constexpr std::array names{"tcp", "queue_pairs", "queue_pairs_8_8"};
  for (std::size_t i = 0; i < kinds.size(); ++i)
  {
    std::printf("  \"%s\": {", names[i]);
    for (const row& each : rows)
      std::printf(
        "%s\"%s\": %.4g", &each == rows.data() ? "" : ", ", each.key, median(all[i], each.value));
    std::printf("},\n");
  }
  std::printf("  \"connect_cpu_ratio\": %.4g,\n  \"connect_elapsed_ratio\": %.4g\n}\n",
    ratio(all, rows[0].value), ratio(all, rows[2].value));
}

void print_text(const settings& how, const samples& all)
{
  std::printf("processor      %s\nkernel         %s\nload           %s\n",
    processors_online().c_str(), kernel().c_str(), first_line("/proc/loadavg").c_str());
  std::printf("compared       %u connections open at once, %u connects at a time, %u round trips "
              "of %zu B each\n"
              "rounds         %d, each kind in two new processes; the table has the medians\n"
              "memory         growth of Private_Dirty, without the kernel's socket memory\n",
    how.what.connections, how.what.at_a_time, how.what.exchanges, message_size, how.rounds);
#ifndef NDEBUG
  std::printf("build          with assertions enabled: do not use these figures\n");
#endif
  std::printf(
    "\n%-40s %15s %15s %15s %10s\n", "", "Asio TCP, HTTP", "queue pairs", "depth 8/8", "pairs/TCP");
  for (const row& each : rows)
    std::printf("%-40s %15.1f %15.1f %15.1f %10.2f\n", each.text, median(all[0], each.value),
      median(all[1], each.value), median(all[2], each.value), ratio(all, each.value));
  const auto judge = [](const char* what, double value, double goal)
  {
    std::printf(
      "goal: %s, at most %.0f: %.2f, %s\n", what, goal, value, value <= goal ? "met" : "missed");
  };
  std::printf("\n");
  judge("KiB per idle connection and side", median(all[1], rows[1].value), memory_goal_kib);
  judge("connect / TCP connect, CPU time", ratio(all, rows[0].value), connect_goal);
  judge("connect / TCP connect, elapsed time", ratio(all, rows[2].value), connect_goal);
}

int compare(const settings& how)
{
  const std::uint64_t descriptors = raise_descriptor_limit();
  const std::uint64_t wanted = 2 * std::uint64_t{how.what.connections} + other_descriptors;
  if (descriptors < wanted)
  {
    std::cerr << "error: " << how.what.connections << " connections require " << wanted
              << " descriptors on each side, but RLIMIT_NOFILE allows " << descriptors
              << ". Use --connections "
              << (descriptors > other_descriptors ? (descriptors - other_descriptors) / 2 : 0)
              << ", or raise the hard limit (ulimit -Hn).\n";
    return 1;
  }
  samples all;
  for (int round = 0; round < how.rounds; ++round)
    for (std::size_t i = 0; i < kinds.size(); ++i)
      all[i].push_back(measure_in_new_processes(kinds[i], how.what));
  how.json ? print_json(how, all) : print_text(how, all);
  return 0;
}

} // namespace

int main(int argc, char** argv)
{
  settings how;
  CLI::App app("Compares the costs of many simultaneous connections with those of plain Asio TCP.");
  auto* connections =
    app.add_option("--connections", how.what.connections, "connections that are open at once")
      ->check(CLI::Range(1, 60'000));
  app.add_option("--at-a-time", how.what.at_a_time, "connects in progress at once")
    ->check(CLI::Range(1, 1000));
  app.add_option("--exchanges", how.what.exchanges, "round trips per connection")
    ->check(CLI::Range(1, 1'000'000));
  auto* rounds =
    app.add_option("--rounds", how.rounds, "number of rounds")->check(CLI::Range(1, 1000));
  app.add_flag("--quick", how.quick, "run one round of 100 connections");
  app.add_flag("--json", how.json, "print JSON");
  CLI11_PARSE(app, argc, argv);
  if (how.quick && connections->count() == 0)
    how.what.connections = 100;
  if (how.quick && rounds->count() == 0)
    how.rounds = 1;
  std::signal(SIGALRM, on_alarm);
  try
  {
    return compare(how);
  }
  catch (const std::exception& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
}
