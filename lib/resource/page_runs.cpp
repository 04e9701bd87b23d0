//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/page_runs.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace rdma::detail {

page_runs::page_runs(std::size_t pages)
  : pages_(pages)
  , free_(pages)
  , longest_(pages)
  , bits_((pages + 63) / 64, ~std::uint64_t{0})
{
}

// Returns the first page in [from, end) that is free (or used, if `free` is false), or end.
std::size_t page_runs::next(std::size_t from, std::size_t end, bool free) const noexcept
{
  while (from < end)
  {
    const std::uint64_t word = free ? bits_[from / 64] : ~bits_[from / 64];
    if (const std::uint64_t rest = word >> (from % 64); rest != 0)
      return std::min(end, from + static_cast<std::size_t>(std::countr_zero(rest)));
    from = (from / 64 + 1) * 64;
  }
  return end;
}

void page_runs::mark(std::size_t first, std::size_t count, [[maybe_unused]] bool free) noexcept
{
  while (count > 0)
  {
    const std::size_t here = std::min(count, 64 - first % 64);
    const std::uint64_t mask = (~std::uint64_t{0} >> (64 - here)) << (first % 64);
    assert((bits_[first / 64] & mask) == (free ? 0 : mask));
    bits_[first / 64] ^= mask;
    first += here;
    count -= here;
  }
}

std::size_t page_runs::take(std::size_t count) noexcept
{
  if (count > longest_)
    return none;
  lowest_ = next(lowest_, pages_, true);
  std::size_t at = lowest_;
  while (at + count <= pages_)
  {
    const std::size_t end = next(at, at + count, false);
    if (end == at + count)
    {
      mark(at, count, false);
      free_ -= count;
      return at;
    }
    at = next(end, pages_, true);
  }
  longest_ = count - 1;
  return none;
}

void page_runs::give_back(std::size_t first, std::size_t count) noexcept
{
  mark(first, count, true);
  free_ += count;
  lowest_ = std::min(lowest_, first);
  longest_ = free_; // the run may have joined with its neighbours
}

} // namespace rdma::detail
