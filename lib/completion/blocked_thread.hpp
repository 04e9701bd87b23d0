//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_BLOCKED_THREAD_HPP
#define BOOST_RDMA_LIB_COMPLETION_BLOCKED_THREAD_HPP

#include "completion/completion_queue_impl.hpp"

#include <optional>
#include <thread>

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

  // Waits until ready() returns true. Returns false after the time limit, or sets ec if the thread
  // cannot sleep.
  template <class Ready>
  bool wait(Ready ready, std::optional<clock::time_point> limit, error_code& ec)
  {
    for (const clock::time_point begin = clock::now();;)
    {
      const bool busy = queue_.poll_here().busy;
      if (ready())
        return true;
      const clock::time_point now = clock::now();
      if (limit && now >= *limit)
        return false;
      if (queue_.must_spin(now - begin))
      {
        if (busy)
          std::this_thread::yield();
        continue;
      }
      const sleeping here(*this, ec);
      if (ec)
        return false;
      if (ready()) // a change after this wakes the thread
        return true;
      sleep(limit);
    }
  }

private:
  class sleeping
  {
  public:
    sleeping(blocked_thread& thread, error_code& ec);
    sleeping(const sleeping&) = delete;
    sleeping& operator=(const sleeping&) = delete;
    ~sleeping();

  private:
    blocked_thread& thread_;
  };

  void sleep(std::optional<clock::time_point> limit) noexcept;

  completion_queue_impl& queue_;
  queue_sleeper own_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_BLOCKED_THREAD_HPP
