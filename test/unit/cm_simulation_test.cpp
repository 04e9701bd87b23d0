//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "unit/simulated_seeds.hpp"
#include "verbs/software/cm/connection_fsm.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <utility>

// Two hosts that connect by RDMA-CM over a network that loses, duplicates and reorders messages, in
// one thread on simulated time. A seed decides about the network, about the programs and about the
// times at which they disconnect, destroy their identifiers or are killed.

namespace rdma::software::cm::simulation_test {
namespace {

using fsm = connection_fsm;
using phase = fsm::phase;
using report_type = fsm::report_type;

constexpr std::int64_t us = 1000;
constexpr std::int64_t ms = 1000 * us;
constexpr std::int64_t s = 1000 * ms;

enum : unsigned
{
  client = 0,
  server = 1,
};

/// A seed's decisions.
struct plan
{
  explicit plan(std::mt19937& random)
  {
    const auto in = [&](unsigned percent) { return random() % 100 < percent; };
    datagram = in(10);
    listens = !in(3);
    constexpr unsigned losses[] = {0, 5, 20, 50, 80};
    loss_percent = losses[random() % std::size(losses)];
    lossy_until = random() % 8 * s;
    duplicate_percent = in(50) ? 20 : 0;
    reject_percent = in(20) ? 50 : 0;
    late_reject_percent = in(10) ? 50 : 0;
    slow_percent = in(20) ? 50 : 0;
    for (const unsigned host : {client, server})
    {
      disconnects[host] = in(25);
      destroys[host] = in(15);
      kills[host] = in(10);
    }
  }

  bool datagram;
  bool listens;
  unsigned loss_percent;
  std::int64_t lossy_until;
  unsigned duplicate_percent;
  unsigned reject_percent;
  unsigned late_reject_percent;
  unsigned slow_percent; // a program's answer takes seconds
  std::array<bool, 2> disconnects;
  std::array<bool, 2> destroys;
  std::array<bool, 2> kills;
};

enum class queue_pair
{
  none,
  up,
  gone,
};

/// An identifier of a program with its queue pair.
struct end
{
  end(std::uint32_t id, unsigned on)
    : machine(id)
    , host(on)
  {
  }

  unsigned reported(report_type what) const { return reports[static_cast<std::size_t>(what)]; }
  bool is_over() const { return machine.state() == phase::ended; }

  fsm machine;
  unsigned host;
  bool exists = true; // false: destroyed
  bool accepted = false;
  bool established = false; // by its program
  bool disconnected = false;
  bool suspects = false;
  queue_pair qp = queue_pair::none;
  std::array<unsigned, 7> reports{};
};

/// Two hosts and their network.
class world
{
public:
  explicit world(unsigned seed)
    : random_(seed)
    , plan_(random_)
  {
    end& first = add(client);
    message request;
    request.type = plan_.datagram ? message_type::datagram_request : message_type::request;
    perform(first, first.machine.connect(request, random_(), now_));
    for (const unsigned host : {client, server})
    {
      if (plan_.disconnects[host])
        at_some_time([=, this] { for_each(host, [&](end& e) { disconnect(e); }); });
      if (plan_.destroys[host])
        at_some_time([=, this] { for_each(host, [&](end& e) { destroy(e); }); });
      if (plan_.kills[host])
        at_some_time([=, this] { kill(host); });
    }
  }

  /// Returns true if the hosts were connected at some time.
  bool run()
  {
    for (unsigned events = 0; !agenda_.empty(); ++events)
    {
      REQUIRE(events < 5000);
      const auto next = agenda_.begin();
      now_ = next->first;
      REQUIRE(now_ < 200 * s); // nothing waits for ever
      const auto action = std::move(next->second);
      agenda_.erase(next);
      action();
    }
    check_ends();
    check_outcome();
    return std::any_of(ends_.begin(), ends_.end(),
      [](const end& e) { return e.reported(report_type::established) != 0; });
  }

private:
  // --- time ---

  void after(std::int64_t wait, std::function<void()> action)
  {
    agenda_.emplace(now_ + wait, std::move(action));
  }
  void at_some_time(std::function<void()> action)
  {
    // Most things happen in the first milliseconds.
    after(random_() % (chance(50) ? 100 * ms : 10 * s), std::move(action));
  }
  bool chance(unsigned percent) { return random_() % 100 < percent; }

  // --- the network ---

  void transmit(unsigned from, const message& m)
  {
    const unsigned copies = chance(plan_.duplicate_percent) ? 2 : 1;
    for (unsigned i = 0; i != copies; ++i)
      if (!is_lost())
        after(delay(), [=, this] { arrive(from, m); });
    ++messages_;
    REQUIRE(messages_ < 1000);
  }
  bool is_lost() { return now_ < plan_.lossy_until && chance(plan_.loss_percent); }
  std::int64_t delay() { return 20 * us + random_() % (chance(10) ? 1500 * ms : 10 * ms); }

