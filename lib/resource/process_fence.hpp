//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_PROCESS_FENCE_HPP
#define BOOST_RDMA_LIB_RESOURCE_PROCESS_FENCE_HPP

// Asymmetric fence, membarrier(2): one thread that rarely needs it issues a fence for all threads
// of the process. The threads that would need a fence often then need only a compiler fence.

namespace rdma::detail {

// True if process_fence() is available. Never changes back to false.
extern bool has_process_fence;

// Executes a full fence on every thread of this process, at some point during the call. Returns
// false if the system does not support it.
[[nodiscard]] bool process_fence() noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_PROCESS_FENCE_HPP
