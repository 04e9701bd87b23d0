//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_MOVED_PAGES_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_MOVED_PAGES_HPP

#include "verbs/software/memory/key_table.hpp"

#include <cstddef>
#include <cstdint>

namespace rdma::software {

struct moved_area;

/// A registration of the program's own memory, whose whole pages are moved into shared_memory while
/// it exists.
/**
 * The program finds the pages at their addresses. The device has a second mapping of them, so it
 * does not matter if the program unmaps them. Pages that are registered in part contain other data
 * of the program and are not moved: a peer maps what it accesses.
 *
 * Only private anonymous memory outside the heap of brk(2) and the stack is moved, and only if no
 * other registration overlaps it. A registration inside moved pages shares them. When the last one
 * has ended, the pages are private again, with their contents, and peers that have mapped them see
 * zeros.
 *
 * While the pages are being moved, a write of another thread to them is a fault (SIGSEGV, EFAULT),
 * because otherwise it could be lost. Moving back disturbs no thread. Children of fork() do not
 * have moved pages, as on a NIC after ibv_fork_init(3). Thread-safe.
 */
class moved_pages
{
public:
  /// Smaller ranges are not moved, and no more ranges of a process than these: each occupies a
  /// descriptor, and a peer maps no more.
  static constexpr std::size_t size_min = 64 * 1024;
  static constexpr std::size_t areas_max = 256;

  /// Throws std::bad_alloc.
  moved_pages(void* at, std::size_t size);
  ~moved_pages();
  moved_pages(const moved_pages&) = delete;
  moved_pages& operator=(const moved_pages&) = delete;

  /// Returns the part of the memory that is moved, possibly none.
  const shared_part& shared() const noexcept { return shared_; }

private:
  friend struct moved_areas;

  const std::uintptr_t begin_;
  const std::uintptr_t end_;
  moved_area* area_ = nullptr;
  shared_part shared_;
  const unsigned forks_; // see fork_record.hpp
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_MOVED_PAGES_HPP
