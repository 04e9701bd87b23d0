//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Compares ways to allocate registered memory, and plain malloc, in one process:
//
//   rdma_memory [--quick] [--json] [--only TEXT] [--rounds N] [--milliseconds N]
//
// Every round runs each case with each allocator, one after the other, so that other load on the
// machine affects all of them. The output has the median, the least and the greatest of the rounds.
// The memory is not written to: only allocation and deallocation are measured. jemalloc (Debian:
// libjemalloc2) is loaded beside the process's own malloc. Without it, its columns are absent.

#include "allocation_patterns.hpp"
#include "allocators.hpp"
#include "measure/host.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

using namespace bench;

constexpr double goal = 2; // times jemalloc's malloc and free

struct settings
{
  bool quick = false;
  bool json = false;
  std::string only;
  int rounds = 7;
  int milliseconds = 20;
};

/// One of the compared allocators.
struct contender
{
  const char* key;
  const char* text;
  std::function<double(const allocation_case&, std::chrono::nanoseconds)> run;
};

template <class Allocator>
contender make_contender(const char* key, const char* text, Allocator allocator)
{
  return {key, text, [allocator](const allocation_case& what, std::chrono::nanoseconds duration) {
            return measure(allocator, what, duration);
          }};
}

std::vector<allocation_case> cases(bool quick)
{
  const std::vector<std::size_t> sizes = quick
    ? std::vector<std::size_t>{64, 4096, 65536}
    : std::vector<std::size_t>{64, 256, 1024, 4096, 16384, 65536};
  std::vector<allocation_case> result;
  for (const auto& [pattern, threads] : {std::pair(pattern::window, 1u), {pattern::window, 2u},
         {pattern::bursts, 1u}, {pattern::bursts, 2u}, {pattern::handover, 2u}})
    for (const std::size_t size : sizes)
      result.push_back({pattern, threads, size});
  return result;
}

std::string name_of(const allocation_case& what)
{
  return std::string(bench::name_of(what.pattern)) + ", " + std::to_string(what.threads)
    + (what.threads == 1 ? " thread, " : " threads, ")
    + (what.size < 1024 ? std::to_string(what.size) + " B"
                        : std::to_string(what.size / 1024) + " KiB");
}

struct spread
{
  double median, least, greatest;
};

spread spread_of(std::vector<double> values)
{
  std::ranges::sort(values);
  return {values[values.size() / 2], values.front(), values.back()};
}

class report
{
public:
  report(const settings& how, const std::vector<contender>& all, const jemalloc& other)
    : how_(how)
    , all_(all)
  {
    const std::string about = other.missing().empty()
      ? other.version()
      : "left out: " + other.missing() + " (Debian: install libjemalloc2)";
    std::string facts[][2] = {{"processor", processors_online()}, {"kernel", kernel()},
      {"load", first_line("/proc/loadavg")},
      {"huge_pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")},
      {"jemalloc", about},
      {"rounds",
        std::to_string(how.rounds) + " of " + std::to_string(how.milliseconds) + " ms per case"}};
    if (how.json)
      std::printf("{\n");
    for (auto& [name, value] : facts)
    {
      std::ranges::replace(value, '"', '\''); // for JSON
      std::printf(how.json ? "  \"%s\": \"%s\",\n" : "%-14s %s\n", name.c_str(), value.c_str());
    }
    if (how.json)
    {
      std::printf("  \"results\": [");
      return;
    }
#ifndef NDEBUG
    std::printf("build          with assertions enabled: do not use these figures\n");
#endif
    std::printf("sizes          random, from half of the given size up to the given size\n"
                "shown          ns per allocation with its deallocation, median (least .. "
                "greatest), slowest thread, without the\n"
                "               time in which the thread waited for a processor\n");
  }

  void add(const allocation_case& what, const std::vector<std::vector<double>>& samples)
  {
    if (!how_.json)
      std::printf("\n%s\n", name_of(what).c_str());
    const std::optional<double> base = median_of("jemalloc", samples);
    for (std::size_t i = 0; i < all_.size(); ++i)
    {
      const spread s = spread_of(samples[i]);
      if (how_.json)
        std::printf("%s\n    {\"pattern\": \"%s\", \"threads\": %u, \"size\": %zu, \"allocator\": "
                    "\"%s\", \"ns\": %.4g, "
                    "\"least\": %.4g, \"greatest\": %.4g",
          any_ ? "," : "", bench::name_of(what.pattern), what.threads, what.size, all_[i].key,
          s.median, s.least, s.greatest);
      else
        std::printf("  %-46s %10.1f (%8.1f .. %8.1f)", all_[i].text, s.median, s.least, s.greatest);
      if (base)
        std::printf(how_.json ? ", \"times_jemalloc\": %.3g" : " %8.2f", s.median / *base);
      std::printf(how_.json ? "}" : "\n");
      any_ = true;
      if (base && what.pattern != pattern::handover)
        judge(all_[i].key, s.median / *base, what);
    }
    std::fflush(stdout);
  }

  void finish() const
  {
    if (how_.json)
      std::printf("\n  ]");
    for (const verdict& each : verdicts_)
      if (how_.json)
        std::printf(",\n  \"worst_%s\": %.3g", each.key, each.worst);
      else
        std::printf(
          "\ngoal: %s takes at most %.0f times jemalloc's malloc and free; worst: %.2f (%s), %s\n",
          each.text, goal, each.worst, each.where.c_str(), each.worst <= goal ? "met" : "missed");
    if (how_.json)
      std::printf("\n}\n");
  }

