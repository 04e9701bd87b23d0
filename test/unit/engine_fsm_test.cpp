//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "verbs/software/wire/engine_fsm.hpp"

#include <cstdint>

namespace {

using rdma::software::wire::engine_fsm;

constexpr std::int64_t delay = 200'000;
constexpr std::int64_t tick = engine_fsm::tick;

bool is_sleep(const engine_fsm::limits& of)
{
  return of.longest == -1 && of.alarms && of.debts;
}

bool is_delay(const engine_fsm::limits& of)
{
  return of.longest == delay && !of.alarms && !of.debts;
}

bool is_tick(const engine_fsm::limits& of, std::int64_t pause)
{
  return of.longest == pause && of.alarms && !of.debts;
}

bool is_nothing(const engine_fsm::duties& what)
{
  return !what.due && !what.sockets && !what.looked_at;
}

/// An engine whose thread ticks: others have polled during its sleep and its delay.
struct ticking
{
  ticking()
  {
    fsm.begin_wait();
    fsm.attend();
    fsm.end_wait(false);
    fsm.settle(false);
    fsm.begin_wait();
    fsm.attend();
    fsm.end_wait(false);
    fsm.settle(false);
  }

  /// One tick; polled: another thread polls during it.
  engine_fsm::duties step(bool polled, bool busy = false)
  {
    fsm.begin_wait();
    if (polled)
      fsm.attend();
    const engine_fsm::duties what = fsm.end_wait(false);
    fsm.settle(busy);
    return what;
  }

  engine_fsm fsm{delay};
};

} // namespace

TEST_CASE("engine: it sleeps until something is ready or due, and serves it, if nobody polls")
{
  engine_fsm fsm(delay);
  for (const bool ready : {true, false, true})
  {
    CHECK(fsm.sleeps());
    CHECK(is_sleep(fsm.begin_wait()));
    CHECK_FALSE(fsm.is_awake());
    CHECK(fsm.is_to_hurry(true));
    const engine_fsm::duties what = fsm.end_wait(ready);
    CHECK(fsm.is_awake());
    CHECK_FALSE(fsm.is_to_hurry(false)); // it looks for what is due before its next sleep
    CHECK(what.due);
    CHECK(what.sockets == ready);
    CHECK_FALSE(what.looked_at);
    fsm.settle(true);
  }
}

TEST_CASE("engine: it leaves what woke it to a thread that polls")
{
  engine_fsm fsm(delay);
  fsm.begin_wait();
  fsm.attend();
  CHECK(is_nothing(fsm.end_wait(true)));
  fsm.settle(false);
  CHECK_FALSE(fsm.sleeps());
  CHECK(is_delay(fsm.begin_wait()));
  CHECK_FALSE(fsm.is_to_hurry(false));

  SECTION("and serves what is due after a delay, if the thread goes on")
  {
    fsm.attend();
    const engine_fsm::duties what = fsm.end_wait(false);
    CHECK(what.due);
    CHECK_FALSE(what.sockets);
  }
  SECTION("and serves everything after a delay, if the thread does not")
  {
    const engine_fsm::duties what = fsm.end_wait(false);
    CHECK(what.due);
    CHECK(what.sockets);
  }
  CHECK(fsm.is_awake());
  fsm.settle(false);
  CHECK_FALSE(fsm.sleeps());
  CHECK(is_tick(fsm.begin_wait(), tick));
}

TEST_CASE("engine: its pauses grow while polling threads leave nothing")
{
  ticking engine;
  for (std::int64_t pause = tick; pause <= engine_fsm::pause_max; pause *= 2)
  {
    CAPTURE(pause);
    CHECK(is_tick(engine.fsm.begin_wait(), pause));
    CHECK(engine.fsm.is_to_hurry(false) == (pause != tick)); // a tick is short enough
    CHECK_FALSE(engine.fsm.is_to_hurry(true));
    CHECK(engine.fsm.is_to_end_pause() == (pause != tick));
    engine.fsm.attend();
    const engine_fsm::duties what = engine.fsm.end_wait(false);
    CHECK(what.due);
    CHECK_FALSE(what.sockets);
    CHECK_FALSE(what.looked_at);
    engine.fsm.settle(false);
  }
  CHECK(is_tick(engine.fsm.begin_wait(), engine_fsm::pause_max));

  SECTION("and are ticks again when they leave something")
  {
    engine.fsm.attend();
    engine.fsm.end_wait(false);
    engine.fsm.settle(true);
  }
  SECTION("and are ticks again when they do not poll")
  {
    engine.fsm.end_wait(false);
    engine.fsm.settle(false);
  }
  SECTION("and are ticks again after a sleep")
  {
    engine.fsm.depend(1);
    engine.fsm.attend();
    engine.fsm.end_wait(false);
    engine.fsm.settle(false);
    CHECK(engine.fsm.sleeps());
    CHECK_FALSE(engine.fsm.is_to_end_pause());
    engine.fsm.depend(-1);
    engine.step(true);
    engine.step(true);
  }
  CHECK(is_tick(engine.fsm.begin_wait(), tick));
  CHECK_FALSE(engine.fsm.is_to_end_pause());
}

