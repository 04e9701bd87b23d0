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
#include "verbs/software/shared_memory.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace rdma::detail {

// Memory of the system's, from an address that is a multiple of 2 MiB on. It keeps the rest of its
// last 2 MiB, without memory behind it, so that nothing else comes to lie in a granule of the
// pool's address_map.
class mapped_memory
{
public:
  mapped_memory() = default;
  // `shared`: memory that peers on this host may map when they have a key to it; else it is this
  // process' alone.
  mapped_memory(std::size_t bytes, huge_pages huge, bool shared, error_code& ec);
  ~mapped_memory();
  mapped_memory(mapped_memory&& other) noexcept;
  mapped_memory& operator=(mapped_memory&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t huge_bytes_asked() const noexcept { return huge_bytes_asked_; }

private:
  bool share(std::size_t bytes, huge_pages huge);

  std::byte* data_ = nullptr;
  std::shared_ptr<software::shared_memory> shared_; // all of it, where it is
  std::size_t reserved_ = 0;
  std::size_t huge_bytes_asked_ = 0;
};

// Registered memory that blocks are cut from. As a registration it has one reference of the pool's,
// and one for each operation that was given memory in it which is not a registered_buffer; it is
// deregistered when the last one goes. An arena object is used again for another memory, but stays
// where it is for as long as the pool does: whoever asks for the registration of memory that was
// freed meanwhile finds nothing, or another arena, and no freed memory.
struct arena : registration
{
  // Maps and registers. Afterwards, when ec is not set, references is one.
  void open(const domain_impl& where, std::size_t bytes, huge_pages huge, error_code& ec);
  // Deregisters and unmaps. No reference may be left.
  void close() noexcept;

  // A reference, unless there was none left.
  [[nodiscard]] bool try_retain() noexcept
  {
    std::uint32_t seen = references.load(std::memory_order_relaxed);
    while (seen != 0)
      // acquire: what open() wrote is seen by whoever finds the arena
      if (references.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire))
        return true;
    return false;
  }

  [[nodiscard]] bool contains(const void* data, std::size_t bytes) const noexcept
  {
    const auto offset =
      reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(base);
    return offset < size
      && bytes <= size - offset; // an address below the base is far beyond its end
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