  void arrive(unsigned from, const message& m)
  {
    const unsigned to = 1 - from;
    if (alive_[to])
      return take(to, m);
    if (!is_lost()) // the ICMP error
      after(delay(), [=, this] { for_each(from, [&](end& e) { refuse(e); }); });
  }

  // --- a host: see service.cpp ---

  void take(unsigned host, const message& m)
  {
    const bool asks = m.type == message_type::request || m.type == message_type::datagram_request;
    const auto found = std::find_if(ends_.begin(), ends_.end(),
      [&](const end& e)
      {
        const bool is_of_requester = asks || (m.type == message_type::reject && m.remote_id == 0);
        const std::uint32_t name =
          m.type == message_type::datagram_reply ? m.local_id : m.remote_id;
        return e.host == host && e.exists
          && (is_of_requester ? host == server && e.machine.remote_id() == m.local_id
                              : e.machine.local_id() == name);
      });
    if (found != ends_.end())
      return perform(*found, found->machine.receive(m, now_));
    if (asks && plan_.listens)
      return take_request(m);
    if (asks)
    {
      message refusal;
      refusal.type = plan_.datagram ? message_type::datagram_reply : message_type::reject;
      (plan_.datagram ? refusal.local_id : refusal.remote_id) = m.local_id;
      refusal.status = 1;
      transmit(host, refusal);
    }
    else if (const auto answer = answer_without_end(m))
      transmit(host, *answer);
  }

  void take_request(const message& m)
  {
    end& e = add(server);
    e.machine.take_request(m);
    think(e,
      [this](end& it)
      {
        message reply;
        reply.type = plan_.datagram ? message_type::datagram_reply : message_type::reply;
        if (it.machine.state() != phase::requested)
          return;
        if (chance(plan_.reject_percent))
          return reject(it);
        it.accepted = true;
        bring_up(it);
        perform(it, it.machine.accept(reply, now_));
      });
  }

  void refuse(end& e)
  {
    if (e.machine.state() != phase::idle)
      perform(e, e.machine.refuse(now_));
  }

  void perform(end& e, const fsm::step& step)
  {
    if (step.send)
      transmit(e.host, *step.send);
    if (const std::int64_t due = e.machine.deadline(); due != 0)
      after(std::max<std::int64_t>(due - now_, 0),
        [&e, due, this]
        {
          if (e.exists && alive_[e.host] && e.machine.deadline() == due)
            perform(e, e.machine.expire(now_));
        });
    if (step.report != report_type::none)
      report(e, step.report);
  }

  // --- queue pairs ---

  end* peer_of(const end& e)
  {
    const auto found = std::find_if(ends_.begin(), ends_.end(),
      [&](const end& other)
      { return other.host != e.host && other.machine.local_id() == e.machine.remote_id(); });
    return found == ends_.end() ? nullptr : &*found;
  }

  void bring_up(end& e)
  {
    e.qp = queue_pair::up;
    if (end* const peer = peer_of(e))
      notice(e, *peer);
  }
  void take_down(end& e)
  {
    if (std::exchange(e.qp, queue_pair::gone) == queue_pair::up)
      for (end& other : ends_)
        if (peer_of(other) == &e)
          notice(other, e);
  }

  // A queue pair detects sooner or later that its peer is gone, as its program sends.
  void notice(end& e, const end& peer)
  {
    if (e.qp != queue_pair::up || peer.qp != queue_pair::gone || std::exchange(e.suspects, true))
      return;
    after(random_() % (2 * s),
      [&e, this]
      {
        if (e.exists && alive_[e.host])
          perform(e, e.machine.suspect(now_));
      });
  }

  // --- the programs ---

  template <class Action>
  void think(end& e, Action action)
  {
    const std::int64_t most = chance(plan_.slow_percent) ? 6 * s : 5 * ms;
    after(random_() % most,
      [&e, action, this]
      {
        if (e.exists && alive_[e.host])
          action(e);
      });
  }

  void report(end& e, report_type what)
  {
    CAPTURE(e.host, static_cast<int>(what));
    ++e.reports[static_cast<std::size_t>(what)];
    REQUIRE(e.reported(what) == 1);
    const unsigned ends = e.reported(report_type::rejected) + e.reported(report_type::unreachable)
      + e.reported(report_type::disconnected);
    REQUIRE(ends <= 1);
    switch (what)
    {
    case report_type::response:
    {
      REQUIRE(ends == 0);
      REQUIRE((plan_.datagram || (peer_of(e) != nullptr && peer_of(e)->accepted)));
      if (!plan_.datagram)
        think(e, [this](end& it) { answer_response(it); });
      break;
    }
    case report_type::established:
      REQUIRE(ends == 0);
      REQUIRE((peer_of(e) != nullptr && peer_of(e)->established));
      REQUIRE(peer_of(*peer_of(e)) == &e);
      break;
    case report_type::disconnected:
      take_down(e);
      think(e, [this](end& it) { perform(it, it.machine.disconnect(now_)); });
      break;
    case report_type::time_wait_exit:
      REQUIRE(e.reported(report_type::disconnected) == 1);
      break;
    default:
      take_down(e);
      if (chance(50))
        think(e, [this](end& it) { destroy(it); });
      break;
    }
  }

