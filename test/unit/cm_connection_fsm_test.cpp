//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/cm/connection_fsm.hpp"

#include "common/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Tests every transition of the communication manager's state machine (IBA 12.9.7, tables 129 to
// 131, and 12.11) at times that the test chooses.

namespace rdma::software::cm::connection_fsm_test {
namespace {

using fsm = connection_fsm;
using phase = fsm::phase;

constexpr std::uint32_t local_id = 1;
constexpr std::uint32_t peer_id = 2;
constexpr std::uint32_t other_id = 3; // of another end at the peer's address
constexpr std::uint32_t peer_queue_pair = 0x55;
constexpr std::uint64_t transaction = 1000; // of the request
constexpr std::uint8_t of_request = 0;
constexpr std::uint8_t of_reply = 1;
constexpr std::uint8_t of_neither = 2;
constexpr auto invalid_id = static_cast<std::uint16_t>(reject_reason::invalid_communication_id);
constexpr auto consumer = static_cast<std::uint16_t>(reject_reason::consumer);

const char* name_of(phase which)
{
  constexpr std::array names{"idle", "request sent", "reply received", "requested", "reply sent",
    "established", "DREQ sent", "DREQ received", "time wait", "ended"};
  return names.at(static_cast<std::size_t>(which));
}

std::string name_of(const message& m)
{
  const char* const answered = m.answered == of_request ? " of REQ"
    : m.answered == of_reply                            ? " of REP"
                                                        : " of neither";
  switch (m.type)
  {
  case message_type::request:
    return "REQ";
  case message_type::receipt:
    return std::string("MRA") + answered;
  case message_type::reject:
    return "REJ " + std::to_string(m.status) + answered;
  case message_type::reply:
    return "REP";
  case message_type::ready:
    return "RTU";
  case message_type::disconnect:
    return "DREQ";
  case message_type::disconnected:
    return "DREP";
  case message_type::datagram_request:
    return "SIDR_REQ";
  case message_type::datagram_reply:
    return "SIDR_REP " + std::to_string(m.status);
  }
  return "an unknown message";
}

std::string name_of(fsm::report_type which)
{
  constexpr std::array names{"nothing", "response", "established", "rejected", "unreachable",
    "disconnected", "the end of time wait"};
  return names.at(static_cast<std::size_t>(which));
}

message of_type(message_type type)
{
  message m;
  m.type = type;
  return m;
}

message request_of_peer(message_type type = message_type::request)
{
  message m = of_type(type);
  m.transaction = transaction;
  m.local_id = peer_id;
  m.queue_pair = peer_queue_pair;
  return m;
}

// A message of the peer for this end.
message from_peer(message_type type, std::uint32_t from = peer_id)
{
  message m = of_type(type);
  m.transaction = transaction + 7;
  m.local_id = from;
  m.remote_id = local_id;
  m.queue_pair = peer_queue_pair;
  return m;
}

message receipt(std::uint8_t answered, std::uint8_t service_timeout = fsm::last_timeout)
{
  message m = from_peer(message_type::receipt);
  m.answered = answered;
  m.service_timeout = service_timeout;
  return m;
}

message rejection(std::uint16_t reason, std::uint32_t from = peer_id)
{
  message m = from_peer(message_type::reject, from);
  m.status = reason;
  return m;
}

message datagram_answer(datagram_status status)
{
  message m = of_type(message_type::datagram_reply);
  m.local_id = local_id;
  m.status = static_cast<std::uint16_t>(status);
  return m;
}

constexpr std::array some_data{std::byte{1}, std::byte{2}};

/// The machine with a clock of its own.
struct connection
{
  /// Returns the consequences of a step as text: "REP; wait 268 ms; report rejected 28".
  std::string text(const fsm::step& s)
  {
    std::string result;
    const auto add = [&](const std::string& part)
    { result += (result.empty() ? "" : "; ") + part; };
    if (s.send)
    {
      add(name_of(*s.send));
      sent = *s.send;
    }
    if (machine.deadline() != deadline)
    {
      deadline = machine.deadline();
      add(deadline == 0    ? "no timer"
          : deadline > now ? "wait " + std::to_string((deadline - now) / 1'000'000) + " ms"
                           : "timer now");
    }
    if (s.report != fsm::report_type::none)
      add("report " + name_of(s.report) + (s.status != 0 ? " " + std::to_string(s.status) : ""));
    return result;
  }

