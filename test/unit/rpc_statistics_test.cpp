//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "rpc/method_counters.hpp"

#include <boost_rdma/rpc/server_statistics.hpp>
#include <boost_rdma/statistics.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

// Tests the counters of a server's calls, and the text that write_prometheus() makes of them.

namespace test::rpc_statistics_test {

namespace {

using namespace std::chrono_literals;
using rdma::detail::rpc::call_outcome;
using rdma::detail::rpc::method_counters;
using rdma::rpc::duration_histogram;
using rdma::rpc::method_statistics;
using rdma::rpc::server_statistics;

method_statistics read(const method_counters& from)
{
  method_statistics result;
  from.read(result);
  return result;
}

std::size_t interval_of(std::chrono::nanoseconds time)
{
  method_counters counters;
  counters.arrived();
  counters.answered(time);
  const method_statistics s = read(counters);
  CHECK(s.answered.sum == time);
  CHECK(s.answered.count() == 1);
  std::size_t result = 0;
  while (s.answered.counts[result] == 0)
    ++result;
  return result;
}

server_statistics example()
{
  server_statistics s;
  s.clients = 2;
  s.clients_total = 3;
  s.clients_refused = 4;
  method_statistics& get = s.methods.emplace_back();
  get.name = "get/1";
  get.arrived = 27;
  get.in_flight = 5;
  get.answered.counts[0] = 1;
  get.answered.counts[22] = 2;
  get.answered.counts[duration_histogram::size - 1] = 3;
  get.answered.sum = 1min + 7ns;
  get.failed = 2;
  get.refused = 3;
  get.expired = 4;
  get.cancelled = 7;
  s.methods.emplace_back().name = "a \"name\" \\ with\nspecial characters";
  return s;
}

std::string text_of(const server_statistics& values)
{
  std::ostringstream out;
  write_prometheus(out, values);
  return out.str();
}

} // namespace

TEST_CASE("a duration is counted in the interval whose bound is not smaller")
{
  CHECK(interval_of(0ns) == 0);
  for (std::size_t i = 0; i + 1 < duration_histogram::size; ++i)
  {
    const std::chrono::nanoseconds bound = duration_histogram::upper_bound(i);
    CHECK(interval_of(bound) == i);
    CHECK(interval_of(bound + 1ns) == i + 1);
  }
  CHECK(duration_histogram::upper_bound(0) == 256ns);
  CHECK(duration_histogram::upper_bound(duration_histogram::size - 2) > 34s);
  CHECK(interval_of(24h) == duration_histogram::size - 1);
  CHECK(duration_histogram::upper_bound(duration_histogram::size - 1)
    == std::chrono::nanoseconds::max());
}

TEST_CASE("a call is in flight until it ends in one of the ways")
{
  method_counters counters;
  CHECK(read(counters).in_flight == 0);
  for (int i = 0; i != 20; ++i)
    counters.arrived();
  CHECK(read(counters).in_flight == 20);
  counters.answered(1us);
  counters.ended(call_outcome::failed);
  for (int i = 0; i != 2; ++i)
    counters.ended(call_outcome::refused);
  for (int i = 0; i != 3; ++i)
    counters.ended(call_outcome::expired);
  for (int i = 0; i != 4; ++i)
    counters.ended(call_outcome::cancelled);
  const method_statistics s = read(counters);
  CHECK(s.arrived == 20);
  CHECK(s.answered.count() == 1);
  CHECK(s.failed == 1);
  CHECK(s.refused == 2);
  CHECK(s.expired == 3);
  CHECK(s.cancelled == 4);
  CHECK(s.in_flight == 9);
}

TEST_CASE("the counters of a method lose nothing when several threads use them")
{
  method_counters counters;
  constexpr std::uint64_t each = 20'000;
  const auto call = [&]
  {
    for (std::uint64_t i = 0; i != each; ++i)
    {
      counters.arrived();
      if (i % 2 == 0)
        counters.answered(1000ns);
      else
        counters.ended(call_outcome::failed);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i != 3; ++i)
    threads.emplace_back(call);
  // A new load sees no less than the one before, and no end without its arrival.
  bool right = true;
  for (method_statistics last, now; last.arrived != 3 * each; last = now)
  {
    now = read(counters);
    right = right && now.in_flight <= now.arrived && now.arrived >= last.arrived
      && now.failed >= last.failed;
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(right);
  const method_statistics s = read(counters);
  CHECK(s.in_flight == 0);
  CHECK(s.failed == 3 * each / 2);
  CHECK(s.answered.count() == 3 * each / 2);
  CHECK(s.answered.sum == 1000ns * (3 * each / 2));
}

TEST_CASE("statistics of servers are added by the names of their methods")
{
  server_statistics sum = example();
  server_statistics other = example();
  other.methods[1].name = "put/1";
  other.methods[1].arrived = 9;
  std::swap(other.methods[0], other.methods[1]);
  sum += other;
  CHECK(sum.clients == 4);
  CHECK(sum.clients_total == 6);
  CHECK(sum.clients_refused == 8);
  REQUIRE(sum.methods.size() == 3);
  const method_statistics& get = sum.methods[0];
  CHECK(get.arrived == 54);
  CHECK(get.in_flight == 10);
  CHECK(get.answered.counts[22] == 4);
  CHECK(get.answered.count() == 12);
  CHECK(get.answered.sum == 2min + 14ns);
  CHECK(get.failed == 4);
  CHECK(get.refused == 6);
  CHECK(get.expired == 8);
  CHECK(get.cancelled == 14);
  CHECK(sum.methods[1].arrived == 0);
  CHECK(sum.methods[2].name == "put/1");
  CHECK(sum.methods[2].arrived == 9);
}

TEST_CASE("write_prometheus writes the calls of each method")
{
  const std::string text = text_of(example());
  for (const char* line : {
         "rdma_rpc_clients 2",
         "rdma_rpc_clients_total 3",
         "rdma_rpc_clients_refused_total 4",
         "rdma_rpc_calls_total{method=\"get/1\"} 27",
         "rdma_rpc_calls_in_flight{method=\"get/1\"} 5",
         "rdma_rpc_calls_ended_total{method=\"get/1\",outcome=\"answered\"} 6",
         "rdma_rpc_calls_ended_total{method=\"get/1\",outcome=\"failed\"} 2",
         "rdma_rpc_calls_ended_total{method=\"get/1\",outcome=\"refused\"} 3",
         "rdma_rpc_calls_ended_total{method=\"get/1\",outcome=\"expired\"} 4",
         "rdma_rpc_calls_ended_total{method=\"get/1\",outcome=\"cancelled\"} 7",
         "# TYPE rdma_rpc_call_duration_seconds histogram",
         "rdma_rpc_call_duration_seconds_bucket{method=\"get/1\",le=\"0.000000256\"} 1",
         "rdma_rpc_call_duration_seconds_bucket{method=\"get/1\",le=\"0.536870912\"} 1",
         "rdma_rpc_call_duration_seconds_bucket{method=\"get/1\",le=\"1.073741824\"} 3",
         "rdma_rpc_call_duration_seconds_bucket{method=\"get/1\",le=\"34.359738368\"} 3",
         "rdma_rpc_call_duration_seconds_bucket{method=\"get/1\",le=\"+Inf\"} 6",
         "rdma_rpc_call_duration_seconds_sum{method=\"get/1\"} 60.000000007",
         "rdma_rpc_call_duration_seconds_count{method=\"get/1\"} 6",
         "rdma_rpc_calls_total{method=\"a \\\"name\\\" \\\\ with\\nspecial characters\"} 0",
       })
  {
    INFO(line);
    CHECK(text.find(std::string("\n") + line + "\n") != std::string::npos);
  }
}

TEST_CASE("promtool accepts the text of a context and a server")
{
  if (std::system("command -v promtool > /dev/null") != 0)
  {
    WARN("skipped: promtool is not installed (Debian: prometheus)");
    return;
  }
  FILE* const promtool = ::popen("promtool check metrics", "w");
  REQUIRE(promtool != nullptr);
  std::ostringstream out;
  out << std::hex << std::showbase;
  write_prometheus(out, rdma::statistics());
  write_prometheus(out, example());
  const std::string text = out.str();
  CHECK(std::fwrite(text.data(), 1, text.size(), promtool) == text.size());
  CHECK(::pclose(promtool) == 0);
}

} // namespace test::rpc_statistics_test
