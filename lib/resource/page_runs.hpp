//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_PAGE_RUNS_HPP
#define BOOST_RDMA_LIB_RESOURCE_PAGE_RUNS_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdma::detail {

// Bit map of the free pages of an arena. With one bit per page, neighbouring free runs join without
// extra work. First fit keeps used pages together and leaves the far end to be released.
class page_runs
{
public:
  static constexpr std::size_t none = SIZE_MAX;

  // All pages are free. Throws std::bad_alloc.
  explicit page_runs(std::size_t pages);

  // Allocates `count` contiguous pages. Returns the first, or `none`.
  [[nodiscard]] std::size_t take(std::size_t count) noexcept;
  void give_back(std::size_t first, std::size_t count) noexcept;

  [[nodiscard]] std::size_t pages() const noexcept { return pages_; }
  [[nodiscard]] std::size_t free() const noexcept { return free_; }
  [[nodiscard]] bool untouched() const noexcept { return free_ == pages_; }

private:
  [[nodiscard]] std::size_t next(std::size_t from, std::size_t end, bool free) const noexcept;
  void mark(std::size_t first, std::size_t count, bool free) noexcept;

  std::size_t pages_;
  std::size_t free_;
  std::size_t lowest_ = 0; // no page below it is free
  std::size_t longest_;    // upper bound of the longest free run
  std::vector<std::uint64_t> bits_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_PAGE_RUNS_HPP
