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

// Number of fork()s between the start of the program and this process.
extern std::atomic<std::uint32_t> fork_count;

// Identifies the process that made an object. Verbs objects can be used only in that process: the
// kernel rejects calls of a child, and the software device's threads do not exist in it.
class process_mark
{
public:
  // relaxed: a child has one thread, which wrote the value; in other processes it does not change
  process_mark() noexcept
    : made_in_(fork_count.load(std::memory_order_relaxed))
  {
  }

  // Returns true if this process is a child of the process that made the object.
  [[nodiscard]] bool foreign() const noexcept
  {
    return made_in_ != fork_count.load(std::memory_order_relaxed);
  }

private:
  std::uint32_t made_in_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_PROCESS_MARK_HPP
