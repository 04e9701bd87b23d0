//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/huge_pages.hpp"

#include <algorithm>
#include <cerrno>
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

// Another thread can map memory in the place that was found. It does not do so each time.
constexpr unsigned attempts_max = 16;

std::size_t page_bytes() noexcept
{
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t bytes_max() noexcept
{
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<std::size_t>(pages) * page_bytes() / share_max : 0;
}

// Reserves address space without memory.
std::byte* reserve(std::size_t bytes) noexcept
{
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

} // namespace

std::byte* map_aligned(
  std::size_t bytes, std::size_t reserved, int protection, int flags, int fd) noexcept
{
  const std::size_t page = page_bytes();
  bytes = (bytes + page - 1) / page * page;
  reserved = std::max(bytes, (reserved + page - 1) / page * page);
  for (unsigned i = 0; i != attempts_max; ++i)
  {
    std::byte* const at = reserve(reserved);
    if (at == nullptr)
      return nullptr;
    // Not MAP_FIXED over the reservation: if that fails, e.g. without a free huge page, the
    // reservation may be gone, and the range may belong to another thread.
    ::munmap(at, bytes);
    void* const mapped = ::mmap(at, bytes, protection, flags | MAP_FIXED_NOREPLACE, fd, 0);
    if (mapped == at)
      return at;
    // Linux before 4.17 does not know the flag and maps elsewhere if the range is in use.
    const int error = mapped == MAP_FAILED ? errno : EEXIST;
    if (mapped != MAP_FAILED)
      ::munmap(mapped, bytes);
    if (reserved != bytes)
      ::munmap(at + bytes, reserved - bytes);
    errno = error;
    if (error != EEXIST)
      return nullptr;
  }
  return nullptr;
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
