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

// The arenas of a pool, and what is cut from them: slabs of small blocks, runs of pages for larger
// ones. Knows the limit and the watermarks, and no threads: the pool's mutex is held in every call
// but find().
//
// One mutex, not one a size class: all classes take pages from the same arenas, growth, limit and
// give-back are the pool's, and threads come here with whole batches. Registering happens under it
// as well, so that two threads which find the pool empty do not both make it grow.
class block_store
{
public:
  // `owner` and `destroy` go into the arenas' registrations.
  block_store(const domain_impl& domain, const memory_pool_options& options, void* owner,
    void (*destroy)(registration*) noexcept);
  ~block_store();
  block_store(const block_store&) = delete;
  block_store& operator=(const block_store&) = delete;

  // Blocks of a class, as many as are to be had without growing again, at most `wanted`; none when
  // ec is set.
  std::size_t take(std::size_t class_index, std::byte** to, std::size_t wanted, error_code& ec);
  void give_back(std::size_t class_index, std::byte* block) noexcept;

  // A block of its own, on a page, of whole pages.
  [[nodiscard]] std::byte* take_large(std::size_t bytes, error_code& ec);
  void give_back_large(std::byte* block, std::size_t bytes) noexcept;

  // Gives arenas without blocks back to the system until they hold no more than this; the bytes
  // given back.
  std::size_t give_back_idle(std::size_t bytes_left) noexcept;

  // An arena whose last reference went, unless the store let go of it itself.
  void close(arena& unused) noexcept;

  // The arena that a block of this store, or any other address, lies in; null.
  [[nodiscard]] arena* find(const void* address) const noexcept { return map_.find(address); }

  // False when the limit forbids a block of that size for as long as what is taken now is, but for
  // so many bytes of it.
  [[nodiscard]] bool may_hold(std::size_t bytes, std::size_t but_for = 0) const noexcept
  {
    return bytes <= options_.size_max - (counts_.bytes_allocated - but_for);
  }

  // Bytes that the next arena takes, for a block of that size.
  [[nodiscard]] std::size_t growth(std::size_t bytes) const noexcept;

  // Arenas that are registered, with those that are referred to but hold no blocks any more.
  [[nodiscard]] std::size_t arenas() const noexcept { return counts_.arenas; }

  // What is in effect.
  [[nodiscard]] const memory_pool_options& options() const noexcept { return options_; }

  // Its part of the statistics. bytes_allocated is with what threads keep.
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
  std::vector<arena*> open_;                    // the oldest first
  std::vector<std::unique_ptr<arena>> objects_; // of all arenas that there ever were
  std::vector<arena*> spare_;
  std::array<slab*, class_count> free_slabs_{}; // with a block left
  std::vector<std::unique_ptr<slab[]>> slab_chunks_;
  slab* spare_slabs_ = nullptr;
  std::size_t idle_bytes_ = 0; // of arenas without blocks
  memory_pool_statistics counts_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_BLOCK_STORE_HPP
