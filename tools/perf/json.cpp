//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/results.hpp"

// Header-only Boost.JSON: only this source file of the tool includes its implementation.
#include <boost/json/src.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace perf {
namespace {

namespace json = boost::json;

json::object object_of(const result& one, const group& in)
{
  const test_case& what = one.what;
  json::object to{{"case", name_of(what)}, {"contender", name_of(what.contender)},
    {"size", what.size}, {"queue_pairs", what.queue_pairs}, {"in_flight", what.depth},
    {"batch", what.batch}, {"buffers", what.buffers}};
  if (what.contender != contender::memory && !what.is_plain_socket())
    to["operation"] = name_of(what.operation);
  if (what.contender == contender::library)
  {
    to["mode"] = name_of(what.mode);
    to["token"] = name_of(what.token);
  }
  if (!one.wire.empty())
    to["wire"] = one.wire;
  if (one.values.empty())
  {
    to["absent"] = one.absent.empty() ? "not measured" : one.absent;
    return to;
  }
  to["unit"] = in.measure == measure::latency ? "us" : "operations/s";
  to["median"] = one.values.median();
  to["least"] = one.values.least();
  to["greatest"] = one.values.greatest();
  json::array rounds;
  for (const double value : one.values.sorted())
    rounds.emplace_back(value);
  to["rounds"] = std::move(rounds);
  if (in.measure == measure::bandwidth)
    to["bytes_a_second"] = one.bytes_a_second();
  if (what.contender == contender::library)
    to["allocations"] = one.allocations;
  if (one.latencies.count() != 0)
  {
    json::object percentiles;
    for (const auto& [name, value] :
      std::array<std::pair<const char*, double>, 7>{{{"50", 50}, {"90", 90}, {"99", 99},
        {"99.9", 99.9}, {"99.99", 99.99}, {"99.999", 99.999}, {"100", 100}}})
      percentiles[name] = static_cast<double>(one.latencies.at_percentile(value)) / 1000;
    to["percentiles"] = std::move(percentiles);
    to["count"] = one.latencies.count();
  }
  return to;
}

json::object object_of(const overhead& found)
{
  json::object to{{"library_ns", found.library_ns.median()}, {"raw_ns", found.raw_ns.median()},
    {"added_ns", found.added_ns.median()}, {"allocations", found.allocations}};
  if (found.library_instructions && found.raw_instructions)
  {
    to["library_instructions"] = *found.library_instructions;
    to["raw_instructions"] = *found.raw_instructions;
  }
  else
    to["absent_instructions"] = found.absent_instructions;
  return to;
}

} // namespace

std::string json_of(const report& all)
{
  json::object to;
  json::object facts;
  for (const auto& [name, value] : all.facts)
    facts[name] = value;
  to["facts"] = std::move(facts);
  json::array groups;
  for (const group& each : all.groups)
  {
    json::array results;
    for (const result& one : each.results)
      results.push_back(object_of(one, each));
    groups.push_back({{"key", each.key}, {"title", each.title},
      {"measure", each.measure == measure::latency ? "latency" : "bandwidth"},
      {"results", std::move(results)}});
  }
  to["groups"] = std::move(groups);
  if (all.overhead)
    to["overhead"] = object_of(*all.overhead);
  json::array idle;
  for (const idleness& each : all.idle)
    idle.push_back({{"case", each.name}, {"seconds", each.seconds},
      {"client_cpu_us", each.client_cpu_us}, {"server_cpu_us", each.server_cpu_us}});
  to["idle"] = std::move(idle);
  if (all.overload)
  {
    const overload& found = *all.overload;
    to["overload"] = {{"seconds", found.seconds}, {"capacity", found.capacity},
      {"offered", found.offered}, {"admitted", found.admitted.count()},
      {"refused", found.refused.count()}, {"unloaded_99_ns", found.unloaded.at_percentile(99)},
      {"admitted_99_ns", found.admitted.at_percentile(99)},
      {"refused_99_ns", found.refused.at_percentile(99)},
      {"client_kib", {found.client_kib_before, found.client_kib_after}},
      {"server_kib", {found.server_kib_before, found.server_kib_after}}};
  }
  json::array goals;
  for (const goal& each : all.goals)
    goals.push_back({{"goal", each.text}, {"figure", each.figure},
      {"verdict",
        each.verdict == verdict::met        ? "met"
          : each.verdict == verdict::missed ? "missed"
                                            : "unknown"}});
  to["goals"] = std::move(goals);
  return json::serialize(to) + '\n';
}

} // namespace perf
