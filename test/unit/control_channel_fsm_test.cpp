//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/control_channel_fsm.hpp"

#include "common/catch.hpp"
#include "unit/step_script.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

// Tests every transition of the control channel at times that the test chooses.

namespace test::control_channel {
namespace {

using namespace std::chrono_literals;
using rdma::error;
using rdma::error_code;
using namespace rdma::detail;

using fsm = control_channel_fsm;
using phase = fsm::phase;

constexpr std::array all_phases{
  phase::handshake, phase::established, phase::draining, phase::closing, phase::closed};

const char* name_of(phase which)
{
  constexpr std::array names{"handshake", "established", "draining", "closing", "closed"};
  return names.at(static_cast<std::size_t>(which));
}

std::string name_of(frame_type type)
{
  return type == frame_type::bye    ? "bye"
    : type == frame_type::heartbeat ? "heartbeat"
    : type == frame_type::finished  ? "finished"
                                    : "another frame";
}

/// The machine with a clock of its own.
struct channel
{
  // Times from the beginning. Zero is not the clock's epoch, as in a program.
  [[nodiscard]] fsm::time_point now() const { return fsm::time_point(24h) + elapsed; }

  /// Returns actions as text: "send bye; arm +1000 ms; close".
  std::string text(const fsm::actions& list)
  {
    using type = fsm::action_type;
    std::string result;
    for (const fsm::action& each : list)
    {
      result += result.empty() ? "" : "; ";
      switch (each.type)
      {
      case type::send:
        result += "send " + name_of(each.frame);
        break;
      case type::arm:
        armed = std::chrono::duration_cast<std::chrono::milliseconds>(each.time - now());
        result += "arm +" + std::to_string(armed.count()) + " ms";
        break;
      case type::disarm:
        result += "disarm";
        break;
      case type::probe:
        result += "probe";
        break;
      case type::check_missing_receive:
        result += "check for a missing receive";
        break;
      case type::report_agent_frame:
        result += "report agent frame";
        break;
      case type::report_peer_finished:
        result += "report peer finished";
        break;
      case type::report_orderly_end:
        result += "report orderly end";
        break;
      case type::report_dead_peer:
        result += "report dead peer";
        break;
      case type::report_end:
        result += "report end: " + each.error.message();
        break;
      case type::shut_down_send:
        result += "shut down send";
        break;
      case type::close:
        result += "close";
        break;
      }
    }
    return result;
  }

  std::string start() { return text(machine.start(now(), 10s)); }
  std::string establish() { return text(machine.establish(now(), times, sends)); }
  std::string timer() { return text(machine.on_timer(now(), sends)); }
  std::string frame(frame_type type) { return text(machine.on_frame(now(), type, sends)); }
  std::string frame_with_sends(frame_type type, bool outstanding)
  {
    sends.outstanding = outstanding;
    return frame(type);
  }
  std::string written() { return text(machine.on_written()); }
  std::string finish() { return text(machine.finish(now())); }
  std::string stop() { return text(machine.stop(now(), boost::asio::error::operation_aborted)); }

  /// Passes time until the timer, and calls it.
  std::string wait()
  {
    elapsed += armed;
    return timer();
  }

  channel& bring_to(phase which)
  {
    if (which == phase::handshake)
    {
      start();
      return *this;
    }
    establish();
    if (which == phase::draining)
    {
      sends.outstanding = true;
      frame(frame_type::bye);
    }
    if (which == phase::closing)
      stop();
    if (which == phase::closed)
      machine.on_stream_end(error::peer_lost);
    REQUIRE(machine.state() == which);
    return *this;
  }

  // For step_script.
  std::string fail(error_code ec)
  {
    return text(
      machine.state() == phase::handshake ? machine.stop(now(), ec) : machine.on_stream_end(ec));
  }
  [[nodiscard]] error_code result() const { return machine.reason(); }
  [[nodiscard]] std::string clean_up() const
  {
    return machine.state() == phase::established ? "report end: Network is down; close" : "close";
  }

