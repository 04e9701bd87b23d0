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

// --- the completion queue's part ---

completion_queue_impl::round completion_queue_impl::poll_here()
{
  round result;
  polling_state before = polling_state::nobody;
  while (
    !polling_.compare_exchange_weak(before, polling_state::on_device, std::memory_order_seq_cst))
    if (before == polling_state::on_device || before == polling_state::in_sources)
    {
      result.busy = true;
      return result;
    }
  struct guard
  {
    completion_queue_impl& queue;
    operation_list ended{};
    ~guard()
    {
      if (ended.empty())
        return;
      {
        const std::lock_guard lock(queue.deferred_mutex_);
        queue.deferred_.append(ended);
      }
      queue.has_deferred_.store(true, std::memory_order_seq_cst); // as in defer()
      queue.kick();
    }
  } rest{*this};
  take_deferred_at_once(rest.ended);
  result.quiet = !collect(rest.ended, before, before);
  result.handlers = call_at_once(rest.ended, false);
  if (result.handlers != 0)
    wake_sleepers();
  return result;
}

void completion_queue_impl::take_deferred_at_once(operation_list& to)
{
  if (!has_deferred_.load(std::memory_order_relaxed))
    return;
  const std::lock_guard lock(deferred_mutex_);
  for (operation *op = deferred_.front(), *next = nullptr; op != nullptr; op = next)
  {
    next = op->next;
    if (!op->at_once)
      continue;
    deferred_.erase(op);
    to.push_back(op);
  }
}

void completion_queue_impl::add_sleeper(queue_sleeper& sleeper) noexcept
{
  const std::lock_guard lock(sleepers_mutex_);
  sleepers_.push_back(sleeper);
  sleeper_count_.fetch_add(1, std::memory_order_seq_cst);
}

void completion_queue_impl::remove_sleeper(queue_sleeper& sleeper) noexcept
{
  const std::lock_guard lock(sleepers_mutex_);
  sleepers_.erase(sleepers_.iterator_to(sleeper));
  sleeper_count_.fetch_sub(1, std::memory_order_seq_cst);
}

void completion_queue_impl::wake_sleepers() noexcept
{
  if (sleeper_count_.load(std::memory_order_seq_cst) == 0)
    return;
  constexpr std::uint64_t one = 1;
  const std::lock_guard lock(sleepers_mutex_);
  for (const queue_sleeper& each : sleepers_)
    static_cast<void>(::write(each.wakes, &one, sizeof one)); // fails only if it is readable
}

completion_queue_impl::round completion_queue_impl::arm_here()
{
  return arm_channel() ? poll_here() : round();
}

} // namespace rdma::detail
