//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/statistics.hpp"

#include "resource/prometheus_metric.hpp"

#include <ostream>
#include <string>
#include <string_view>

// Statistics as text for Prometheus.

namespace rdma {
namespace {

using metric = detail::prometheus_metric;

void write_operations(std::ostream& to, const statistics& values)
{
  const metric operations(
    to, "rdma_operations_total", "counter", "Operations that completed without error.");
  operations.value("kind=\"send\"", values.sends.completed);
  operations.value("kind=\"receive\"", values.receives.completed);
  operations.value("kind=\"read\"", values.reads.completed);
  operations.value("kind=\"write\"", values.writes.completed);
  operations.value("kind=\"batch\"", values.batches.completed);
  operations.value("kind=\"atomic\"", values.atomics);
  operations.value("kind=\"bind\"", values.binds);
  operations.value("kind=\"invalidate\"", values.invalidations);

  const metric bytes(
    to, "rdma_operation_bytes_total", "counter", "Bytes of operations that completed.");
  bytes.value("kind=\"send\"", values.sends.bytes);
  bytes.value("kind=\"receive\"", values.receives.bytes);
  bytes.value("kind=\"read\"", values.reads.bytes);
  bytes.value("kind=\"write\"", values.writes.bytes);
  bytes.value("kind=\"batch\"", values.batches.bytes);

  const metric errors(
    to, "rdma_errors_total", "counter", "Work requests that completed with an error.");
  for (std::size_t i = 1; i < values.errors.size(); ++i) // 0 is success
    errors.value(
      "status=\"" + make_error_code(static_cast<wc_status>(i)).message() + '"', values.errors[i]);
}

void write_connections(std::ostream& to, const statistics& values)
{
  const struct
  {
    const connection_statistics& of;
    std::string label;
  } transports[] = {
    {values.nic, "transport=\"nic\""},
    {values.software, "transport=\"software\""},
    {values.tcp, "transport=\"tcp\""},
  };
  const metric established(to, "rdma_connections", "gauge", "Connections that exist now.");
  for (const auto& [of, label] : transports)
    established.value(label, of.established);
  const metric total(
    to, "rdma_connections_established_total", "counter", "Connections that were established.");
  for (const auto& [of, label] : transports)
    total.value(label, of.established_total);
  const metric failed(
    to, "rdma_connections_failed_total", "counter", "Attempts to connect that failed.");
  for (const auto& [of, label] : transports)
    failed.value(label, of.failed);
  const metric ended(to, "rdma_connections_ended_total", "counter", "Connections that ended.");
  for (const auto& [of, label] : transports)
  {
    ended.value(label + ",reason=\"closed\"", of.closed);
    ended.value(label + ",reason=\"closed_by_peer\"", of.closed_by_peer);
    ended.value(label + ",reason=\"lost\"", of.lost);
    ended.value(label + ",reason=\"broken\"", of.broken);
  }
}

void write_memory(std::ostream& to, const statistics& values)
{
  const auto gauge = [&](std::string_view name, std::string_view help, std::uint64_t value)
  { metric(to, name, "gauge", help).value(value); };
  const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value)
  { metric(to, name, "counter", help).value(value); };
  gauge("rdma_pool_registered_bytes", "Bytes of the pool's registered arenas.",
    values.pool.bytes_registered);
  gauge("rdma_pool_allocated_bytes", "Bytes of the pool that are allocated.",
    values.pool.bytes_allocated);
  gauge("rdma_pool_cached_bytes", "Bytes of free blocks in the caches of threads.",
    values.pool.bytes_cached);
  counter(
    "rdma_pool_failures_total", "Allocations from the pool that failed.", values.pool.failures);
  gauge("rdma_registration_cache_entries", "Cached registrations.", values.cache.entries);
  gauge("rdma_registration_cache_bytes", "Bytes of the cached registrations.", values.cache.bytes);
  counter(
    "rdma_registration_cache_hits_total", "Lookups that found a registration.", values.cache.hits);
  counter(
    "rdma_registration_cache_misses_total", "Lookups that registered memory.", values.cache.misses);
  counter("rdma_registration_cache_evicted_total", "Registrations that were evicted or replaced.",
    values.cache.evicted);
}

} // namespace

void write_prometheus(std::ostream& to, const statistics& values)
{
  write_operations(to, values);
  write_connections(to, values);
  write_memory(to, values);
}

} // namespace rdma
