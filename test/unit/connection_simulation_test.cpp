//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "common/figures.hpp"
#include "completion/connection_fsm.hpp"
#include "connect/connection.hpp"
#include "connect/control_channel_fsm.hpp"
#include "connect/control_frame.hpp"
#include "connect/handshake_parameters.hpp"
#include "unit/simulated_seeds.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The control channel and the state of a connection at both of its ends, in one thread on simulated
// time. A seed decides about the delays of the network and of the threads, about the programs, and
// about the process that is stopped or killed, the host that crashes, or the network that is cut.
// The real state machines run; the device is a model: a send is acknowledged unless the peer's
// queue pair is gone.

namespace test::connection_simulation {
namespace {

using namespace std::chrono_literals;
using namespace rdma::detail;
using rdma::error;
using rdma::error_code;

using time_point = control_channel_fsm::time_point;
using duration = std::chrono::steady_clock::duration;
using std::chrono::milliseconds;
using phase = control_channel_fsm::phase;

constexpr duration retry_time = 500ms; // of the device

class world;

/// One end, its program and its host.
struct side
{
  rdma::queue_pair_options options;
  heartbeat_times times;
  control_channel_fsm control;
  connection_fsm connection;
  frame_reader frames;

  // The stream.
  std::vector<std::uint8_t> arrived;           // and not read
  std::vector<std::vector<std::uint8_t>> held; // on the way to this side, while the network is cut
  std::string outgoing;
  std::string writing;
  bool ends = false;         // the peer sends no more
  bool has_read_end = false; // on_stream_end() was called
  bool is_closed = false;
  time_point next_arrival;
  time_point last_arrival;
  time_point silent_until; // the last silence of the limit or more
  unsigned timer = 0;      // the number of the one that is set

  // Threads.
  bool is_dead = false;
  bool is_stopped = false;
  bool was_stopped = false;
  bool stops_at_timer = false; // when the next one has expired, before its handler
  std::function<void()> begun; // this handler
  std::vector<std::function<void()>> deferred;
  bool uses_program = false; // whose threads read and write the stream, as after async_upgrade()
  time_point busy_until;     // then

  // The device.
  bool in_error = false;
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t received = 0;

  unsigned ended = 0;
  bool closes = false; // by its program
};

enum class trouble
{
  none,
  stop,  // of a process for a while
  kill,  // of a process, whose sockets are closed
  crash, // of a host
  cut,   // of the network for a while
};

enum class ending
{
  close,
  close_both,
  shut_down,
  shut_down_both,
};

class world
{
public:
  explicit world(unsigned seed)
    : random_(seed)
  {
    constexpr std::array limits{0ms, 100ms, 300ms, 5000ms};
    constexpr std::array intervals{10ms, 100ms, 1000ms};
    for (side& each : sides_)
    {
      each.options.heartbeat_limit = limits[random_() % limits.size()];
      each.options.heartbeat_interval = intervals[random_() % intervals.size()];
      each.uses_program = one_in(3);
      each.next_arrival = now_;
      each.busy_until = now_;
      each.last_arrival = now_;
    }
    for (side& each : sides_)
      each.times = agree_on_heartbeats(
        each.options, bounded_heartbeat_limit(peer_of(each).options.heartbeat_limit));
    trouble_ = one_in(2) ? trouble::none : static_cast<trouble>(1 + random_() % 4);
    ending_ = static_cast<ending>(random_() % 4);
    network_delay_ = random_() % 20 * 1ms;
  }

