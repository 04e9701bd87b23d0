//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"
#include "common/figures.hpp"
#include "unit/agenda.hpp"
#include "unit/simulated_seeds.hpp"
#include "unit/simulation.hpp"
#include "verbs/software/wire/engine_fsm.hpp"
#include "verbs/software/wire/timer_heap.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include <sys/socket.h>

// Two processes with a queue pair each on the local wire, in one thread on simulated time. In each
// an engine's thread and a program's thread run by turns. A seed decides how long each of their
// steps takes, when the program posts, polls, sleeps or computes, and when a process stops or dies.
// The real engine_fsm, timer heap, requester, responder, link and rings run; the threads do as
// engine::run(), engine_look.cpp and completion_queue do. The oracle checks that nothing waits
// longer than the engine's pauses, besides what simulation.hpp checks.

namespace simulation {
namespace {

using wire::engine_fsm;

constexpr std::int64_t engine_delay = 200 * us;

// Two pauses can pass: a thread polled at the beginning of the first. Steps that take long come on
// top.
constexpr std::int64_t wait_max = engine_delay + 2 * engine_fsm::pause_max + 12 * ms;
constexpr std::int64_t long_time = 3 * wait_max; // which would show that nobody has served it

struct engine_coverage
{
  std::uint64_t steps = 0;
  unsigned rounds = 0;
  unsigned delays = 0;
  unsigned pauses = 0;
  unsigned wake_ups = 0; // of the engine by its program
  unsigned takeovers = 0;
  unsigned looks_ended = 0; // by the engine
  unsigned events = 0;      // that have woken a program
};

class process
{
public:
  process(end& target, agenda& times, engine_coverage& found)
    : target_(target)
    , times_(times)
    , found_(found)
  {
    heap_.add(due_, 1);
  }
  ~process() { heap_.remove(due_); }
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  void start()
  {
    next(&process::begin_wait);
    after(times_.delay(ms), &process::act);
  }

  /// From now on there are receives for everything, and the program only waits.
  void finish()
  {
    finishing_ = true;
    if (mode_ == mode::waiting)
      disarm();
    after(0, &process::act);
  }

  void stop() { stopped_ = true; }

  void go_on()
  {
    stopped_ = false;
    for (const auto what : std::exchange(held_, {}))
      after(times_.delay(ms), what);
  }

  void kill()
  {
    dead_ = true;
    target_.kill();
  }

  [[nodiscard]] bool is_dead() const { return dead_; }
  [[nodiscard]] bool is_stopped() const { return stopped_; }
  [[nodiscard]] const end& target() const { return target_; }

  /// Wakes threads, as the kernel does between any two steps.
  void wake_threads()
  {
    if (dead_ || stopped_)
      return;
    if (blocked_ && (woken_ || (watched_ && target_.is_readable())))
      unblock();
    if (mode_ != mode::waiting || waking_)
      return;
    if (target_.completions() != completions_when_armed_)
    {
      waking_ = true;
      ++found_.events;
      after(times_.delay(30 * us), &process::on_event);
    }
    else if (stands_by_ && target_.is_readable())
    {
      waking_ = true;
      after(times_.delay(30 * us), &process::scan);
    }
  }

  /// Checks that what there is to do has not waited for too long. `excused`: for a process that is
  /// stopped.
  void check_wait(bool excused)
  {
    const bool waits = !excused && !dead_ && has_work();
    if (!waits || !std::exchange(work_waits_, true))
      work_waits_since_ = times_.now;
    work_waits_ = waits;
    INFO("at " << times_.now << " work has waited since " << work_waits_since_);
    REQUIRE(times_.now - work_waits_since_ <= wait_max);
  }

  /// Nothing more will happen.
  void check_end() const
  {
    if (dead_)
      return;
    REQUIRE_FALSE(has_work());
    REQUIRE(fsm_.sleeps());
    REQUIRE((target_.idle() || target_.over()));
  }

private:
  using step = void (process::*)();

