//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_SHARED_MEMORY_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_SHARED_MEMORY_HPP

#include <cstddef>
#include <memory>

#include <unistd.h>

namespace rdma::software {

/// Memory of this process that was made to be shared: a peer that has a key to some of it may map
/// it and reach it without this process' or the kernel's help. Until then it is as private as any
/// other, also from children of fork(): they find what was there, and what they write is theirs.
/// (What they have not written yet may still change with the parent's.)
class shared_memory
{
public:
  /// Maps new memory over [at, at + size), which the caller has reserved. `flags` are more for
  /// memfd_create(2), as MFD_HUGETLB. Null with errno set on failure; then nothing has changed
  /// there.
  static std::shared_ptr<shared_memory> map_over(
    void* at, std::size_t size, unsigned flags) noexcept;

  /// That which [at, at + size) is inside of, or null.
  static std::shared_ptr<shared_memory> find(const void* at, std::size_t size) noexcept;

  struct mapping; ///< what a child of fork() needs to know

  /// Use map_over().
  shared_memory(std::byte* base, std::size_t size, int fd, mapping& noted) noexcept
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

  /// Not found by find() any more. Peers that have it mapped keep it; nobody reads what they write
  /// there.
  void withdraw() noexcept;

  std::byte* base() const noexcept { return base_; }
  std::size_t size() const noexcept { return size_; }
  int fd() const noexcept { return fd_; }

private:
  std::byte* const base_;
  const std::size_t size_;
  const int fd_;
  const pid_t owner_;
  mapping& noted_;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_SHARED_MEMORY_HPP
