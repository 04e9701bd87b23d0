//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/main_process.hpp"

#include "measure/host.hpp"
#include "perf/goals.hpp"
#include "perf/overhead.hpp"
#include "perf/runner.hpp"
#include "perf/text.hpp"
#include "perf/transports.hpp"

#include <boost_rdma/device.hpp>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace perf {
namespace {

// Returns true if a group without cases is to be measured.
bool wanted(const settings& how, const std::string& key)
{
  return how.only_case.empty() && key.find(how.only) != std::string::npos;
}

// Returns the cost of one clock reading, which each latency includes.
double clock_ns()
{
  constexpr int looks = 100'000;
  const auto begin = std::chrono::steady_clock::now();
  auto last = begin;
  for (int i = 0; i < looks; ++i)
    last = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::nano>(last - begin).count() / looks;
}

std::vector<fact> facts_of(const settings& how)
{
  std::vector<fact> facts;
  facts.emplace_back("processor",
    bench::processors_online()
      + (how.processors.empty() ? std::string(", client and server placed by the scheduler")
                                : ", client on " + std::to_string(how.processors[0])
            + ", server on " + std::to_string(how.processors[1])));
  facts.emplace_back("kernel", bench::kernel());
  facts.emplace_back("load", bench::first_line("/proc/loadavg"));
  std::string devices;
  for (std::size_t i = 0; i < transports().size(); ++i)
    devices += (i == 0 ? "" : "; ") + context_of(i).default_device().name()
      + (transports()[i].software ? ", wire " + transports()[i].name : " (NIC)");
  facts.emplace_back("device", devices);
  facts.emplace_back("TCP buffers",
    "automatic: tcp_wmem " + bench::first_line("/proc/sys/net/ipv4/tcp_wmem") + ", tcp_rmem "
      + bench::first_line("/proc/sys/net/ipv4/tcp_rmem"));
  for (auto& [name, value] : facts)
    std::ranges::replace(value, '\t', ' ');
  facts.emplace_back(
    "clock", "a reading takes " + fixed(clock_ns(), 0) + " ns; each round trip includes one");
  facts.emplace_back("rounds",
    std::to_string(how.rounds) + " (by size " + std::to_string((how.rounds + 1) / 2)
      + "), each case about " + std::to_string(how.duration.count())
      + " ms in each; medians (least .. greatest); percentiles of all rounds");
#ifndef NDEBUG
  facts.emplace_back("build", "with assertions enabled: do not use these figures");
#endif
  return facts;
}

void write(const std::string& name, const std::string& text)
{
  if (name.empty())
    return;
  std::ofstream file(name);
  file << text;
  file.close();
  if (!file)
    throw std::runtime_error("cannot write " + name);
}

void write_histograms(const std::string& directory, const report& all)
{
  if (directory.empty())
    return;
  for (const group& each : all.groups)
    for (const result& one : each.results)
    {
      if (one.latencies.count() == 0)
        continue;
      std::string name = each.key + '-' + name_of(one.what) + '-' + std::to_string(one.what.size);
      std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_'; }, '_');
      write(directory + '/' + name + ".hgrm", one.latencies.print());
    }
}

// Returns the wires that were used, as reported by the queue pairs.
std::string wires_of(const report& all)
{
  std::string text;
  for (std::size_t i = 0; i < transports().size(); ++i)
  {
    std::vector<std::string> found;
    for (const group& each : all.groups)
      for (const result& one : each.results)
        if (one.what.contender == contender::library && one.what.transport == i && !one.wire.empty()
          && std::ranges::find(found, one.wire) == found.end())
          found.push_back(one.wire);
    text += (i == 0 ? "" : "; ") + transports()[i].name + ":";
    for (const std::string& each : found)
      text += ' ' + each;
    if (found.empty())
      text += " not used";
  }
  return text;
}

} // namespace

int measure_all(bench::control_channel& control, const command_line& how)
{
  const settings& measured = how.measured;
  report all;
  all.facts = facts_of(measured);
  std::vector<group> groups = plan(measured);
  const bool with_overhead = wanted(measured, "overhead");
  const bool with_idle = wanted(measured, "idle");
  const bool with_overload = wanted(measured, "overload");
  std::size_t steps = 0;
  for (const group& each : groups)
    steps += runner::steps(each, measured);
  steps += (with_overhead ? overhead_steps(measured) : 0) + (with_idle ? runner::idle_steps() : 0)
    + (with_overload ? 1 : 0);
  if (steps == 0)
    throw std::runtime_error("no group or case has a name that contains \"" + measured.only
      + "\" and \"" + measured.only_case
      + "\". See --help for the groups; the cases are the rows of their tables.");
  {
    progress shown(steps);
    runner run(control, measured, shown);
    // First, so that earlier cases have no effect.
    if (with_idle)
      all.idle = run.idle();
    for (group& each : groups)
    {
      run.run(each);
      all.groups.push_back(std::move(each));
    }
    if (with_overload)
      all.overload = run.overloaded();
    if (with_overhead)
      all.overhead = measure_overhead(measured, shown);
  }
  all.goals = goals_of(all);
  all.facts.emplace_back("wires used", wires_of(all));
  std::cout << table_of(all) << std::flush;
  write(how.json_file, json_of(all));
  write(how.svg_file, svg_of(all));
  write_histograms(how.histogram_directory, all);
  return 0;
}

} // namespace perf
