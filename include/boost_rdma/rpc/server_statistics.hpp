//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_SERVER_STATISTICS_HPP
#define BOOST_RDMA_RPC_SERVER_STATISTICS_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <vector>

namespace rdma::rpc {

/// Numbers of durations in intervals that double: up to 256 ns, up to 512 ns, ..., up to 34 s, and
/// longer.
struct duration_histogram
{
  /// Number of intervals.
  static constexpr std::size_t size = 29;

  /// Returns the longest duration in an interval; of the last one: nanoseconds::max().
  static constexpr std::chrono::nanoseconds upper_bound(std::size_t index)
  {
    return index + 1 < size ? std::chrono::nanoseconds(std::int64_t{256} << index)
                            : std::chrono::nanoseconds::max();
  }

  /// Total number of durations in each interval.
  std::array<std::uint64_t, size> counts{};
  /// Sum of all durations.
  std::chrono::nanoseconds sum{0};

  /// Returns the total number of durations.
  [[nodiscard]] std::uint64_t count() const noexcept
  {
    std::uint64_t result = 0;
    for (const std::uint64_t each : counts)
      result += each;
    return result;
  }
};

/// The calls of a method. Each call that has arrived is in flight, or has ended in one way.
struct method_statistics
{
  /// Method::name.
  std::string_view name;
  /// Total number of calls that arrived.
  std::uint64_t arrived = 0;
  /// Number of calls that wait, or whose handlers have not answered.
  std::uint64_t in_flight = 0;
  /// Calls that were answered with a reply: the times from their arrival to the reply.
  duration_histogram answered;
  /// Total number of calls that were answered with an error of the handler, or whose request or
  /// reply could not be read or written by the codec.
  std::uint64_t failed = 0;
  /// Total number of calls that the server refused, for instance with error::overloaded.
  std::uint64_t refused = 0;
  /// Total number of calls that waited until their time was over.
  std::uint64_t expired = 0;
  /// Total number of calls that were cancelled, by the client or by the end of the connection.
  /** They are not in flight, also if their handlers go on. */
  std::uint64_t cancelled = 0;
};

/// Current state of a server, and counters since its creation, from basic_server::statistics().
struct server_statistics
{
  /// Number of clients that are connected.
  std::size_t clients = 0;
  /// Total number of clients that connected.
  std::uint64_t clients_total = 0;
  /// Total number of clients that were disconnected at once, see server_options::clients.
  std::uint64_t clients_refused = 0;
  /// The methods, in the order of basic_server::handle().
  std::vector<method_statistics> methods;

  /// Adds the statistics of another server. Methods with the same name become one.
  server_statistics& operator+=(const server_statistics& other);
};

/// Writes statistics as text for Prometheus (text-based exposition format, version 0.0.4).
/**
 * All names begin with "rdma_rpc_", so that the text may follow that of the other
 * write_prometheus(), or precede it. A text must have the statistics of one server: add those of
 * several servers.
 *
 * @par Thread safety
 * Safe, if no other thread uses `to`.
 */
void write_prometheus(std::ostream& to, const server_statistics& values);

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_SERVER_STATISTICS_HPP
