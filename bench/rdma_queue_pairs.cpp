//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Measures many queue pairs of one server on the software device:
//
//   rdma_queue_pairs [--only echo|crowd] [--wires local,tcp] [--mode MODE] [--rounds N]
//                    [--quick] [--json] [--help]
//
// echo: messages per second over many queue pairs, over one queue pair, and over plain Asio TCP
// sockets, with the same number of messages in flight.
//
// crowd: round trip times of honest clients: alone, beside processes that only use the processor
// (the control), and beside hostile and stopped clients. The other processes have the lowest
// priority, because real ones would use the processors of other hosts.
//
// Every round starts new processes for each case, one case after the other.

#include "measure/child_process.hpp"
#include "measure/host.hpp"
#include "queue_pairs/crowd.hpp"
#include "queue_pairs/echo.hpp"
#include "usage.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace bench;
using std::chrono::milliseconds;

constexpr unsigned measurement_seconds_max = 120;

struct settings
{
  std::string only;
  std::vector<std::string> wires{"local", "tcp"};
  std::optional<rdma::completion_mode> mode;
  std::uint32_t connections = 256;
  std::uint32_t processes = 64;
  std::uint32_t in_flight = 256;
  std::uint32_t echo_ms = 1000;
  std::uint32_t honest = 50;
  std::uint32_t honest_processes = 1;
  std::uint32_t interval_ms = 10;
  std::uint32_t hostile = 20;
  std::uint32_t stopped = 5;
  std::vector<crowd::act> acts{crowd::act::flood, crowd::act::deaf, crowd::act::reconnect,
    crowd::act::wrong_key, crowd::act::garbage};
  std::uint32_t crowd_ms = 4000;
  int rounds = 5;
  bool quick = false;
  bool json = false;
};

struct spread
{
  double median = 0;
  double least = 0;
  double most = 0;
};

spread spread_of(std::vector<double> values)
{
  std::ranges::sort(values);
  return {values[values.size() / 2], values.front(), values.back()};
}

struct echo_case
{
  std::string wire;
  std::uint32_t connections = 0;
  std::uint32_t processes = 1;
  std::vector<double> per_second{};
};

template <class Kind>
double measure_echo_of(const echo_case& what, const settings& how)
{
  ::alarm(measurement_seconds_max);
  const connection_plan plan{
    what.wire, how.mode, std::max<std::uint32_t>(1, how.in_flight / what.connections)};
  child_process server([&](control_channel& control, int descriptor)
    { run_echo_server<Kind>(control, descriptor, plan); });
  const auto port = receive_from<std::uint16_t>(server.control());
  std::deque<child_process> clients;
  for (std::uint32_t i = 0; i < what.processes; ++i)
  {
    const std::uint32_t connections = share(what.connections, what.processes, i);
    clients.emplace_back([&](control_channel& control, int)
      { run_echo_client<Kind>(control, plan, port, connections, milliseconds(how.echo_ms)); });
  }
  for (child_process& each : clients)
    receive_from<bool>(each.control());
  for (child_process& each : clients)
    each.control().send(true);
  double per_second = 0;
  for (child_process& each : clients)
    per_second += receive_from<double>(each.control());
  for (child_process& each : clients)
    each.end();
  server.end();
  return per_second;
}

std::vector<echo_case> measure_echo(const settings& how)
{
  std::vector<std::string> wires = how.wires;
  wires.emplace_back("asio");
  std::vector<echo_case> cases;
  const std::uint32_t processes = std::min(how.processes, how.connections);
  for (const std::string& wire : wires)
  {
    cases.push_back({.wire = wire, .connections = how.connections});
    if (processes > 1)
      cases.push_back({.wire = wire, .connections = how.connections, .processes = processes});
    cases.push_back({.wire = wire, .connections = 1});
  }
  for (int round = 0; round < how.rounds; ++round)
    for (echo_case& each : cases)
      each.per_second.push_back(each.wire == "asio" ? measure_echo_of<tcp_kind>(each, how)
                                                    : measure_echo_of<rdma_kind>(each, how));
  return cases;
}

// Plain sockets with as many client processes; for one queue pair, many sockets of one process.
double asio_per_second(const std::vector<echo_case>& all, const echo_case& of)
{
  const auto found = std::ranges::find_if(all,
    [&](const echo_case& each) { return each.wire == "asio" && each.processes == of.processes; });
  return spread_of(found->per_second).median;
}

enum condition : std::size_t
{
  alone,
  beside_spinning,
  beside_hostile,
};
constexpr std::array condition_names{"alone", "control", "hostile"};
constexpr std::array condition_texts{"alone", "busy processes", "hostile and stopped"};

struct crowd_case
{
  std::string wire;
  std::array<std::vector<crowd::figures>, condition_names.size()> rounds;

  template <class Value>
  [[nodiscard]] spread of(condition which, Value value) const
  {
    std::vector<double> values;
    for (const crowd::figures& each : rounds[which])
      values.push_back(value(each));
    return spread_of(std::move(values));
  }

  [[nodiscard]] double ratio(condition which, double crowd::figures::*value) const
  {
    return of(which, std::mem_fn(value)).median / of(alone, std::mem_fn(value)).median;
  }
};

