//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_SOURCE_TABLE_HPP
#define BOOST_RDMA_LIB_COMPLETION_SOURCE_TABLE_HPP

#include "boost_rdma/detail/work_source.hpp"
#include "completion/chunk_position.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace rdma::detail {

// The work sources of a completion queue by their index in wr_ids. All functions but find() require
// the queue's lock on its sources.
class source_table
{
public:
  static constexpr std::uint32_t size_max = 1u << 16; // bits of a wr_id

  // Returns nullopt if all indices are in use. May throw std::bad_alloc.
  std::optional<std::uint32_t> add(std::shared_ptr<work_source> source);

  // Returns the removed source, or null. A thread may still use it from an earlier find().
  std::shared_ptr<work_source> remove(std::uint32_t index) noexcept;

  // Returns null for an index below size() that is not in use.
  [[nodiscard]] const std::shared_ptr<work_source>& owner(std::uint32_t index) const noexcept
  {
    return at(index).owner;
  }

  // Moves all sources to a vector that has room for them.
  void clear(std::vector<std::shared_ptr<work_source>>& to) noexcept;

  // Returns the largest number of indices in use at a time.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // Takes no lock. The caller keeps the source alive while it is used.
  [[nodiscard]] work_source* find(std::uint32_t index) const noexcept
  {
    const place at(index);
    const entry* chunk = published_[at.chunk].load(std::memory_order_acquire);
    // seq_cst, also in remove(): see completion_queue_impl::remove()
    return chunk != nullptr ? chunk[at.offset].source.load(std::memory_order_seq_cst) : nullptr;
  }

private:
  using place = chunk_position<16>;
  static constexpr std::uint32_t chunks_max = place::chunks_for(size_max);

  struct entry
  {
    std::atomic<work_source*> source{nullptr};
    std::shared_ptr<work_source> owner;
  };

  [[nodiscard]] entry& at(std::uint32_t index) const noexcept
  {
    const place where(index);
    return chunks_[where.chunk][where.offset];
  }

  std::array<std::unique_ptr<entry[]>, chunks_max> chunks_;
  std::array<std::atomic<entry*>, chunks_max> published_{};
  std::uint32_t size_ = 0; // indices that were ever in use
  std::vector<std::uint32_t> vacant_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_SOURCE_TABLE_HPP
