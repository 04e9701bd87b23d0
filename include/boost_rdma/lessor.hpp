//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LESSOR_HPP
#define BOOST_RDMA_LESSOR_HPP

#include <boost_rdma/access.hpp>
#include <boost_rdma/memory_pool.hpp>
#include <boost_rdma/protection_domain.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rdma {

namespace detail {
class agent_attachment_source;
class lessor_core;
} // namespace detail

/// Limits of the memory that a lessor grants. Each connection counts as one peer.
struct lessor_options
{
  /// Bytes granted at a time, to all peers.
  std::size_t bytes_max = std::size_t{1} << 30;
  /// Leases at a time, of all peers.
  std::size_t regions_max = 65536;
  /// Bytes granted at a time, to one peer.
  std::size_t bytes_per_peer_max = std::size_t{256} << 20;
  /// Leases at a time, of one peer.
  std::size_t regions_per_peer_max = 1024;

  /// Maximum lifetime, from the grant or its last renewal. Without a limit a lease lasts as long as
  /// the connection.
  /** A request for a longer lifetime is granted with this one. */
  std::chrono::milliseconds lifetime_max = std::chrono::milliseconds::max();

  /// Rights that peers may request. Other rights are refused with error::remote_right_missing.
  access rights = remote_access;

  /// Options of the memory_pool from which the lessor grants. size_max limits the granted bytes of
  /// all peers together.
  memory_pool_options pool;
};

/// Statistics of a lessor.
struct lessor_statistics
{
  /// Bytes that are granted, or were handed over and not received by the program yet.
  std::size_t bytes = 0;
  /// Regions that are granted, or were handed over and not received by the program yet.
  std::size_t regions = 0;
  /// Total number of grants.
  std::uint64_t grants = 0;
  /// Total number of requests refused for quota, memory or rights.
  std::uint64_t refusals = 0;
};

/// Grants memory of this host to peers within quotas. The peers request it with
/// basic_agent::async_allocate().
/**
 * Queue pairs with a lessor in their options (queue_pair_options::grant_from()) answer requests of
 * their peers by themselves, on their executors:
 * @code
 * rdma::lessor lessor(context);
 * rdma::acceptor_options options;
 * options.queue_pair.grant_from(lessor);
 * @endcode
 * The memory comes from a pool of the lessor and is filled with zeros for each grant. On the
 * software device, each peer has a pool of its own, because a peer on this host keeps the memory
 * mapped that it has leased: the memory is not granted to another peer before it has been returned
 * to the system. Only the queue pair that requested it can access it, through a type 2 memory
 * window. If the device has no memory windows, or defective ones as Soft-RoCE has, the lessor
 * registers the memory instead. Any queue pair of the protection domain that has the key of that
 * registration could use it. A lease ends when it is released, its lifetime ends, or the connection
 * is closed or lost. The memory is then made inaccessible before it is used again.
 *
 * After the peer's agent has first contacted this side, a connection with a lessor keeps
 * io_context::run() from returning, as an outstanding receive does. Before that another operation
 * must do so, for instance an async_accept or a receive.
 *
 * The handle may be copied. Queue pairs made with it keep its state alive.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment and destruction.
 */
class lessor
{
public:
  /// Creates a lessor in the context's own protection domain.
  explicit lessor(const rdma::context& context, const lessor_options& options = lessor_options());

  /// Creates a lessor in a protection domain, which must be that of the queue pairs.
  explicit lessor(
    const protection_domain& domain, const lessor_options& options = lessor_options());

  /// Returns the options.
  [[nodiscard]] const lessor_options& options() const noexcept;
  /// Returns a snapshot of the statistics.
  [[nodiscard]] lessor_statistics statistics() const;

  /// Returns the lessor's pool. Programs may use it, too; its size_max then limits both.
  /** If the software device is the default device, peers' leases are in other pools, with the same
   * options. */
  [[nodiscard]] memory_pool& pool() const noexcept;

  /// For the library itself: used by queue_pair_options::grant_from().
  [[nodiscard]] std::shared_ptr<detail::agent_attachment_source> source() const;

private:
  std::shared_ptr<detail::lessor_core> core_;
};

} // namespace rdma

#endif // BOOST_RDMA_LESSOR_HPP
