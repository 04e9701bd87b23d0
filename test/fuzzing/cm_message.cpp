//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "fuzzing/common/require.hpp"
#include "verbs/software/cm/connection_fsm.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Fuzzes the messages of the communication manager and the state machine that receives them. The
// input is a sequence of events: one byte that selects an action of the program or of the clock,
// then a message of 256 bytes. The machine performs the sequence from each phase on.

namespace {

using namespace rdma::software::cm;
using fsm = connection_fsm;
using phase = fsm::phase;
using report_type = fsm::report_type;
using test::require;

constexpr std::uint32_t local_id = 1;
constexpr std::uint32_t peer_id = 2;

message of_type(message_type type)
{
  message m;
  m.type = type;
  m.local_id = peer_id;
  m.remote_id = local_id;
  return m;
}

void require_message(const message& m)
{
  require(private_data_max(m.type) != 0, "the type is known");
  require(m.private_size == private_data_max(m.type), "private data has the size of its type");
  require(m.queue_pair <= 0xffffff && m.starting_psn <= 0xffffff, "numbers have 24 bits");
  require(m.retry_count <= 7 && m.rnr_retry_count <= 7, "counts have 3 bits");
  require(m.response_timeout <= 31 && m.service_timeout <= 31 && m.local_ack_timeout <= 31,
    "times have 5 bits");
  const auto bytes = encode(m);
  const auto again = decode(bytes);
  require(again == m, "a decoded message is encoded and decoded to the same one");
  require(encode(*again) == bytes, "a message has one encoding");
}

std::optional<message> read(std::span<const std::byte> bytes)
{
  const auto m = decode(bytes);
  require(!m || bytes.size() == message_size, "all messages have the same size");
  if (m)
    require_message(*m);
  return m;
}

/// A machine with the checks of each of its steps.
class checked_machine
{
public:
  fsm machine{local_id};
  std::int64_t now = 1'000'000'000;

  void check(const fsm::step& s)
  {
    if (s.send)
    {
      const auto sent = decode(encode(*s.send));
      require(sent && sent->type == s.send->type, "a sent message can be decoded");
    }
    const std::int64_t due = machine.deadline();
    require(due <= now + (std::int64_t{4096} << fsm::last_timeout), "a wait is bounded");
    const phase is = machine.state();
    require((is != phase::idle && is != phase::ended) || due == 0, "no timer runs without a peer");
    require(is != phase::time_wait || due != 0, "time wait ends");
    if (s.report == report_type::none)
      return;
    std::uint8_t& count = reports_[static_cast<std::size_t>(s.report)];
    require(++count == 1, "nothing is reported twice");
    require(reported(report_type::rejected) + reported(report_type::unreachable)
          + reported(report_type::disconnected)
        <= 1,
      "a connection ends once");
    require(s.report != report_type::time_wait_exit || reported(report_type::disconnected) == 1,
      "time wait follows a connection");
  }

  void receive(const message& m)
  {
    const phase before = machine.state();
    const auto s = machine.receive(m, now);
    check(s);
    if (!s.send)
      return;
    require(m.type != message_type::reject && m.type != message_type::disconnected
        && m.type != message_type::datagram_reply,
      "the end of an exchange is not answered");
    require(s.send->type != message_type::request && s.send->type != message_type::disconnect
        && s.send->type != message_type::datagram_request,
      "the peer cannot begin an exchange for this end");
    require(before != phase::established || machine.state() != phase::ended,
      "a connection passes through time wait");
  }

  void act(std::uint8_t action)
  {
    static constexpr std::byte data[] = {std::byte{1}};
    switch (action % 16)
    {
    case 1:
      return check(machine.accept(of_type(answer_type()), now));
    case 2:
      return check(machine.reject(data));
    case 3:
      return check(machine.establish());
    case 4:
      return check(machine.communication_established());
    case 5:
      return check(machine.disconnect(now));
    case 6:
      return check(machine.refuse(now));
    case 7:
      now = std::max(now, machine.deadline());
      return check(machine.expire(now));
    case 8:
      return check(machine.suspect(now));
    case 9:
      now += 1'000'000;
      return check(machine.expire(now));
    default:
      return;
    }
  }

  void finish()
  {
    check(machine.destroy());
    require(machine.state() == phase::ended, "a destroyed end has ended");
  }

private:
  message_type answer_type() const
  {
    return machine.is_datagram() ? message_type::datagram_reply : message_type::reply;
  }
  unsigned reported(report_type what) const { return reports_[static_cast<std::size_t>(what)]; }

  std::array<std::uint8_t, 7> reports_{};
};

void request(checked_machine& m)
{
  m.check(m.machine.connect(of_type(message_type::request), 7, m.now));
}

void be_requested(checked_machine& m)
{
  m.machine.take_request(of_type(message_type::request));
}

// The ways to the phases in which messages of a peer arrive; further ones follow from the input.
constexpr void (*beginnings[])(checked_machine&) = {
  [](checked_machine&) {},
  request,
  be_requested,
  [](checked_machine& m)
  {
    request(m);
    m.receive(of_type(message_type::reply));
  },
  [](checked_machine& m)
  {
    request(m);
    m.receive(of_type(message_type::reply));
    m.act(3);
  },
  [](checked_machine& m)
  {
    be_requested(m);
    m.act(1);
  },
  [](checked_machine& m)
  {
    be_requested(m);
    m.act(1);
    m.receive(of_type(message_type::ready));
  },
  [](checked_machine& m)
  {
    be_requested(m);
    m.act(1);
    m.act(5);
  },
  [](checked_machine& m)
  {
    be_requested(m);
    m.act(2);
  },
  [](checked_machine& m)
  { m.check(m.machine.connect(of_type(message_type::datagram_request), 7, m.now)); },
  [](checked_machine& m) { m.machine.take_request(of_type(message_type::datagram_request)); },
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  for (const auto begin : beginnings)
  {
    checked_machine m;
    begin(m);
    for (auto rest = std::as_bytes(std::span(data, size)); !rest.empty();)
    {
      m.act(std::to_integer<std::uint8_t>(rest.front()));
      const auto bytes = rest.subspan(1, std::min(message_size, rest.size() - 1));
      if (const auto what = read(bytes))
        m.receive(*what);
      rest = rest.subspan(1 + bytes.size());
    }
    m.finish();
  }
  static_cast<void>(read(std::as_bytes(std::span(data, size)))); // of any size
  return 0;
}