  void after(std::int64_t delay, step what)
  {
    times_.at(delay,
      [this, what]
      {
        if (stopped_)
          held_.push_back(what);
        else if (!dead_)
          (this->*what)();
      });
  }

  // Threads can be interrupted between any two steps.
  void next(step what) { after(times_.delay(times_.one_in(300) ? ms : 5 * us), what); }

  bool has_work() const
  {
    return target_.is_readable() || target_.is_rung()
      || (heap_.next() != 0 && heap_.next() <= times_.now);
  }

  // --- progress, as queue_pair::move() ---

  void serve(bool acknowledge)
  {
    if (target_.is_readable())
      target_.hear();
    target_.receive();
    target_.transmit(acknowledge);
    note_waits();
  }

  void note_waits()
  {
    if (target_.over())
      return;
    if (const std::int64_t wait = target_.take_wait(); wait != 0)
      resume_at_ = times_.now + wait;
    if (resume_at_ != 0)
      remind([this] { heap_.set(due_, resume_at_); });
    else if (target_.link.wake_again_at() != 0)
      remind([this] { heap_.set(due_, times_.now + 10 * ms); });
    if (target_.responses.acknowledgement_wanted() || target_.link.unfinished()
      || target_.requests.unfinished())
      remind([this] { heap_.owe(due_); });
  }

  template <class Change>
  void remind(Change change)
  {
    const std::int64_t before = heap_.next();
    change();
    if ((before == 0 || heap_.next() < before) && fsm_.is_to_hurry(false))
      wake_engine();
  }

  void wake_engine()
  {
    ++found_.wake_ups;
    woken_ = true;
  }

  void look_at()
  {
    if (std::exchange(looked_at_, true) || target_.over())
      return;
    target_.poll_memory(end::polls::lane);
    if (fsm_.is_to_hurry(true))
      wake_engine();
  }

  void look_away()
  {
    if (!std::exchange(looked_at_, false) || target_.over())
      return;
    target_.poll_memory(end::polls::nothing);
    if (target_.is_rung())
      serve(false);
  }

  // --- the engine's thread, as engine::run() ---

  void begin_wait()
  {
    ++found_.rounds;
    slept_ = fsm_.sleeps();
    limits_ = fsm_.begin_wait();
    found_.pauses += limits_.longest > engine_fsm::tick ? 1 : 0;
    next(&process::look_once_more);
  }

  void look_once_more()
  {
    if (slept_)
    {
      found_.looks_ended += looked_at_ ? 1 : 0;
      look_away();
    }
    next(&process::wait);
  }

  void wait()
  {
    std::int64_t time = limits_.longest;
    const std::int64_t due = limits_.debts ? heap_.next() : heap_.next_alarm();
    if (limits_.alarms && due != 0)
    {
      const std::int64_t rest = std::max<std::int64_t>(due - times_.now, 0);
      time = time < 0 ? rest : std::min(time, rest);
    }
    blocked_ = true;
    const unsigned which = ++waits_;
    if (time >= 0)
      times_.at(time,
        [this, which]
        {
          if (blocked_ && waits_ == which)
            unblock();
        });
  }

  void unblock()
  {
    blocked_ = false;
    next(&process::end_wait);
  }

  void end_wait()
  {
    was_woken_ = std::exchange(woken_, false);
    duties_ = fsm_.end_wait(watched_ && target_.is_readable());
    next(&process::serve_due);
  }

  void serve_due()
  {
    std::array<std::uint32_t, 1> which{};
    was_due_ = duties_.due && heap_.take(times_.now, which) != 0;
    if (was_due_)
    {
      if (resume_at_ != 0 && resume_at_ <= times_.now)
      {
        resume_at_ = 0;
        target_.resume();
      }
      serve(true);
    }
    next(&process::serve_the_rest);
  }

  void serve_the_rest()
  {
    if ((duties_.looked_at && looked_at_ && target_.is_rung())
      || (duties_.sockets && target_.is_readable()))
      serve(true);
    fsm_.settle(was_due_ || was_woken_);
    found_.delays += slept_ && !fsm_.sleeps() ? 1 : 0;
    watched_ = fsm_.sleeps();
    next(&process::begin_wait);
  }