  void run()
  {
    for (side& each : sides_)
    {
      perform(each, each.control.start(now_, 10s));
      at(random_delay(20ms), [this, &each] { establish(each); });
    }
    const duration life = random_delay(10s) + 100ms;
    if (trouble_ != trouble::none)
      at(random_delay(life) + 60ms, [this] { make_trouble(sides_[random_() % 2]); });
    at(life, [this] { end(); });
    at(life + 30s,
      [this]
      {
        heal();
        for (side& each : sides_)
          close(each);
      });
    while (!agenda_.empty())
    {
      REQUIRE(++steps_ < 1'000'000);
      const auto next = agenda_.begin();
      now_ = next->first;
      const auto action = std::move(next->second);
      agenda_.erase(next);
      action();
    }
    check_end();
  }

  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  [[nodiscard]] bool lost() const { return lost_; }

private:
  bool one_in(unsigned n) { return random_() % n == 0; }
  duration random_delay(duration most)
  {
    return std::chrono::microseconds(
      random_() % (std::chrono::duration_cast<std::chrono::microseconds>(most).count() + 1));
  }
  side& peer_of(const side& which) { return &which == sides_.data() ? sides_[1] : sides_[0]; }

  void at(duration delay, std::function<void()> action)
  {
    agenda_.emplace(now_ + delay, std::move(action));
  }

  /// Calls it on a thread of the side's process, which may be stopped.
  void in_process(side& on, duration delay, std::function<void()> action)
  {
    at(delay,
      [&on, action = std::move(action)]
      {
        if (on.is_stopped)
          on.deferred.push_back(action);
        else if (!on.is_dead)
          action();
      });
  }

  // --- the programs ---

  void establish(side& on)
  {
    on.connection.apply(connection_event::established);
    on.connection.apply(connection_event::connected);
    perform(on, on.control.establish(now_, on.times, progress_of(on)));
    read(on);
    go_on(on);
  }

  void go_on(side& on)
  {
    if (on.closes || on.ended != 0)
      return;
    if (!on.connection.submit_error(false) && !on.in_error && one_in(2))
      send(on);
    if (one_in(10) && on.uses_program && now_ >= on.busy_until)
    {
      read(on); // a thread that is not busy has taken all that has arrived
      on.busy_until = now_ + random_delay(1s);
      is_disturbed_ = true; // it sends no heartbeats meanwhile
    }
    in_process(on, random_delay(300ms), [this, &on] { go_on(on); });
  }

  void end()
  {
    side& first = sides_[random_() % 2];
    side& second = peer_of(first);
    const bool closes = ending_ == ending::close || ending_ == ending::close_both;
    const auto end_one = [this, closes](side& each) { closes ? close(each) : shut_down(each); };
    in_process(first, 0ms, [=, &first] { end_one(first); });
    if (ending_ == ending::close_both || ending_ == ending::shut_down_both)
      in_process(second, random_delay(40ms), [=, &second] { end_one(second); });
  }

  void close(side& on)
  {
    if (std::exchange(on.closes, true) || on.is_dead)
      return;
    apply(on, connection_event::closed);
    in_process(on, random_delay(1ms),
      [this, &on] { perform(on, on.control.stop(now_, on.connection.reason())); });
  }

  void shut_down(side& on)
  {
    if (on.connection.end() || on.connection.use_error())
      return;
    has_shut_down_ = true;
    apply(on, connection_event::shut_down);
    note_if_drained(on);
  }

  void make_trouble(side& of)
  {
    side& other = peer_of(of);
    is_disturbed_ = true;
    switch (trouble_)
    {
    case trouble::none:
      return;
    case trouble::stop:
      if (one_in(2))
        of.stops_at_timer = true;
      else
        stop(of);
      return;
    case trouble::kill:
      of.is_dead = of.in_error = true;
      transmit(of, {}, true);
      return expect_end_soon(other);
    case trouble::crash:
      of.is_dead = of.in_error = true;
      is_cut_ = true;
      if (other.times.limit != 0ms)
        expect_end_soon(other);
      return;
    case trouble::cut:
      is_cut_ = true;
      const duration time = random_delay(one_in(2) ? 1s : 12s);
      return at(time, [this] { heal(); });
    }
  }

  void expect_end_soon(side& on)
  {
    if (on.control.state() != phase::handshake)
      at(3 * on.times.limit + 3s,
        [&on]
        {
          INFO("a peer is lost, and this side does not find it");
          REQUIRE(on.ended == 1);
        });
  }

