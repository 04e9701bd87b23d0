//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "checker.hpp"

#include "verbs/software/wire/engine_fsm.hpp"

#include <cstdint>

namespace wire = rdma::software::wire;

namespace {

/// The engine's thread, and others that leave work to it. A wake-up that is lost is a deadlock:
/// only short waits end by themselves.
template <class Suite, rl::thread_id_t Others>
struct engine_suite : rl::test_suite<Suite, Others + 1>
{
  using fsm_type = wire::basic_engine_fsm<checker::atomics>;

  fsm_type fsm{200'000};
  checker::wake_up_socket wake_ups;

  /// As engine::round(). Pauses that are longer than a tick count as endless.
  void wait(const fsm_type::limits& limits)
  {
    if (limits.longest < 0 || limits.longest > fsm_type::tick)
      wake_ups.read();
    else
      wake_ups.read_or_time_out();
  }

  /// One round of engine::run() that does not sleep.
  void step(bool polled)
  {
    const fsm_type::limits limits = fsm.begin_wait();
    if (polled)
      fsm.attend();
    else
      wait(limits);
    fsm.end_wait(false);
    fsm.settle(false);
  }

  /// Until the pauses are longer than a tick.
  void begin_ticks()
  {
    for (unsigned i = 0; i != 3; ++i)
      step(true);
  }
};

/// Threads owe calls to an engine that sleeps.
struct debts : engine_suite<debts, 2>
{
  checker::atomic<std::uint32_t> owed[2];

  void thread(unsigned index)
  {
    if (index != 2)
    {
      owed[index].store(1, std::memory_order_seq_cst);
      if (fsm.is_to_hurry(index == 1)) // engine::owe() or engine::defer()
        wake_ups.send();
      return;
    }
    while (!is_all_owed())
    {
      const fsm_type::limits limits = fsm.begin_wait();
      if (!limits.debts || !is_all_owed())
        wait(limits);
      fsm.end_wait(false);
      fsm.settle(false);
    }
  }

  bool is_all_owed() const
  {
    return owed[0].load(std::memory_order_seq_cst) != 0
      && owed[1].load(std::memory_order_seq_cst) != 0;
  }
};

/// A thread sets an alarm while the engine pauses.
struct alarms : engine_suite<alarms, 1>
{
  checker::atomic<std::uint32_t> due;

  void before() { begin_ticks(); }

  void thread(unsigned index)
  {
    if (index == 0)
    {
      due.store(1, std::memory_order_seq_cst);
      if (fsm.is_to_hurry(false))
        wake_ups.send();
      return;
    }
    while (due.load(std::memory_order_seq_cst) == 0)
    {
      const fsm_type::limits limits = fsm.begin_wait();
      if (!limits.alarms || due.load(std::memory_order_seq_cst) == 0)
        wait(limits);
      fsm.attend(); // a third thread polls all the time
      fsm.end_wait(false);
      fsm.settle(false);
    }
  }
};

/// A thread begins to poll memory, and stops: the engine must not sleep without looking there.
struct polled_memory : engine_suite<polled_memory, 1>
{
  checker::atomic<std::uint32_t> looks; // engine::looks_

  void thread(unsigned index)
  {
    if (index == 0)
    {
      fsm.attend();
      looks.store(1, std::memory_order_seq_cst);
      if (fsm.is_to_hurry(true))
        wake_ups.send();
      return;
    }
    for (;;)
    {
      const bool sleeps = fsm.sleeps();
      const fsm_type::limits limits = fsm.begin_wait();
      if (sleeps && looks.load(std::memory_order_seq_cst) != 0)
        return; // engine::look_away() finds it
      wait(limits);
      fsm.end_wait(false);
      fsm.settle(false);
    }
  }
};

/// A queue of which only the engine can wake the waiter is armed while others poll.
template <class Suite>
struct dependent_suite : engine_suite<Suite, 1>
{
  void arm()
  {
    this->fsm.depend(1);
    if (this->fsm.is_to_take_over())
      this->wake_ups.send();
  }
};

/// The engine pauses.
struct dependent : dependent_suite<dependent>
{
  void before() { begin_ticks(); }

  void thread(unsigned index)
  {
    if (index == 0)
      return arm();
    while (!fsm.sleeps())
      step(false);
  }
};

/// The engine has just been woken. Its delay counts as endless, too.
struct early_dependent : dependent_suite<early_dependent>
{
  void before()
  {
    fsm.begin_wait();
    fsm.attend();
  }

  void thread(unsigned index)
  {
    if (index == 0)
      return arm();
    fsm.end_wait(false);
    fsm.settle(false);
    if (fsm.sleeps())
      return;
    fsm.begin_wait();
    wake_ups.read();
    fsm.end_wait(false);
    fsm.settle(false);
    checker::require(fsm.sleeps(), "the engine leaves work to others");
  }
};

} // namespace

TEST_CASE("no debt is left to a sleeping engine")
{
  checker::check_interleavings<debts>(200'000, 3);
}

TEST_CASE("no alarm waits for the end of a pause")
{
  checker::check_interleavings<alarms>(200'000, 3);
}

TEST_CASE("an engine does not sleep while its program's memory is polled")
{
  checker::check_interleavings<polled_memory>(200'000, 3);
}

TEST_CASE("an engine takes over from polling threads when a waiter needs it")
{
  checker::check_interleavings<dependent>(200'000, 3);
  checker::check_interleavings<early_dependent>(200'000, 3);
}
