//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_COUNTED_HPP
#define BOOST_RDMA_TOOLS_PERF_COUNTED_HPP

/// Calls a function object. callgrind counts what this symbol calls.
extern "C" __attribute__((noinline)) inline void rdma_perf_counted(void (*call)(void*), void* on)
{
  call(on);
}

namespace perf {

template <class Function>
void count_calls(Function what)
{
  rdma_perf_counted([](void* on) { (*static_cast<Function*>(on))(); }, &what);
}

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_COUNTED_HPP
