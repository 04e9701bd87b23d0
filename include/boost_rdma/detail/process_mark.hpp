//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_PROCESS_MARK_HPP
#define BOOST_RDMA_DETAIL_PROCESS_MARK_HPP

#include <atomic>
#include <cstdint>

namespace rdma::detail {

// How many fork()s lie between the start of the program and this process.
extern std::atomic<std::uint32_t> fork_count;

// The process that made an object. What verbs gave belongs to it for good: the kernel refuses a
// child's calls, and the software device's threads are not there.
class process_mark
{
public:
  // relaxed: a child has one thread, which wrote it; in any other process it does not change
  process_mark() noexcept
    : made_in_(fork_count.load(std::memory_order_relaxed))
  {
  }

  // Whether this process is a child of that one.
  [[nodiscard]] bool foreign() const noexcept
  {
    return made_in_ != fork_count.load(std::memory_order_relaxed);
  }

private:
  std::uint32_t made_in_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_PROCESS_MARK_HPP
