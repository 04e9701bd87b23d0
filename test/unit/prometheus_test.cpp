//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"

#include <boost_rdma/statistics.hpp>

#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <locale>
#include <sstream>
#include <string>

// Tests write_prometheus().

namespace {

rdma::statistics example()
{
  rdma::statistics s;
  s.sends = {11, 1234567};
  s.receives = {12, 102};
  s.reads = {13, 103};
  s.writes = {14, 104};
  s.batches = {15, 105};
  s.atomics = 16;
  s.binds = 17;
  s.invalidations = 18;
  s.errors[static_cast<std::size_t>(rdma::wc_status::retry_exceeded)] = 19;
  s.nic = {20, 21, 22, 23, 24, 25, 26};
  s.software.established = 27;
  s.tcp.established = 37;
  s.pool.bytes_registered = 28;
  s.pool.bytes_allocated = 29;
  s.pool.bytes_cached = 30;
  s.pool.failures = 31;
  s.cache.entries = 32;
  s.cache.bytes = 33;
  s.cache.hits = 34;
  s.cache.misses = 35;
  s.cache.evicted = 36;
  return s;
}

std::string text_of(const rdma::statistics& values)
{
  std::ostringstream out;
  write_prometheus(out, values);
  return out.str();
}

} // namespace

TEST_CASE("write_prometheus writes each value with its name and labels")
{
  const std::string text = text_of(example());
  for (const char* line : {
         "rdma_operations_total{kind=\"send\"} 11",
         "rdma_operations_total{kind=\"receive\"} 12",
         "rdma_operations_total{kind=\"read\"} 13",
         "rdma_operations_total{kind=\"write\"} 14",
         "rdma_operations_total{kind=\"batch\"} 15",
         "rdma_operations_total{kind=\"atomic\"} 16",
         "rdma_operations_total{kind=\"bind\"} 17",
         "rdma_operations_total{kind=\"invalidate\"} 18",
         "rdma_operation_bytes_total{kind=\"send\"} 1234567",
         "rdma_operation_bytes_total{kind=\"receive\"} 102",
         "rdma_operation_bytes_total{kind=\"read\"} 103",
         "rdma_operation_bytes_total{kind=\"write\"} 104",
         "rdma_operation_bytes_total{kind=\"batch\"} 105",
         "rdma_errors_total{status=\"transport retry counter exceeded\"} 19",
         "rdma_errors_total{status=\"RNR retry counter exceeded\"} 0",
         "rdma_connections{transport=\"nic\"} 20",
         "rdma_connections_established_total{transport=\"nic\"} 21",
         "rdma_connections_failed_total{transport=\"nic\"} 22",
         "rdma_connections_ended_total{transport=\"nic\",reason=\"closed\"} 23",
         "rdma_connections_ended_total{transport=\"nic\",reason=\"closed_by_peer\"} 24",
         "rdma_connections_ended_total{transport=\"nic\",reason=\"lost\"} 25",
         "rdma_connections_ended_total{transport=\"nic\",reason=\"broken\"} 26",
         "rdma_connections{transport=\"software\"} 27",
         "rdma_connections{transport=\"tcp\"} 37",
         "rdma_pool_registered_bytes 28",
         "rdma_pool_allocated_bytes 29",
         "rdma_pool_cached_bytes 30",
         "rdma_pool_failures_total 31",
         "rdma_registration_cache_entries 32",
         "rdma_registration_cache_bytes 33",
         "rdma_registration_cache_hits_total 34",
         "rdma_registration_cache_misses_total 35",
         "rdma_registration_cache_evicted_total 36",
       })
  {
    INFO(line);
    CHECK(text.find(std::string("\n") + line + "\n") != std::string::npos);
  }
}

TEST_CASE("write_prometheus does not depend on the stream's flags and locale")
{
  struct grouping : std::numpunct<char>
  {
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  std::ostringstream out;
  out.imbue(std::locale(std::locale::classic(), new grouping));
  out << std::hex << std::showbase;
  write_prometheus(out, example());
  CHECK(out.str() == text_of(example()));
}

TEST_CASE("promtool accepts the text of write_prometheus")
{
  if (std::system("command -v promtool > /dev/null") != 0)
  {
    WARN("skipped: promtool is not installed (Debian: prometheus)");
    return;
  }
  FILE* const promtool = ::popen("promtool check metrics", "w");
  REQUIRE(promtool != nullptr);
  const std::string text = text_of(example());
  CHECK(std::fwrite(text.data(), 1, text.size(), promtool) == text.size());
  CHECK(::pclose(promtool) == 0);
}