TEST_CASE("engine: in ticks without a poll it serves all, then it sleeps")
{
  ticking engine;
  for (unsigned i = 0; i != 3; ++i) // a poll begins the count again
  {
    for (unsigned quiet = 1; quiet != engine_fsm::quiet_ticks_max; ++quiet)
    {
      const engine_fsm::duties what = engine.step(false);
      CHECK(what.due);
      CHECK(what.sockets);
      CHECK(what.looked_at);
      CHECK_FALSE(engine.fsm.sleeps());
    }
    engine.step(true);
    CHECK_FALSE(engine.fsm.sleeps());
  }
  for (unsigned quiet = 0; quiet != engine_fsm::quiet_ticks_max; ++quiet)
    engine.step(false, true);
  CHECK(engine.fsm.sleeps());
  CHECK_FALSE(engine.fsm.is_to_end_pause());
  CHECK(is_sleep(engine.fsm.begin_wait()));
}

TEST_CASE("engine: it watches the sockets itself while somebody depends on it")
{
  SECTION("from its sleep on")
  {
    engine_fsm fsm(delay);
    fsm.begin_wait();
    CHECK_FALSE(fsm.is_to_take_over()); // it does already
    fsm.depend(1);
    fsm.attend();
    CHECK_FALSE(fsm.is_to_take_over());
    const engine_fsm::duties what = fsm.end_wait(true);
    CHECK(what.due);
    CHECK(what.sockets);
    fsm.settle(true);
    CHECK(fsm.sleeps());
  }
  SECTION("after its delay")
  {
    engine_fsm fsm(delay);
    fsm.begin_wait();
    fsm.attend();
    fsm.end_wait(true);
    fsm.settle(false);
    fsm.begin_wait();
    fsm.depend(1);
    CHECK(fsm.is_to_take_over());
    fsm.attend();
    fsm.end_wait(false);
    fsm.settle(true);
    CHECK(fsm.sleeps());
  }
  SECTION("after a tick")
  {
    ticking engine;
    engine.fsm.depend(1);
    CHECK(engine.fsm.is_to_take_over());
    engine.step(true);
    CHECK(engine.fsm.sleeps());
    engine.fsm.depend(-1);
    engine.step(true);
    CHECK_FALSE(engine.fsm.sleeps());
  }
  SECTION("unless the thread of another queue is woken by the sockets")
  {
    ticking engine;
    engine.fsm.stand_by(1);
    engine.fsm.depend(1);
    CHECK_FALSE(engine.fsm.is_to_take_over());
    engine.step(true);
    CHECK_FALSE(engine.fsm.sleeps());
    engine.fsm.stand_by(-1);
    CHECK(engine.fsm.is_to_take_over());
    engine.step(true);
    CHECK(engine.fsm.sleeps());
  }
}

TEST_CASE("engine: once stopped, it leaves nothing to others")
{
  SECTION("in its sleep")
  {
    engine_fsm fsm(delay);
    fsm.begin_wait();
    fsm.attend();
    CHECK_FALSE(fsm.is_stopped());
    fsm.stop();
    CHECK(fsm.is_stopped());
    CHECK(fsm.end_wait(true).sockets);
    fsm.settle(true);
    CHECK(fsm.sleeps());
  }
  SECTION("in a tick")
  {
    ticking engine;
    engine.fsm.stop();
    engine.step(true);
    CHECK(engine.fsm.sleeps());
  }
}
