//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_RESULTS_HPP
#define BOOST_RDMA_TOOLS_PERF_RESULTS_HPP

#include "perf/histogram.hpp"
#include "perf/test_case.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace perf {

/// The values of the rounds. The median is the result.
class samples
{
public:
  void add(double value) { values_.insert(std::ranges::upper_bound(values_, value), value); }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] double median() const
  {
    const std::size_t n = values_.size();
    return n == 0 ? 0 : (values_[(n - 1) / 2] + values_[n / 2]) / 2;
  }
  [[nodiscard]] double least() const { return values_.front(); }
  [[nodiscard]] double greatest() const { return values_.back(); }
  [[nodiscard]] const std::vector<double>& sorted() const { return values_; }

private:
  std::vector<double> values_;
};

/// The result of one case. Without values, `absent` has the reason.
struct result
{
  test_case what;
  std::string wire;    ///< the wire in use
  samples values;      ///< latency: us, the median of each round; bandwidth: operations per second
  histogram latencies; ///< ns, of all rounds; empty if another program does not report them
  double allocations = 0; ///< heap allocations per operation, at the client
  std::string absent;

  [[nodiscard]] double bytes_a_second() const { return values.median() * what.size; }
};

/// Cases that are measured together, round by round, and shown together.
struct group
{
  enum class axis
  {
    none,
    size,
  };

  std::string key;   ///< for JSON and --only
  std::string title; ///< for the tables
  perf::measure measure = measure::latency;
  axis by = axis::none;
  std::vector<test_case> cases;
  std::vector<result> results;

  [[nodiscard]] const result* find(const test_case& what) const
  {
    const auto at = std::ranges::find(results, what, &result::what);
    return at == results.end() || at->values.empty() ? nullptr : &*at;
  }
};

/// The library's overhead over verbs calls, on a device that completes everything immediately (see
/// overhead.hpp).
struct overhead
{
  samples library_ns; ///< per operation
  samples raw_ns;
  samples added_ns; ///< the difference in each round
  double allocations = 0;
  std::optional<double> library_instructions;
  std::optional<double> raw_instructions;
  std::string absent_instructions; ///< the reason if there are none
};

/// An unused connection in event mode.
struct idleness
{
  std::string name;
  double seconds = 0;
  double client_cpu_us = 0; ///< processor time of both processes
  double server_cpu_us = 0;
};

/// Calls of a method at twice the rate that the server can take. Rates are per second.
struct overload
{
  double seconds = 0;
  double capacity = 0;
  double offered = 0;
  histogram unloaded;           ///< ns, of calls that follow each other
  histogram admitted;           ///< ns, from the times at which the calls were to be made
  histogram refused;            ///< ns, likewise, until the refusal
  double client_kib_before = 0; ///< resident memory
  double client_kib_after = 0;
  double server_kib_before = 0;
  double server_kib_after = 0;
};

enum class verdict
{
  met,
  missed,
  unknown,
};

struct goal
{
  std::string text;
  std::string figure;
  perf::verdict verdict = verdict::unknown;
};

using fact = std::pair<std::string, std::string>;

/// All results of a run.
struct report
{
  std::vector<fact> facts;
  std::vector<group> groups;
  std::optional<perf::overhead> overhead;
  std::vector<idleness> idle;
  std::optional<perf::overload> overload;
  std::vector<goal> goals;

  [[nodiscard]] const result* find(const std::string& key, const test_case& what) const
  {
    for (const group& each : groups)
      if (each.key == key)
        return each.find(what);
    return nullptr;
  }
};

std::string table_of(const report& all);
std::string json_of(const report& all);
std::string svg_of(const report& all);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_RESULTS_HPP
