//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_PAGE_RANGE_HPP
#define BOOST_RDMA_LIB_RESOURCE_PAGE_RANGE_HPP

#include <cstddef>
#include <cstdint>

#include <unistd.h>

namespace rdma::detail {

// A range of whole pages, the unit in which memory is pinned and watched.
struct page_range
{
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
  [[nodiscard]] bool covers(const page_range& other) const noexcept
  {
    return begin <= other.begin && other.end <= end;
  }
  [[nodiscard]] bool overlaps(const page_range& other) const noexcept
  {
    return begin < other.end && other.begin < end;
  }
};

// Precondition: the range does not pass the end of the address space.
inline page_range pages_of(const void* data, std::size_t size) noexcept
{
  static const std::uintptr_t mask = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1;
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  return {first & ~mask, (first + size + mask) & ~mask};
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_PAGE_RANGE_HPP
