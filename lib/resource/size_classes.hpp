//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_SIZE_CLASSES_HPP
#define BOOST_RDMA_LIB_RESOURCE_SIZE_CLASSES_HPP

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

// The size classes of the pool: steps of 16 bytes up to 128, then four per doubling up to 64 KiB.
// At most 20 % of a block above 128 bytes is therefore unused. Slabs and runs start on a page, so a
// block is aligned to every power of two that divides its size. A size that is rounded up to an
// alignment therefore gets a block with that alignment.

namespace rdma::detail {

// The unit of arenas. The system's pages may be larger.
inline constexpr std::size_t page_bytes = 4096;

inline constexpr std::size_t quantum_bytes = 16;
inline constexpr std::size_t linear_class_count = 8;
inline constexpr std::size_t largest_class_bytes = 65536;
inline constexpr std::size_t class_count = linear_class_count + 4 * 9;
inline constexpr std::size_t alignment_max = page_bytes;

// Precondition: 0 < bytes <= largest_class_bytes.
[[nodiscard]] constexpr std::size_t class_of(std::size_t bytes) noexcept
{
  if (bytes <= linear_class_count * quantum_bytes)
    return (bytes - 1) / quantum_bytes;
  // 2^k < bytes <= 2^(k+1); the two bits below the highest bit select the quarter
  const auto k = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
  return linear_class_count + (k - 7) * 4 + (((bytes - 1) >> (k - 2)) & 3);
}

inline constexpr std::array<std::uint32_t, class_count> class_bytes = []
{
  std::array<std::uint32_t, class_count> result{};
  for (std::uint32_t i = 0; i < class_count; ++i)
  {
    if (i < linear_class_count)
      result[i] = (i + 1) * quantum_bytes;
    else
    {
      const std::uint32_t k = 7 + (i - linear_class_count) / 4;
      result[i] = (1u << k) + ((i - linear_class_count) % 4 + 1) * (1u << (k - 2));
    }
  }
  return result;
}();
static_assert(class_bytes[class_count - 1] == largest_class_bytes);

[[nodiscard]] constexpr std::size_t round_up(std::size_t bytes, std::size_t power_of_two) noexcept
{
  return (bytes + power_of_two - 1) & ~(power_of_two - 1);
}

// Returns true for classes that are cut from slabs: those that are not whole pages, and 4 and 8
// KiB, of which a slab of 64 KiB holds at least 8. Larger classes of whole pages are runs of an
// arena's pages.
[[nodiscard]] constexpr bool is_slab_class(std::size_t index) noexcept
{
  return class_bytes[index] % page_bytes != 0 || class_bytes[index] <= 2 * page_bytes;
}

// Pages per slab, from 16 to 24: the number with the least waste.
inline constexpr std::array<std::uint8_t, class_count> slab_pages = []
{
  std::array<std::uint8_t, class_count> result{};
  for (std::size_t i = 0; i < class_count; ++i)
  {
    std::size_t best = 16;
    const auto left = [&](std::size_t pages) { return pages * page_bytes % class_bytes[i]; };
    for (std::size_t pages = 17; pages <= 24; ++pages)
      // The waste must be lower by more than 1 % of the whole, because small slabs are preferable.
      if (left(pages) * best + pages * best * page_bytes / 100 < left(best) * pages)
        best = pages;
    result[i] = static_cast<std::uint8_t>(best);
  }
  return result;
}();
inline constexpr std::size_t slab_pages_max = 24;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_SIZE_CLASSES_HPP
