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

// Before main(), when registering costs nothing: with more threads it waits for all processors. A
// static object that is made earlier finds false, which costs its threads a fence and is right.
bool has_process_fence = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

bool process_fence() noexcept
{
  // A registration is the process's; one that was lost is made again.
  return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    || (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
      && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

} // namespace rdma::detail
