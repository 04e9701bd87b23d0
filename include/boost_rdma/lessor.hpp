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

/// How much memory a lessor grants. A peer is a connection.
struct lessor_options
{
  std::size_t bytes_max = std::size_t{1} << 30;            ///< granted at a time, to all peers
  std::size_t regions_max = 65536;                         ///< leases at a time, of all peers
  std::size_t bytes_per_peer_max = std::size_t{256} << 20; ///< granted at a time, to one peer
  std::size_t regions_per_peer_max = 1024;                 ///< leases at a time, of one peer

  /// The longest lifetime, counted from the grant or its last renewal; without a limit, as long as
  /// the connection lasts.
  /** Who asks for more gets this much. */
  std::chrono::milliseconds lifetime_max = std::chrono::milliseconds::max();

  /// The rights that peers may ask for; error::remote_right_missing for others.
  access rights = remote_access;

  /// Of the memory_pool that the lessor grants from.
  memory_pool_options pool;
};

/// What a lessor has granted at this moment, and refused so far.
struct lessor_statistics
{
  std::size_t bytes = 0;      ///< granted, or handed over and not yet taken
  std::size_t regions = 0;    ///< leases, or what was handed over and not yet taken
  std::uint64_t grants = 0;   ///< so far
  std::uint64_t refusals = 0; ///< so far, for want of quota, memory or rights
};

/// Grants memory of this host to peers, within quotas: the other side of
/// basic_agent::async_allocate().
/**
 * Queue pairs whose options name it (queue_pair_options::grant_from()) answer their peers' requests
 * by themselves, on their executors:
 * @code
 * rdma::lessor lessor(context);
 * rdma::acceptor_options options;
 * options.queue_pair.grant_from(lessor);
 * @endcode
 * Memory comes from a pool of the lessor's own, zeroed each time. What is granted is reachable by
 * the queue pair that asked for it alone, through a type 2 memory window; where the device has none
 * (or no sound ones, as Soft-RoCE), through a registration of its own, whose key any queue pair of
 * the protection domain could use that knows it. When the lease ends (released, its time over, the
 * connection closed or lost) the memory is made unreachable first, and used again then.
 *
 * Once the peer's agent has been heard of, a connection with a lessor keeps io_context::run() from
 * returning, as an outstanding receive does. Until then something else has to, for instance an
 * async_accept or a receive.
 *
 * The handle may be copied; the queue pairs made with it keep what it stands for.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment and destruction.
 */
class lessor
{
public:
  /// Grants memory of this context's own domain.
  explicit lessor(const rdma::context& context, const lessor_options& options = lessor_options());

  /// Grants memory of this domain, which is to be the queue pairs'.
  explicit lessor(
    const protection_domain& domain, const lessor_options& options = lessor_options());

  /// What it was made with.
  [[nodiscard]] const lessor_options& options() const noexcept;
  /// What it has granted, and refused: a snapshot.
  [[nodiscard]] lessor_statistics statistics() const;

  /// The pool that is granted from. Programs may use it, too; its size_max bounds both.
  [[nodiscard]] memory_pool& pool() const noexcept;

  /// For the library itself: queue_pair_options::grant_from() takes it.
  [[nodiscard]] std::shared_ptr<detail::agent_attachment_source> source() const;

private:
  std::shared_ptr<detail::lessor_core> core_;
};

} // namespace rdma

#endif // BOOST_RDMA_LESSOR_HPP
