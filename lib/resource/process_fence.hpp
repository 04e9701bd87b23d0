//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_PROCESS_FENCE_HPP
#define BOOST_RDMA_LIB_RESOURCE_PROCESS_FENCE_HPP

// A fence in all threads of this process at once, on behalf of one that seldom needs it:
// membarrier(2). Those that would need one often then only keep the compiler from reordering.

namespace rdma::detail {

// Whether process_fence() can be relied on. Once true it stays so.
extern bool has_process_fence;

// Every thread's earlier accesses are over, and its later ones have not begun, at one point in this
// call. False where the system does not do it.
[[nodiscard]] bool process_fence() noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_PROCESS_FENCE_HPP