  std::string connect(message_type type = message_type::request)
  {
    return text(machine.connect(of_type(type), transaction, now));
  }
  std::string take_request(message_type type = message_type::request)
  {
    machine.take_request(request_of_peer(type));
    return text({});
  }
  std::string accept()
  {
    return text(machine.accept(
      of_type(machine.is_datagram() ? message_type::datagram_reply : message_type::reply), now));
  }
  std::string reject() { return text(machine.reject(some_data)); }
  std::string establish() { return text(machine.establish()); }
  std::string disconnect() { return text(machine.disconnect(now)); }
  std::string destroy() { return text(machine.destroy()); }
  std::string suspect() { return text(machine.suspect(now)); }
  std::string receive(const message& m) { return text(machine.receive(m, now)); }

  /// Passes time until the deadline.
  std::string expire()
  {
    now = std::max(now, machine.deadline());
    return text(machine.expire(now));
  }
  std::string expire_early()
  {
    now = std::max(now, machine.deadline() - 1);
    return text(machine.expire(now));
  }
  /// Passes time until the machine gives up.
  std::string expire_finally()
  {
    const phase before = machine.state();
    std::string result;
    for (unsigned i = 0; i <= fsm::retries_max && machine.deadline() != 0; ++i)
    {
      REQUIRE(machine.state() == before);
      result = expire();
      if (before == phase::time_wait)
        break;
    }
    return result;
  }

