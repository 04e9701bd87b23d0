//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests peers that are single-stepped through an access, a revocation, a wake-up and a handshake,
// and stopped or killed at an instruction that a seed selects. BOOST_RDMA_TEST_SEED repeats a run's
// choices; with exhaustive(), every instruction of a part has its turn, except in handshakes.

#include "common/inventory.hpp"
#include "common/sanitizers.hpp"
#include "common/shared_bytes.hpp"
#include "software/refusal.hpp"
#include "software/still_peer.hpp"
#include "software/traced_peer.hpp"
#include "verbs/software/memory/late_writers.hpp"

#include <boost_rdma/memory_window.hpp>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <span>
#include <string>

#include <sys/mman.h>

// Single-stepped exclusive loads and stores of other processors never succeed.
#if !defined(__x86_64__)
#define BOOST_RDMA_TEST_TRACES()                                                                   \
  do                                                                                               \
  {                                                                                                \
    WARN("skipped: single steps need x86-64");                                                     \
    return;                                                                                        \
  } while (false)
#elif BOOST_RDMA_TEST_ADDRESS_SANITIZER || BOOST_RDMA_TEST_THREAD_SANITIZER
#define BOOST_RDMA_TEST_TRACES()                                                                   \
  do                                                                                               \
  {                                                                                                \
    WARN("skipped: with a sanitizer, most instructions are not the library's");                    \
    return;                                                                                        \
  } while (false)
#else
#define BOOST_RDMA_TEST_TRACES()                                                                   \
  do                                                                                               \
  {                                                                                                \
    BOOST_RDMA_TEST_NEEDS(software_device);                                                        \
    if (!may_trace())                                                                              \
    {                                                                                              \
      WARN("skipped: ptrace(2) is not permitted");                                                 \
      return;                                                                                      \
    }                                                                                              \
  } while (false)
#endif

namespace test::peers_under_ptrace {
namespace {

using action = trace_order::action;
using place = trace_report::place;
using rdma::software::late_writers;

std::minstd_rand::result_type seed()
{
  const char* const given = std::getenv("BOOST_RDMA_TEST_SEED");
  return given != nullptr ? static_cast<std::minstd_rand::result_type>(std::stoul(given))
                          : std::random_device{}();
}

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

/// Calls round(steps) for numbers of steps up to `most`: at random, or with exhaustive() for a
/// grid.
template <class Round>
void for_steps(unsigned most, unsigned samples, std::minstd_rand& random, Round round)
{
  const unsigned distance = std::max(1u, most / 1000);
  for (unsigned i = 0; i != (exhaustive() ? most / distance + 1 : samples); ++i)
    round(exhaustive() ? i * distance : std::uniform_int_distribution<unsigned>(0, most)(random));
}

/// The time that calls take in the test's thread.
struct pauses
{
  template <class Call>
  void measure(Call call)
  {
    const auto processor = []
    {
      timespec now{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
    };
    const auto begin = std::chrono::steady_clock::now();
    const auto processor_begin = processor();
    call();
    using namespace std::chrono;
    slow += processor() - processor_begin > milliseconds(10) ? 1 : 0;
    longest =
      std::max(longest, duration_cast<microseconds>(std::chrono::steady_clock::now() - begin));
    ++count;
  }

  std::chrono::microseconds longest{};
  unsigned slow = 0; ///< more than 10 ms of the thread's processor time
  unsigned count = 0;
};

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
    std::printf(
      "%s: longest turn while the peer is stopped %lld us, longest end of access %lld us\n",
      Catch::getResultCapture().getCurrentTestName().c_str(),
      static_cast<long long>(turns.longest.count()), static_cast<long long>(ends.longest.count()));
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
  pauses turns;
  pauses ends;

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

// Handshakes of the peer

rdma::context context_with(const std::string& wire)
{
  rdma::context_options options;
  options.software.wires = {wire};
  return make_context(options);
}

/// The peer: connects to the port that it receives, and waits for the end of the connection.
bool be_client(const packet_line& line, const std::string& wire)
{
  asio::io_context io;
  const rdma::context context = context_with(wire);
  rdma::queue_pair own(io, context, impatient());
  end_watcher of_own(own);
  plain_record connected;
  rdma::connect_options options;
  options.data = "traced";
  const auto port = static_cast<std::uint16_t>(std::stoul(line.receive().value()));
  begin_steps();
  own.async_connect(loopback(port), options, connected.handler());
  if (!run_until(io, [&] { return connected.done(); }))
    return false;
  end_steps();
  return run_until(io, [&] { return of_own.done(); }) && of_own.once() && connected.calls == 1;
}

/// The peer: accepts a client, and waits for the end of the connection.
bool be_server(const packet_line& line, const std::string& wire)
{
  asio::io_context io;
  const rdma::context context = context_with(wire);
  rdma::acceptor_options options;
  options.queue_pair = impatient();
  rdma::acceptor acceptor(io, context, loopback(), options);
  connect_fixture::accepted client;
  acceptor.async_accept(client.handler());
  line.send(std::to_string(acceptor.local_endpoint().port()));
  begin_steps();
  if (!run_until(io, [&] { return client.calls != 0; }) || client.ec)
    return false;
  end_steps();
  end_watcher of_client(*client.peer);
  return run_until(io, [&] { return of_client.done(); }) && of_client.once();
}

/// Numbers of system calls, and of steps behind them.
struct moment
{
  unsigned calls = 0;
  unsigned steps = 0;
  bool kill = false;
};

/// An acceptor whose clients are stopped or killed while they connect.
struct handshakes_with_clients
{
  explicit handshakes_with_clients(const std::string& wire)
    : peer(peer_io, [wire](const packet_line& line) { return be_client(line, wire); })
    , f(options())
    , served(f.acceptor)
  {
    REQUIRE(served.serve_another(f, ++good));
  }
  static rdma::acceptor_options options()
  {
    rdma::acceptor_options result;
    result.queue_pair = impatient();
    result.handshake_timeout = std::chrono::milliseconds(500);
    return result;
  }

