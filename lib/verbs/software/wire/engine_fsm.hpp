//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_ENGINE_FSM_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_ENGINE_FSM_HPP

#include "verbs/software/atomics.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace rdma::software::wire {

/// Divides the work between the engine's thread and the program's threads that poll. It has no I/O.
/**
 * The engine's thread sleeps until something is ready or due. If program threads have polled during
 * the sleep, the engine leaves the work to them for `delay` ns. It then looks after every tick, or
 * after a longer pause if they leave nothing, whether they have left work. After a few ticks
 * without a poll it sleeps again.
 */
template <class Atomics>
class basic_engine_fsm
{
public:
  static constexpr std::int64_t tick = 1'000'000; // ns
  static constexpr std::int64_t pause_max = 8 * tick;
  static constexpr unsigned quiet_ticks_max = 2;

  explicit basic_engine_fsm(std::int64_t delay)
    : delay_(delay)
  {
  }

  // --- Any thread ---

  /// Reports that a thread polls.
  void attend() noexcept
  {
    // A lost increment does no harm, because only a change of the value matters.
    attention_.store(attention_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Counts the armed queues whose waiter only the engine's thread can wake: one more (1) or less
  /// (-1). While there are any, the engine leaves work to polling threads only if stand_by() counts
  /// a queue as well.
  void depend(int change) noexcept { dependents_.fetch_add(change, std::memory_order_seq_cst); }

  /// Counts the queues in use whose thread the sockets wake: one more (1) or less (-1). That thread
  /// serves all links, also those of dependents.
  void stand_by(int change) noexcept { standing_by_.fetch_add(change, std::memory_order_seq_cst); }

  /// Returns true if a thread polls, or has polled a moment ago. Debts are then paid at the next
  /// tick.
  bool is_awake() const noexcept { return awake_.load(std::memory_order_relaxed); }

  /// Returns true if the engine must be woken after depend() has counted one more queue.
  bool is_to_take_over() const noexcept
  {
    // seq_cst, here and where the engine's thread reads and writes: either that thread sees the
    // counts of depend() and stand_by(), or this thread wakes it.
    return standing_by_.load(std::memory_order_seq_cst) == 0
      && awake_.load(std::memory_order_seq_cst);
  }

  /// Returns true if the engine must be woken for something that is due earlier than all before.
  /// `can_wait`: for a pause.
  bool is_to_hurry(bool can_wait) const noexcept
  {
    // seq_cst, here and in begin_wait(): either the engine sees what is due, or this thread sees
    // that it must wake it.
    return !awake_.load(std::memory_order_seq_cst)
      || (!can_wait && pauses_.load(std::memory_order_seq_cst));
  }

  /// Returns true if the engine must be woken because a thread does not poll any more.
  bool is_to_end_pause() const noexcept
  {
    return pauses_.load(std::memory_order_relaxed); // a hint: otherwise it looks after a tick
  }

  /// Tells the engine's thread to end. The caller wakes it afterwards.
  void stop() noexcept { stop_.store(true, std::memory_order_relaxed); }
  bool is_stopped() const noexcept { return stop_.load(std::memory_order_relaxed); }

  // --- The engine's thread ---

  /// Limits of a wait, which events end as well.
  struct limits
  {
    std::int64_t longest = -1; ///< ns; -1: no limit
    bool alarms = true;
    bool debts = true;
  };

  /// Begins a wait. The caller looks for what is due afterwards, and, if sleeps(), for what has
  /// arrived in polled memory.
  limits begin_wait() noexcept
  {
    switch (phase_)
    {
    case phase::sleeping:
      awake_.store(false, std::memory_order_seq_cst);
      return {};
    case phase::delaying:
      return {delay_, false, false};
    case phase::ticking:
      break;
    }
    pauses_.store(pause_ > tick, std::memory_order_seq_cst);
    return {pause_, true, false};
  }

  /// Returns true if the next wait is a sleep, which the sockets of links end. The other waits
  /// leave them to polling threads.
  bool sleeps() const noexcept { return phase_ == phase::sleeping; }

  /// The work to do after a wait.
  struct duties
  {
    bool due = false;       ///< alarms and debts
    bool sockets = false;   ///< of links
    bool looked_at = false; ///< polled memory
  };

  /// Ends a wait. `sockets_are_ready`: it has reported sockets of links.
  duties end_wait(bool sockets_are_ready) noexcept
  {
    const std::uint64_t before = seen_;
    seen_ = attention_.load(std::memory_order_relaxed);
    const bool polled = seen_ != before;
    switch (phase_)
    {
    case phase::sleeping:
      awake_.store(true, std::memory_order_seq_cst);
      if (!polled || !leaves_work())
        return {true, sockets_are_ready, false};
      phase_ = phase::delaying;
      return {};
    case phase::delaying:
      phase_ = phase::ticking;
      quiet_ = 0;
      pause_ = 0;
      return {true, !polled, false};
    case phase::ticking:
      break;
    }
    quiet_ = polled ? 0 : quiet_ + 1;
    return {true, !polled, !polled};
  }

  /// Ends the duties. `busy`: something was due, or a wake-up has ended the wait.
  void settle(bool busy) noexcept
  {
    if (phase_ != phase::ticking)
      return;
    pause_ = busy || quiet_ != 0 ? tick : std::clamp(2 * pause_, tick, pause_max);
    if (quiet_ != quiet_ticks_max && leaves_work())
      return;
    pauses_.store(false, std::memory_order_relaxed);
    phase_ = phase::sleeping;
  }

private:
  // Returns true if the work can be left to polling threads, or to the queues that stand_by()
  // counts.
  bool leaves_work() const noexcept
  {
    return !is_stopped()
      && (dependents_.load(std::memory_order_seq_cst) == 0
        || standing_by_.load(std::memory_order_seq_cst) != 0);
  }

  template <class T>
  using atomic = typename Atomics::template atomic<T>;

  atomic<std::uint64_t> attention_{0};
  atomic<int> dependents_{0};
  atomic<int> standing_by_{0};
  atomic<bool> awake_{false};
  atomic<bool> pauses_{false}; ///< awake, but in a pause longer than a tick
  atomic<bool> stop_{false};

  // Used by the engine's thread only.
  enum class phase
  {
    sleeping,
    delaying,
    ticking,
  } phase_ = phase::sleeping;
  const std::int64_t delay_; // ns
  std::uint64_t seen_ = 0;   // attention_
  unsigned quiet_ = 0;       // ticks without a poll
  std::int64_t pause_ = 0;
};

using engine_fsm = basic_engine_fsm<atomics>;

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_ENGINE_FSM_HPP
