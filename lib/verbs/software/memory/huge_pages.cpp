//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/huge_pages.hpp"

#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

namespace rdma::software {
namespace {

// Values of linux/mman.h that C libraries of older kernels lack.
constexpr int populate_read = 22;  // MADV_POPULATE_READ, Linux 5.14
constexpr int populate_write = 23; // MADV_POPULATE_WRITE, Linux 5.14
constexpr int collapse = 25;       // MADV_COLLAPSE, Linux 6.1

// Part of the host's memory that one call may allocate.
constexpr std::size_t share_max = 8;

std::size_t page_bytes() noexcept
{
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t bytes_max() noexcept
{
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<std::size_t>(pages) * page_bytes() / share_max : 0;
}

} // namespace

std::byte* reserve_address_space(std::size_t bytes) noexcept
{
  const std::size_t page = page_bytes();
  bytes = (bytes + page - 1) / page * page;
  void* const mapped = ::mmap(nullptr, bytes + huge_page_bytes, PROT_NONE,
    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before = (0 - reinterpret_cast<std::uintptr_t>(begin)) % huge_page_bytes;
  if (before != 0)
    ::munmap(begin, before);
  ::munmap(begin + before + bytes, huge_page_bytes - before);
  return begin + before;
}

void use_huge_pages(std::byte* at, std::size_t bytes) noexcept
{
  if (reinterpret_cast<std::uintptr_t>(at) % huge_page_bytes != 0 || bytes > bytes_max())
    return;
  for (; bytes >= huge_page_bytes; at += huge_page_bytes, bytes -= huge_page_bytes)
    // The kernel refuses to collapse a range without any page. MADV_POPULATE_WRITE reports a lack
    // of memory, where an access would end the process.
    if (!populate_pages(at, page_bytes()) || ::madvise(at, huge_page_bytes, collapse) != 0)
      return; // not supported, or there are none left
}

bool populate_pages(std::byte* at, std::size_t bytes) noexcept
{
  return ::madvise(at, bytes, populate_write) == 0;
}

void map_pages(std::byte* at, std::size_t bytes) noexcept
{
  const std::size_t before = reinterpret_cast<std::uintptr_t>(at) % page_bytes();
  ::madvise(at - before, bytes + before, populate_read); // failed: page faults, then
}

} // namespace rdma::software