  // --- the program's thread, as completion_queue ---

  void act()
  {
    mode_ = mode::running;
    while (finishing_ && target_.may_post_receive())
      target_.post_receive();
    if (finishing_)
    {
      note_waits();
      return arm();
    }
    switch (times_.random() % 8)
    {
    case 0:
    case 1:
      for (unsigned i = times_.random() % 4; i != 0 && target_.may_post(); --i)
        target_.post(times_.random);
      if (target_.over())
        break;
      if (times_.one_in(2)) // engine::defer() and owe()
        remind([this] { heap_.owe(due_); });
      else
      {
        target_.transmit(false);
        note_waits();
      }
      break;
    case 2:
    case 3:
      for (unsigned i = times_.random() % 8; i != 0 && target_.may_post_receive(); --i)
        target_.post_receive();
      note_waits();
      break;
    case 4:
      if (times_.one_in(8)) // it computes
        return after(long_time, &process::act);
      break;
    case 5:
    case 6:
      polls_left_ = times_.random() % (times_.one_in(8) ? 3000 : 60);
      return poll();
    default:
      return arm();
    }
    after(times_.delay(100 * us), &process::act);
  }

  void poll()
  {
    fsm_.attend();
    serve(times_.one_in(2));
    if (times_.one_in(4))
      look_at();
    if (polls_left_-- > 0)
      return after(times_.delay(30 * us), &process::poll);
    if (times_.one_in(2))
      rest();
    after(times_.delay(100 * us), &process::act);
  }

  // As completion_queue::rest().
  void rest()
  {
    if (std::exchange(stands_by_, false))
      fsm_.stand_by(-1);
    if (fsm_.is_to_end_pause())
      wake_engine();
  }

  void arm()
  {
    completions_when_armed_ = target_.completions();
    const bool by_sockets = times_.one_in(2);
    if (by_sockets && !std::exchange(stands_by_, true))
      fsm_.stand_by(1);
    else if (!by_sockets && !std::exchange(depends_, true))
      fsm_.depend(1);
    next(&process::look_away_and_wait);
  }

  void look_away_and_wait()
  {
    look_away();
    if (depends_ && fsm_.is_to_take_over())
    {
      ++found_.takeovers;
      wake_engine();
    }
    mode_ = mode::waiting;
    if (!finishing_ && times_.one_in(4)) // a timer of the program
      after(times_.delay(20 * ms), &process::on_timer);
  }

  void on_timer()
  {
    if (mode_ == mode::waiting && !waking_)
    {
      disarm();
      act();
    }
  }

  // As get_cq_event().
  void scan()
  {
    waking_ = false;
    fsm_.attend();
    serve(false);
  }

  void on_event()
  {
    waking_ = false;
    disarm();
    act();
  }

  void disarm()
  {
    mode_ = mode::running;
    if (std::exchange(depends_, false))
      fsm_.depend(-1);
  }

  end& target_;
  agenda& times_;
  engine_coverage& found_;
  engine_fsm fsm_{engine_delay};
  wire::timer_heap heap_;
  wire::timer_heap::entry due_;
  std::int64_t resume_at_ = 0; // after an RNR NAK
  bool work_waits_ = false;
  std::int64_t work_waits_since_ = 0;
  std::vector<step> held_;
  bool stopped_ = false;
  bool dead_ = false;
  bool looked_at_ = false;

  // State of the engine's thread.
  bool slept_ = false;
  bool watched_ = true;
  bool blocked_ = false;
  bool woken_ = false; // its eventfd is readable
  bool was_woken_ = false;
  bool was_due_ = false;
  engine_fsm::limits limits_;
  engine_fsm::duties duties_;
  unsigned waits_ = 0;

