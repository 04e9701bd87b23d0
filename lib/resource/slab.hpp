//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_SLAB_HPP
#define BOOST_RDMA_LIB_RESOURCE_SLAB_HPP

#include "resource/size_classes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace rdma::detail {

// A run of pages that is cut into blocks of one size class. The free map is kept here and not in
// the blocks, because a peer may write to freed blocks.
class slab
{
public:
  // Also reinitializes a slab that was given back.
  void open(std::byte* base, std::size_t pages, std::size_t class_index) noexcept
  {
    base_ = base;
    pages_ = static_cast<std::uint32_t>(pages);
    class_ = static_cast<std::uint32_t>(class_index);
    count_ = free_ = static_cast<std::uint32_t>(pages * page_bytes / class_bytes[class_index]);
    reciprocal_ =
      ((std::uint64_t{1} << 32) + class_bytes[class_index] - 1) / class_bytes[class_index];
    lowest_ = 0;
    const std::size_t words = (count_ + 63) / 64;
    std::fill_n(bits_.begin(), words, ~std::uint64_t{0});
    if (count_ % 64 != 0)
      bits_[words - 1] >>= 64 - count_ % 64;
  }

  // Takes up to `wanted` blocks, lowest address first. Returns their number.
  std::size_t take(std::byte** to, std::size_t wanted) noexcept
  {
    const std::size_t taken = std::min<std::size_t>(wanted, free_);
    for (std::size_t left = taken; left > 0; ++lowest_)
    {
      std::uint64_t& word = bits_[lowest_];
      for (; word != 0 && left > 0; --left)
      {
        const auto bit = static_cast<std::size_t>(std::countr_zero(word));
        *to++ = base_ + (std::size_t{lowest_} * 64 + bit) * class_bytes[class_];
        word &= word - 1;
      }
      if (word != 0)
        break;
    }
    free_ -= static_cast<std::uint32_t>(taken);
    return taken;
  }

  void give_back(const std::byte* block) noexcept
  {
    // The result is exact: an offset is below 2^17, and the relative error of the reciprocal is
    // less than the block size divided by 2^32.
    const auto offset = static_cast<std::uint64_t>(block - base_);
    const std::uint64_t index = offset * reciprocal_ >> 32;
    assert(index < count_ && index * class_bytes[class_] == offset);
    assert((bits_[index / 64] >> (index % 64) & 1) == 0); // fails on a double free
    bits_[index / 64] |= std::uint64_t{1} << (index % 64);
    lowest_ = std::min(lowest_, static_cast<std::uint32_t>(index / 64));
    ++free_;
  }

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t pages() const noexcept { return pages_; }
  [[nodiscard]] std::size_t class_index() const noexcept { return class_; }
  [[nodiscard]] bool full() const noexcept { return free_ == 0; }
  [[nodiscard]] bool unused() const noexcept { return free_ == count_; }

  slab* next = nullptr; // in the list of slabs of the class with free blocks, or in the spare list
  slab* previous = nullptr;

private:
  static constexpr std::size_t blocks_max = slab_pages_max * page_bytes / quantum_bytes;

  std::byte* base_ = nullptr;
  std::uint64_t reciprocal_ = 0;
  std::uint32_t pages_ = 0;
  std::uint32_t class_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t free_ = 0;
  std::uint32_t lowest_ = 0;                        // no word below it has a free block
  std::array<std::uint64_t, blocks_max / 64> bits_; // open() writes the words that are read
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_SLAB_HPP
