//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_ATOMICS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_ATOMICS_HPP

#include <atomic>

namespace rdma::software {

/// The atomic operations of the protocols between two processes. These are templates, because
/// test/interleavings runs them with the atomics of a checker.
struct atomics
{
  template <class T>
  using atomic = std::atomic<T>;

  static void fence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_ATOMICS_HPP
