//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/runtime.hpp"

#include "sockets/progress.hpp"
#include "sockets/system.hpp"

#include "verbs/signals_blocked.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <utility>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace rdma::sockets {

namespace asio = boost::asio;

std::atomic<runtime*> runtime::current_{nullptr};
std::atomic<unsigned> runtime::generation_{0};

runtime& runtime::of_process()
{
  if (runtime* const made = existing())
    return *made;
  static std::mutex mutex;
  static const int handlers = ::pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
    []
    {
      // Other threads of the parent may have held any lock of it.
      current_.store(nullptr, std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_relaxed);
      mutex.unlock();
    });
  if (handlers != 0)
    throw system_error(
      error_code(handlers, boost::system::system_category()), "cannot watch for fork()");
  const std::lock_guard lock(mutex);
  if (runtime* const made = existing())
    return *made;
  const internal_call internal;
  auto made = std::unique_ptr<runtime>(new runtime);
  current_.store(made.get(), std::memory_order_release);
  return *made.release();
}

runtime::runtime()
  : work_(io_.get_executor())
  , nudge_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
  if (nudge_ < 0)
    throw system_error(error_code(errno, boost::system::system_category()), "no descriptor");
  const detail::signals_blocked blocked;
  std::thread([this] { run(); }).detach();
}

void runtime::run() noexcept
{
  for (;;)
    try
    {
      io_.run();
      return;
    }
    catch (const std::exception&)
    {
      // A lack of memory: one connection is lost, the others continue.
    }
}

runtime::device::device(asio::io_context& io)
  : domain(opened)
  , completions(io, opened, {.mode = completion_mode::external})
{
}

runtime::device& runtime::opened_device()
{
  const std::lock_guard lock(device_mutex_);
  if (!device_)
  {
    const internal_call internal;
    device_.emplace(io_);
    has_device_.store(true, std::memory_order_release);
  }
  return *device_;
}

detail::queue_pair_settings runtime::queue_pairs()
{
  // TCP has none of these limits: a program may accept late, and be stopped for a while.
  constexpr std::chrono::milliseconds patience{60'000};
  queue_pair_options options;
  options.connect_timeout = std::chrono::hours(24); // TCP ends the wait if the server goes
  options.heartbeat_interval = patience / 6;
  options.heartbeat_limit = patience;
  device& opened = opened_device();
  options.completions = opened.completions;
  return {io_.get_executor(), true, opened.domain, options};
}

// --- progress ---

bool runtime::poll() noexcept
{
  device* const polled = existing_device();
  if (polled == nullptr)
    return false;
  const internal_call internal;
  bool found = false;
  try
  {
    found = polled->completions.poll() != 0;
  }
  catch (const std::exception&)
  {
    found = true; // a lack of memory, which ends a connection
  }
  if (has_unflushed_.load(std::memory_order_relaxed))
    flush_all();
  return found;
}

namespace {

thread_local const runtime* sleeps_in = nullptr;

}

// A sleeping thread relies on the queue to be armed, also if another thread has taken the event.
bool runtime::arm() noexcept
{
  device* const armed = existing_device();
  if (armed == nullptr)
    return true;
  const internal_call internal;
  const std::lock_guard lock(sleep_mutex_);
  std::uint64_t ignored = 0;
  if (std::exchange(is_nudged_, false))
    static_cast<void>(::read(nudge_, &ignored, sizeof ignored));
  if (!armed->completions.arm())
  {
    // It may have taken the event for a completion that it did not take, and need not come again.
    if (sleepers_ != 0 && !std::exchange(is_nudged_, true))
      static_cast<void>(::eventfd_write(nudge_, 1));
    return false;
  }
  ++sleepers_;
  sleeps_in = this;
  return true;
}

void runtime::woken() noexcept
{
  if (std::exchange(sleeps_in, nullptr) != this)
    return;
  const internal_call internal;
  const std::lock_guard lock(sleep_mutex_);
  if (--sleepers_ != 0)
    static_cast<void>(existing_device()->completions.arm());
}

void runtime::flush_later(std::shared_ptr<flushable> what)
{
  {
    const std::lock_guard lock(flush_mutex_);
    unflushed_.push_back(std::move(what));
    has_unflushed_.store(true, std::memory_order_relaxed);
  }
  const std::lock_guard lock(finish_mutex_);
  start_finisher(lock);
}

void runtime::flush_all() noexcept
{
  const std::unique_lock lock(flush_mutex_, std::try_to_lock);
  if (!lock)
    return;
  std::erase_if(unflushed_, [](const std::shared_ptr<flushable>& each) { return each->flush(); });
  has_unflushed_.store(!unflushed_.empty(), std::memory_order_relaxed);
}

// --- closed streams ---

void runtime::finish_later(std::weak_ptr<detail::stream_impl> what)
{
  const std::lock_guard lock(finish_mutex_);
  finishing_.push_back(std::move(what));
  start_finisher(lock);
}

void runtime::start_finisher(const std::lock_guard<std::mutex>&)
{
  if (!std::exchange(has_finisher_, true))
  {
    const detail::signals_blocked blocked;
    std::thread([this] { run_finisher(); }).detach();
  }
  finish_wanted_.notify_one();
}

bool runtime::forget_finished() noexcept
{
  const std::lock_guard lock(finish_mutex_);
  // A closed stream fails when its end has arrived, or cannot arrive.
  std::erase_if(finishing_,
    [](const auto& each)
    {
      const auto alive = each.lock();
      return !alive || alive->look().failure;
    });
  return finishing_.empty();
}

// Polls once, or sleeps for a moment.
void runtime::poll_and_sleep() noexcept
{
  constexpr int moment_ms = 10; // the other threads of the library end connections, too
  if (poll() || !arm())
    return;
  device* const opened = existing_device();
  pollfd event{opened != nullptr ? opened->completions.native_handle() : -1, POLLIN, 0};
  const internal_call internal;
  static_cast<void>(::poll(&event, 1, moment_ms));
  woken();
}

// Continues with closed streams when the program's threads do not take completions.
void runtime::run_finisher() noexcept
{
  constexpr std::chrono::milliseconds turn_of_program{5};
  for (;;)
  {
    {
      std::unique_lock lock(finish_mutex_);
      finish_wanted_.wait(lock,
        [this] { return !finishing_.empty() || has_unflushed_.load(std::memory_order_relaxed); });
      finish_wanted_.wait_for(lock, turn_of_program, [] { return false; });
    }
    while (!forget_finished() || has_unflushed_.load(std::memory_order_relaxed))
      poll_and_sleep();
  }
}

void runtime::finish(const std::function<bool()>& is_over) noexcept
{
  const auto limit = std::chrono::steady_clock::now() + stream_options().close_limit;
  while ((!is_over() || !forget_finished()) && std::chrono::steady_clock::now() < limit)
    poll_and_sleep();
}

// --- for the program's calls ---

namespace progress {

bool poll() noexcept
{
  runtime* const made = runtime::existing();
  return made != nullptr && made->poll();
}

bool arm() noexcept
{
  runtime* const made = runtime::existing();
  return made == nullptr || made->arm();
}

std::span<const int> descriptors() noexcept
{
  runtime* const made = runtime::existing();
  runtime::device* const opened = made != nullptr ? made->existing_device() : nullptr;
  if (opened == nullptr)
    return {};
  static thread_local std::array<int, 2> descriptors; // of this process, also after fork()
  descriptors = {opened->completions.native_handle(), made->nudge()};
  return descriptors;
}

void woken() noexcept
{
  if (runtime* const made = runtime::existing())
    made->woken();
}

} // namespace progress
} // namespace rdma::sockets
