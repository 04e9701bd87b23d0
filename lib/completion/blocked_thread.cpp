//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/blocked_thread.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
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
  queue_.stop_sleeping();
}

blocked_thread::sleeping::sleeping(blocked_thread& thread, error_code& ec)
  : thread_(thread)
{
  if (thread.own_.wakes < 0)
    thread.own_.wakes = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (thread.own_.wakes < 0)
    ec.assign(errno, boost::system::system_category());
  else
    thread.queue_.add_sleeper(thread.own_);
}

blocked_thread::sleeping::~sleeping()
{
  if (thread_.own_.wakes >= 0)
    thread_.queue_.remove_sleeper(thread_.own_);
}

void blocked_thread::sleep(std::optional<clock::time_point> limit) noexcept
{
  const completion_queue_impl::round polled = queue_.arm_here();
  // If another thread calls handlers, it wakes this one when it has finished, as may its handlers.
  const bool waits_for_thread = polled.busy && queue_.handlers_run();
  if (!waits_for_thread && (!polled.quiet || polled.handlers != 0))
    return;
  std::array<pollfd, 2> sources{
    pollfd{.fd = own_.wakes, .events = POLLIN, .revents = 0},
    pollfd{
      .fd = waits_for_thread ? -1 : queue_.channel_descriptor(), .events = POLLIN, .revents = 0},
  };
  timespec left{};
  if (limit)
  {
    using std::chrono::nanoseconds;
    using std::chrono::seconds;
    const auto rest = std::max<nanoseconds>(*limit - clock::now(), nanoseconds::zero());
    left = {.tv_sec = rest / seconds(1), .tv_nsec = (rest % seconds(1)).count()};
  }
  ::ppoll(
    sources.data(), sources.size(), limit ? &left : nullptr, nullptr); // or EINTR: looks again
  std::uint64_t ignored = 0;
  static_cast<void>(::read(own_.wakes, &ignored, sizeof ignored));
}

} // namespace rdma::detail
