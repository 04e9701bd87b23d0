//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/dice.hpp"
#include "fuzzing/common/require.hpp"
#include "verbs/software/cm/connection_fsm.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

// Fuzzes a host's identifiers of RDMA-CM. The input decides which messages peers send to them, in
// which order, which of their bytes are wrong, what the programs do, and when time passes.

using namespace rdma::software::cm;
using test::require;

namespace {

using fsm = connection_fsm;
using phase = fsm::phase;
using report_type = fsm::report_type;

constexpr std::int64_t ms = 1'000'000;
constexpr std::size_t ends_max = 6; // as the backlog of a listener

struct end
{
  explicit end(std::uint32_t id)
    : machine(id)
  {
  }

  [[nodiscard]] unsigned reported(report_type what) const
  {
    return reports[static_cast<std::size_t>(what)];
  }

  fsm machine;
  bool exists = true;
  bool accepted = false;
  std::array<unsigned, 7> reports{};
};

class host
{
public:
  explicit host(test::dice& random)
    : random_(random)
  {
  }

  void run()
  {
    while (!random_.is_over())
      step();
    // Without further messages, nothing waits for ever.
    for (end& e : ends_)
    {
      for (unsigned i = 0; e.exists && e.machine.deadline() != 0; ++i)
      {
        require(i < 200, "repetitions are bounded");
        now_ = std::max(now_, e.machine.deadline());
        perform(e, e.machine.expire(now_));
      }
      const bool rests = !e.exists || e.machine.state() == phase::idle
        || e.machine.state() == phase::ended || e.machine.state() == phase::established
        || e.machine.state() == phase::requested || e.machine.state() == phase::reply_received
        || e.machine.state() == phase::disconnect_received;
      require(rests, "only the program is waited for");
      perform(e, e.machine.destroy());
      require(e.machine.state() == phase::ended && e.machine.deadline() == 0,
        "an identifier that is destroyed has ended");
    }
  }

private:
  void step()
  {
    switch (random_() % 8)
    {
    case 0:
    case 1:
    case 2:
    case 3:
      return arrive(some_message());
    case 4:
      return act();
    case 5:
      now_ += random_.one_in(4) ? random_() * ms / 16 : random_() % 240 * ms;
      return;
    case 6:
      for (end& e : ends_)
        if (e.exists && e.machine.deadline() != 0 && now_ >= e.machine.deadline())
          perform(e, e.machine.expire(now_));
      return;
    default:
      if (ends_.size() == ends_max)
        return;
      message request;
      request.type = random_.one_in(4) ? message_type::datagram_request : message_type::request;
      end& e = add();
      perform(e, e.machine.connect(request, random_(), now_));
    }
  }

  // --- the peers ---

  std::uint32_t some_id()
  {
    return random_.one_in(8) ? random_() : static_cast<std::uint32_t>(100 + random_() % ends_max);
  }

  message some_message()
  {
    message m = random_.one_in(4) ? last_ : message(); // as it was sent, back to its sender
    if (random_.one_in(2) || m.type == message_type())
      m.type =
        static_cast<message_type>(random_.any(static_cast<std::size_t>(message_type::request),
          static_cast<std::size_t>(message_type::datagram_reply)));
    m.transaction = random_.one_in(4) ? random_() : last_.transaction;
    m.local_id = random_.one_in(2) ? random_() % 4 : some_id();
    m.remote_id = random_.one_in(8) ? 0 : some_id();
    m.queue_pair = random_() % 4;
    m.answered = static_cast<std::uint8_t>(random_() % 3);
    m.service_timeout = static_cast<std::uint8_t>(random_() % 32);
    m.response_timeout = static_cast<std::uint8_t>(random_() % 32);
    m.status = static_cast<std::uint16_t>(random_() % 30);
    return m;
  }

  void arrive(const message& from)
  {
    auto bytes = encode(from);
    if (random_.one_in(10))
      bytes[random_() % bytes.size()] = random_.byte();
    const auto m = decode(bytes);
    if (!m)
      return;
    // As service.cpp.
    const bool asks = m->type == message_type::request || m->type == message_type::datagram_request;
    const auto found = std::ranges::find_if(ends_,
      [&](const end& e)
      {
        const bool is_of_requester = asks || (m->type == message_type::reject && m->remote_id == 0);
        const std::uint32_t name =
          m->type == message_type::datagram_reply ? m->local_id : m->remote_id;
        return e.exists
          && (is_of_requester ? e.machine.is_listening_end() && e.machine.remote_id() == m->local_id
                              : e.machine.local_id() == name);
      });
    if (found != ends_.end())
      return perform(*found, found->machine.receive(*m, now_));
    if (asks)
    {
      if (ends_.size() == ends_max)
        return;
      end& e = add();
      e.machine.take_request(*m);
      require(e.machine.state() == phase::requested && e.machine.is_listening_end(),
        "a request waits for the program");
      return;
    }
    if (const auto answer = answer_without_end(*m))
      require(decode(encode(*answer)).has_value(), "an answer is a message");
  }

  // --- the programs: see functions.cpp for what is permitted when ---

  void act()
  {
    if (ends_.empty())
      return;
    end& e = ends_[random_() % ends_.size()];
    if (!e.exists)
      return;
    fsm& machine = e.machine;
    switch (random_() % 8)
    {
    case 0:
    case 1:
      if (machine.state() == phase::requested)
      {
        message reply;
        reply.type = machine.is_datagram() ? message_type::datagram_reply : message_type::reply;
        e.accepted = true;
        perform(e, machine.accept(reply, now_));
      }
      else if (machine.state() == phase::reply_received)
        perform(e, machine.establish());
      return;
    case 2:
      if (machine.state() == phase::requested || machine.state() == phase::reply_received)
        perform(e, machine.reject({}));
      return;
    case 3:
      return perform(e, machine.disconnect(now_));
    case 4:
      if (machine.state() != phase::idle)
        perform(e, machine.refuse(now_)); // an ICMP error has arrived
      return;
    case 5:
      return perform(e, machine.suspect(now_));
    case 6:
      return perform(e, machine.communication_established());
    default:
      if (!random_.one_in(4))
        return;
      perform(e, machine.destroy());
      e.exists = false;
    }
  }

  void perform(end& e, const fsm::step& step)
  {
    if (step.send)
    {
      last_ = *step.send;
      require(decode(encode(last_)).has_value(), "only messages are sent");
    }
    if (step.report == report_type::none)
      return;
    ++e.reports[static_cast<std::size_t>(step.report)];
    require(e.exists, "nothing is reported to a program that has destroyed its identifier");
    require(e.reported(step.report) == 1, "nothing is reported twice");
    const unsigned over = e.reported(report_type::rejected) + e.reported(report_type::unreachable)
      + e.reported(report_type::disconnected);
    require(over <= 1, "a connection ends once");
    switch (step.report)
    {
    case report_type::response:
      require(over == 0 && !e.machine.is_listening_end(), "an answer is that of a request");
      break;
    case report_type::established:
      require(over == 0 && e.machine.is_listening_end() && e.accepted,
        "only what was accepted is established");
      break;
    case report_type::time_wait_exit:
      require(e.reported(report_type::disconnected) == 1, "only a connection waits after its end");
      break;
    default:
      break;
    }
  }

  end& add() { return ends_.emplace_back(static_cast<std::uint32_t>(100 + ends_.size())); }

  test::dice& random_;
  std::int64_t now_ = 1000 * ms;
  std::deque<end> ends_;
  message last_; // of this host
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  test::dice random(std::span(data, size));
  host(random).run();
  return 0;
}