  void stop(side& on)
  {
    on.is_stopped = on.was_stopped = true;
    // About the limit: a timer is late by little then, and a heartbeat was not read. Not beside a
    // program that reads itself, which may be busy for any time after a silence.
    const duration limit = on.times.limit;
    const duration time = !peer_of(on).uses_program && one_in(2)
      ? limit * 2 / 3 + random_delay(limit * 2 / 3)
      : random_delay(one_in(2) ? 1s : 12s);
    at(time, [this, &on] { resume(on); });
  }

  void resume(side& on)
  {
    on.is_stopped = false;
    if (const auto begun = std::exchange(on.begun, nullptr))
      begun();
    // Asio takes what has arrived before the timers that have expired meanwhile, unless the process
    // was stopped after the reactor's look, or more sockets are ready than a look reports.
    if (one_in(2))
      read(on);
    for (const auto& each : std::exchange(on.deferred, {}))
      each();
    read(on);
  }

  void heal()
  {
    if (sides_[0].is_dead || sides_[1].is_dead)
      return;
    is_cut_ = false;
    for (side& each : sides_)
      for (auto& bytes : std::exchange(each.held, {}))
        arrive(each, bytes);
  }

  // --- the state of the connection, as queue_pair_core::apply() ---

  void apply(side& on, connection_event what, const error_code& reason = {})
  {
    namespace act = connection_action;
    const connection_actions actions = on.connection.apply(what, reason);
    if ((actions & act::report_end) != 0)
    {
      REQUIRE(++on.ended == 1);
      check_outcome(on);
      in_process(on, random_delay(100ms), [this, &on] { close(on); });
    }
    if ((actions & (act::move_to_error | act::destroy)) != 0)
      fail_device(on);
    if ((actions & act::notify_peer) != 0)
      in_process(on, random_delay(1ms), [this, &on] { perform(on, on.control.finish(now_)); });
    if ((actions & act::close_channel) != 0)
      in_process(on, random_delay(1ms),
        [this, &on] { perform(on, on.control.stop(now_, on.connection.reason())); });
  }

  void note_if_drained(side& on)
  {
    if (on.connection.state() == connection_state::draining && on.completed == on.submitted)
      apply(on, connection_event::drained);
  }

  // --- the device ---

  static send_progress progress_of(const side& on)
  {
    return {on.completed != on.submitted, on.completed};
  }

  void send(side& from)
  {
    ++from.submitted;
    at(random_delay(2ms) + network_delay_, [this, &from] { travel(from, now_ + retry_time); });
  }

  void travel(side& from, time_point until)
  {
    side& to = peer_of(from);
    if (from.in_error)
      return;
    if (!is_cut_ && !to.in_error)
    {
      ++to.received;
      // Later than a frame of the control channel.
      return at(network_delay_ + random_delay(50ms), [this, &from] { acknowledge(from); });
    }
    if (now_ < until)
      return at(20ms, [this, &from, until] { travel(from, until); });
    fail_device(from);
    in_process(from, 0ms,
      [this, &from]
      { apply(from, connection_event::failed, make_error_code(rdma::wc_status::retry_exceeded)); });
  }

  void acknowledge(side& on)
  {
    if (on.in_error)
      return;
    in_process(on, 0ms,
      [this, &on]
      {
        if (on.completed == on.submitted)
          return; // flushed meanwhile
        ++on.completed;
        ++on.succeeded;
        note_if_drained(on);
      });
  }

  void fail_device(side& on)
  {
    on.in_error = true;
    in_process(on, 1ms, [&on] { on.completed = on.submitted; });
  }

  // --- the control channel, as connection::perform() ---

