//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/process_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rdma::detail {
namespace {

bool membarrier(int command) noexcept
{
  return ::syscall(SYS_membarrier, command, 0, 0) == 0;
}

} // namespace

// Registered before main(), when it is cheap: with more threads, the call waits for all processors.
// A static object that is constructed earlier sees false. Its threads then use a fence, which is
// correct but slower.
bool has_process_fence = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

bool process_fence() noexcept
{
  // The registration belongs to the process. If it was lost, register again.
  return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    || (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
      && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

} // namespace rdma::detail
