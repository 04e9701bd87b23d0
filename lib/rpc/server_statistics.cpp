//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/rpc/server_statistics.hpp"

#include "resource/prometheus_metric.hpp"

#include <algorithm>
#include <functional>
#include <string>

// Sums of server_statistics, and their text for Prometheus.

namespace rdma::rpc {

server_statistics& server_statistics::operator+=(const server_statistics& other)
{
  clients += other.clients;
  clients_total += other.clients_total;
  clients_refused += other.clients_refused;
  for (const method_statistics& from : other.methods)
  {
    const auto found = std::ranges::find(methods, from.name, &method_statistics::name);
    if (found == methods.end())
    {
      methods.push_back(from);
      continue;
    }
    found->arrived += from.arrived;
    found->in_flight += from.in_flight;
    std::ranges::transform(
      found->answered.counts, from.answered.counts, found->answered.counts.begin(), std::plus());
    found->answered.sum += from.answered.sum;
    found->failed += from.failed;
    found->refused += from.refused;
    found->expired += from.expired;
    found->cancelled += from.cancelled;
  }
  return *this;
}

namespace {

using metric = rdma::detail::prometheus_metric;

// The program chooses the name.
std::string label_of(std::string_view method)
{
  std::string result = "method=\"";
  for (const char each : method)
    if (each == '\n')
      result += "\\n";
    else
      (each == '"' || each == '\\' ? result += '\\' : result) += each;
  return result += '"';
}

std::string seconds(std::chrono::nanoseconds time)
{
  std::string digits = std::to_string(time.count());
  digits.insert(0, 10 - std::min<std::size_t>(digits.size(), 10), '0');
  digits.insert(digits.size() - 9, 1, '.');
  return digits;
}

void write_durations(
  const metric& to, const std::string& label, const duration_histogram& durations)
{
  std::uint64_t up_to_here = 0;
  for (std::size_t i = 0; i < duration_histogram::size; ++i)
  {
    up_to_here += durations.counts[i];
    const auto bound = duration_histogram::upper_bound(i);
    const std::string le = bound == std::chrono::nanoseconds::max() ? "+Inf" : seconds(bound);
    to.value("_bucket", label + ",le=\"" + le + '"', std::to_string(up_to_here));
  }
  to.value("_sum", label, seconds(durations.sum));
  to.value("_count", label, std::to_string(up_to_here));
}

} // namespace

void write_prometheus(std::ostream& to, const server_statistics& values)
{
  metric(to, "rdma_rpc_clients", "gauge", "Clients that are connected.").value(values.clients);
  metric(to, "rdma_rpc_clients_total", "counter", "Clients that connected.")
    .value(values.clients_total);
  metric(to, "rdma_rpc_clients_refused_total", "counter", "Clients that were disconnected at once.")
    .value(values.clients_refused);

  const metric arrived(to, "rdma_rpc_calls_total", "counter", "Calls that arrived.");
  for (const method_statistics& each : values.methods)
    arrived.value(label_of(each.name), each.arrived);
  const metric in_flight(
    to, "rdma_rpc_calls_in_flight", "gauge", "Calls that wait or are not answered.");
  for (const method_statistics& each : values.methods)
    in_flight.value(label_of(each.name), each.in_flight);
  const metric ended(to, "rdma_rpc_calls_ended_total", "counter", "Calls that ended.");
  for (const method_statistics& each : values.methods)
  {
    const std::string label = label_of(each.name);
    ended.value(label + ",outcome=\"answered\"", each.answered.count());
    ended.value(label + ",outcome=\"failed\"", each.failed);
    ended.value(label + ",outcome=\"refused\"", each.refused);
    ended.value(label + ",outcome=\"expired\"", each.expired);
    ended.value(label + ",outcome=\"cancelled\"", each.cancelled);
  }
  const metric durations(to, "rdma_rpc_call_duration_seconds", "histogram",
    "Time from the arrival of a call to its reply.");
  for (const method_statistics& each : values.methods)
    write_durations(durations, label_of(each.name), each.answered);
}

} // namespace rdma::rpc
