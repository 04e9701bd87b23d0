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

/// Bounds of the registrations that a context keeps of plain memory which operations were given.
/**
 * Each protection_domain has a cache of its own, within these bounds. What operations use at the
 * moment they need, and have, beyond these bounds, too; it is then not kept.
 */
struct registration_cache_options
{
  /// Bytes kept registered at most, in whole pages; a NIC pins them (RLIMIT_MEMLOCK counts them).
  /// 0: nothing is kept.
  std::size_t bytes_max = std::size_t{256} << 20;

  /// Registrations kept at most. 0: nothing is kept.
  std::size_t entries_max = 1024;
};

/// What a context's registration cache holds at this moment, and what it has done.
struct registration_cache_statistics
{
  /// Registrations are kept between operations, because the kernel tells when the memory goes
  /// (userfaultfd(2)).
  bool keeps = false;
  std::string why_not;       ///< when they are not: why, for people
  std::size_t entries = 0;   ///< registrations that are kept
  std::size_t bytes = 0;     ///< their sizes
  std::size_t in_use = 0;    ///< those of them that operations use
  std::uint64_t hits = 0;    ///< how often a registration was found again
  std::uint64_t misses = 0;  ///< how often memory was registered
  std::uint64_t unkept = 0;  ///< how many of those were for one operation only
  std::uint64_t evicted = 0; ///< how many made room for others, or were replaced by larger ones
  std::uint64_t invalidated =
    0; ///< how many ended because their memory was unmapped, moved or discarded
};

} // namespace rdma

#endif // BOOST_RDMA_REGISTRATION_CACHE_HPP
