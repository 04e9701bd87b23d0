//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/checked_copy.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace rdma::software::wire {
namespace {

// Linux 5.14 (madvise(2)), newer than some C libraries.
constexpr int populate_read = 22;
constexpr int populate_write = 23;

enum class access
{
  possible,
  impossible,
  unknown, ///< the kernel is older, or the memory is a device's
};

// Faults all pages in, as the copy would do.
access try_access(const void* at, std::size_t size, program_side which) noexcept
{
  static const std::uintptr_t page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t begin = address & ~(page - 1);
  const std::uintptr_t end = (address + size + page - 1) & ~(page - 1);
  if (::madvise(reinterpret_cast<void*>(begin), end - begin,
        which == program_side::source ? populate_read : populate_write)
    == 0)
    return access::possible;
  return errno == ENOMEM || errno == EFAULT ? access::impossible : access::unknown;
}

// The same by a copy in the kernel, on this very process (process_vm_readv(2)).
bool copy_in_kernel(void* to, const void* from, std::size_t size) noexcept
{
  const iovec local{to, size};
  const iovec remote{const_cast<void*>(from), size};
  const ssize_t n = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (n < 0 && (errno == EPERM || errno == ENOSYS)) // some sandboxes
  {
    std::memcpy(to, from, size);
    return true;
  }
  return n == static_cast<ssize_t>(size);
}

} // namespace

bool checked_copy(void* to, const void* from, std::size_t size, program_side which) noexcept
{
  if (size > checked_copy_by_hand_max)
    switch (try_access(which == program_side::source ? from : to, size, which))
    {
    case access::possible:
      break;
    case access::impossible:
      return false;
    case access::unknown:
      return copy_in_kernel(to, from, size);
    }
  std::memcpy(to, from, size);
  return true;
}

bool is_accessible(const void* at, std::size_t size, program_side which) noexcept
{
  return size <= checked_copy_by_hand_max || try_access(at, size, which) == access::possible;
}

} // namespace rdma::software::wire