struct figure
{
  const char* key;
  const char* text;
  double crowd::figures::*value;
  int digits; // after the point
};
constexpr std::array crowd_figures{figure{"median_us", "median, us", &crowd::figures::median_us, 1},
  figure{"p99_us", "99th percentile, us", &crowd::figures::p99_us, 0},
  figure{"p99_9_us", "99.9th percentile, us", &crowd::figures::p99_9_us, 0},
  figure{"server_processors", "processors of the server", &crowd::figures::server_processors, 2},
  figure{"lost", "lost honest clients", &crowd::figures::lost, 0}};
constexpr std::size_t percentiles = 3; // of the figures

std::vector<crowd_case> measure_crowd(const settings& how)
{
  void* const shared = ::mmap(
    nullptr, sizeof(crowd::counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "mmap");
  crowd::counters& count = *new (shared) crowd::counters{};
  std::vector<crowd_case> cases;
  for (const std::string& wire : how.wires)
    cases.push_back({.wire = wire, .rounds = {}});
  for (int round = 0; round < how.rounds; ++round)
    for (crowd_case& each : cases)
      for (std::size_t i = 0; i < each.rounds.size(); ++i)
      {
        ::alarm(measurement_seconds_max);
        crowd::crowd_plan plan{.connections = {.wire = each.wire, .mode = how.mode},
          .honest = how.honest,
          .honest_processes = how.honest_processes,
          .interval = milliseconds(how.interval_ms),
          .duration = milliseconds(how.crowd_ms),
          .hostile = {},
          .stopped = i == beside_hostile ? how.stopped : 0};
        if (i == beside_spinning)
          plan.hostile.assign(how.hostile, crowd::act::spin);
        if (i == beside_hostile)
          for (std::size_t k = 0; k < how.hostile; ++k)
            plan.hostile.push_back(how.acts[k % how.acts.size()]);
        each.rounds[i].push_back(crowd::measure(plan, count));
      }
  return cases;
}

void print_text(
  const settings& how, const std::vector<echo_case>& echo, const std::vector<crowd_case>& all)
{
  std::printf("processor  %s\nkernel     %s\nload       %s\nrounds     %d, each case in new "
              "processes; medians (least .. most)\n",
    processors_online().c_str(), kernel().c_str(), first_line("/proc/loadavg").c_str(), how.rounds);
#ifndef NDEBUG
  std::printf("build      with assertions enabled: do not use these figures\n");
#endif
  if (!echo.empty())
    std::printf("\necho of %zu B, %u messages in flight, at least one for each connection\n"
                "%-6s %11s %9s %13s %29s %8s\n",
      echo_size, how.in_flight, "wire", "connections", "clients", "echoes/s", "", "to Asio");
  for (const echo_case& each : echo)
  {
    const spread value = spread_of(each.per_second);
    std::printf("%-6s %11u %9u %13.0f (%11.0f .. %11.0f) %8.2f\n", each.wire.c_str(),
      each.connections, each.processes, value.median, value.least, value.most,
      value.median / asio_per_second(echo, each));
  }
  for (const crowd_case& each : all)
  {
    std::printf("\ncrowd, wire %s: round trips of %zu B of %u honest clients, one each %u ms; %u "
                "hostile, %u stopped clients\n%-24s",
      each.wire.c_str(), crowd::message_size, how.honest, how.interval_ms, how.hostile, how.stopped,
      "");
    for (const char* text : condition_texts)
      std::printf(" %28s", text);
    std::printf(" %13s\n", "hostile/alone");
    for (const figure& shown : crowd_figures)
    {
      std::printf("%-24s", shown.text);
      for (std::size_t i = 0; i < condition_names.size(); ++i)
      {
        const spread value = each.of(condition(i), std::mem_fn(shown.value));
        std::printf(" %8.*f (%6.*f .. %7.*f)", shown.digits, value.median, shown.digits,
          value.least, shown.digits, value.most);
      }
      const bool has_ratio = &shown < crowd_figures.data() + percentiles;
      has_ratio ? std::printf(" %13.2f\n", each.ratio(beside_hostile, shown.value))
                : std::printf("\n");
    }
    std::printf("%-24s", "acts per second");
    for (std::size_t i = 0; i < crowd::act_names.size(); ++i)
    {
      const double acts =
        each.of(beside_hostile, [i](const crowd::figures& f) { return f.acts_per_second[i]; })
          .median;
      if (acts != 0)
        std::printf(" %s %.0f", crowd::act_names[i], acts);
    }
    std::printf("\n");
  }
}

void print_json(
  const settings& how, const std::vector<echo_case>& echo, const std::vector<crowd_case>& all)
{
  std::printf(
    "{\n  \"rounds\": %d,\n  \"in_flight\": %u,\n  \"honest\": %u,\n  \"hostile\": %u,\n  "
    "\"stopped\": %u,\n  \"echo\": [",
    how.rounds, how.in_flight, how.honest, how.hostile, how.stopped);
  for (const echo_case& each : echo)
  {
    const spread value = spread_of(each.per_second);
    std::printf("%s\n    {\"wire\": \"%s\", \"connections\": %u, \"processes\": %u, "
                "\"per_second\": %.4g, \"least\": %.4g, \"most\": %.4g, \"ratio\": %.4g}",
      &each == echo.data() ? "" : ",", each.wire.c_str(), each.connections, each.processes,
      value.median, value.least, value.most, value.median / asio_per_second(echo, each));
  }
  std::printf("\n  ],\n  \"crowd\": [");
  for (const crowd_case& each : all)
    for (std::size_t i = 0; i < condition_names.size(); ++i)
    {
      std::printf("%s\n    {\"wire\": \"%s\", \"condition\": \"%s\"",
        &each == all.data() && i == 0 ? "" : ",", each.wire.c_str(), condition_names[i]);
      for (const figure& shown : crowd_figures)
      {
        const spread value = each.of(condition(i), std::mem_fn(shown.value));
        std::printf(", \"%s\": %.4g, \"%s_least\": %.4g, \"%s_most\": %.4g", shown.key,
          value.median, shown.key, value.least, shown.key, value.most);
      }
      for (std::size_t k = 0; k < percentiles; ++k)
        std::printf(", \"%s_ratio\": %.4g", crowd_figures[k].key,
          each.ratio(condition(i), crowd_figures[k].value));
      std::printf("}");
    }
  std::printf("\n  ]\n}\n");
}

void on_alarm(int)
{
  constexpr char text[] = "error: a measurement timed out.\n";
  (void)!::write(STDERR_FILENO, text, sizeof(text) - 1);
  ::_exit(1); // the child processes are killed then
}

int run(const settings& how)
{
  raise_descriptor_limit();
  const std::vector<echo_case> echo =
    how.only == "crowd" ? std::vector<echo_case>() : measure_echo(how);
  const std::vector<crowd_case> all =
    how.only == "echo" ? std::vector<crowd_case>() : measure_crowd(how);
  how.json ? print_json(how, echo, all) : print_text(how, echo, all);
  return 0;
}

} // namespace

