//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/process_mark.hpp"

#include <pthread.h>

namespace rdma::detail {

std::atomic<std::uint32_t> fork_count{0};

namespace {

// Registered before main(), so that no object is constructed earlier. vfork() and posix_spawn() do
// not call fork handlers and do not need to: their children only execute another program.
[[maybe_unused]] const int mark_fork_handlers =
  ::pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });

} // namespace
} // namespace rdma::detail
