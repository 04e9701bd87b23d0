//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/waiting.hpp"

#include "sockets/epoll.hpp"
#include "sockets/progress.hpp"
#include "sockets/signals.hpp"
#include "sockets/system.hpp"
#include "sockets/table.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace rdma::sockets {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

// A thread's place to sleep.
class sleeper final : public watcher
{
public:
  void changed() noexcept override
  {
    // Sequentially consistent, like begin(): either this thread sees that the other one is about
    // to sleep, or the other one sees the change.
    if (!sleeps_.exchange(false))
      return;
    const kept_errno kept;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = original::write(wakes_, &one, sizeof one);
  }

  void begin() noexcept
  {
    if (generation_ != table::generation())
      replace(); // the parent has the other ends
    if (wakes_ == -1)
      wakes_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sleeps_.store(true);
  }
  void end() noexcept { sleeps_.store(false); }

  [[nodiscard]] int descriptor() const noexcept { return wakes_; }

  void drain() const noexcept
  {
    std::uint64_t value = 0;
    [[maybe_unused]] const ssize_t got = original::read(wakes_, &value, sizeof value);
  }

  /// A descriptor that is readable while one of these signals is pending.
  int descriptor_of(const sigset_t& signals) noexcept
  {
    if (signals_ == -1 || std::memcmp(&signals, &shown_, sizeof signals) != 0)
    {
      signals_ = ::signalfd(signals_, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
      shown_ = signals;
    }
    return signals_;
  }

  sleeper() = default;
  sleeper(const sleeper&) = delete;
  sleeper& operator=(const sleeper&) = delete;
  ~sleeper() { close_all(); }

private:
  void close_all() noexcept
  {
    for (int* const fd : {&wakes_, &signals_})
      if (*fd != -1)
      {
        original::close(*fd);
        *fd = -1;
      }
  }
  // The program may have closed all descriptors, and have others with these numbers.
  void replace() noexcept
  {
    wakes_ = -1;
    signals_ = -1;
    generation_ = table::generation();
  }

  std::atomic<bool> sleeps_{false};
  int wakes_ = -1;
  int signals_ = -1;
  sigset_t shown_{};
  unsigned generation_ = table::generation();
};

// Functions of atexit(3) run after the destructors of thread-local objects, and may use sockets.
constinit thread_local bool has_ended = false;

struct thread_sleeper
{
  sleeper own;
  ~thread_sleeper() { has_ended = true; }
};

sleeper& this_thread()
{
  constinit thread_local sleeper* late = nullptr; // until the process ends
  if (has_ended && late == nullptr)
    late = new sleeper;
  if (late != nullptr)
    return *late;
  thread_local thread_sleeper s;
  return s.own;
}

class watched
{
public:
  watched(std::span<const source> all, watcher& by)
    : all_(all)
    , by_(by)
  {
    for (const source& each : all_)
      each.watch(by_);
  }
  watched(const watched&) = delete;
  watched& operator=(const watched&) = delete;
  ~watched()
  {
    for (const source& each : all_)
      each.unwatch(by_);
  }

private:
  const std::span<const source> all_;
  watcher& by_;
};

class sleeping
{
public:
  explicit sleeping(sleeper& s) noexcept
    : sleeper_(s)
  {
    sleeper_.begin();
  }
  sleeping(const sleeping&) = delete;
  sleeping& operator=(const sleeping&) = delete;
  ~sleeping() { sleeper_.end(); }

private:
  sleeper& sleeper_;
};

} // namespace

std::optional<time_point> deadline_after(const timespec* timeout) noexcept
{
  // Later than every clock of a computer: no limit.
  if (timeout == nullptr || timeout->tv_sec > (1L << 32))
    return std::nullopt;
  return std::chrono::steady_clock::now() + seconds(timeout->tv_sec)
    + nanoseconds(timeout->tv_nsec);
}

