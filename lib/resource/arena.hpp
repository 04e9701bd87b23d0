//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_ARENA_HPP
#define BOOST_RDMA_LIB_RESOURCE_ARENA_HPP

#include "boost_rdma/memory_pool.hpp"
#include "resource/domain_impl.hpp"
#include "resource/page_runs.hpp"
#include "resource/slab.hpp"
#include "verbs/software/memory/shared_memory.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace rdma::detail {

// Memory from the system. It starts at a multiple of 2 MiB. The rest of its last 2 MiB remains
// reserved without memory, so that no other mapping shares a granule of the pool's address_map.
class mapped_memory
{
public:
  mapped_memory() = default;
  // With `shared`, peers on this host can map the memory if they have a key for it. Otherwise it is
  // private to this process.
  mapped_memory(std::size_t bytes, const memory_pool_options& options, bool shared, error_code& ec);
  ~mapped_memory();
  mapped_memory(mapped_memory&& other) noexcept;
  mapped_memory& operator=(mapped_memory&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t huge_bytes_requested() const noexcept { return huge_bytes_requested_; }

private:
  bool share(std::size_t bytes, const memory_pool_options& options);

  std::byte* data_ = nullptr;
  std::shared_ptr<software::shared_memory> shared_; // all of the memory if it is shared, else null
  std::size_t reserved_ = 0;
  std::size_t huge_bytes_requested_ = 0;
};

// Registered memory from which blocks are cut. The pool holds one reference. Each operation on
// memory of the arena that is not a registered_buffer holds one as well. The arena is deregistered
// when the last reference is released. An arena object is reused for other memory, but it keeps its
// address for the lifetime of the pool. A thread that looks up the registration of memory that was
// freed concurrently finds null or another arena, but never a deleted object.
struct arena : registration
{
  // Maps and registers. If ec is not set afterwards, the reference count is one.
  void open(const domain_impl& where, std::size_t bytes, const memory_pool_options& options,
    error_code& ec);
  // Deregisters and unmaps. Precondition: no reference is left.
  void close() noexcept;

  // Takes a reference. Returns false if the last one has been released already.
  [[nodiscard]] bool try_retain() noexcept
  {
    std::uint32_t seen = references.load(std::memory_order_relaxed);
    while (seen != 0)
      // acquire: a thread that finds the arena sees everything that open() wrote
      if (references.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire))
        return true;
    return false;
  }

  [[nodiscard]] bool contains(const void* data, std::size_t bytes) const noexcept
  {
    const auto offset =
      reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(base);
    return offset < size && bytes <= size - offset; // wraps around for an address below the base
  }

  [[nodiscard]] std::size_t page_of(const std::byte* block) const noexcept
  {
    return static_cast<std::size_t>(block - base) / page_bytes;
  }

  void* owner = nullptr; // the pool_impl, for destroy
  mapped_memory memory;
  std::optional<registered_range> range;
  std::optional<page_runs> pages;
  std::vector<slab*> slabs; // by page
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_ARENA_HPP
