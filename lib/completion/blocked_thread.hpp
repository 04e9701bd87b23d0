//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_BLOCKED_THREAD_HPP
#define BOOST_RDMA_LIB_COMPLETION_BLOCKED_THREAD_HPP

#include "completion/completion_queue_impl.hpp"

namespace rdma::detail {

// A thread of the program in a synchronous function. It polls the completion queue itself, because
// no thread need run the execution context, and it may be the only one that does.
class blocked_thread
{
public:
  using clock = completion_queue_impl::clock;

  explicit blocked_thread(completion_queue_impl& queue) noexcept
    : queue_(queue)
  {
  }
  blocked_thread(const blocked_thread&) = delete;
  blocked_thread& operator=(const blocked_thread&) = delete;
  ~blocked_thread();

  // Waits until ready() returns true, or returns false after the time limit.
  template <class Ready>
  bool wait(Ready ready, clock::time_point limit)
  {
    unsigned busy = 0;
    for (const clock::time_point begin = clock::now();;)
    {
      busy = queue_.poll_here().busy ? busy + 1 : 0;
      if (ready())
        return true;
      const clock::time_point now = clock::now();
      if (now >= limit)
        return false;
      if (busy != 0)
        completion_queue_impl::give_way(busy);
      else if (!queue_.must_spin(now - begin))
      {
        const sleeping here(*this);
        if (ready()) // a change after this wakes the thread
          return true;
        sleep(limit);
      }
    }
  }

private:
  class sleeping
  {
  public:
    explicit sleeping(blocked_thread& thread) noexcept;
    sleeping(const sleeping&) = delete;
    sleeping& operator=(const sleeping&) = delete;
    ~sleeping();

  private:
    blocked_thread& thread_;
  };

  void sleep(clock::time_point limit);

  completion_queue_impl& queue_;
  bool was_quiet_ = true; // the last poll after an arming
  queue_sleeper own_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_BLOCKED_THREAD_HPP