  fsm machine{local_id};
  std::int64_t now = 5'000'000'000;
  std::int64_t deadline = 0;
  message sent; // the last one
};

/// A phase, and the way to it where there are several.
struct situation
{
  const char* name;
  phase expected;
  void (*reach)(connection&);
};

void be_established(connection& c)
{
  c.connect();
  c.receive(from_peer(message_type::reply));
  c.establish();
}

void be_established_by_peer(connection& c)
{
  c.take_request();
  c.accept();
  c.receive(from_peer(message_type::ready));
}

const std::vector<situation> situations{
  {"idle", phase::idle, [](connection&) {}},
  {"request sent", phase::request_sent, [](connection& c) { c.connect(); }},
  {"reply received", phase::reply_received,
    [](connection& c)
    {
      c.connect();
      c.receive(from_peer(message_type::reply));
    }},
  {"requested", phase::requested, [](connection& c) { c.take_request(); }},
  {"reply sent", phase::reply_sent,
    [](connection& c)
    {
      c.take_request();
      c.accept();
    }},
  {"established", phase::established, be_established},
  {"established by peer", phase::established, be_established_by_peer},
  {"probing", phase::established,
    [](connection& c)
    {
      be_established(c);
      c.suspect();
    }},
  {"DREQ sent", phase::disconnect_sent,
    [](connection& c)
    {
      be_established(c);
      c.disconnect();
    }},
  {"DREQ sent to requester", phase::disconnect_sent,
    [](connection& c)
    {
      c.take_request();
      c.accept();
      c.disconnect();
    }},
  {"DREQ received", phase::disconnect_received,
    [](connection& c)
    {
      be_established(c);
      c.receive(from_peer(message_type::disconnect));
    }},
  {"DREQ of requester received", phase::disconnect_received,
    [](connection& c)
    {
      c.take_request();
      c.accept();
      c.receive(from_peer(message_type::disconnect));
    }},
  {"time wait", phase::time_wait,
    [](connection& c)
    {
      be_established(c);
      c.disconnect();
      c.receive(from_peer(message_type::disconnected));
    }},
  {"time wait of listener", phase::time_wait,
    [](connection& c)
    {
      be_established_by_peer(c);
      c.disconnect();
      c.receive(from_peer(message_type::disconnected));
    }},
  {"ended", phase::ended,
    [](connection& c)
    {
      be_established(c);
      c.disconnect();
      c.receive(from_peer(message_type::disconnected));
      c.expire();
    }},
  {"ended by rejection", phase::ended,
    [](connection& c)
    {
      c.take_request();
      c.reject();
    }},
  {"ended by late rejection", phase::ended,
    [](connection& c)
    {
      c.connect();
      c.receive(from_peer(message_type::reply));
      c.reject();
    }},
  {"ended without an answer", phase::ended,
    [](connection& c)
    {
      c.connect();
      c.expire_finally();
    }},
  {"SIDR_REQ sent", phase::request_sent,
    [](connection& c) { c.connect(message_type::datagram_request); }},
  {"SIDR_REQ received", phase::requested,
    [](connection& c) { c.take_request(message_type::datagram_request); }},
  {"SIDR_REP received", phase::established,
    [](connection& c)
    {
      c.connect(message_type::datagram_request);
      c.receive(datagram_answer(datagram_status::success));
    }},
  {"SIDR_REP sent", phase::established,
    [](connection& c)
    {
      c.take_request(message_type::datagram_request);
      c.accept();
    }},
  {"SIDR_REQ rejected", phase::ended,
    [](connection& c)
    {
      c.take_request(message_type::datagram_request);
      c.reject();
    }},
  {"SIDR requester gone", phase::ended,
    [](connection& c)
    {
      c.take_request(message_type::datagram_request);
      c.text(c.machine.refuse(c.now));
    }},
};

struct event
{
  const char* name;
  std::string (*apply)(connection&);
};

const std::vector<event> all_events{
  {"accept", [](connection& c) { return c.accept(); }},
  {"reject", [](connection& c) { return c.reject(); }},
  {"establish", [](connection& c) { return c.establish(); }},
  {"data", [](connection& c) { return c.text(c.machine.communication_established()); }},
  {"disconnect", [](connection& c) { return c.disconnect(); }},
  {"destroy", [](connection& c) { return c.destroy(); }},
  {"suspect", [](connection& c) { return c.suspect(); }},
  {"ICMP error", [](connection& c) { return c.text(c.machine.refuse(c.now)); }},
  {"early timer", [](connection& c) { return c.expire_early(); }},
  {"timer", [](connection& c) { return c.expire(); }},
  {"last timer", [](connection& c) { return c.expire_finally(); }},
  {"REQ",
    [](connection& c)
    {
      return c.receive(request_of_peer(
        c.machine.is_datagram() ? message_type::datagram_request : message_type::request));
    }},
  {"MRA of REQ", [](connection& c) { return c.receive(receipt(of_request)); }},
  {"MRA of REP", [](connection& c) { return c.receive(receipt(of_reply)); }},
  {"MRA of neither", [](connection& c) { return c.receive(receipt(of_neither)); }},
  {"REP", [](connection& c) { return c.receive(from_peer(message_type::reply)); }},
  {"RTU", [](connection& c) { return c.receive(from_peer(message_type::ready)); }},
  {"REJ", [](connection& c) { return c.receive(rejection(consumer)); }},
  {"DREQ", [](connection& c) { return c.receive(from_peer(message_type::disconnect)); }},
  {"DREP", [](connection& c) { return c.receive(from_peer(message_type::disconnected)); }},
  {"SIDR_REP", [](connection& c) { return c.receive(datagram_answer(datagram_status::success)); }},
  {"SIDR_REP refuses",
    [](connection& c) { return c.receive(datagram_answer(datagram_status::rejected)); }},
};

/// Events without a row for a situation have no effect in it.
struct transition
{
  const char* from;
  const char* event;
  const char* consequences;
  phase to;
};

const std::vector<transition> transitions{
  {"idle", "destroy", "", phase::ended},
  {"idle", "MRA of REQ", "REJ 6 of neither", phase::idle},
  {"idle", "MRA of REP", "REJ 6 of neither", phase::idle},
  {"idle", "MRA of neither", "REJ 6 of neither", phase::idle},
  {"idle", "RTU", "REJ 6 of neither", phase::idle},
  {"idle", "REP", "REJ 6 of REP", phase::idle},
  {"idle", "DREQ", "DREP", phase::idle},
  {"request sent", "destroy", "REJ 4 of neither; no timer", phase::ended},
  {"request sent", "ICMP error", "no timer; report rejected 8", phase::ended},
  {"request sent", "timer", "REQ; wait 536 ms", phase::request_sent},
  {"request sent", "last timer", "REJ 4 of neither; no timer; report unreachable", phase::ended},
  {"request sent", "MRA of REQ", "wait 2147 ms", phase::request_sent},
  {"request sent", "REP", "no timer; report response", phase::reply_received},
  {"request sent", "REJ", "no timer; report rejected 28", phase::ended},
  {"request sent", "RTU", "REJ 6 of neither", phase::request_sent},
  {"request sent", "DREQ", "DREP", phase::request_sent},
  {"reply received", "reject", "REJ 28 of REP", phase::ended},
  {"reply received", "establish", "RTU", phase::established},
  {"reply received", "destroy", "REJ 28 of REP", phase::ended},
  {"reply received", "ICMP error", "report rejected 4", phase::ended},
  {"reply received", "REP", "MRA of REP", phase::reply_received},
  {"reply received", "REJ", "report rejected 28", phase::ended},
  {"requested", "accept", "REP; wait 268 ms", phase::reply_sent},
  {"requested", "reject", "REJ 28 of REQ", phase::ended},
  {"requested", "destroy", "REJ 28 of REQ", phase::ended},
  {"requested", "ICMP error", "report rejected 4", phase::ended},
  {"requested", "REQ", "MRA of REQ", phase::requested},
  {"requested", "REJ", "report rejected 28", phase::ended},
  {"reply sent", "data", "no timer; report established", phase::established},
  {"reply sent", "disconnect", "DREQ", phase::disconnect_sent},
  {"reply sent", "destroy", "REJ 28 of REQ; no timer", phase::ended},
  {"reply sent", "ICMP error", "no timer; report rejected 4", phase::ended},
  {"reply sent", "timer", "REP; wait 536 ms", phase::reply_sent},
  {"reply sent", "last timer", "REJ 4 of REQ; no timer; report unreachable", phase::ended},
  {"reply sent", "REQ", "REP", phase::reply_sent},
  {"reply sent", "MRA of REP", "wait 2147 ms", phase::reply_sent},
  {"reply sent", "RTU", "no timer; report established", phase::established},
  {"reply sent", "REJ", "no timer; report rejected 28", phase::ended},
  {"reply sent", "DREQ", "no timer; report disconnected", phase::disconnect_received},
  {"established", "disconnect", "DREQ; wait 268 ms", phase::disconnect_sent},
  {"established", "destroy", "DREQ", phase::ended},
  {"established", "suspect", "MRA of neither; wait 268 ms", phase::established},
  {"established", "ICMP error", "wait 536 ms; report disconnected", phase::time_wait},
  {"established", "REP", "RTU", phase::established},
  {"established", "REJ", "wait 536 ms; report disconnected", phase::time_wait},
  {"established", "DREQ", "report disconnected", phase::disconnect_received},
  {"established by peer", "disconnect", "DREQ; wait 268 ms", phase::disconnect_sent},
  {"established by peer", "destroy", "DREQ", phase::ended},
  {"established by peer", "suspect", "MRA of neither; wait 268 ms", phase::established},
  {"established by peer", "ICMP error", "wait 536 ms; report disconnected", phase::time_wait},
  {"established by peer", "REJ", "wait 536 ms; report disconnected", phase::time_wait},
  {"established by peer", "DREQ", "report disconnected", phase::disconnect_received},
  {"probing", "disconnect", "DREQ", phase::disconnect_sent},
  {"probing", "destroy", "DREQ; no timer", phase::ended},
  {"probing", "ICMP error", "wait 536 ms; report disconnected", phase::time_wait},
  {"probing", "timer", "MRA of neither; wait 536 ms", phase::established},
  {"probing", "last timer", "no timer", phase::established},
  {"probing", "REP", "RTU", phase::established},
  {"probing", "REJ", "wait 536 ms; report disconnected", phase::time_wait},
  {"probing", "DREQ", "no timer; report disconnected", phase::disconnect_received},
  {"DREQ sent", "destroy", "DREQ; no timer", phase::ended},
  {"DREQ sent", "ICMP error", "wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ sent", "timer", "DREQ; wait 536 ms", phase::disconnect_sent},
  {"DREQ sent", "last timer", "wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ sent", "REJ", "wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ sent", "DREQ", "DREP; wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ sent", "DREP", "wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ sent to requester", "destroy", "DREQ; no timer", phase::ended},
  {"DREQ sent to requester", "ICMP error", "wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ sent to requester", "timer", "DREQ; wait 536 ms", phase::disconnect_sent},
  {"DREQ sent to requester", "last timer", "wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ sent to requester", "REQ", "REJ 10 of REQ", phase::disconnect_sent},
  {"DREQ sent to requester", "REJ", "wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ sent to requester", "DREQ", "DREP; wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ sent to requester", "DREP", "wait 536 ms; report disconnected", phase::time_wait},
  {"DREQ received", "disconnect", "DREP; wait 536 ms", phase::time_wait},
  {"DREQ received", "destroy", "DREP", phase::ended},
  {"DREQ of requester received", "disconnect", "DREP; wait 536 ms", phase::time_wait},
  {"DREQ of requester received", "destroy", "DREP", phase::ended},
  {"time wait", "destroy", "no timer", phase::ended},
  {"time wait", "timer", "no timer; report the end of time wait", phase::ended},
  {"time wait", "last timer", "no timer; report the end of time wait", phase::ended},
  {"time wait", "MRA of REQ", "REJ 6 of neither", phase::time_wait},
  {"time wait", "MRA of REP", "REJ 6 of neither", phase::time_wait},
  {"time wait", "MRA of neither", "REJ 6 of neither", phase::time_wait},
  {"time wait", "RTU", "REJ 6 of neither", phase::time_wait},
  {"time wait", "REP", "REJ 6 of REP", phase::time_wait},
  {"time wait", "DREQ", "DREP", phase::time_wait},
  {"time wait of listener", "destroy", "no timer", phase::ended},
  {"time wait of listener", "timer", "no timer; report the end of time wait", phase::ended},
  {"time wait of listener", "last timer", "no timer; report the end of time wait", phase::ended},
  {"time wait of listener", "REQ", "REJ 10 of REQ", phase::time_wait},
  {"time wait of listener", "MRA of REQ", "REJ 6 of neither", phase::time_wait},
  {"time wait of listener", "MRA of REP", "REJ 6 of neither", phase::time_wait},
  {"time wait of listener", "MRA of neither", "REJ 6 of neither", phase::time_wait},
  {"time wait of listener", "RTU", "REJ 6 of neither", phase::time_wait},
  {"time wait of listener", "REP", "REJ 6 of REP", phase::time_wait},
  {"time wait of listener", "DREQ", "DREP", phase::time_wait},
  {"ended", "MRA of REQ", "REJ 6 of neither", phase::ended},
  {"ended", "MRA of REP", "REJ 6 of neither", phase::ended},
  {"ended", "MRA of neither", "REJ 6 of neither", phase::ended},
  {"ended", "RTU", "REJ 6 of neither", phase::ended},
  {"ended", "REP", "REJ 6 of REP", phase::ended},
  {"ended", "DREQ", "DREP", phase::ended},
  {"ended by rejection", "REQ", "REJ 28 of REQ", phase::ended},
  {"ended by rejection", "MRA of REQ", "REJ 6 of neither", phase::ended},
  {"ended by rejection", "MRA of REP", "REJ 6 of neither", phase::ended},
  {"ended by rejection", "MRA of neither", "REJ 6 of neither", phase::ended},
  {"ended by rejection", "RTU", "REJ 6 of neither", phase::ended},
  {"ended by rejection", "REP", "REJ 28 of REQ", phase::ended},
  {"ended by rejection", "DREQ", "DREP", phase::ended},
  {"ended by late rejection", "MRA of REQ", "REJ 6 of neither", phase::ended},
  {"ended by late rejection", "MRA of REP", "REJ 6 of neither", phase::ended},
  {"ended by late rejection", "MRA of neither", "REJ 6 of neither", phase::ended},
  {"ended by late rejection", "RTU", "REJ 6 of neither", phase::ended},
  {"ended by late rejection", "REP", "REJ 28 of REP", phase::ended},
  {"ended by late rejection", "DREQ", "DREP", phase::ended},
  {"ended without an answer", "MRA of REQ", "REJ 6 of neither", phase::ended},
  {"ended without an answer", "MRA of REP", "REJ 6 of neither", phase::ended},
  {"ended without an answer", "MRA of neither", "REJ 6 of neither", phase::ended},
  {"ended without an answer", "RTU", "REJ 6 of neither", phase::ended},
  {"ended without an answer", "REP", "REJ 6 of REP", phase::ended},
  {"ended without an answer", "DREQ", "DREP", phase::ended},
  {"SIDR_REQ sent", "destroy", "no timer", phase::ended},
  {"SIDR_REQ sent", "ICMP error", "no timer; report rejected 1", phase::ended},
  {"SIDR_REQ sent", "timer", "SIDR_REQ; wait 536 ms", phase::request_sent},
  {"SIDR_REQ sent", "last timer", "no timer; report unreachable", phase::ended},
  {"SIDR_REQ sent", "SIDR_REP", "no timer; report response", phase::established},
  {"SIDR_REQ sent", "SIDR_REP refuses", "no timer; report rejected 2", phase::ended},
  {"SIDR_REQ received", "accept", "SIDR_REP 0", phase::established},
  {"SIDR_REQ received", "reject", "SIDR_REP 2", phase::ended},
  {"SIDR_REQ received", "destroy", "SIDR_REP 2", phase::ended},
  {"SIDR_REQ received", "ICMP error", "report rejected 4", phase::ended},
  {"SIDR_REP received", "destroy", "", phase::ended},
  {"SIDR_REP sent", "destroy", "", phase::ended},
  {"SIDR_REP sent", "REQ", "SIDR_REP 0", phase::established},
  {"SIDR_REQ rejected", "REQ", "SIDR_REP 2", phase::ended},
};

} // namespace

TEST_CASE("cm::connection_fsm performs every transition and ignores all other events")
{
  std::size_t found = 0;
  for (const situation& from : situations)
    for (const event& what : all_events)
    {
      INFO(from.name << ", " << what.name);
      const auto row = std::find_if(transitions.begin(), transitions.end(),
        [&](const transition& each) {
          return std::string_view(each.from) == from.name
            && std::string_view(each.event) == what.name;
        });
      connection c;
      from.reach(c);
      REQUIRE(c.machine.state() == from.expected);
      const std::string consequences = what.apply(c);
      if (row == transitions.end())
      {
        CHECK(consequences.empty());
        CHECK(name_of(c.machine.state()) == std::string(name_of(from.expected)));
        continue;
      }
      ++found;
      CHECK(consequences == row->consequences);
      CHECK(name_of(c.machine.state()) == std::string(name_of(row->to)));
    }
  CHECK(found == transitions.size());
}

TEST_CASE("cm::connection_fsm answers messages of another end as if it did not exist")
{
  for (const situation& from : situations)
  {
    CAPTURE(from.name);
    connection c;
    from.reach(c);
    // The other end of a datagram service has no connection; the answer to a request has a new ID.
    const bool is_silent = c.machine.is_datagram();
    if (from.expected == phase::request_sent && !is_silent)
      continue;
    const std::int64_t deadline = c.machine.deadline();
    const auto check = [&](message_type type, const char* answer)
    {
      CAPTURE(static_cast<int>(type));
      CHECK(c.receive(from_peer(type, other_id)) == (is_silent ? "" : answer));
      if (c.sent.remote_id == other_id)
        CHECK(c.sent.local_id == local_id);
    };
    c.deadline = deadline;
    check(message_type::reply, "REJ 6 of REP");
    check(message_type::receipt, "REJ 6 of neither");
    check(message_type::ready, "REJ 6 of neither");
    check(message_type::reject, "");
    check(message_type::disconnect, "DREP");
    check(message_type::disconnected, "");
    CHECK(c.machine.state() == from.expected);
    CHECK(c.machine.deadline() == deadline);
  }
}

TEST_CASE("cm::connection_fsm repeats a message at growing intervals and then gives up")
{
  const auto from = GENERATE(from_range(std::vector<std::string>{
    "request sent", "reply sent", "probing", "DREQ sent", "SIDR_REQ sent"}));
  const auto found = std::find_if(
    situations.begin(), situations.end(), [&](const auto& each) { return each.name == from; });
  REQUIRE(found != situations.end());
  CAPTURE(from);
  connection c;
  found->reach(c);
  const std::int64_t begin = c.now;
  const message first = c.sent;
  std::vector<std::int64_t> waits_ms;
  for (;;)
  {
    REQUIRE(waits_ms.size() <= fsm::retries_max);
    waits_ms.push_back((c.machine.deadline() - c.now) / 1'000'000);
    c.sent = {};
    c.expire();
    if (c.sent.type != first.type)
      break; // a rejection, or nothing
    CHECK(c.sent == first);
  }
  // 4.096 us * 2^16, doubled up to 2^19.
  std::vector<std::int64_t> expected(fsm::retries_max + 1, 2147);
  std::copy_n(std::array{268, 536, 1073}.begin(), 3, expected.begin());
  CHECK(waits_ms == expected);
  CHECK((c.now - begin) / 1'000'000'000 == 29);
  CHECK((c.machine.deadline() == 0 || c.machine.state() == phase::time_wait));
}

TEST_CASE("cm::connection_fsm waits for the peer's program as long as the peer sends MRAs")
{
  connection c;
  const bool requests = GENERATE(true, false);
  if (requests)
    c.connect();
  else
  {
    c.take_request();
    c.accept();
  }
  const char* const repeated = requests ? "REQ; wait 536 ms" : "REP; wait 536 ms";
  const std::uint8_t answered = requests ? of_request : of_reply;
  for (unsigned i = 0; i != 3 * fsm::retries_max; ++i)
  {
    c.receive(receipt(answered));
    CHECK(c.machine.deadline() - c.now == std::int64_t{4096} << fsm::last_timeout);
    REQUIRE(c.expire() == repeated);
  }
  // The peer can neither stop the repetitions nor cause many.
  c.receive(receipt(answered, 31));
  CHECK(c.machine.deadline() - c.now == std::int64_t{4096} << fsm::last_timeout);
  c.receive(receipt(answered, 0));
  CHECK(c.machine.deadline() - c.now == std::int64_t{4096} << fsm::first_timeout);
  CHECK(c.expire_finally().ends_with("report unreachable"));
}

TEST_CASE("cm::connection_fsm asks the peer when the queue pair lost it before the handshake's end")
{
  connection c;
  const bool requests = GENERATE(true, false);
  if (requests)
  {
    c.connect();
    c.receive(from_peer(message_type::reply));
    CHECK(c.suspect().empty());
    c.now += 1'000'000;
    CHECK(c.establish() == "RTU; timer now");
  }
  else
  {
    c.take_request();
    c.accept();
    CHECK(c.suspect().empty());
    c.now += 1'000'000;
    CHECK(c.receive(from_peer(message_type::ready)) == "timer now; report established");
  }
  CHECK(c.expire() == "MRA of neither; wait 536 ms");
  CHECK(c.suspect().empty()); // it asks already
  c.now += 1'000'000;
  CHECK(c.receive(rejection(invalid_id)) == "wait 536 ms; report disconnected");
}

TEST_CASE("cm::connection_fsm asks again when the queue pair loses its peer again")
{
  connection c;
  be_established(c);
  CHECK(c.suspect() == "MRA of neither; wait 268 ms");
  CHECK(c.expire_finally() == "no timer");
  CHECK(c.suspect() == "MRA of neither; wait 268 ms");
}

TEST_CASE("cm::connection_fsm sends the program's fields and its own")
{
  connection c;
  message fields = of_type(message_type::request);
  fields.transaction = 1;
  fields.local_id = 77;
  fields.remote_id = 78;
  fields.queue_pair = 0x99;
  fields.starting_psn = 5;
  fields.private_size = 3;
  fields.private_data[2] = std::byte{9};
  const auto is_from_program = [&](const message& m)
  {
    return m.queue_pair == 0x99 && m.starting_psn == 5 && m.private_size == 3
      && m.private_data == fields.private_data;
  };
  const auto check_ids = [&](std::uint32_t local, std::uint32_t remote, std::uint64_t id)
  {
    CHECK(c.sent.local_id == local);
    CHECK(c.sent.remote_id == remote);
    CHECK(c.sent.transaction == id);
  };
  SECTION("a requesting end")
  {
    c.text(c.machine.connect(fields, transaction, c.now));
    CHECK(is_from_program(c.sent));
    CHECK(int{c.sent.response_timeout} == fsm::last_timeout);
    CHECK(c.sent.local_id == local_id);
    CHECK(c.sent.transaction == transaction);
    c.receive(from_peer(message_type::reply));
    CHECK(c.machine.remote_id() == peer_id);
    c.receive(from_peer(message_type::reply)); // again: MRA
    check_ids(local_id, peer_id, transaction);
    CHECK(int{c.sent.service_timeout} == fsm::last_timeout);
    c.establish();
    check_ids(local_id, peer_id, transaction);
    c.suspect();
    check_ids(local_id, peer_id, transaction);
    c.disconnect();
    check_ids(local_id, peer_id, transaction + 1);
    CHECK(c.sent.queue_pair == peer_queue_pair);
    message crossing = from_peer(message_type::disconnect);
    crossing.transaction = 4711;
    c.receive(crossing);
    check_ids(local_id, peer_id, 4711);
    crossing.transaction = 4712;
    c.receive(crossing);
    check_ids(local_id, peer_id, 4712);
  }
  SECTION("a listening end")
  {
    fields.type = message_type::reply;
    c.take_request();
    CHECK(c.machine.remote_id() == peer_id);
    c.receive(request_of_peer()); // again: MRA
    check_ids(local_id, peer_id, transaction);
    c.text(c.machine.accept(fields, c.now));
    CHECK(is_from_program(c.sent));
    check_ids(local_id, peer_id, transaction);
    c.receive(from_peer(message_type::ready));
    message bye = from_peer(message_type::disconnect);
    bye.transaction = 4711;
    c.receive(bye);
    c.disconnect();
    check_ids(local_id, peer_id, 4711);
  }
  SECTION("a listening end that is destroyed")
  {
    be_established_by_peer(c);
    c.destroy();
    check_ids(local_id, peer_id, transaction + 1);
    CHECK(c.sent.queue_pair == peer_queue_pair);
  }
  SECTION("a datagram service")
  {
    c.take_request(message_type::datagram_request);
    fields.type = message_type::datagram_reply;
    c.text(c.machine.accept(fields, c.now));
    CHECK(is_from_program(c.sent));
    CHECK(c.sent.local_id == peer_id); // the ID of the request
    CHECK(c.sent.transaction == transaction);
  }
}

TEST_CASE("cm::connection_fsm rejects with the program's data, cut to the size of the message")
{
  const std::vector<std::byte> data(300, std::byte{0xab});
  const auto type = GENERATE(message_type::request, message_type::datagram_request);
  const bool datagram = type == message_type::datagram_request;
  connection c;
  c.take_request(type);
  c.text(c.machine.reject(data));
  const std::size_t most = datagram ? 136 : 148;
  CHECK(std::size_t{c.sent.private_size} == most);
  CHECK(c.sent.private_data[most - 1] == std::byte{0xab});
  CHECK(c.sent.private_data[most] == std::byte{0});
  CHECK(c.sent.transaction == transaction);
  CHECK((datagram ? c.sent.local_id : c.sent.remote_id) == peer_id);
  // The request is repeated because the rejection was lost.
  const message first = c.sent;
  c.sent = {};
  c.receive(request_of_peer(type));
  CHECK(c.sent == first);
}

} // namespace rdma::software::cm::connection_fsm_test
