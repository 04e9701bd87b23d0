//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_BLOCK_STORE_HPP
#define BOOST_RDMA_LIB_RESOURCE_BLOCK_STORE_HPP

#include "boost_rdma/error.hpp"
#include "boost_rdma/memory_pool.hpp"
#include "resource/address_map.hpp"
#include "resource/arena.hpp"
#include "resource/size_classes.hpp"
#include "resource/slab.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace rdma::detail {

// The arenas of a pool, and the allocation in them: slabs of small blocks, runs of pages for larger
// ones. Enforces the limit and the watermarks. Not thread-safe: the caller holds the pool's mutex
// in every call except find().
//
// There is one mutex, not one per size class. All classes take pages from the same arenas, growth,
// limit and trimming are properties of the whole pool, and threads come here with whole batches.
// Registration happens under the mutex as well, so that two threads that find the pool empty do not
// both make it grow.
class block_store
{
public:
  // `owner` and `destroy` are stored in the arenas' registrations.
  block_store(const domain_impl& domain, const memory_pool_options& options, void* owner,
    void (*destroy)(registration*) noexcept);
  ~block_store();
  block_store(const block_store&) = delete;
  block_store& operator=(const block_store&) = delete;

  // Takes up to `wanted` blocks of a class, as many as are free without growing a second time.
  // Returns 0 if ec is set.
  std::size_t take(std::size_t class_index, std::byte** to, std::size_t wanted, error_code& ec);
  void give_back(std::size_t class_index, std::byte* block) noexcept;

  // Takes a run of whole pages for one block.
  [[nodiscard]] std::byte* take_large(std::size_t bytes, error_code& ec);
  void give_back_large(std::byte* block, std::size_t bytes) noexcept;

  // Returns arenas without blocks to the system until at most bytes_left are idle. Returns the
  // number of bytes that were released.
  std::size_t give_back_idle(std::size_t bytes_left) noexcept;

  // Closes an arena after somebody other than the store has released its last reference.
  void close(arena& unused) noexcept;

  // Returns the arena that contains this address, or null. Accepts any address.
  [[nodiscard]] arena* find(const void* address) const noexcept { return map_.find(address); }

  // Returns false if the limit excludes a block of that size while everything that is allocated
  // now, except `but_for` bytes, remains allocated.
  [[nodiscard]] bool may_hold(std::size_t bytes, std::size_t but_for = 0) const noexcept
  {
    return bytes <= options_.size_max - (counts_.bytes_allocated - but_for);
  }

  // Returns the number of bytes that the next arena takes, for a block of that size.
  [[nodiscard]] std::size_t growth(std::size_t bytes) const noexcept;

  // Returns the number of registered arenas, including those without blocks that are still
  // referenced.
  [[nodiscard]] std::size_t arenas() const noexcept { return counts_.arenas; }

  // Returns the options in effect.
  [[nodiscard]] const memory_pool_options& options() const noexcept { return options_; }

  // Returns the store's part of the statistics. bytes_allocated includes the threads' caches.
  [[nodiscard]] const memory_pool_statistics& counts() const noexcept { return counts_; }

private:
  [[nodiscard]] std::byte* find_pages(std::size_t count, arena*& from) noexcept;
  [[nodiscard]] std::byte* take_pages(std::size_t count, arena*& from, error_code& ec);
  void give_back_pages(arena& from, std::byte* first, std::size_t count) noexcept;
  [[nodiscard]] bool grow(std::size_t pages, error_code& ec);
  [[nodiscard]] arena* open_arena(std::size_t bytes, error_code& ec);
  [[nodiscard]] slab* make_slab(std::size_t class_index, error_code& ec);
  void link(slab& s) noexcept;
  void unlink(slab& s) noexcept;

  const domain_impl& domain_;
  const memory_pool_options options_;
  void* const owner_;
  void (*const destroy_)(registration*) noexcept;
  address_map<arena> map_;
  std::vector<arena*> open_;                    // oldest first
  std::vector<std::unique_ptr<arena>> objects_; // one for each arena that has ever existed
  std::vector<arena*> spare_;
  std::array<slab*, class_count> free_slabs_{}; // slabs with a free block
  std::vector<std::unique_ptr<slab[]>> slab_chunks_;
  slab* spare_slabs_ = nullptr;
  std::size_t idle_bytes_ = 0; // in arenas without blocks
  memory_pool_statistics counts_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_BLOCK_STORE_HPP
