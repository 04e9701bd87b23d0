//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/served_link.hpp"

#include <algorithm>
#include <array>
#include <mutex>

// Part of engine: polls shared memory without a system call, and the sockets of all connections.

namespace rdma::software::wire {
namespace {

constexpr std::uint32_t look_everywhere_every = 8;
constexpr std::uint32_t look_at_sockets_every = 64; // if shared memory is polled

} // namespace

bool engine::poll(std::uint32_t hint, std::uint32_t turn, bool spins) noexcept
{
  if (has_deferred_.load(std::memory_order_relaxed))
    serve_deferred();
  if (looks_.load(std::memory_order_relaxed))
  {
    bool hint_is_there = false;
    const bool served = serve_looked_at(mover::poller, hint, hint_is_there);
    if ((served || hint_is_there) && turn % look_at_sockets_every != 0)
      return false;
    if (served) // the sockets need service even if the polled memory always has work
      return serve_sockets(mover::poller, spins) > 1;
    if (hint_is_there)
      return serve_sockets(mover::poller, spins) > 1;
  }
  if (hint != 0 && turn % look_everywhere_every != 0 && serve(hint, mover::poller))
    return false;
  if (spins && hint != 0)
    look_at(hint);
  return serve_sockets(mover::poller, spins) > 1;
}

void engine::poll_although_busy() noexcept
{
  bool unused = false;
  if (looks_.load(std::memory_order_relaxed))
    serve_looked_at(mover::poller, 0, unused);
  serve_sockets(mover::poller);
}

// Polls the targets in shared memory, for a thread that polls continuously. Makes no system call.
// Returns true if a target had work.
bool engine::serve_looked_at(mover by, std::uint32_t hint, bool& hint_is_there) noexcept
{
  decltype(looked_at_) found;
  std::size_t count = 0;
  {
    const std::unique_lock lock(look_mutex_, std::try_to_lock);
    if (!lock)
      return false; // another thread polls the targets, or changes the list
    for (std::size_t i = 0; i != looked_at_count_; ++i)
    {
      progress_target& s = *looked_at_[i];
      hint_is_there = hint_is_there || s.number_ == hint;
      // If another thread serves the target, it finds the work or leaves it for the next poll.
      // acquire: remove() sees the end of the last thread's use, which must include the others'.
      if (!s.ready() || s.is_polled_.load(std::memory_order_acquire))
        continue;
      s.is_polled_.store(true, std::memory_order_relaxed); // under a mutex that remove() takes
      found[count++] = &s;
    }
  }
  for (std::size_t i = 0; i != count; ++i)
  {
    found[i]->serve(by);
    // release: remove() waits for this. A count would need two locked instructions.
    found[i]->is_polled_.store(false, std::memory_order_release);
  }
  return count != 0;
}

void engine::look_at(std::uint32_t number) noexcept
{
  progress_target* const s = pin(number);
  if (s == nullptr)
    return;
  bool first = false;
  if (s->is_local())
  {
    const bool is_queue_pair = number < numbers_end;
    const std::lock_guard lock(look_mutex_);
    const auto begin = looked_at_.begin();
    const auto end = begin + static_cast<std::ptrdiff_t>(looked_at_count_);
    const std::size_t queue_pairs = queue_pairs_looked_at_.load(std::memory_order_relaxed);
    const bool has_room = is_queue_pair ? queue_pairs != queue_pairs_looked_at_max
                                        : looked_at_count_ - queue_pairs != links_looked_at_max;
    // is_local() is checked again, because the queue pair may have lost its link meanwhile:
    // connection::end_wires() clears the flag before it takes this mutex.
    if (has_room && s->is_local() && std::find(begin, end, s) == end)
    {
      first = looked_at_count_ == 0;
      looked_at_[looked_at_count_++] = s;
      queue_pairs_looked_at_.store(
        queue_pairs + (is_queue_pair ? 1 : 0), std::memory_order_relaxed);
      s->look(true);
      looks_.store(true, std::memory_order_seq_cst);
    }
  }
  unpin(*s);
  // The engine's thread must not sleep while peers send no wake-ups because this thread polls.
  if (first && fsm_.is_to_hurry(true))
    wake();
}

void engine::look_away() noexcept
{
  if (!looks_.load(std::memory_order_seq_cst)) // seq_cst: see engine_fsm::is_to_hurry()
    return;
  decltype(looked_at_) left;
  std::size_t count = 0;
  {
    const std::lock_guard lock(look_mutex_);
    for (std::size_t i = 0; i != looked_at_count_; ++i)
    {
      progress_target& s = *looked_at_[i];
      s.look(false);
      if (!s.ready()) // the peer rings the bell for later records
        continue;
      s.users_.fetch_add(1, std::memory_order_relaxed);
      left[count++] = &s;
    }
    looked_at_count_ = 0;
    queue_pairs_looked_at_.store(0, std::memory_order_relaxed);
    looks_.store(false, std::memory_order_relaxed);
  }
  for (std::size_t i = 0; i != count; ++i)
  {
    left[i]->serve(mover::poller);
    unpin(*left[i]);
  }
}

void engine::look_away(std::uint32_t number) noexcept
{
  const std::lock_guard lock(look_mutex_);
  const auto begin = looked_at_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(looked_at_count_);
  const auto found =
    std::find_if(begin, end, [number](const progress_target* s) { return s->number_ == number; });
  if (found == end)
    return;
  (*found)->look(false);
  std::move(found + 1, end, found);
  if (number < numbers_end)
    queue_pairs_looked_at_.fetch_sub(1, std::memory_order_relaxed);
  if (--looked_at_count_ == 0)
    looks_.store(false, std::memory_order_relaxed);
}

} // namespace rdma::software::wire