  void perform(side& on, const control_channel_fsm::actions& list)
  {
    using type = control_channel_fsm::action_type;
    for (const control_channel_fsm::action& each : list)
      switch (each.type)
      {
      case type::send:
        on.outgoing += encode_frame(each.frame);
        if (on.writing.empty())
          write(on);
        break;
      case type::arm:
        arm(on, each.time);
        break;
      case type::disarm:
        ++on.timer;
        break;
      case type::probe:
        probe(on);
        break;
      case type::check_missing_receive:
        if (one_in(2))
          on.control.missing_receive_logged();
        break;
      case type::report_agent_frame:
        FAIL("nobody sends one");
        break;
      case type::report_peer_finished:
        apply(on, connection_event::peer_finished);
        note_if_drained(on);
        break;
      case type::report_orderly_end:
        apply(on, connection_event::ended);
        break;
      case type::report_dead_peer:
        check_silence(on);
        lost_ = true;
        [[fallthrough]];
      case type::report_end:
        apply(on, connection_event::disconnected, each.error);
        break;
      case type::shut_down_send:
        transmit(on, {}, true);
        break;
      case type::close:
        ++on.timer;
        on.is_closed = true;
        transmit(on, {}, true);
        break;
      }
  }

  void arm(side& on, time_point time)
  {
    REQUIRE(on.control.state() != phase::closed);
    const unsigned number = ++on.timer;
    in_process(on, std::max(time - now_, duration()) + random_delay(3ms),
      [this, &on, number]
      {
        const auto expire = [this, &on, number]
        {
          // One that has expired before it was set again may still be reported.
          if (number == on.timer || (one_in(2) && !on.is_closed))
            perform(on, on.control.on_timer(now_, progress_of(on)));
        };
        if (!std::exchange(on.stops_at_timer, false))
          return expire();
        on.begun = expire;
        stop(on);
      });
  }

  void probe(side& on)
  {
    if (!on.uses_program)
      return perform(on,
        on.arrived.empty() ? on.control.on_probe_impossible()
                           : on.control.on_unread_bytes(now_, progress_of(on)));
    in_process(on, std::max(on.busy_until - now_, duration()),
      [this, &on] { perform(on, on.control.on_probe_answered(now_, progress_of(on))); });
  }

  void write(side& on)
  {
    on.writing.swap(on.outgoing);
    if (on.writing.empty())
      return perform(on, on.control.on_written());
    in_process(on, std::max(on.busy_until - now_, duration()) + random_delay(1ms),
      [this, &on]
      {
        if (on.is_closed)
          return on.control.on_write_failed();
        transmit(on, std::exchange(on.writing, {}), false);
        write(on);
      });
  }

  /// Sends bytes or, once, the end.
  void transmit(side& from, const std::string& bytes, bool ends)
  {
    side& to = peer_of(from);
    to.next_arrival = std::max(to.next_arrival, now_ + network_delay_ + random_delay(1ms));
    const auto arrive_later = [&](std::vector<std::uint8_t> part)
    {
      agenda_.emplace(to.next_arrival,
        [this, &to, part = std::move(part)]
        {
          if (is_cut_ || !to.held.empty())
            to.held.push_back(part);
          else
            arrive(to, part);
        });
    };
    if (ends)
      return arrive_later({});
    const std::size_t first = random_() % (bytes.size() + 1);
    for (const std::string& part : {bytes.substr(0, first), bytes.substr(first)})
      if (!part.empty())
        arrive_later({part.begin(), part.end()});
  }

  void arrive(side& at_host, const std::vector<std::uint8_t>& bytes)
  {
    at_host.ends = at_host.ends || bytes.empty();
    at_host.arrived.insert(at_host.arrived.end(), bytes.begin(), bytes.end());
    if (now_ - at_host.last_arrival >= at_host.times.limit)
      at_host.silent_until = now_;
    at_host.last_arrival = now_;
    read(at_host);
  }

