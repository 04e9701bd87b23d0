//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_SHORT_LOCK_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_SHORT_LOCK_HPP

#include <atomic>
#include <ctime>
#include <thread>

namespace rdma::software {

/// A mutex for a few dozen instructions in the path of every message.
/**
 * unlock() is a plain store, where std::mutex has a locked instruction and two calls into the C
 * library; that halves the cost. It has no queue of waiting threads: they poll.
 */
class short_lock
{
public:
  void lock() noexcept
  {
    if (!try_lock()) [[unlikely]]
      wait();
  }

  bool try_lock() noexcept
  {
    return !held_.load(std::memory_order_relaxed)
      && !held_.exchange(true, std::memory_order_acquire);
  }

  void unlock() noexcept { held_.store(false, std::memory_order_release); }

private:
  void wait() noexcept
  {
    constexpr unsigned looks_max = 100;
    constexpr unsigned yields_max = 20;
    for (unsigned i = 0; i != looks_max; ++i)
      if (try_lock())
        return;
    for (unsigned i = 0; !try_lock(); ++i)
    {
      if (i < yields_max)
      {
        std::this_thread::yield();
        continue;
      }
      // The holder has lost its processor. If this thread has it, with a real-time priority
      // perhaps, yielding alone does not give it back.
      constexpr timespec moment{0, 20'000};
      ::nanosleep(&moment, nullptr);
    }
  }

  std::atomic<bool> held_{false};
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_SHORT_LOCK_HPP
