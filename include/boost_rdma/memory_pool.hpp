//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_MEMORY_POOL_HPP
#define BOOST_RDMA_MEMORY_POOL_HPP

#include <cstddef>
#include <cstdint>

namespace rdma {

/// How a context's memory_pool grows.
struct memory_pool_options
{
  /// Bytes registered at a time; larger buffers get a registration of their own.
  std::size_t arena_size = std::size_t{1} << 20;

  /// Bytes registered at most, over all arenas; error::pool_exhausted beyond.
  std::size_t size_max = std::size_t{4} << 30;
};

/// What a pool holds at this moment.
struct memory_pool_statistics
{
  std::size_t arenas = 0;           ///< registrations made and kept
  std::size_t bytes_registered = 0; ///< their sizes
  std::size_t buffers = 0;          ///< registered_buffers that are out
  std::size_t bytes_allocated = 0;  ///< their sizes, rounded up to their size class
};

} // namespace rdma

#endif // BOOST_RDMA_MEMORY_POOL_HPP
