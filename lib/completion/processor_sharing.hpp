//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_PROCESSOR_SHARING_HPP
#define BOOST_RDMA_LIB_COMPLETION_PROCESSOR_SHARING_HPP

#include <algorithm>
#include <chrono>
#include <thread>

namespace rdma::detail {

/// Decides how often a polling thread offers its processor to other threads.
/**
 * A peer process on the same processor can only answer when it gets it. A thread with a processor
 * of its own loses the time of a system call, in which messages arrive unseen. So the offers become
 * rare while nobody accepts them. One thread at a time.
 */
class processor_sharing
{
public:
  using clock = std::chrono::steady_clock;

  /// Called in each round of empty polls, with the time that was read last. Returns the time.
  clock::time_point offer(clock::time_point now) noexcept
  {
    if (++rounds_ < rounds_between_)
      return now;
    rounds_ = 0;
    std::this_thread::yield();
    const clock::time_point after = clock::now();
    // Two context switches take longer, an offer that nobody accepts is shorter.
    constexpr auto accepted_min = std::chrono::microseconds(1);
    rounds_between_ = after - now >= accepted_min ? 1 : std::min(2 * rounds_between_, rounds_max);
    return after;
  }

private:
  static constexpr unsigned rounds_max = 64;

  unsigned rounds_ = 0;
  unsigned rounds_between_ = 1;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_PROCESSOR_SHARING_HPP
