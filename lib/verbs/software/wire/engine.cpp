//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/engine.hpp"

#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/wire/served_link.hpp"
#include "verbs/software/wire/staging.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <memory>
#include <span>
#include <utility>

#include <sys/epoll.h>

// The engine's thread, and the work that it shares with polling threads. engine_start.cpp starts
// it, engine_sockets.cpp accepts and closes connections.

namespace rdma::software::wire {
namespace {

constexpr std::int64_t millisecond = 1'000'000;

// epoll_pwait2() exists since Linux 5.11 and is missing in some sandboxes, of which some return
// EPERM for unknown calls. The timeout is then rounded up to milliseconds.
int wait_events(int epoll, std::span<epoll_event> ready, std::int64_t ns) noexcept
{
  static std::atomic<bool> precise{true};
  const auto size = static_cast<int>(ready.size());
  if (precise.load(std::memory_order_relaxed))
  {
    const timespec t{ns / 1'000'000'000, ns % 1'000'000'000};
    const int n = ::epoll_pwait2(epoll, ready.data(), size, ns < 0 ? nullptr : &t, nullptr);
    if (n >= 0 || errno == EINTR)
      return n;
    precise.store(false, std::memory_order_relaxed);
  }
  const std::int64_t ms = std::min<std::int64_t>((ns + millisecond - 1) / millisecond, 1000);
  return ::epoll_wait(epoll, ready.data(), size, ns < 0 ? -1 : static_cast<int>(ms));
}

} // namespace

engine::~engine()
{
  end_links(); // leaves unsent bytes to the thread
  if (thread_.joinable())
  {
    fsm_.stop();
    wake();
    thread_.join();
  }
  end_links();
}

progress_target* engine::pin(std::uint32_t qp) noexcept
{
  const std::lock_guard lock(targets_mutex_);
  const auto found = targets_.find(qp);
  if (found == targets_.end())
    return nullptr;
  found->second->users_.fetch_add(1, std::memory_order_relaxed); // under the mutex, as in remove()
  return found->second;
}

// Adds a target under a free number. The caller holds targets_mutex_. May throw std::bad_alloc.
void engine::insert(progress_target& s, std::uint32_t number)
{
  s.number_ = number;
  targets_.emplace(number, &s);
  try
  {
    const std::lock_guard due(due_mutex_);
    timer_heap_.add(s.due_, number);
  }
  catch (...)
  {
    targets_.erase(number);
    throw;
  }
}

// Finds a port with a free number, or claims one more. Returns 0 or an errno. The caller holds
// claims_mutex_.
int engine::find_claim(port_claim*& found)
{
  const auto free = std::find_if(
    claims_.begin(), claims_.end(), [](const auto& claim) { return !claim->is_full(); });
  if (free == claims_.end())
  {
    std::unique_ptr<port_claim> more;
    if (const int error = claim_port(gids_, more); error != 0)
      return error;
    claims_.push_back(std::move(more));
    found = claims_.back().get();
    return 0;
  }
  found = free->get();
  return 0;
}

int engine::add(progress_target& s, std::uint32_t& number)
{
  const std::lock_guard lock(targets_mutex_);
  const std::lock_guard claims(claims_mutex_);
  port_claim* claim = nullptr;
  if (const int error = find_claim(claim); error != 0)
    return error;
  do
    number = claim->next_number();
  while (targets_.contains(number));
  insert(s, number);
  ++claim->used;
  return 0;
}

std::uint32_t engine::add_socket(progress_target& s)
{
  const std::lock_guard lock(targets_mutex_);
  insert(s, numbers_end + sockets_added_);
  return numbers_end + sockets_added_++;
}

void engine::remove(progress_target& s) noexcept
{
  {
    const std::lock_guard lock(targets_mutex_);
    targets_.erase(s.number_);
    const std::lock_guard claims(claims_mutex_);
    for (const auto& claim : claims_)
      if (claim->index == index_of(s.number_))
        --claim->used;
  }
  while (auto pending = hellos_.take(s.number_))
    refuse(*pending);
  // A use is a few system calls that do not block. acquire: the last user's accesses come before
  // the removal.
  const auto wait_for_users = [&s]
  {
    while (
      s.users_.load(std::memory_order_acquire) != 0 || s.is_polled_.load(std::memory_order_acquire))
      std::this_thread::yield();
  };
  wait_for_users(); // one of them may be about to call look_at()
  look_away(s.number_);
  wait_for_users(); // threads that found it in looked_at_ before that
  const std::lock_guard lock(due_mutex_);
  timer_heap_.remove(s.due_);
}

bool engine::serve(std::uint32_t qp, mover by, std::uint32_t events) noexcept
{
  progress_target* s = pin(qp);
  if (s == nullptr)
    return false;
  s->serve(by, events);
  unpin(*s);
  return true;
}

void engine::deliver(std::uint32_t qp, tcp_link& from, mover by) noexcept
{
  progress_target* s = pin(qp);
  if (s == nullptr)
    return;
  s->deliver(from, by);
  unpin(*s);
}

void engine::defer(progress_target& which, bool poll_is_near) noexcept
{
  {
    const std::lock_guard lock(deferred_mutex_);
    if (deferred_count_ != deferred_.size())
      deferred_[deferred_count_++] = which.number();
    has_deferred_.store(true, std::memory_order_relaxed);
  }
  remind([&] { timer_heap_.owe(which.due_); }, poll_is_near);
}

void engine::serve_deferred() noexcept
{
  decltype(deferred_) some;
  std::size_t count = 0;
  {
    const std::lock_guard lock(deferred_mutex_);
    count = std::exchange(deferred_count_, 0);
    std::copy_n(deferred_.begin(), count, some.begin());
    has_deferred_.store(false, std::memory_order_relaxed);
  }
  for (std::size_t i = 0; i != count; ++i)
    serve(some[i], mover::poster);
}

// `spins`: the thread polls continuously, so it polls the memory of the links whose sockets were
// ready.
int engine::serve_sockets(mover by, bool spins) noexcept
{
  if (watched_.load(std::memory_order_relaxed) == 0)
    return 0;
  std::array<epoll_event, 32> ready;
  const int n = ::epoll_wait(sockets_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < n; ++i)
  {
    const epoll_event& e = ready[static_cast<std::size_t>(i)];
    const auto number = static_cast<std::uint32_t>(e.data.u64);
    serve(number, by, e.events);
    if (spins && number >= numbers_end)
      look_at(number);
  }
  return std::max(n, 0);
}

bool engine::watch(int fd, std::uint32_t qp, std::uint32_t events) noexcept
{
  epoll_event event{};
  event.events = events;
  event.data.u64 = qp;
  if (::epoll_ctl(sockets_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return false;
  watched_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool engine::rewatch(int fd, std::uint32_t qp, std::uint32_t events) noexcept
{
  epoll_event event{};
  event.events = events;
  event.data.u64 = qp;
  return ::epoll_ctl(sockets_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
}

void engine::unwatch(int fd) noexcept
{
  if (::epoll_ctl(sockets_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0)
    watched_.fetch_sub(1, std::memory_order_relaxed);
}

bool engine::await(subject what, int fd, std::uint32_t events, int operation) noexcept
{
  epoll_event event{};
  event.events = events;
  event.data.u64 =
    static_cast<std::uint64_t>(what) << subject_shift | static_cast<std::uint32_t>(fd);
  return ::epoll_ctl(events_.get(), operation, fd, &event) == 0;
}

void engine::wake() noexcept
{
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n =
    ::write(wake_.get(), &one, sizeof one); // fails if the counter is full: the thread is awake
}

void engine::drain_wake() noexcept
{
  std::uint64_t count;
  [[maybe_unused]] const ssize_t n =
    ::read(wake_.get(), &count, sizeof count); // fails if the counter is zero: already drained
}

template <class Change>
void engine::remind(Change change, bool can_wait) noexcept
{
  bool earlier = false;
  {
    const std::lock_guard lock(due_mutex_);
    const std::int64_t before = timer_heap_.next();
    change();
    earlier = before == 0 || timer_heap_.next() < before;
  }
  if (earlier && fsm_.is_to_hurry(can_wait))
    wake();
}

void engine::owe(progress_target& s) noexcept
{
  remind([&] { timer_heap_.owe(s.due_); });
}

void engine::alarm(progress_target& s, std::int64_t at) noexcept
{
  remind(
    [&]
    {
      timer_heap_.set(s.due_, at);
    }); // may be later than before: the caller has served what was due then
}

// Serves the queue pairs that are due. next_wait() returns 0 if some are left. Returns true if
// polling threads had left work.
bool engine::serve_due() noexcept
{
  // A queue pair with a busy peer is due again at once. The bound lets the sockets of others be
  // served in between.
  constexpr unsigned rounds_max = 64;
  bool found = false;
  std::array<std::uint32_t, 64> due;
  std::size_t count = due.size();
  for (unsigned round = 0; round != rounds_max && count == due.size(); ++round)
  {
    std::int64_t at = 0;
    {
      const std::lock_guard lock(due_mutex_);
      if (timer_heap_.next() == 0)
        break;
      at = now();
      count = timer_heap_.take(at, due);
    }
    for (std::size_t i = 0; i < count; ++i)
    {
      progress_target* const s = pin(due[i]);
      if (s == nullptr)
        continue;
      found = s->come_due(at) || found;
      unpin(*s);
    }
  }
  end_unused_links(); // come_due() reports them
  return found;
}

// The time until something is due, as far as it ends this wait; ns, -1: never.
std::int64_t engine::next_wait(const engine_fsm::limits& what) noexcept
{
  if (!what.alarms)
    return what.longest;
  std::int64_t until = 0;
  auto earlier = [&](std::int64_t at)
  {
    if (until == 0 || at < until)
      until = at;
  };
  {
    const std::lock_guard lock(due_mutex_);
    if (!arriving_closing_sockets_.empty())
      return 0;
    if (const std::int64_t due = what.debts ? timer_heap_.next() : timer_heap_.next_alarm();
        due != 0)
      earlier(due);
  }
  for (const accepted_socket& g : accepted_sockets_)
    earlier(g.until);
  if (const std::int64_t expiry = hellos_.until(); expiry != 0)
    earlier(expiry);
  for (const closing_socket& l : closing_sockets_)
    earlier(l.until);
  if (!paused_listeners_.empty())
    earlier(paused_until_);
  if (until == 0)
    return what.longest;
  const std::int64_t rest = std::max<std::int64_t>(until - now(), 0);
  return what.longest < 0 ? rest : std::min(rest, what.longest);
}

// Waits, then handles all events except those of sockets_.
engine::news engine::round(std::int64_t wait) noexcept
{
  std::array<epoll_event, 32> ready;
  const int n = wait_events(events_.get(), ready, wait);
  news found;
  for (int i = 0; i < n; ++i)
  {
    const std::uint64_t data = ready[static_cast<std::size_t>(i)].data.u64;
    const int fd = static_cast<int>(data & 0xffffffff);
    switch (static_cast<subject>(data >> subject_shift))
    {
    case subject::sockets:
      found.sockets = true;
      break;
    case subject::wake:
      found.woken = true;
      drain_wake();
      break;
    case subject::listener:
      accept_from(fd, false);
      break;
    case subject::local_listener:
      accept_from(fd, true);
      break;
    case subject::accepted:
      serve_accepted(fd);
      break;
    case subject::closing:
      serve_closing(fd);
      break;
    }
  }
  take_closing_sockets();
  expire(now());
  return found;
}

void engine::take_over() noexcept
{
  if (fsm_.is_to_take_over())
    wake();
}

void engine::polling_ended() noexcept
{
  if (fsm_.is_to_end_pause())
    wake();
}

void engine::run()
{
  staging_pool& stagings = staging_pool::of_process();
  stagings.give_back(stagings.take()); // cached by this thread: no allocation later on
  for (;;)
  {
    if (fsm_.is_stopped())
    {
      // Peers have a second to receive the answers to requests that were carried out.
      take_closing_sockets();
      if (closing_sockets_.empty())
        return;
    }
    const bool slept = fsm_.sleeps();
    const engine_fsm::limits limits = fsm_.begin_wait();
    if (slept)
      look_away();
    const news found = round(next_wait(limits));
    const engine_fsm::duties duties = fsm_.end_wait(found.sockets);
    const bool was_due = duties.due && serve_due();
    bool unused = false;
    if (duties.looked_at)
      serve_looked_at(mover::engine, 0, unused);
    if (duties.sockets)
      serve_sockets(mover::engine);
    fsm_.settle(was_due || found.woken);
    if (slept != fsm_.sleeps())
      await(subject::sockets, sockets_.get(), slept ? 0u : EPOLLIN, EPOLL_CTL_MOD);
  }
}

} // namespace rdma::software::wire