std::optional<time_point> deadline_after(int milliseconds) noexcept
{
  if (milliseconds < 0)
    return std::nullopt;
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

timespec time_until(time_point deadline) noexcept
{
  nanoseconds left = deadline - std::chrono::steady_clock::now();
  if (left < nanoseconds::zero())
    left = nanoseconds::zero();
  return {.tv_sec = static_cast<time_t>(left / seconds(1)),
    .tv_nsec = static_cast<long>((left % seconds(1)).count())};
}

void source::watch(watcher& by) const
{
  if (connection != nullptr)
    connection->watch(by);
  if (set != nullptr)
    set->watch(by);
}

void source::unwatch(watcher& by) const noexcept
{
  if (connection != nullptr)
    connection->unwatch(by);
  if (set != nullptr)
    set->unwatch(by);
}

wait::outcome wait::run(std::optional<time_point> deadline, const sigset_t* mask)
{
  return run(deadline, mask, signals::interrupt);
}

wait::outcome wait::run_restarting(std::optional<time_point> deadline)
{
  return run(deadline, nullptr, signals::restart);
}

wait::outcome wait::run(std::optional<time_point> deadline, const sigset_t* mask, signals how)
{
  using clock = std::chrono::steady_clock;
  // A handler that runs while the thread polls does not interrupt the wait, as if it had run before
  // the call.
  const time_point begun = clock::now();
  const time_point spin_until = begun + progress::spin_time;
  time_point now = begun;
  do
  {
    progress::poll();
    if (ready())
      return outcome::ready;
    now = clock::now();
    if (deadline && now >= *deadline)
      return outcome::timed_out;
  } while (now < spin_until);

  sleeper& self = this_thread();
  const watched watch(sources(), self);
  for (;;)
  {
    int slept = 0;
    {
      const sleeping begin(self);
      // Armed and watched before the last look, because a change after it wakes this thread.
      if (ready())
        return outcome::ready;
      // While there are completions, it only looks at the kernel's descriptors.
      slept = sleep(progress::arm() ? deadline : clock::now(), mask, how);
    }
    progress::poll();
    if (ready())
      return outcome::ready;
    if (slept == -1)
      return outcome::interrupted;
    if (deadline && clock::now() >= *deadline)
      return outcome::timed_out;
  }
}

// Returns -1 if a signal interrupts the wait.
int wait::sleep(std::optional<time_point> deadline, const sigset_t* mask, signals how)
{
  sleeper& self = this_thread();
  const std::size_t program = kernel_.size();
  const std::span<const int> hints = progress::descriptors();
  kernel_.reserve(program + hints.size() + 2);
  kernel_.push_back({.fd = self.descriptor(), .events = POLLIN, .revents = 0});
  for (const int fd : hints)
    kernel_.push_back({.fd = fd, .events = POLLIN, .revents = 0});

  // ppoll(2) fails after every handler, also with SA_RESTART. If the program has handlers of both
  // kinds, the signals of those with SA_RESTART are blocked while the thread sleeps, and a
  // descriptor reports them; their handlers run when ppoll(2) returns. The others interrupt it.
  bool may_interrupt = true;
  sigset_t blocked;
  if (how == signals::restart)
  {
    const signal_handlers& handlers = handlers_of_program();
    may_interrupt = handlers.has_interrupting;
    if (handlers.has_interrupting && handlers.has_restarting)
    {
      sigset_t before;
      sigset_t reported = handlers.restarting;
      ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
      ::sigorset(&blocked, &before, &handlers.restarting);
      for (int number = 1; number < NSIG; ++number)
        if (::sigismember(&before, number) == 1)
          ::sigdelset(&reported, number);
      kernel_.push_back({.fd = self.descriptor_of(reported), .events = POLLIN, .revents = 0});
      mask = &blocked;
    }
  }
  timespec left{};
  if (deadline)
    left = time_until(*deadline);
  int result = 0;
  {
    const external_call handlers;
    result = original::ppoll(kernel_.data(), kernel_.size(), deadline ? &left : nullptr, mask);
  }
  const bool is_interrupted = result == -1 && errno == EINTR && may_interrupt;
  if (result <= 0)
    for (pollfd& each : kernel_)
      each.revents = 0;
  if (kernel_[program].revents != 0)
    self.drain();
  kernel_.resize(program);
  progress::woken();
  return is_interrupted ? -1 : 0;
}

void make_progress() noexcept
{
  if (table::has_connections())
    progress::poll();
}

} // namespace rdma::sockets
