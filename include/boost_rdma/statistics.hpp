//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_STATISTICS_HPP
#define BOOST_RDMA_STATISTICS_HPP

#include <boost_rdma/error.hpp>
#include <boost_rdma/memory_pool.hpp>
#include <boost_rdma/registration_cache.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>

namespace rdma {

/// Operations of one kind that have completed without error.
struct operation_statistics
{
  /// Total number of operations.
  std::uint64_t completed = 0;
  /// Total number of their bytes.
  std::uint64_t bytes = 0;
};

/// Connections by one transport.
struct connection_statistics
{
  /// Number of connections that exist now.
  std::size_t established = 0;
  /// Total number of connections that were established.
  std::uint64_t established_total = 0;
  /// Total number of attempts of queue pairs to connect that failed.
  std::uint64_t failed = 0;
  /// Total number of connections that this side ended.
  std::uint64_t closed = 0;
  /// Total number of connections that the peer ended.
  std::uint64_t closed_by_peer = 0;
  /// Total number of connections that ended with error::peer_lost.
  std::uint64_t lost = 0;
  /// Total number of connections that ended with another error, for instance a wc_status.
  std::uint64_t broken = 0;
};

/// Current state of a context, and counters since its creation, from context::statistics().
/**
 * Operations include those of the library's own objects, for instance of streams and agents. A
 * connection ends when its queue pair is closed or reports an error.
 */
struct statistics
{
  /// Sends, also those with immediate data or an invalidation.
  operation_statistics sends;
  /// Receives. Their bytes include those of the peer's writes with immediate data.
  operation_statistics receives;
  /// Reads of remote memory.
  operation_statistics reads;
  /// Writes to remote memory, also those with immediate data.
  operation_statistics writes;
  /// Batches, each as one operation.
  operation_statistics batches;
  /// Total number of atomic operations.
  std::uint64_t atomics = 0;
  /// Total number of memory windows that were bound.
  std::uint64_t binds = 0;
  /// Total number of local invalidations of memory windows.
  std::uint64_t invalidations = 0;

  /// Total number of work requests that completed with an error, by wc_status.
  std::array<std::uint64_t, static_cast<std::size_t>(wc_status::general_error) + 1> errors{};

  /// Connections by an RDMA NIC.
  connection_statistics nic;
  /// Connections by the software device.
  connection_statistics software;
  /// Streams by TCP. They are counted as `closed`, whichever side ended them.
  connection_statistics tcp;

  /// The pool of the context's protection domain.
  memory_pool_statistics pool;
  /// The registration cache of the context's protection domain.
  registration_cache_statistics cache;

  /// Returns the element of `errors` for this status.
  [[nodiscard]] std::uint64_t errors_of(wc_status status) const
  {
    return errors.at(static_cast<std::size_t>(status));
  }
};

/// Writes statistics as text for Prometheus (text-based exposition format, version 0.0.4).
/**
 * All names begin with "rdma_". The text ends with a newline, so that further metrics may follow.
 * The media type is "text/plain; version=0.0.4".
 *
 * @par Thread safety
 * Safe, if no other thread uses `to`.
 */
void write_prometheus(std::ostream& to, const statistics& values);

} // namespace rdma

#endif // BOOST_RDMA_STATISTICS_HPP