int main(int argc, char** argv)
{
  settings how;
  CLI::App app("Measures many queue pairs of one server on the software device.");
  const auto number = [&](const char* name, std::uint32_t& value, std::uint32_t quick_value,
                        const char* text, std::uint32_t least, std::uint32_t most)
  {
    return std::pair(app.add_option(name, value, text)->check(CLI::Range(least, most)),
      [&value, quick_value] { value = quick_value; });
  };
  const std::map<std::string, rdma::completion_mode> modes{{"event", rdma::completion_mode::event},
    {"busy_poll", rdma::completion_mode::busy_poll}, {"adaptive", rdma::completion_mode::adaptive}};
  std::map<std::string, crowd::act> acts;
  for (std::size_t i = 0; i < crowd::act_names.size(); ++i)
    acts.emplace(crowd::act_names[i], static_cast<crowd::act>(i));
  app.add_option("--only", how.only, "echo or crowd")->check(CLI::IsMember({"echo", "crowd"}));
  app.add_option("--wires", how.wires, "wires of the software device (local,tcp)")
    ->delimiter(',')
    ->check(CLI::IsMember({"local", "tcp"}));
  app.add_option("--mode", how.mode, "completion mode (default: the library's)")
    ->transform(CLI::CheckedTransformer(modes));
  app.add_option("--acts", how.acts, "acts of the hostile clients, in turn")
    ->delimiter(',')
    ->transform(CLI::CheckedTransformer(acts));
  const std::array numbers{
    number("--connections", how.connections, 32, "echo: connections of all clients", 1, 8000),
    number("--processes", how.processes, 4, "echo: client processes of the second case", 1, 1000),
    number("--in-flight", how.in_flight, 32, "echo: messages in flight, of all clients", 1, 8000),
    number("--echo-ms", how.echo_ms, 150, "echo: duration of a measurement", 10, 30'000),
    number("--honest", how.honest, 10, "crowd: honest clients", 1, 1000),
    number("--honest-processes", how.honest_processes, 2, "crowd: their processes", 1, 100),
    number(
      "--interval-ms", how.interval_ms, 10, "crowd: time between a client's round trips", 1, 1000),
    number("--hostile", how.hostile, 5, "crowd: hostile client processes", 0, 1000),
    number("--stopped", how.stopped, 2, "crowd: stopped client processes", 0, 1000),
    number("--crowd-ms", how.crowd_ms, 800, "crowd: duration of a measurement", 100, 60'000)};
  auto* rounds =
    app.add_option("--rounds", how.rounds, "number of rounds")->check(CLI::Range(1, 1000));
  app.add_flag("--quick", how.quick, "run one round of few connections and processes");
  app.add_flag("--json", how.json, "print JSON");
  CLI11_PARSE(app, argc, argv);
  if (how.quick && rounds->count() == 0)
    how.rounds = 1;
  for (const auto& [option, set_quick] : numbers)
    if (how.quick && option->count() == 0)
      set_quick();
  std::signal(SIGALRM, on_alarm);
  try
  {
    return run(how);
  }
  catch (const std::exception& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
}