  /// As connection::watch().
  void read(side& on)
  {
    if (on.is_stopped || on.is_dead || on.is_closed || on.control.state() == phase::handshake)
      return;
    if (now_ < on.busy_until)
      return in_process(on, on.busy_until - now_, [this, &on] { read(on); });
    if (!on.arrived.empty())
    {
      on.control.on_bytes(now_);
      const auto bytes = std::exchange(on.arrived, {});
      std::span<const std::uint8_t> input(bytes);
      while (on.control.state() != phase::closing && !on.is_closed)
      {
        const frame_reader::result result = on.frames.read(input);
        REQUIRE(result != frame_reader::result::malformed);
        if (result == frame_reader::result::need_more)
          break;
        perform(on,
          on.control.on_frame(now_, static_cast<frame_type>(on.frames.type()), progress_of(on)));
      }
    }
    if (on.ends && !on.is_closed && !std::exchange(on.has_read_end, true))
    {
      on.control.on_bytes(now_);
      perform(on, on.control.on_stream_end(error::peer_lost));
    }
  }

  // --- the oracle ---

  /// A peer is lost only after a silence of the whole limit.
  void check_silence(const side& on)
  {
    CAPTURE((now_ - on.last_arrival).count(), (now_ - on.silent_until).count());
    CAPTURE(on.times.limit.count(), on.uses_program, on.was_stopped);
    REQUIRE(on.times.limit != 0ms);
    // Threads of the program that are busy may not read the bytes that have ended it.
    const bool was_silent = on.uses_program && now_ - on.silent_until < on.times.limit;
    REQUIRE((now_ - on.last_arrival >= on.times.limit || was_silent));
  }

  void check_outcome(const side& on)
  {
    const side& peer = peer_of(on);
    const connection_fsm::end_result& end = *on.connection.end();
    CAPTURE(end.reason.message());
    if (on.closes)
      return;
    if (!is_disturbed_)
      REQUIRE(end.reason != error::peer_lost);
    if (end.of_shutdown)
      return;
    // All that both sides have sent has arrived.
    REQUIRE(has_shut_down_);
    REQUIRE(on.received == peer.submitted);
    REQUIRE(peer.received == on.submitted);
    REQUIRE(on.succeeded == on.submitted);
  }

  void check_end()
  {
    for (const side& each : sides_)
    {
      const side& peer = peer_of(each);
      CAPTURE(static_cast<int>(trouble_), static_cast<int>(ending_), each.is_dead);
      REQUIRE(each.succeeded <= peer.received);
      if (each.is_dead)
        continue;
      REQUIRE(each.ended == 1);
      REQUIRE(each.control.state() == phase::closed);
      REQUIRE(each.is_closed);
      REQUIRE(each.completed == each.submitted);
      if (is_disturbed_)
        continue;
      const connection_fsm::end_result& end = *each.connection.end();
      if (has_shut_down_)
        REQUIRE_FALSE(end.of_shutdown);
      // The device of the side that closes has acknowledged these, and the other side waits.
      if (end.reason == error::peer_closed)
        REQUIRE(each.succeeded == peer.received);
    }
  }

  std::mt19937 random_;
  time_point now_{24h}; // not the clock's epoch, as in a program
  std::multimap<time_point, std::function<void()>> agenda_;
  std::array<side, 2> sides_;
  trouble trouble_ = trouble::none;
  ending ending_ = ending::close;
  duration network_delay_{};
  bool is_cut_ = false;
  bool has_shut_down_ = false;
  bool is_disturbed_ = false;
  bool lost_ = false;
  std::uint64_t steps_ = 0;
};

} // namespace

TEST_CASE("a connection ends once at both sides, in order, and is lost only if the peer is silent")
{
  const unsigned count = exhaustive() ? 20'000 : 1000; // 1000: about 900,000 steps
  std::uint64_t steps = 0;
  unsigned lost = 0;
  const bool all = run_seeds(std::random_device()(), count,
    [&](unsigned seed)
    {
      CAPTURE(seed);
      world w(seed);
      w.run();
      steps += w.steps();
      lost += w.lost() ? 1 : 0;
    });
  if (!all)
    return;
  add_figure("steps", steps);
  CHECK(steps > 100 * count);
  CHECK(lost > count / 20);
}

} // namespace test::connection_simulation
