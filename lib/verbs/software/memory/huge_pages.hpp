//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_HUGE_PAGES_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_HUGE_PAGES_HPP

#include <cstddef>

namespace rdma::software {

/// The size of a transparent huge page, on processors with pages of 4 KiB.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Maps whole pages, with the arguments of mmap(2), at a multiple of huge_page_bytes. Returns null
/// with errno set on failure.
/** The result begins address space of `reserved` bytes, or of `bytes` if that is more. What is
 * behind `bytes` has no memory. */
std::byte* map_aligned(
  std::size_t bytes, std::size_t reserved, int protection, int flags, int fd) noexcept;

/// Gives new shared memory huge pages, which contain zeros, as far as the kernel has them.
/**
 * By default the kernel gives shared memory pages of 4 KiB, and each process that maps it takes a
 * page fault for each of them: a first copy to them takes five times as long as a later one.
 * MADV_COLLAPSE (Linux 6.1) makes huge pages independent of
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled. They are allocated here, which takes a fifth
 * of the time of the page faults of their first use. Memory that is large for this host is left as
 * it is, because a program may not use all of it.
 */
void use_huge_pages(std::byte* at, std::size_t bytes) noexcept;

/// Makes pages present and writable, as a write to each would: also takes the copy of a private
/// mapping of a file. Returns false with errno set if memory is short, or the kernel older than
/// Linux 5.14 (MADV_POPULATE_WRITE).
bool populate_pages(std::byte* at, std::size_t bytes) noexcept;

/// Maps the pages of shared memory that this process has not accessed yet, in less than half the
/// time of a page fault for each (MADV_POPULATE_READ, Linux 5.14).
void map_pages(std::byte* at, std::size_t bytes) noexcept;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_HUGE_PAGES_HPP
