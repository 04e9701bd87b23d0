//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_PROGRESS_LOCK_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_PROGRESS_LOCK_HPP

#include <atomic>
#include <thread>

namespace rdma::software {

/// Held by the thread that makes progress on a queue pair.
/**
 * Those who post and poll only ever try, for a moment: whoever holds it does their work as well.
 * Sequentially consistent, because unlock() is followed by a look at the note that others leave
 * before they try, and one of the two must see the other; a std::mutex does not promise that.
 */
class progress_lock
{
public:
  bool try_lock() noexcept
  {
    return !held_.load(std::memory_order_seq_cst)
      && !held_.exchange(true, std::memory_order_seq_cst);
  }

  /// As try_lock(), for about a microsecond: so long a small message takes the holder.
  bool try_lock_soon() noexcept
  {
    for (unsigned i = 0; i < looks_max; ++i)
    {
      if (try_lock())
        return true;
      pause();
    }
    return false;
  }

  /// Tells the processor that this is a loop which waits.
  static void pause() noexcept
  {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  static constexpr unsigned looks_max = 32;

  /// For the rare calls that must have it. It is held for system calls that do not block.
  void lock() noexcept
  {
    while (!try_lock())
      std::this_thread::yield();
  }

  void unlock() noexcept { held_.store(false, std::memory_order_seq_cst); }

private:
  std::atomic<bool> held_{false};
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_PROGRESS_LOCK_HPP
