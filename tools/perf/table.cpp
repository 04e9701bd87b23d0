//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/results.hpp"
#include "perf/text.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perf {
namespace {

constexpr std::size_t name_width = 62;

// From this size on, the table has bytes per second.
constexpr std::uint32_t blocks_from = 4096;

bool is_ours(const result& one)
{
  return one.what.contender == contender::library;
}

std::string row(const group& in, const result& one)
{
  std::string name = name_of(one.what);
  if (in.by == group::axis::none && one.what.size != in.results.front().what.size)
    name += ", " + size_text(one.what.size);
  std::string text = "  " + padded(name, name_width);
  if (one.values.empty())
    return text + ' ' + (one.absent.empty() ? "not measured" : one.absent) + '\n';
  const double scale = in.measure == measure::latency ? 1
    : one.what.size >= blocks_from                    ? 1e9 / one.what.size
                                                      : 1e6;
  text += right(significant(one.values.median() / scale), 9) + "  ("
    + right(significant(one.values.least() / scale), 6) + " .. "
    + right(significant(one.values.greatest() / scale), 6) + ')';
  if (in.measure == measure::latency)
    for (const double percentile : {90.0, 99.0, 99.9, 100.0})
      text += right(one.latencies.count() == 0
          ? "-"
          : significant(static_cast<double>(one.latencies.at_percentile(percentile)) / 1000),
        9);
  else if (one.what.size < blocks_from)
    text += right(significant(one.bytes_a_second() / 1e9), 9);
  text += is_ours(one) ? right(one.allocations < 0.005 ? "0" : fixed(one.allocations, 2), 7)
                       : right("", 7);
  return text + '\n';
}

std::string heading(const group& in, std::uint32_t size)
{
  const std::string title = in.title + (in.by == group::axis::size ? ": " + size_text(size) : "");
  const bool large = size >= blocks_from;
  std::string text = '\n' + padded(title, name_width + 2);
  if (in.measure == measure::latency)
    return text + right("us", 9) + "  " + padded("(rounds)", 18) + right("90 %", 9)
      + right("99 %", 9) + right("99.9 %", 9) + right("most", 9) + right("heap", 7) + '\n';
  return text + right(large ? "GB/s" : "M/s", 9) + "  " + padded("(rounds)", 18)
    + (large ? "" : right("GB/s", 9)) + right("heap", 7) + '\n';
}

std::string overhead_text(const overhead& found)
{
  std::string text =
    "\nThe library without a device: 64 B writes, 64 in flight, callbacks, busy_poll\n";
  const auto line = [&text](const std::string& name, const samples& values,
                      const std::optional<double>& instructions)
  {
    text += "  " + padded(name, name_width) + right(fixed(values.median(), 1), 9) + "  ("
      + right(fixed(values.least(), 1), 6) + " .. " + right(fixed(values.greatest(), 1), 6)
      + ") ns";
    text += instructions ? ", " + fixed(*instructions, 0) + " instructions\n" : "\n";
  };
  line("library", found.library_ns, found.library_instructions);
  line("raw verbs", found.raw_ns, found.raw_instructions);
  std::optional<double> added;
  if (found.library_instructions && found.raw_instructions)
    added = *found.library_instructions - *found.raw_instructions;
  line("difference", found.added_ns, added);
  text += "  heap allocations per operation: " + fixed(found.allocations, 4) + '\n';
  if (!added)
    text += "  instructions: " + found.absent_instructions + '\n';
  return text;
}

std::string overload_text(const overload& found)
{
  const auto row = [](const std::string& name, const std::string& value)
  { return "  " + padded(name, name_width) + value + '\n'; };
  const auto times = [](const histogram& of)
  {
    return fixed(static_cast<double>(of.at_percentile(50)) / 1e6, 3) + " / "
      + fixed(static_cast<double>(of.at_percentile(99)) / 1e6, 3);
  };
  const auto rate = [&found](const histogram& of)
  { return fixed(static_cast<double>(of.count()) / found.seconds, 0); };
  const auto memory = [](double before, double after)
  { return fixed(before, 0) + " .. " + fixed(after, 0); };
  return "\nTwice the calls that a server can take, for " + fixed(found.seconds, 0) + " s\n"
    + row("capacity, calls/s", fixed(found.capacity, 0))
    + row("offered, admitted, refused, calls/s",
      fixed(found.offered, 0) + ", " + rate(found.admitted) + ", " + rate(found.refused))
    + row("without load, 50 % / 99 %, ms", times(found.unloaded))
    + row("admitted, 50 % / 99 %, ms", times(found.admitted))
    + row("until the refusal, 50 % / 99 %, ms", times(found.refused))
    + row(
      "resident memory of the client, KiB", memory(found.client_kib_before, found.client_kib_after))
    + row("resident memory of the server, KiB",
      memory(found.server_kib_before, found.server_kib_after));
}

} // namespace

std::string table_of(const report& all)
{
  std::string text;
  for (const auto& [name, value] : all.facts)
    text += padded(name, 16) + value + '\n';
  for (const group& each : all.groups)
  {
    std::vector<std::uint32_t> sizes;
    for (const result& one : each.results)
      if (std::ranges::find(sizes, one.what.size) == sizes.end())
        sizes.push_back(one.what.size);
    if (each.by == group::axis::none)
      sizes.resize(std::min<std::size_t>(sizes.size(), 1));
    for (const std::uint32_t size : sizes)
    {
      text += heading(each, size);
      for (const result& one : each.results)
        if (each.by == group::axis::none || one.what.size == size)
          text += row(each, one);
    }
  }
  if (all.overhead)
    text += overhead_text(*all.overhead);
  if (!all.idle.empty())
    text += "\nUnused connection, event mode: processor time, us (client, server)\n";
  for (const idleness& each : all.idle)
    text += "  " + padded(each.name, name_width) + right(fixed(each.client_cpu_us, 0), 9)
      + right(fixed(each.server_cpu_us, 0), 9) + "  in " + fixed(each.seconds, 2) + " s\n";
  if (all.overload)
    text += overload_text(*all.overload);
  text += "\nGoals\n";
  for (const goal& each : all.goals)
    text += "  "
      + padded(each.verdict == verdict::met ? "met"
          : each.verdict == verdict::missed ? "missed"
                                            : "unknown",
        9)
      + padded(each.text, 66) + ' ' + each.figure + '\n';
  return text;
}

} // namespace perf
