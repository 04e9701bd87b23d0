//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/completion_queue_impl.hpp"

#include "completion/handler_turn.hpp"

#include "resource/device_impl.hpp"
#include "verbs/software/software.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

// The chain of handlers that polls a completion queue: spinning, waiting and waking up.

namespace rdma::detail {

void completion_queue_impl::kick()
{
  if (!has_chain())
    return end_sleep();
  // seq_cst: pairs with the stores in go_idle() and go_waiting()
  const chain_state seen = state_.load(std::memory_order_seq_cst);
  if (seen == chain_state::running)
    return;
  if (seen == chain_state::waiting && mode() == completion_mode::event
    && !has_deferred_.load(std::memory_order_seq_cst))
    return; // the channel reports it
  wake();
}

void completion_queue_impl::work_finished(std::size_t count) noexcept
{
  // Another thread's poll() ended the last operation while the chain waits: the wait must end, too.
  if (outstanding_.fetch_sub(count, std::memory_order_seq_cst) == count
    && state_.load(std::memory_order_seq_cst) == chain_state::waiting)
    wake();
}

void completion_queue_impl::wake() noexcept
{
  std::unique_lock lock(chain_mutex_);
  if (state_.load(std::memory_order_relaxed) == chain_state::running
    || shut_down_.load(std::memory_order_relaxed))
    return;
  state_.store(chain_state::running, std::memory_order_seq_cst);
  lock.unlock();
  last_activity_.store(clock::now(), std::memory_order_relaxed);
  start_chain();
}

void completion_queue_impl::start_chain()
{
  namespace asio = boost::asio;
  auto run = [self = shared_from_this()] { self->run_chain(); };
  // any_io_executor does not use the handler's allocator.
  if (const auto* bare = executor_.target<asio::io_context::executor_type>())
    asio::post(*bare, asio::bind_allocator(slot_allocator<void>(chain_slot_), std::move(run)));
  else
    asio::post(executor_, std::move(run));
}

bool completion_queue_impl::must_spin(clock::duration inactive) const
{
  // About the time of a sleep and a wake-up, so that polling costs at most as much as it can save
  // (Karlin et al., "Competitive Randomized Algorithms for Non-Uniform Problems", 1990). A little
  // more: of two ends that have slept, one finds the other's message before it sleeps again.
  constexpr clock::duration sleep_time = std::chrono::microseconds(30);
  switch (mode())
  {
  case completion_mode::busy_poll:
    return true;
  case completion_mode::adaptive:
    return inactive < spin_time_;
  case completion_mode::event:
  case completion_mode::external:
    return inactive < sleep_time;
  case completion_mode::manual:
    break; // there is no channel to wait for
  }
  return true;
}

void completion_queue_impl::run_chain()
{
  if (forked())
    end_in_child(); // if notify_fork() was not called
  try
  {
    if (poll_in_turn())
      start_chain();
  }
  catch (...)
  {
    start_chain();
    throw; // a handler's exception, for the caller of io_context::run()
  }
}

// Returns true if the chain must continue after other handlers.
bool completion_queue_impl::poll_in_turn()
{
  constexpr std::size_t handlers_max = 64; // between two turns of other handlers
  // A turn of other handlers costs a system call, because Asio looks at its descriptors as well.
  // The turns become rarer while there are no others: nothing took time between this turn and the
  // last.
  constexpr clock::duration alone_max = std::chrono::microseconds(3);
  constexpr int slices_max = 4;
  // A look at the clock costs as much as one at a queue, and far more where it is a system call.
  constexpr unsigned polls_per_time = 16;
  unsigned empty_polls = 0;
  const clock::time_point begin = clock::now();
  clock::time_point now = begin;
  slice_ =
    begin - turn_end_ < alone_max ? std::min(2 * slice_, slices_max * spin_slice_) : spin_slice_;
  // A handler of before this turn may have caused another one to be posted behind it.
  std::size_t handled = handler_turn::take_wanted() ? handlers_max : 0;
  bool active = false; // since the last reading of the clock
  for (;;)
  {
    const round polled = poll(true);
    if (shut_down_.load(std::memory_order_relaxed))
      return false;
    if (outstanding_.load(std::memory_order_relaxed) == 0)
    {
      // The software device acknowledges at the poll after a message, so there is one more. The
      // program may answer before it, and the answer contains the acknowledgement.
      if (!polled.quiet && !polled.busy)
      {
        last_activity_.store(clock::now(), std::memory_order_relaxed);
        return true;
      }
      if (go_idle())
        return false;
    }
    if (!polled.busy && !polled.quiet)
    {
      handled += std::max<std::size_t>(polled.handlers, 1);
      active = true;
      if (handler_turn::take_wanted())
        handled = handlers_max;
      if (handled < handlers_max)
        continue;
    }
    else
    {
      const bool spins =
        mode() == completion_mode::busy_poll || mode() == completion_mode::adaptive;
      if (spins && ++empty_polls % polls_per_time != 0)
        continue;
      now = clock::now();
      if (std::exchange(active, false))
        last_activity_.store(now, std::memory_order_relaxed);
      if (!must_spin(now - last_activity_.load(std::memory_order_relaxed)) && poll_and_arm()
        && go_waiting())
        return false;
      if (device().traits().polls_in_kernel) // a NIC needs no processor
        now = sharing_.offer(now);
    }
    if (handled >= handlers_max || now - begin >= slice_)
    {
      if (handled == 0)
        std::this_thread::yield();
      turn_end_ = clock::now();
      if (active)
        last_activity_.store(turn_end_, std::memory_order_relaxed);
      return true;
    }
  }
}

// Arms the queue. Returns true if there was no completion before. The queue is armed first and
// polled last: a completion after the poll finds the queue armed and produces a channel event. A
// poll by another thread does not suffice, because it may have preceded the arming. A round without
// a handler does not suffice: completions that end no operation (of a failed batch, all but the
// last) may precede others in the queue.
bool completion_queue_impl::poll_and_arm()
{
  if (forked())
    return true; // the channel's events belong to the parent
  if (!arm_channel())
    return false; // continues polling
  const round polled = poll(true);
  if (polled.quiet)
    return true;
  if (polled.busy)
    return false;
  last_activity_.store(clock::now(), std::memory_order_relaxed);
  return false;
}

bool completion_queue_impl::arm_channel()
{
  if (armed_.load(std::memory_order_relaxed))
    drain_channel(); // an event of before would wake the thread once more
  armed_.store(true, std::memory_order_relaxed);
  return ibv_req_notify_cq(native_, 0) == 0;
}

// See poll_and_arm(). The caller polls instead of the chain.
bool completion_queue_impl::arm()
{
  if (forked())
    return true;
  std::uint64_t ignored = 0;
  sleeps_.store(true, std::memory_order_seq_cst); // before poll() looks for ended operations
  static_cast<void>(::read(sleep_end_, &ignored, sizeof ignored));
  return poll_and_arm();
}

// Operations may end without the device while a thread sleeps. seq_cst: either arm()'s poll sees
// has_deferred_, or this sees sleeps_.
void completion_queue_impl::end_sleep() noexcept
{
  constexpr std::uint64_t one = 1;
  if (has_deferred_.load(std::memory_order_seq_cst)
    && sleeps_.exchange(false, std::memory_order_seq_cst))
    static_cast<void>(::write(sleep_end_, &one, sizeof one));
}

bool completion_queue_impl::go_idle()
{
  std::lock_guard lock(chain_mutex_);
  state_.store(chain_state::idle, std::memory_order_seq_cst);
  // seq_cst: a submitting thread counts first and reads state_ then
  if (outstanding_.load(std::memory_order_seq_cst) != 0
    || has_deferred_.load(std::memory_order_seq_cst))
  {
    state_.store(chain_state::running, std::memory_order_relaxed);
    return false;
  }
  if (wait_pending_)
    descriptor_->cancel(); // otherwise it would keep the io_context running
  rest(lock);
  return true;
}

// No thread polls, or waits for the channel. The software device disarms the queue.
void completion_queue_impl::rest(const std::lock_guard<std::mutex>&) noexcept
{
  if (device().kind() != device_kind::software || forked()
    || sleeper_count_.load(std::memory_order_seq_cst) != 0)
    return;
  software::rest(native_);
  wake_sleepers(); // those that have armed it meanwhile
}

// If the last poll was not quiet, completions may have been in the queue when it was armed, for
// which there is no event.
void completion_queue_impl::stop_sleeping(bool was_quiet) noexcept
{
  if (!was_quiet)
  {
    wake_sleepers();
    if (has_chain())
      wake();
    return;
  }
  const std::lock_guard lock(chain_mutex_);
  if (has_chain() && state_.load(std::memory_order_relaxed) == chain_state::idle)
    rest(lock);
}

bool completion_queue_impl::go_waiting()
{
  std::lock_guard lock(chain_mutex_);
  if (shut_down_.load(std::memory_order_relaxed))
    return true;
  state_.store(chain_state::waiting, std::memory_order_seq_cst);
  if (has_deferred_.load(std::memory_order_seq_cst)
    || outstanding_.load(std::memory_order_seq_cst) == 0)
  {
    state_.store(chain_state::running, std::memory_order_relaxed);
    return false;
  }
  if (!wait_pending_)
    start_wait();
  return true;
}

void completion_queue_impl::start_wait()
{
  wait_pending_ = true;
  descriptor_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
    boost::asio::bind_allocator(slot_allocator<void>(wait_slot_),
      [self = shared_from_this()](const error_code& ec) { self->on_channel_ready(ec); }));
}

