//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_PROGRESS_LOCK_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_PROGRESS_LOCK_HPP

#include "verbs/pause.hpp"

#include <atomic>
#include <thread>

#include <time.h>

namespace rdma::software {

/// Held by the thread that makes progress on a queue pair.
/**
 * Threads that post and poll only try it, briefly: the holder does their work as well. Sequentially
 * consistent, because the holder reads queue_pair_base::called after unlock(), and others set it
 * before they try the lock: one of the two must see the other. A std::mutex does not guarantee
 * that.
 */
class progress_lock
{
public:
  bool try_lock() noexcept
  {
    return !held_.load(std::memory_order_seq_cst)
      && !held_.exchange(true, std::memory_order_seq_cst);
  }

  /// As try_lock(), for about a microsecond, the holder's time for a small message.
  bool try_lock_soon() noexcept
  {
    for (unsigned i = 0; i < looks_max; ++i)
    {
      if (try_lock())
        return true;
      detail::pause();
    }
    return false;
  }

  static constexpr unsigned looks_max = 32;

  /// For calls that need the lock. Holders make no blocking system calls.
  void lock() noexcept
  {
    constexpr unsigned yields_max = 20;
    for (unsigned i = 0; !try_lock(); ++i)
    {
      if (i < yields_max)
      {
        std::this_thread::yield();
        continue;
      }
      constexpr timespec moment{0, 20'000}; // as short_lock
      ::nanosleep(&moment, nullptr);
    }
  }

  void unlock() noexcept { held_.store(false, std::memory_order_seq_cst); }

private:
  std::atomic<bool> held_{false};
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_PROGRESS_LOCK_HPP
