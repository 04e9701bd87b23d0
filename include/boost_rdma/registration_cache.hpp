//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_REGISTRATION_CACHE_HPP
#define BOOST_RDMA_REGISTRATION_CACHE_HPP

#include <cstddef>
#include <cstdint>
#include <string>

namespace rdma {

/// Limits of a context's cache of registrations of plain memory.
/**
 * Each protection_domain has its own cache with these limits. Memory that operations currently use
 * is registered also beyond these limits; it is not cached then.
 */
struct registration_cache_options
{
  /// Maximum number of cached bytes, in whole pages. A NIC pins them, and RLIMIT_MEMLOCK counts
  /// them. 0 disables the cache.
  std::size_t bytes_max = std::size_t{256} << 20;

  /// Maximum number of cached registrations. 0 disables the cache.
  std::size_t entries_max = 1024;
};

/// Current state of a context's registration cache, and counters since its creation.
struct registration_cache_statistics
{
  /// True if registrations are cached between operations. Requires that the kernel reports unmapped
  /// memory (userfaultfd(2)).
  bool enabled = false;
  /// Reason for display if registrations are not cached.
  std::string disabled_reason;
  /// Number of cached registrations.
  std::size_t entries = 0;
  /// Total size of the cached registrations in bytes.
  std::size_t bytes = 0;
  /// Number of cached registrations that operations use.
  std::size_t in_use = 0;
  /// Number of lookups that found a cached registration.
  std::uint64_t hits = 0;
  /// Number of lookups that registered memory.
  std::uint64_t misses = 0;
  /// Number of misses whose registration was not cached, because it was for one operation only.
  std::uint64_t uncached = 0;
  /// Number of registrations that were evicted for others, or replaced by larger ones.
  std::uint64_t evicted = 0;
  /// Number of registrations that ended because their memory was unmapped, moved or discarded.
  std::uint64_t invalidated = 0;
};

} // namespace rdma

#endif // BOOST_RDMA_REGISTRATION_CACHE_HPP