void completion_queue_impl::on_channel_ready(const error_code& ec)
{
  {
    std::lock_guard lock(chain_mutex_);
    wait_pending_ = false;
    // The chain runs, and drains the channel before it waits again, or it is idle.
    if (shut_down_.load(std::memory_order_relaxed)
      || state_.load(std::memory_order_relaxed) != chain_state::waiting)
      return;
    if (ec == boost::asio::error::operation_aborted)
    {
      // go_idle() cancelled it. Since then the chain has run, and depends on this wait again.
      start_wait();
      return;
    }
    state_.store(chain_state::running, std::memory_order_seq_cst);
  }
  // The software device reads its sockets here, without a signal to this thread. Of all queues that
  // wait, the one whose channel is read first finds what has come, and polls for more.
  const bool drained = !forked() && drain_channel();
  if (drained)
    wake_sleepers(); // the chain may end without arming the queue again
  if (drained
    || (!forked() && device().kind() == device_kind::software && software::found_work(channel_)))
    last_activity_.store(clock::now(), std::memory_order_relaxed);
  run_chain();
}

// Takes an event of the channel, if there is one. There is no second one, because the queue is
// armed once for each. If it was armed again just as an event came, two may remain: the next wait
// ends at once for the other, because each start of a wait asks Asio's epoll set again.
bool completion_queue_impl::drain_channel()
{
  ibv_cq* which = nullptr;
  void* unused = nullptr;
  if (device().api().get_cq_event(channel_, &which, &unused) != 0)
    return false;
  armed_.store(false, std::memory_order_relaxed);
  device().api().ack_cq_events(native_, 1);
  return true;
}

void completion_queue_impl::shutdown() noexcept
{
  {
    std::lock_guard lock(chain_mutex_);
    shut_down_.store(true, std::memory_order_relaxed);
  }
  for (std::uint32_t i = 0; const auto source = next_source(i);)
    source->stop();
  destroy_ended(); // while all sources exist: remove() keeps them
  for (std::uint32_t i = 0; const auto source = next_source(i);)
    source->abandon();
  std::vector<std::shared_ptr<work_source>> removed; // destroyed without the mutex
  {
    const std::lock_guard lock(sources_mutex_);
    sources_.clear(removed_); // which has room: see add()
    removed.swap(removed_);
  }
  removed.clear();
  if (forked())
    static_cast<void>(descriptor_.release()); // see destroy()
  if (descriptor_)
  {
    descriptor_->release(); // must not outlive the io_context's reactor
    descriptor_.reset();
  }
}

} // namespace rdma::detail