private:
  struct verdict
  {
    const char* key;
    const char* text;
    double worst = 0;
    std::string where;
  };

  [[nodiscard]] std::optional<double> median_of(
    const std::string& key, const std::vector<std::vector<double>>& samples) const
  {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i].key == key)
        return spread_of(samples[i]).median;
    return std::nullopt;
  }

  void judge(const std::string& key, double ratio, const allocation_case& what)
  {
    for (verdict& each : verdicts_)
      if (each.key == key && ratio > each.worst)
      {
        each.worst = ratio;
        each.where = name_of(what);
      }
  }

  settings how_;
  const std::vector<contender>& all_;
  bool any_ = false;
  std::vector<verdict> verdicts_{
    {"pool", "the pool as memory_resource", 0, {}}, {"buffer", "registered_buffer", 0, {}}};
};

/// Restarts this program with more space for thread-local variables if jemalloc needs it. Debian's
/// libjemalloc requires its thread-local variables in the static TLS block, and the C library
/// reserves too little of it for libraries that are loaded later.
void make_room_for_jemalloc(char** argv)
{
  const jemalloc other;
  constexpr const char* variable = "GLIBC_TUNABLES";
  constexpr const char* tunable = "glibc.rtld.optional_static_tls=16384";
  const char* const before = std::getenv(variable);
  const std::string now = before != nullptr ? before : "";
  if (other.missing().find("static TLS") == std::string::npos
    || now.find(tunable) != std::string::npos)
    return;
  ::setenv(variable, (now.empty() ? tunable : now + ':' + tunable).c_str(), 1);
  ::execv("/proc/self/exe", argv);
  std::perror("warning: cannot restart with space for libjemalloc, continuing without it");
}

int compare(const settings& how)
{
  const rdma::context context;
  rdma::memory_pool pool(context);
  registered_upstream upstream(context);
  std::pmr::synchronized_pool_resource standard(
    {.max_blocks_per_chunk = 0, .largest_required_pool_block = 65536}, &upstream);
  const jemalloc other;
  std::optional<registered_extents> extents;

  std::vector<contender> all;
  all.push_back(
    make_contender("pool", "memory_pool as memory_resource", resource_allocator{&pool}));
  all.push_back(
    make_contender("buffer", "registered_buffer, context::allocate()", buffer_allocator{&context}));
  all.push_back(make_contender("malloc", "C library malloc and free", system_allocator{}));
  if (other.missing().empty())
  {
    extents.emplace(other, context);
    all.push_back(
      make_contender("jemalloc", "jemalloc malloc and free", jemalloc_allocator{&other}));
    all.push_back(make_contender("jemalloc_extents", "jemalloc over registered extents",
      extents_allocator{&other, extents->arena()}));
  }
  all.push_back(make_contender("synchronized_pool", "synchronized_pool_resource over registrations",
    resource_allocator{&standard}));
  all.push_back(
    make_contender("registration", "one registration per allocation", region_allocator{&context}));

  report to(how, all, other);
  bool any = false;
  for (const allocation_case& what : cases(how.quick))
  {
    if (name_of(what).find(how.only) == std::string::npos)
      continue;
    any = true;
    std::vector<std::vector<double>> samples(all.size());
    for (int round = 0; round < how.rounds; ++round)
      for (std::size_t i = 0; i < all.size(); ++i)
        samples[i].push_back(all[i].run(what, std::chrono::milliseconds(how.milliseconds)));
    to.add(what, samples);
  }
  to.finish();
  if (!any)
    std::cerr << "error: no case name contains '" << how.only
              << "'. Run without --only to see the names.\n";
  return any ? 0 : 1;
}

} // namespace

int main(int argc, char** argv)
{
  settings how;
  CLI::App app("Compares ways to allocate registered memory, and malloc.");
  app.add_flag("--quick", how.quick, "run fewer sizes, and fewer and shorter rounds");
  app.add_flag("--json", how.json, "print JSON");
  app.add_option("--only", how.only, "run only the cases whose name contains this text");
  auto* rounds =
    app.add_option("--rounds", how.rounds, "number of rounds")->check(CLI::Range(1, 1000));
  auto* milliseconds =
    app.add_option("--milliseconds", how.milliseconds, "duration of each case in a round")
      ->check(CLI::Range(1, 30'000));
  CLI11_PARSE(app, argc, argv);
  if (how.quick && rounds->count() == 0)
    how.rounds = 3;
  if (how.quick && milliseconds->count() == 0)
    how.milliseconds = 2;
  try
  {
    make_room_for_jemalloc(argv);
    return compare(how);
  }
  catch (const std::exception& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
}
