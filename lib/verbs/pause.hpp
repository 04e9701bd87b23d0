//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_PAUSE_HPP
#define BOOST_RDMA_LIB_VERBS_PAUSE_HPP

namespace rdma::detail {

/// Tells the processor that this is a waiting loop.
inline void pause() noexcept
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_VERBS_PAUSE_HPP
