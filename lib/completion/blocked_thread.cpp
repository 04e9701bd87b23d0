//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/blocked_thread.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace rdma::detail {

blocked_thread::~blocked_thread()
{
  if (own_.wakes < 0)
    return; // it has not slept
  ::close(own_.wakes);
  queue_.stop_sleeping(was_quiet_);
}

blocked_thread::sleeping::sleeping(blocked_thread& thread) noexcept
  : thread_(thread)
{
  if (thread.own_.wakes < 0)
    thread.own_.wakes = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (thread.own_.wakes >= 0)
    thread.queue_.add_sleeper(thread.own_);
}

blocked_thread::sleeping::~sleeping()
{
  if (thread_.own_.wakes >= 0)
    thread_.queue_.remove_sleeper(thread_.own_);
}

void blocked_thread::sleep(clock::time_point limit)
{
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  const completion_queue_impl::round polled = queue_.arm_here();
  was_quiet_ = polled.quiet;
  if (!polled.quiet || polled.handlers != 0)
    return;
  nanoseconds rest = std::max<nanoseconds>(limit - clock::now(), nanoseconds::zero());
  if (own_.wakes < 0) // there is no descriptor left: looks again from time to time
    rest = std::min<nanoseconds>(rest, std::chrono::milliseconds(1));
  const timespec left{.tv_sec = rest / seconds(1), .tv_nsec = (rest % seconds(1)).count()};
  std::array<pollfd, 2> sources{
    pollfd{.fd = own_.wakes, .events = POLLIN, .revents = 0},
    pollfd{.fd = queue_.channel_descriptor(), .events = POLLIN, .revents = 0},
  };
  ::ppoll(sources.data(), sources.size(), &left, nullptr); // after a signal it looks again
  std::uint64_t ignored = 0;
  static_cast<void>(::read(own_.wakes, &ignored, sizeof ignored));
}

} // namespace rdma::detail