  fsm machine;
  heartbeat_times times{300ms, 100ms};
  send_progress sends;
  std::chrono::milliseconds elapsed{0};
  std::chrono::milliseconds armed{0};
};

struct event
{
  const char* name;
  std::string (*apply)(channel&);
};

const std::vector<event> all_events{
  {"start", [](channel& c) { return c.start(); }},
  {"establish", [](channel& c) { return c.establish(); }},
  {"stop", [](channel& c) { return c.stop(); }},
  {"finish", [](channel& c) { return c.finish(); }},
  {"bye, no sends", [](channel& c) { return c.frame_with_sends(frame_type::bye, false); }},
  {"bye, sends", [](channel& c) { return c.frame_with_sends(frame_type::bye, true); }},
  {"heartbeat", [](channel& c) { return c.frame(frame_type::heartbeat); }},
  {"finished", [](channel& c) { return c.frame(frame_type::finished); }},
  {"finished by both",
    [](channel& c)
    {
      c.finish();
      return c.frame(frame_type::finished);
    }},
  {"agent frame", [](channel& c) { return c.frame(frame_type::agent_channel); }},
  {"frame of the handshake", [](channel& c) { return c.frame(frame_type::endpoint); }},
  {"written", [](channel& c) { return c.written(); }},
  {"stream end", [](channel& c) { return c.text(c.machine.on_stream_end(error::peer_lost)); }},
  {"no memory", [](channel& c) { return c.text(c.machine.on_no_memory()); }},
  {"timer", [](channel& c) { return c.wait(); }},
  {"timer, sends ended",
    [](channel& c)
    {
      c.sends = {};
      return c.wait();
    }},
  {"early timer",
    [](channel& c)
    {
      c.elapsed += c.armed - 1ms;
      return c.timer();
    }},
  {"probe answered",
    [](channel& c) { return c.text(c.machine.on_probe_answered(c.now(), c.sends)); }},
  {"probe impossible", [](channel& c) { return c.text(c.machine.on_probe_impossible()); }},
};

/// Events without a row for a phase have no effect in that phase.
struct transition
{
  phase from;
  const char* event;
  const char* actions;
  phase to;
};

const std::vector<transition> transitions{
  {phase::handshake, "start", "arm +10000 ms", phase::handshake},
  {phase::handshake, "establish", "arm +100 ms", phase::established},
  {phase::handshake, "stop", "close", phase::closed},
  {phase::handshake, "no memory", "close", phase::closed},
  {phase::handshake, "timer", "close", phase::closed},
  {phase::handshake, "timer, sends ended", "close", phase::closed},
  {phase::established, "stop", "send bye; arm +1000 ms", phase::closing},
  {phase::established, "finish", "send finished", phase::established},
  {phase::established, "bye, no sends", "report end: the peer closed the connection; close",
    phase::closed},
  {phase::established, "bye, sends", "arm +2 ms", phase::draining},
  {phase::established, "finished", "report peer finished", phase::established},
  {phase::established, "finished by both", "report peer finished; report orderly end; arm +1000 ms",
    phase::closing},
  {phase::established, "agent frame", "report agent frame", phase::established},
  {phase::established, "stream end", "report end: the peer went away without closing; close",
    phase::closed},
  {phase::established, "no memory", "report end: Cannot allocate memory; close", phase::closed},
  {phase::established, "timer", "send heartbeat; arm +100 ms", phase::established},
  {phase::established, "timer, sends ended", "send heartbeat; arm +100 ms", phase::established},
  {phase::established, "probe answered", "arm +100 ms", phase::established},
  {phase::established, "probe impossible", "report dead peer; close", phase::closed},
  {phase::draining, "stop", "close", phase::closed},
  {phase::draining, "no memory", "report end: the peer closed the connection; close",
    phase::closed},
  {phase::draining, "timer", "arm +2 ms", phase::draining},
  {phase::draining, "timer, sends ended", "report end: the peer closed the connection; close",
    phase::closed},
  {phase::closing, "written", "shut down send", phase::closing},
  {phase::closing, "stream end", "close", phase::closed},
  {phase::closing, "no memory", "close", phase::closed},
  {phase::closing, "timer", "close", phase::closed},
  {phase::closing, "timer, sends ended", "close", phase::closed},
};

} // namespace

TEST_CASE("the control channel performs every transition and ignores all other events")
{
  std::size_t found = 0;
  for (const phase from : all_phases)
    for (const event& what : all_events)
    {
      INFO(name_of(from) << ", " << what.name);
      const auto row = std::find_if(transitions.begin(), transitions.end(),
        [&](const transition& each)
        { return each.from == from && std::string_view(each.event) == what.name; });
      channel c;
      c.bring_to(from);
      const std::string actions = what.apply(c);
      if (row == transitions.end())
      {
        CHECK(actions.empty());
        CHECK(c.machine.state() == from);
        continue;
      }
      ++found;
      CHECK(actions == row->actions);
      CHECK(c.machine.state() == row->to);
      std::printf("%-11s | %-22s | %-55s | %s\n", name_of(from), what.name, actions.c_str(),
        name_of(c.machine.state()));
    }
  CHECK(found == transitions.size());
}

TEST_CASE("the control channel reports once that the peer has finished")
{
  channel c;
  c.bring_to(phase::established);
  CHECK(c.frame(frame_type::finished) == "report peer finished");
  CHECK(c.frame(frame_type::finished).empty());
}

TEST_CASE("the control channel keeps the reason of its end when the stream ends later")
{
  channel c;
  c.bring_to(phase::closing);
  CHECK(c.text(c.machine.on_stream_end(error::peer_lost)) == "close");
  CHECK(c.machine.reason() == boost::asio::error::operation_aborted);
}

TEST_CASE("the control channel ends with the error of any step and requests its clean-up")
{
  step_script<channel>(channel(),
    {
      {"start", [](channel& c) { return c.start(); }, "arm +10000 ms"},
      {"establish", [](channel& c) { return c.establish(); }, "arm +100 ms"},
      {"heartbeat", [](channel& c) { return c.wait(); }, "send heartbeat; arm +100 ms"},
      {"written", [](channel& c) { return c.written(); }, ""},
      {"peer finished", [](channel& c) { return c.frame(frame_type::finished); },
        "report peer finished"},
      {"finish", [](channel& c) { return c.finish(); },
        "send finished; report orderly end; arm +1000 ms"},
    })
    .check();
}

TEST_CASE("the control channel sends heartbeats only as long as the peer requests and reads them")
{
  channel c;
  SECTION("a frame that is not written yet serves as a heartbeat")
  {
    c.establish();
    c.machine.on_sent(c.now());
    CHECK(c.wait() == "arm +100 ms");
    CHECK(c.written() == "");
    CHECK(c.wait() == "send heartbeat; arm +100 ms");
  }
  SECTION("a frame that was sent meanwhile delays the next heartbeat")
  {
    c.establish();
    c.elapsed = 60ms;
    c.machine.on_sent(c.now());
    c.written();
    c.elapsed = 100ms;
    CHECK(c.timer() == "arm +60 ms");
    CHECK(c.wait() == "send heartbeat; arm +100 ms");
  }
  SECTION("nothing is sent after a failure to write")
  {
    c.establish();
    c.machine.on_sent(c.now());
    c.machine.on_write_failed();
    CHECK(c.wait() == "arm +100 ms");
  }
  SECTION("the peer requests none")
  {
    c.times.interval = 0ms;
    CHECK(c.establish() == "arm +300 ms");
    c.elapsed = 299ms;
    c.machine.on_bytes(c.now());
    c.elapsed = 300ms;
    CHECK(c.timer() == "arm +299 ms");
  }
  SECTION("neither side requests any")
  {
    c.times = {};
    CHECK(c.establish() == "disarm");
  }
}

TEST_CASE("the control channel reports a dead peer after the limit and not before")
{
  channel c;
  c.times.interval = 0ms;
  c.establish();
  SECTION("on a stream that only the library reads")
  {
    CHECK(c.wait() == "probe");
    CHECK(c.text(c.machine.on_probe_impossible()) == "report dead peer; close");
    CHECK(c.machine.reason() == error::peer_lost);
  }
  SECTION("on a stream whose users were busy, after another quarter of the limit")
  {
    CHECK(c.wait() == "probe");
    c.elapsed += 10ms;
    CHECK(c.text(c.machine.on_probe_answered(c.now(), c.sends)) == "arm +75 ms");
    CHECK(c.wait() == "report dead peer; close");
  }
  SECTION("not if bytes arrive after the probe")
  {
    CHECK(c.wait() == "probe");
    CHECK(c.text(c.machine.on_probe_answered(c.now(), c.sends)) == "arm +75 ms");
    c.machine.on_bytes(c.now());
    CHECK(c.wait() == "arm +225 ms");
    CHECK(c.wait() == "probe");
  }
  SECTION("not without a probe of its own if bytes arrive before the answer to an earlier one")
  {
    CHECK(c.wait() == "probe");
    c.elapsed += 10ms;
    c.machine.on_bytes(c.now());
    CHECK(c.text(c.machine.on_probe_answered(c.now(), c.sends)) == "arm +300 ms");
    CHECK(c.wait() == "probe");
    c.elapsed += 10ms;
    CHECK(c.text(c.machine.on_probe_answered(c.now(), c.sends)) == "arm +75 ms");
    CHECK(c.wait() == "report dead peer; close");
  }
  SECTION("not if the timer runs before the read of what the peer has sent")
  {
    c.elapsed += 310ms;
    CHECK(c.timer() == "probe");
    CHECK(c.text(c.machine.on_unread_bytes(c.now(), c.sends)) == "arm +300 ms");
    CHECK(c.wait() == "probe");
  }
  SECTION("not if this process was stopped, because it has not read what the peer sent")
  {
    c.elapsed += 1h;
    CHECK(c.timer() == "arm +300 ms");
    CHECK(c.wait() == "probe");
  }
  SECTION("never without a limit")
  {
    channel unlimited;
    unlimited.times.limit = 0ms;
    unlimited.establish();
    unlimited.elapsed += 24h;
    CHECK(unlimited.timer() == "send heartbeat; arm +100 ms");
  }
}

TEST_CASE("the control channel waits at most 250 ms for sends after the peer's bye")
{
  channel c;
  c.bring_to(phase::draining);
  for (int step = 1; step != 125; ++step)
    REQUIRE(c.wait() == "arm +2 ms");
  CHECK(c.wait() == "report end: the peer closed the connection; close");
  CHECK(c.elapsed == 250ms);
}

TEST_CASE("the control channel ends the stream as soon as its last frame is written")
{
  channel c;
  c.establish();
  c.finish();
  SECTION("written before the end")
  {
    c.written();
    CHECK(c.frame(frame_type::finished)
      == "report peer finished; report orderly end; shut down send; arm +1000 ms");
  }
  SECTION("not written because the stream is broken")
  {
    c.machine.on_write_failed();
    CHECK(c.stop() == "send bye; shut down send; arm +1000 ms");
  }
  SECTION("each side finishes only once")
  {
    CHECK(c.finish() == "");
    CHECK(c.frame(frame_type::finished) != "");
    CHECK(c.frame(frame_type::finished) == "");
  }
}

TEST_CASE("the control channel checks for a missing receive when no send completes for a second")
{
  channel c;
  c.times = {0ms, 700ms};
  c.establish();
  c.sends = {true, 5};
  CHECK(c.wait() == "send heartbeat; arm +700 ms");
  c.written();
  CHECK(c.wait() == "send heartbeat; arm +700 ms"); // outstanding for 700 ms
  c.written();
  SECTION("until it was logged")
  {
    for (int again = 0; again != 2; ++again)
    {
      CHECK(c.wait() == "send heartbeat; check for a missing receive; arm +700 ms");
      c.written();
    }
    CHECK(c.machine.sends_stalled_for(c.now()) == 2100ms);
    c.machine.missing_receive_logged();
    CHECK(c.wait() == "send heartbeat; arm +700 ms");
  }
  SECTION("but not if a send has completed meanwhile")
  {
    c.sends.completed = 6;
    CHECK(c.wait() == "send heartbeat; arm +700 ms");
  }
  SECTION("but not if no send is outstanding any more")
  {
    c.sends.outstanding = false;
    CHECK(c.wait() == "send heartbeat; arm +700 ms");
  }
}

} // namespace test::control_channel
