//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_SHARED_MEMORY_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_SHARED_MEMORY_HPP

#include "verbs/software/memory/fork_record.hpp"

#include <cstddef>
#include <memory>

#include <unistd.h>

namespace rdma::software {

/// Processes that can write to shared_memory.
enum class writers
{
  all,  ///< this process, and each peer that maps it
  owner ///< only this process
};

/// Memory of this process that a peer with a key can map, to access it without this process or the
/// kernel.
/** Until then it is private, also from children of fork(): they see the contents at the time of
 * fork() and have their own copy of each page that they write. Pages that they have not written may
 * still change with the parent's. */
class shared_memory
{
public:
  /// Maps new memory, and reserves address space, as map_aligned() does. `flags`: further flags of
  /// memfd_create(2), such as MFD_HUGETLB. Returns null with errno set on failure.
  /** With writers::owner, peers can map it for reading only (F_SEAL_FUTURE_WRITE, Linux 5.1).
   * Without this seal the result has writers::all, see who_writes(). */
  static std::shared_ptr<shared_memory> map(
    std::size_t size, std::size_t reserved, unsigned flags, writers who) noexcept;

  /// Returns the object that contains [at, at + size), or null.
  static std::shared_ptr<shared_memory> find(const void* at, std::size_t size) noexcept;

  /// Called by map() only.
  shared_memory(std::byte* base, std::size_t size, int fd, fork_record& noted) noexcept
    : base_(base)
    , size_(size)
    , fd_(fd)
    , owner_(::getpid())
    , noted_(noted)
  {
  }
  /// Closes the descriptor. The memory stays mapped: the address range is the caller's.
  ~shared_memory();
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;

  /// Removes it from find(). Peers that have it mapped keep it, but their writes are no longer
  /// read. With writers::owner they also keep the pages: the kernel frees none of a sealed file.
  void withdraw() noexcept;

  std::byte* base() const noexcept { return base_; }
  std::size_t size() const noexcept { return size_; }
  int fd() const noexcept { return fd_; }
  writers who_writes() const noexcept { return writers_; }

private:
  void seal(writers who) noexcept;

  std::byte* const base_;
  const std::size_t size_;
  const int fd_;
  writers writers_ = writers::all; // set before it is found
  const pid_t owner_;
  fork_record& noted_;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_SHARED_MEMORY_HPP