  trace_report wait_for_report()
  {
    REQUIRE(run_until(peer_io, f.io, [&] { return peer.reported(); }));
    return peer.report();
  }

  trace_report round(const moment& when)
  {
    peer.order({.what = action::start});
    peer.send(std::to_string(f.acceptor.local_endpoint().port()));
    REQUIRE(wait_for_report().where == place::marked);
    peer.order({.what = action::step, .calls = when.calls, .steps = when.steps});
    const trace_report report = wait_for_report();
    if (when.kill)
    {
      peer.order({.what = action::kill});
      static_cast<void>(wait_for_report());
    }
    for (unsigned i = 0; i != 32; ++i)
      turns.measure([&] { f.io.poll_one(); });
    REQUIRE(served.serve_another(f, ++good));
    REQUIRE(run_until(f.io, [&] { return served.all_done(); }));
    CHECK(served.failures() == 0);
    for (; checked != served.all().size(); ++checked)
    {
      const auto& each = served.all()[checked];
      CHECK(each.of_peer.received.ec);
      if (!each.good())
        CHECK(is_loss(each.of_peer.ended.ec, when.kill ? SIGKILL : SIGSTOP));
    }
    if (!when.kill)
    {
      // It finds that it was lost, or connects now.
      peer.order({.what = action::complete});
      REQUIRE(run_until(peer_io, f.io,
        [&]
        {
          if (!served.all_done())
            served.close();
          return peer.reported();
        }));
      CHECK(peer.report().status == 0);
      checked = served.all().size();
    }
    return report;
  }

  asio::io_context peer_io;
  traced_peer peer;
  connect_fixture f;
  served_clients served;
  std::size_t good = 0;
  std::size_t checked = 0;
  pauses turns;
};

/// Clients of an acceptor that is stopped or killed while it accepts.
struct handshakes_with_servers
{
  explicit handshakes_with_servers(const std::string& wire)
    : peer(io, [wire](const packet_line& line) { return be_server(line, wire); })
    , context(make_context())
  {
  }

  trace_report wait_for_report()
  {
    REQUIRE(run_until(io, [&] { return peer.reported(); }));
    return peer.report();
  }

  trace_report round(const moment& when)
  {
    peer.order({.what = action::start});
    REQUIRE(run_until(io, [&] { return peer.has_text() && peer.reported(); }));
    REQUIRE(peer.report().where == place::marked);
    const auto port = static_cast<std::uint16_t>(std::stoul(peer.take_text()));
    rdma::queue_pair own(io, context, impatient());
    plain_record connected;
    end_watcher of_own(own);
    peer.order({.what = action::step, .calls = when.calls, .steps = when.steps});
    own.async_connect(loopback(port), connected.handler());
    const trace_report report = wait_for_report();
    if (when.kill)
    {
      peer.order({.what = action::kill});
      static_cast<void>(wait_for_report());
    }
    for (unsigned i = 0; i != 32; ++i)
      turns.measure([&] { io.poll_one(); });
    REQUIRE(run_until(io, [&] { return connected.done() && of_own.done(); }));
    CAPTURE(connected.ec, of_own.ended.ec);
    CHECK(of_own.received.ec);
    if (connected.ec)
      CHECK(of_own.ended.ec == connected.ec);
    else
      CHECK(is_loss(of_own.ended.ec, when.kill ? SIGKILL : SIGSTOP));
    if (!when.kill)
    {
      peer.order({.what = action::kill});
      static_cast<void>(wait_for_report());
    }
    own.close();
    io.poll();
    CHECK(connected.calls == 1);
    CHECK(of_own.once());
    return report;
  }

  asio::io_context io;
  traced_peer peer;
  rdma::context context;
  pauses turns;
};

/// Stops or kills peers at system calls of a handshake, and a few instructions behind them.
template <class Handshakes>
void check_handshakes(const std::string& wire)
{
  const auto value = seed();
  CAPTURE(value, wire);
  std::minstd_rand random(value);
  Handshakes all(wire);
  const trace_report whole = all.round({.calls = UINT_MAX, .kill = true});
  REQUIRE(whole.where == place::marked);
  all.round({.calls = UINT_MAX});
  const holdings before;
  for_steps(whole.calls, 10, random,
    [&](unsigned calls)
    {
      const moment when{calls, static_cast<unsigned>(random() % 2000), random() % 4 != 0};
      CAPTURE(when.calls, when.steps, when.kill);
      all.round(when);
    });
  CHECK(settled(before) <= before);
  CHECK(all.turns.slow <= 2 + all.turns.count / 1000);
}

} // namespace

TEST_CASE("a peer that is stopped or killed at any instruction of an access delays nobody")
{
  BOOST_RDMA_TEST_TRACES();
  const auto value = seed();
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
  const auto value = seed();
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
  const auto value = seed();
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

TEST_CASE("no accept fails when a client is stopped or killed at any system call of a handshake")
{
  BOOST_RDMA_TEST_TRACES();
  check_handshakes<handshakes_with_clients>(GENERATE("local", "tcp"));
}

TEST_CASE("async_connect ends once when the server is stopped or killed at any system call")
{
  BOOST_RDMA_TEST_TRACES();
  check_handshakes<handshakes_with_servers>(GENERATE("local", "tcp"));
}

} // namespace test::peers_under_ptrace