  void answer_response(end& e)
  {
    if (e.machine.state() != phase::reply_received)
      return;
    if (chance(plan_.late_reject_percent))
      return reject(e);
    e.established = true;
    bring_up(e);
    perform(e, e.machine.establish());
    // The first message may overtake the RTU.
    if (end* const peer = peer_of(e); peer != nullptr && chance(30))
      after(delay(),
        [peer, this]
        {
          if (peer->exists && alive_[server] && peer->qp == queue_pair::up)
            perform(*peer, peer->machine.communication_established());
        });
  }

  void reject(end& e)
  {
    rejections_ = true;
    perform(e, e.machine.reject({}));
    if (chance(50))
      destroy(e);
  }

  void disconnect(end& e)
  {
    const phase before = e.machine.state();
    if (plan_.datagram || (before != phase::established && before != phase::reply_sent))
      return;
    e.disconnected = true;
    take_down(e);
    perform(e, e.machine.disconnect(now_));
  }

  void destroy(end& e)
  {
    destructions_ = true;
    take_down(e);
    perform(e, e.machine.destroy());
    e.exists = false;
  }

  void kill(unsigned host)
  {
    alive_[host] = false;
    kills_ = true;
    for (end& e : ends_)
      if (e.host == host)
        take_down(e);
  }

  // --- the checks ---

  void check_ends()
  {
    for (end& e : ends_)
    {
      if (!e.exists || !alive_[e.host])
        continue;
      CAPTURE(e.host, static_cast<int>(e.machine.state()));
      REQUIRE((e.machine.state() == phase::ended || e.machine.state() == phase::established));
      REQUIRE(e.machine.deadline() == 0);
      REQUIRE((!e.is_over()
        || e.reported(report_type::disconnected) == e.reported(report_type::time_wait_exit)));
      if (e.is_over() || plan_.datagram)
        continue;
      const end* const peer = peer_of(e);
      REQUIRE(peer != nullptr);
      REQUIRE(peer->exists);
      REQUIRE(alive_[peer->host]);
      REQUIRE(peer->machine.state() == phase::established);
    }
  }

  // Without a reason to fail, the hosts are connected.
  void check_outcome()
  {
    const end& first = ends_.front();
    const bool undisturbed = plan_.listens && !rejections_ && !destructions_ && !kills_;
    if (!undisturbed)
      return;
    REQUIRE(ends_.size() == 2);
    const end& second = ends_.back();
    const bool ends = first.disconnected || second.disconnected;
    CAPTURE(first.disconnected, second.disconnected);
    if (!ends)
    {
      REQUIRE(first.machine.state() == phase::established);
      REQUIRE(second.machine.state() == phase::established);
      REQUIRE(first.reported(report_type::response) == 1);
      REQUIRE(second.reported(report_type::established) == (plan_.datagram ? 0 : 1));
      return;
    }
    REQUIRE(first.is_over());
    REQUIRE(second.is_over());
    REQUIRE(second.reported(report_type::disconnected) == 1);
    // A listening end may disconnect before the requesting end has the reply.
    REQUIRE(first.reported(report_type::disconnected) + first.reported(report_type::rejected) == 1);
    REQUIRE((first.reported(report_type::rejected) == 0 || !first.established));
  }

  template <class Action>
  void for_each(unsigned host, Action action)
  {
    for (end& e : ends_)
      if (e.host == host && e.exists && alive_[host])
        action(e);
  }

  end& add(unsigned host)
  {
    REQUIRE(ends_.size() < 30);
    return ends_.emplace_back(static_cast<std::uint32_t>(ends_.size() + 100), host);
  }

  std::mt19937 random_;
  const plan plan_;
  std::int64_t now_ = s;
  std::multimap<std::int64_t, std::function<void()>> agenda_;
  std::array<bool, 2> alive_{true, true};
  std::deque<end> ends_; // actions have pointers to them
  unsigned messages_ = 0;
  bool rejections_ = false;
  bool destructions_ = false;
  bool kills_ = false;
};

} // namespace

TEST_CASE("cm::connection_fsm connects and ends on any network, whatever the programs do")
{
  const unsigned first = std::random_device()();
  const unsigned count = test::exhaustive() ? 200'000 : 3000;
  unsigned connected = 0;
  const bool all = test::run_seeds(first, count,
    [&](unsigned seed)
    {
      CAPTURE(seed);
      connected += world(seed).run() ? 1 : 0;
    });
  if (!all)
    return;
  CHECK(connected > count / 3);
  CHECK(connected < count);
}

} // namespace rdma::software::cm::simulation_test
