//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests peers that are single-stepped through an access, a revocation and a wake-up, and stopped or
// killed at an instruction.

#include "common/inventory.hpp"
#include "common/shared_bytes.hpp"
#include "software/refusal.hpp"
#include "software/stepped_peer.hpp"
#include "verbs/software/memory/late_writers.hpp"

#include <boost_rdma/memory_window.hpp>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <random>
#include <span>
#include <string>

namespace test::peers_under_ptrace {
namespace {

using action = trace_order::action;
using place = trace_report::place;
using rdma::software::late_writers;

/// Without a limit for answers: a peer that is stepped is slow.
rdma::queue_pair_options patient()
{
  rdma::queue_pair_options options = of_depth(4);
  options.timeout = 0;
  return options;
}

rdma::remote_buffer handle_in(const std::string& text)
{
  return rdma::remote_buffer::decode(std::as_bytes(std::span(text)));
}

std::string text_of_handle(const rdma::remote_buffer& handle)
{
  const auto bytes = handle.encode();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// This process: a context with one connection to the traced peer and another one, of which the
/// peer knows nothing.
class survivor
{
public:
  explicit survivor(const std::function<bool(const packet_line&)>& body)
    : peer(io, body)
  {
    connect(near_, far_);
    check_alive(io, near_, far_);
  }
  ~survivor()
  {
    turns.print("the peer is stopped");
    ends.print("access is ended");
  }
  survivor(const survivor&) = delete;
  survivor& operator=(const survivor&) = delete;

  /// Makes the peer begin a round, up to begin_steps().
  void start_round()
  {
    if (!std::exchange(alive_, true))
      peer.order({.what = action::start});
    peer.send("begin");
  }
  /// Exchanges descriptions with the peer, which waits for this.
  void connect_with_peer(rdma::queue_pair& own)
  {
    const std::string text = own.local_endpoint().text();
    own.connect(rdma::endpoint_description::parse(next_text()));
    peer.send(text);
  }
  std::string next_text()
  {
    REQUIRE(run_until(io, [&] { return peer.has_text(); }));
    return peer.take_text();
  }
  /// Waits until the peer has stopped.
  trace_report stopped()
  {
    REQUIRE(run_until(io, [&] { return peer.reported(); }));
    return peer.report();
  }
  /// Serves others while the peer is stopped.
  void serve_others()
  {
    for (unsigned i = 0; i != 32; ++i)
      turns.measure([&] { io.poll_one(); });
    check_alive(io, near_, far_);
    check_alive(io, far_, near_);
  }
  trace_report step(const trace_order& how)
  {
    peer.order(how);
    return stopped();
  }
  void resume_peer() { peer.order({.what = action::resume}); }
  void kill_peer()
  {
    static_cast<void>(step({.what = action::kill}));
    alive_ = false;
  }
  /// `before`: what this process held with a connected peer.
  void check_at_end(const holdings& before)
  {
    CHECK(settled(before) <= before);
    // A processor that a virtual machine's host takes away may count as used.
    CHECK(turns.slow <= 2 + turns.count / 1000);
  }

  asio::io_context io;
  traced_peer peer;
  rdma::context context = make_context();
  measured_pauses turns;
  measured_pauses ends;

private:
  rdma::context other_context_ = make_context();
  rdma::queue_pair near_{io, context};
  rdma::queue_pair far_{io, other_context_};
  bool alive_ = false;
};

// Accesses of the test's memory by the peer

enum class kind
{
  write,
  read,
  fetch_add,
};

constexpr std::uint8_t old_byte = 0x11;
constexpr std::uint8_t new_byte = 0x22;
constexpr std::uint8_t later_byte = 0x77;
const std::string success = "success";

bool holds(std::span<const std::byte> bytes, std::uint8_t what)
{
  return std::all_of(
    bytes.begin(), bytes.end(), [what](std::byte each) { return each == std::byte{what}; });
}

/// The peer: connects, accesses the test's memory as a test wants it, reports the outcome, and
/// starts again.
bool access_memory(const packet_line& line, kind what)
{
  asio::io_context io;
  const rdma::context context = make_context();
  while (line.receive())
  {
    rdma::queue_pair own(io, context, patient());
    line.send(own.local_endpoint().text());
    own.connect(rdma::endpoint_description::parse(line.receive().value()));
    const rdma::remote_buffer memory = handle_in(line.receive().value());
    const rdma::registered_buffer bytes = context.allocate(memory.size());
    bytes_record done;
    value_record counted;
    const auto start = [&](kind which)
    {
      done = {};
      counted = {};
      if (which == kind::write)
        own.async_write(bytes, memory, done.handler());
      else if (which == kind::read)
        own.async_read(bytes, memory, done.handler());
      else
        own.async_fetch_add(memory.first(8), 1, counted.handler());
    };
    const auto ended = [&] { return run_until(io, [&] { return done.done() || counted.done(); }); };
    // The first one asks for the grant.
    for (int i = 0; i != 3; ++i)
    {
      start(kind::read);
      if (!ended() || done.ec)
        return false;
    }
    std::fill_n(bytes.data(), bytes.size(), std::byte{what == kind::write ? new_byte : later_byte});
    begin_steps();
    start(what);
    end_steps();
    if (!ended() || done.calls + counted.calls != 1)
      return false;
    const error_code ec = what == kind::fetch_add ? counted.ec : done.ec;
    if (what == kind::read && !ec && !holds(bytes.bytes(), old_byte))
      return false; // bytes that the owner has stored after the end of the access
    line.send(ec ? ec.message() : success);
  }
  return true;
}

/// Returns true if each byte is old or new, and the last word has not come before the others.
bool is_in_order(std::span<const std::byte> bytes)
{
  const auto is_new = [](std::byte each) { return each == std::byte{new_byte}; };
  const std::size_t last = std::min<std::size_t>(8, bytes.size());
  const auto before = bytes.first(bytes.size() - last);
  return std::all_of(bytes.begin(), bytes.end(),
           [&](std::byte each) { return is_new(each) || each == std::byte{old_byte}; })
    && (std::none_of(bytes.end() - static_cast<std::ptrdiff_t>(last), bytes.end(), is_new)
      || std::all_of(before.begin(), before.end(), is_new));
}

struct accesses
{
  accesses(kind which, std::size_t size)
    : what(which)
    , memory(size)
    , s([which](const packet_line& line) { return access_memory(line, which); })
  {
  }

  enum class fate
  {
    keep, ///< the peer continues, and the access is permitted
    revoke,
    kill,
  };

  /// Steps the peer through an access so far, and checks what becomes of it and of the memory.
  trace_report round(unsigned steps, fate then)
  {
    const std::uint8_t before = what == kind::fetch_add ? 0 : old_byte;
    std::fill_n(memory.data(), memory.size(), std::byte{before});
    s.start_round();
    rdma::memory_region region(s.context, memory.data(), memory.size(), exposed);
    rdma::queue_pair own(s.io, s.context, patient());
    s.connect_with_peer(own);
    s.peer.send(text_of_handle(region.remote()));
    bytes_record sent;
    bytes_record received;
    own.async_receive(rdma::no_data, received.handler());
    own.async_send(rdma::no_data, sent.handler()); // the peer posts no receive for it
    REQUIRE(s.stopped().where == place::marked);
    const trace_report report = s.step({.what = action::step, .steps = steps});
    REQUIRE(report.where != place::ended);
    s.serve_others();
    check_memory();

    bool late = false;
    if (then == fate::revoke)
    {
      s.ends.measure([&] { region = {}; });
      late = late_writers::may_write(memory.data(), memory.size());
      ++(late ? revoked_late : revoked);
      if (what == kind::read)
        std::fill_n(memory.data(), memory.size(), std::byte{later_byte});
    }
    else if (then == fate::kill)
    {
      s.kill_peer();
    }
    const std::vector<std::byte> after(memory.data(), memory.data() + memory.size());
    const auto is_unchanged = [&] { return std::equal(after.begin(), after.end(), memory.data()); };
    s.serve_others();
    if (then == fate::kill)
    {
      REQUIRE(run_until(s.io, [&] { return sent.done() && received.done(); }));
      CHECK(sent.ec == rdma::wc_status::retry_exceeded);
      CHECK(received.ec == rdma::wc_status::flushed);
      CHECK(is_unchanged());
    }
    else
    {
      s.resume_peer();
      const std::string outcome = s.next_text();
      CAPTURE(outcome);
      if (then == fate::keep || outcome != success)
        CHECK(outcome
          == (then == fate::keep ? success
                                 : error_code(rdma::wc_status::remote_access_error).message()));
      if (late) // the peer may finish its copy
        CHECK(until([&] { return !late_writers::may_write(memory.data(), memory.size()); }));
      else if (then == fate::revoke)
        CHECK(is_unchanged());
      if (outcome == success && !late)
        check_complete();
    }
    own.close();
    REQUIRE(run_until(s.io, [&] { return sent.done() && received.done(); }));
    CHECK(sent.calls == 1);
    CHECK(received.calls == 1);
    return report;
  }

  void check_memory() const
  {
    const std::span<const std::byte> bytes(memory);
    if (what == kind::write)
      CHECK(is_in_order(bytes));
    else if (what == kind::read)
      CHECK(holds(bytes, old_byte));
    else
      CHECK(word() <= 1);
  }
  void check_complete() const
  {
    if (what == kind::write)
      CHECK(holds(memory, new_byte));
    else if (what == kind::fetch_add)
      CHECK(word() == 1);
  }
  [[nodiscard]] std::uint64_t word() const
  {
    std::uint64_t value = 0;
    std::memcpy(&value, memory.data(), sizeof value);
    return value;
  }

  const kind what;
  shared_bytes memory;
  survivor s;
  unsigned revoked = 0;
  unsigned revoked_late = 0; ///< in the middle of a copy
};

// Revocations by the peer of its memory

/// The peer: exposes memory, takes it back as a test wants it, reports whether it changed
/// afterwards, and starts again.
bool revoke_memory(const packet_line& line, bool by_window)
{
  asio::io_context io;
  const rdma::context context = make_context();
  const shared_bytes bytes(1000);
  while (line.receive())
  {
    rdma::memory_region region(context, bytes.data(), bytes.size(),
      by_window ? exposed | rdma::access::window_bind : exposed);
    const rdma::memory_window window(context);
    rdma::queue_pair own(io, context, patient());
    line.send(own.local_endpoint().text());
    own.connect(rdma::endpoint_description::parse(line.receive().value()));
    rdma::remote_buffer handle = region.remote();
    plain_record invalidated;
    if (by_window)
    {
      remote_record bound;
      own.async_bind_window(window, region, rdma::remote_access, bound.handler());
      if (!run_until(io, [&] { return bound.done(); }) || bound.ec)
        return false;
      handle = bound.value();
    }
    line.send(text_of_handle(handle));
    static_cast<void>(line.receive()); // the test has written
    begin_steps();
    if (by_window)
    {
      own.async_invalidate(window.key(), invalidated.handler());
      if (!run_until(io, [&] { return invalidated.done(); }))
        return false;
    }
    else
    {
      region = {};
    }
    end_steps();
    const bool late = late_writers::may_write(bytes.data(), bytes.size());
    const std::vector<std::byte> after(bytes.data(), bytes.data() + bytes.size());
    line.send("revoked");
    static_cast<void>(line.receive()); // the test's writes have failed
    const bool unchanged = std::equal(after.begin(), after.end(), bytes.data());
    line.send(late ? "late" : unchanged ? "unchanged" : "changed");
    if (invalidated.ec
      || !until([&] { return !late_writers::may_write(bytes.data(), bytes.size()); }))
      return false;
  }
  return true;
}

/// Writes again and again until an error.
class writer
{
public:
  writer(rdma::queue_pair& own, const rdma::registered_buffer& bytes, const rdma::remote_buffer& to)
    : own_(own)
    , bytes_(bytes)
    , to_(to)
  {
    write();
  }
  [[nodiscard]] bool done() const { return static_cast<bool>(ec); }

  error_code ec;
  unsigned writes = 0;

private:
  void write()
  {
    bytes_.data()[writes % bytes_.size()] ^= std::byte{1};
    own_.async_write(bytes_, to_,
      [this](error_code result, std::size_t)
      {
        ec = result;
        ++writes;
        if (!ec)
          write();
      });
  }

  rdma::queue_pair& own_;
  const rdma::registered_buffer& bytes_;
  rdma::remote_buffer to_;
};

/// Steps the peer through a revocation so far.
trace_report revoke(survivor& s, unsigned steps, bool kill)
{
  s.start_round();
  rdma::queue_pair own(s.io, s.context, patient());
  s.connect_with_peer(own);
  const rdma::remote_buffer memory = handle_in(s.next_text());
  const rdma::registered_buffer bytes = s.context.allocate(memory.size());
  writer writes(own, bytes, memory);
  REQUIRE(run_until(s.io, [&] { return writes.writes >= 3; }));
  REQUIRE(!writes.ec);
  s.peer.send("written");
  REQUIRE(s.stopped().where == place::marked);
  const trace_report report = s.step({.what = action::step, .steps = steps});
  REQUIRE(report.where != place::ended);
  s.serve_others();
  if (kill)
  {
    s.kill_peer();
    REQUIRE(run_until(s.io, [&] { return writes.done(); }));
    const bool lost = writes.ec == rdma::wc_status::retry_exceeded;
    // The peer has refused a write before it was killed.
    CHECK((lost || writes.ec == rdma::wc_status::remote_access_error));
  }
  else
  {
    s.resume_peer();
    CHECK(s.next_text() == "revoked");
    REQUIRE(run_until(s.io, [&] { return writes.done(); }));
    CHECK(writes.ec == rdma::wc_status::remote_access_error);
    s.peer.send("over");
    CHECK(s.next_text() != "changed");
  }
  const unsigned all = writes.writes;
  own.close();
  s.serve_others();
  CHECK(writes.writes == all);
  return report;
}

// Wake-ups of the peer

/// The peer: returns each message to the test.
bool echo(const packet_line& line)
{
  asio::io_context io;
  const rdma::context context = make_context();
  const rdma::registered_buffer bytes = context.allocate(8);
  while (line.receive())
  {
    rdma::queue_pair own(io, context, patient());
    line.send(own.local_endpoint().text());
    own.connect(rdma::endpoint_description::parse(line.receive().value()));
    bytes_record received;
    bytes_record sent;
    own.async_receive(bytes, received.handler());
    for (bool is_first = true;; is_first = false)
    {
      if (!is_first) // before, only its time limit ends a request to a peer that has died
        begin_steps();
      if (!run_until(io, [&] { return received.done(); }) || received.ec)
        return false;
      received = {};
      sent = {};
      own.async_send(bytes, sent.handler());
      if (!run_until(io, [&] { return sent.done(); }))
        return false;
      own.async_receive(bytes, received.handler());
      end_steps();
    }
  }
  return true;
}

/// A connection with a peer that returns messages.
struct echoes
{
  explicit echoes(survivor& with)
    : s(with)
    , out(buffer_of(s.context, "question"))
    , in(s.context.allocate(8))
    , own(s.io, s.context, patient())
  {
    s.start_round();
    s.connect_with_peer(own);
    own.async_receive(in, received.handler());
    own.async_send(out, sent.handler());
    REQUIRE(run_until(s.io, [&] { return sent.done() && received.done() && s.peer.reported(); }));
    REQUIRE(s.peer.report().where == place::marked);
  }

  /// Steps the peer so far, and stops it. `early`: there is a message before the first step.
  trace_report step(unsigned steps, bool early)
  {
    in.data()[0] = {};
    received = {};
    sent = {};
    own.async_receive(in, received.handler());
    if (early)
      own.async_send(out, sent.handler());
    const trace_report report = s.step({.what = action::step, .steps = steps, .to_sleep = !early});
    REQUIRE(report.where != place::ended);
    s.serve_others();
    if (!early)
      own.async_send(out, sent.handler());
    s.serve_others();
    return report;
  }
  void check_continues()
  {
    s.resume_peer();
    REQUIRE(run_until(s.io, [&] { return sent.done() && received.done() && s.peer.reported(); }));
    CHECK(s.peer.report().where == place::marked);
    CHECK(!sent.ec);
    CHECK(!received.ec);
    CHECK(text_of(in) == "question");
  }
  void check_killed()
  {
    s.kill_peer();
    bytes_record last; // the peer may have answered all others
    own.async_send(out, last.handler());
    bytes_record open;
    own.async_receive(in, open.handler());
    REQUIRE(run_until(
      s.io, [&] { return sent.done() && received.done() && last.done() && open.done(); }));
    CHECK(last.ec.category() == rdma::wc_category());
    CHECK(open.ec == rdma::wc_status::flushed);
    if (received.ec)
      CHECK(received.ec == rdma::wc_status::flushed);
    own.close();
    s.serve_others();
    CHECK(sent.calls + received.calls + last.calls + open.calls == 4);
  }

  survivor& s;
  rdma::registered_buffer out;
  rdma::registered_buffer in;
  rdma::queue_pair own;
  bytes_record sent;
  bytes_record received;
};

} // namespace

TEST_CASE("a peer that is stopped or killed at any instruction of an access delays nobody")
{
  BOOST_RDMA_TEST_TRACES();
  const auto value = seed_of_steps();
  CAPTURE(value);
  std::minstd_rand random(value);
  const auto [what, size] = GENERATE(Catch::Generators::table<kind, std::size_t>({{kind::write, 24},
    {kind::write, 1000}, {kind::write, 6000}, {kind::read, 1000}, {kind::fetch_add, 8}}));
  CAPTURE(what, size);
  accesses a(what, size);
  trace_report whole;
  for (int i = 0; i != 3; ++i)
    whole = a.round(UINT_MAX, accesses::fate::keep);
  REQUIRE(whole.where == place::marked);
  const holdings before;
  for_steps(whole.steps, 8, random,
    [&](unsigned steps)
    {
      const auto then =
        random() % 2 == 0 ? accesses::fate::revoke : static_cast<accesses::fate>(random() % 3);
      CAPTURE(steps, then);
      a.round(steps, then);
    });
  if (exhaustive())
  {
    CHECK(a.revoked != 0);
    if (what != kind::read)
      CHECK(a.revoked_late != 0);
  }
  a.round(0, accesses::fate::keep); // a peer is alive, as before
  a.s.check_at_end(before);
}

TEST_CASE("a peer that is stopped or killed at any instruction of a revocation delays nobody")
{
  BOOST_RDMA_TEST_TRACES();
  const auto value = seed_of_steps();
  CAPTURE(value);
  std::minstd_rand random(value);
  const bool by_window = GENERATE(false, true);
  CAPTURE(by_window);
  survivor s([by_window](const packet_line& line) { return revoke_memory(line, by_window); });
  trace_report whole;
  for (int i = 0; i != 3; ++i)
    whole = revoke(s, UINT_MAX, false);
  REQUIRE(whole.where == place::marked);
  const holdings before;
  for_steps(whole.steps, 8, random,
    [&](unsigned steps)
    {
      const bool kill = random() % 4 == 0;
      CAPTURE(steps, kill);
      revoke(s, steps, kill);
    });
  revoke(s, 0, false);
  s.check_at_end(before);
}

TEST_CASE("a peer that is stopped at any instruction of a wait or an answer misses no message")
{
  BOOST_RDMA_TEST_TRACES();
  const auto value = seed_of_steps();
  CAPTURE(value);
  std::minstd_rand random(value);
  const bool early = GENERATE(false, true);
  CAPTURE(early);
  survivor s(&echo);
  auto link = std::make_unique<echoes>(s);
  trace_report whole;
  for (int i = 0; i != 3; ++i)
  {
    whole = link->step(UINT_MAX, early);
    link->check_continues();
  }
  REQUIRE(whole.where == (early ? place::marked : place::asleep));
  const holdings before;
  for_steps(whole.steps, 8, random,
    [&](unsigned steps)
    {
      const bool kill = random() % 4 == 0;
      CAPTURE(steps, kill);
      link->step(steps, early);
      if (!kill)
        return link->check_continues();
      link->check_killed();
      link.reset();
      link = std::make_unique<echoes>(s);
    });
  s.check_at_end(before);
}

} // namespace test::peers_under_ptrace