  // State of the program's thread.
  enum class mode
  {
    running,
    waiting, // in poll(2) for its channel, armed
  } mode_ = mode::running;
  bool finishing_ = false;
  bool waking_ = false;
  bool depends_ = false;
  bool stands_by_ = false;
  unsigned polls_left_ = 0;
  std::uint64_t completions_when_armed_ = 0;
};

enum class trouble
{
  none,
  stop,
  death,
};

struct engine_world
{
  engine_world(unsigned seed, trouble what, coverage& found, engine_coverage& engines)
    : what_(what)
    , engines_(engines)
  {
    times_.random.seed(seed);
    static constexpr std::array<std::uint32_t, 3> segments{
      1024, 10'000, wire::local_wire::segment_bytes};
    end::kind is;
    is.segment = segments[times_.random() % segments.size()];
    is.is_xrc = times_.one_in(5);
    for (unsigned i = 0; i != 2; ++i)
    {
      is.shares = times_.one_in(2);
      is.has_direct_access = !times_.one_in(4);
      is.rnr_timer = 1 + times_.random() % 12; // up to 0.64 ms
      ends_.emplace_back(i + 1, 2 - i, is, found);
    }
    std::array<int, 2> sockets{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) == 0);
    wire::descriptor fd;
    const auto memory = wire::segment::create(fd);
    REQUIRE(memory);
    for (unsigned i = 0; i != 2; ++i)
      ends_[i].connect(ends_[1 - i], memory, i, sockets[i]);
    for (end& each : ends_)
      processes_.emplace_back(each, times_, engines);
  }

  void run()
  {
    const std::int64_t time = times_.one_in(2) ? 20 * ms : 400 * ms;
    for (process& each : processes_)
      each.start();
    if (what_ != trouble::none)
      times_.at(times_.delay(time), [this] { make_trouble(processes_[times_.random() % 2]); });
    times_.at(time + 2 * long_time,
      [this]
      {
        for (process& each : processes_)
          each.finish();
      });
    for (unsigned steps = 0; times_.step(); ++steps)
    {
      REQUIRE(steps != 2'000'000);
      ++engines_.steps;
      for (process& each : processes_)
        each.wake_threads();
      const bool excused = processes_[0].is_stopped() || processes_[1].is_stopped();
      for (process& each : processes_)
        each.check_wait(excused);
      if (steps % 256 == 0)
        check();
    }
    check();
    for (const process& each : processes_)
    {
      each.check_end();
      if (!each.target().killed())
        each.target().check_end();
      if (what_ != trouble::death)
        REQUIRE_FALSE(each.target().over());
    }
  }

private:
  void make_trouble(process& with)
  {
    if (what_ == trouble::death)
      return with.kill();
    with.stop();
    times_.at(times_.delay(long_time), [&with] { with.go_on(); });
  }

  void check() const
  {
    for (const end& each : ends_)
      each.check();
  }

  const trouble what_;
  engine_coverage& engines_;
  agenda times_;
  std::deque<end> ends_;
  std::deque<process> processes_;
};

void simulate_engines(trouble what)
{
  const unsigned count = test::exhaustive() ? 4000 : 20;
  coverage found;
  engine_coverage engines;
  const bool all = test::run_seeds(std::random_device()(), count,
    [&](unsigned seed)
    {
      CAPTURE(seed);
      engine_world(seed, what, found, engines).run();
    });
  if (!all)
    return;
  test::add_figure("steps", engines.steps);
  CHECK(engines.delays != 0);
  CHECK(engines.pauses != 0);
  CHECK(engines.wake_ups != 0);
  CHECK(engines.takeovers != 0);
  if (test::exhaustive()) // one in two seeds has one
    CHECK(engines.looks_ended != 0);
  CHECK(engines.events != 0);
  CHECK(found.rnr_waits != 0);
}

} // namespace

TEST_CASE("simulation: engines and programs that poll, sleep or compute leave nothing waiting")
{
  simulate_engines(trouble::none);
}

TEST_CASE("simulation: engines leave nothing waiting when a peer was stopped")
{
  simulate_engines(trouble::stop);
}

TEST_CASE("simulation: engines find the end of a peer, whatever their programs do")
{
  simulate_engines(trouble::death);
}

} // namespace simulation
