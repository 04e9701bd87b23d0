//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/checked_copy.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <sys/uio.h>
#include <unistd.h>

namespace rdma::software::wire {
namespace {

// Some sandboxes refuse process_vm_readv(2).
std::atomic<bool> refused{false};

} // namespace

bool checked_copy(void* to, const void* from, std::size_t size) noexcept
{
  if (size <= checked_copy_by_hand_max || refused.load(std::memory_order_relaxed))
  {
    std::memcpy(to, from, size);
    return true;
  }
  const iovec local{to, size};
  const iovec remote{const_cast<void*>(from), size};
  const ssize_t n = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (n < 0 && (errno == EPERM || errno == ENOSYS))
  {
    refused.store(true, std::memory_order_relaxed);
    std::memcpy(to, from, size);
    return true;
  }
  return n == static_cast<ssize_t>(size);
}

} // namespace rdma::software::wire
