//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_SWIM_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_SWIM_SIMULATION_HPP

#include "common/catch.hpp"
#include "rpc/group_message.hpp"
#include "rpc/swim.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace test::swim_simulation {

using namespace rdma::detail::rpc;
using namespace std::chrono_literals;
using time_point = swim::time_point;
using duration = swim::duration;
using rank_set = std::set<std::uint32_t>;

inline constexpr duration period = 1s;
inline constexpr std::uint32_t helpers = 3;

struct conditions
{
  std::uint32_t members = 2;
  duration delay_max = 50ms; // of a message
  unsigned lost = 0;         // messages of a thousand
};

// The members of a group and the messages between them, in simulated time.
class simulation
{
public:
  simulation(const conditions& c, unsigned seed)
    : conditions_(c)
    , random_(seed)
    , members_(c.members)
  {
    for (std::uint32_t i = 0; i != c.members; ++i)
      start(i);
  }

  // The process of the member starts, also instead of one before it.
  void start(std::uint32_t rank)
  {
    member& m = members_[rank];
    ++m.process;
    m.stopped = false;
    m.killed = false;
    // Members do not start at the same time.
    m.state = std::make_unique<swim>(swim::settings{.members = conditions_.members,
                                       .rank = rank,
                                       .incarnation = ++incarnation_,
                                       .period = period,
                                       .helpers = helpers,
                                       .seed = static_cast<std::uint32_t>(random_())},
      now_ + any(period) - period);
    set_alarm(rank);
  }
  void kill(std::uint32_t rank)
  {
    members_[rank].killed = true;
    ++members_[rank].process;
  }
  void stop(std::uint32_t rank) { members_[rank].stopped = true; }
  // The member takes the messages that have arrived meanwhile.
  void resume(std::uint32_t rank)
  {
    members_[rank].stopped = false;
    for (auto& each : std::exchange(members_[rank].late, {}))
      at(now_ + any(1ms), std::move(each));
  }

  // No message crosses the border of these members.
  void partition(rank_set of) { behind_ = std::move(of); }

  void run(duration time)
  {
    const auto end = now_ + time;
    while (!events_.empty() && events_.begin()->first <= end)
    {
      auto next = events_.extract(events_.begin());
      now_ = next.key();
      next.mapped()();
    }
    now_ = end;
  }

  // Returns true if each member that works has found these members to have failed, and no others.
  [[nodiscard]] bool all_find(const rank_set& failed) const
  {
    const std::vector<std::uint32_t> expected(failed.begin(), failed.end());
    return std::ranges::all_of(
      members_, [&](const member& m) { return !m.works() || m.state->failed() == expected; });
  }
  // Runs until all_find(), and returns the number of periods. It is more than `most` if it fails.
  std::uint32_t periods_until(const rank_set& failed, std::uint32_t most)
  {
    std::uint32_t result = 0;
    for (; !all_find(failed) && result <= most; ++result)
      run(period);
    return result;
  }

  // Requests that were sent, by member, since the last call of this function.
  std::vector<std::uint32_t> take_sent()
  {
    std::vector<std::uint32_t> result;
    for (member& m : members_)
      result.push_back(std::exchange(m.sent, 0));
    return result;
  }
  std::size_t largest = 0; // message

private:
  using event = std::function<void()>;
  using bytes = std::vector<std::byte>;
  using answer_function = std::function<void(const bytes&)>;

  struct member
  {
    std::unique_ptr<swim> state;
    unsigned process = 0;
    bool killed = false;
    bool stopped = false;
    std::vector<event> late;
    std::uint32_t sent = 0;
    time_point alarm = time_point::max();

    [[nodiscard]] bool works() const { return !killed && !stopped; }
  };

  void at(time_point time, event what) { events_.emplace(std::max(time, now_), std::move(what)); }
  duration any(duration most)
  {
    return duration(std::uniform_int_distribution<duration::rep>(1, most.count())(random_));
  }

  // Calls what() at this member, if its process is the same then; later if it is stopped.
  void at_member(std::uint32_t rank, time_point time, event what)
  {
    at(time,
      [this, rank, process = members_[rank].process, what = std::move(what)]
      {
        member& m = members_[rank];
        if (m.killed || m.process != process)
          return;
        if (m.stopped)
          m.late.push_back(what);
        else
          what();
      });
  }

  void set_alarm(std::uint32_t rank)
  {
    member& m = members_[rank];
    const auto next = m.state->alarm();
    m.alarm = next;
    at_member(rank, next,
      [this, rank, next]
      {
        if (members_[rank].alarm != next)
          return;
        for (const auto& each : members_[rank].state->on_time(now_))
          ping(rank, each, {});
        set_alarm(rank);
      });
  }

  void deliver(std::uint32_t from, std::uint32_t to, const bytes& message, event what)
  {
    largest = std::max(largest, message.size());
    if (random_() % 1000 >= conditions_.lost && behind_.contains(from) == behind_.contains(to))
      at_member(to, now_ + any(conditions_.delay_max), std::move(what));
  }

  void take(std::uint32_t rank, const std::vector<swim_report>& reports)
  {
    for (const swim_report& each : reports)
      members_[rank].state->take(each, now_);
  }

  // `relay` has the answer, if the ping is for another member.
  void ping(std::uint32_t from, const swim::ping& what, const answer_function& relay)
  {
    swim& state = *members_[from].state;
    ++members_[from].sent;
    gossip_request r;
    r.members = conditions_.members;
    r.sender = from;
    r.target = what.target;
    r.incarnation = state.incarnation();
    r.reports = state.take_reports(what.to);
    bytes message;
    append_gossip_request(message, r);
    deliver(from, what.to, message,
      [this, from, what, relay, message, process = members_[from].process]
      {
        arrive(what.to, message,
          [this, from, what, relay, process](const bytes& answer)
          {
            if (members_[from].process == process)
              deliver(what.to, from, answer,
                [this, from, what, relay, answer] { take_answer(from, what, relay, answer); });
          });
      });
  }

  void arrive(std::uint32_t rank, const bytes& message, const answer_function& answer)
  {
    const auto r = decode_gossip_request(message, conditions_.members);
    REQUIRE(r);
    swim& state = *members_[rank].state;
    take(rank, r->reports);
    state.take_contact(r->sender, r->incarnation, now_);
    if (r->target == rank)
    {
      bytes reply;
      append_gossip_answer(reply, {state.incarnation(), state.take_reports(r->sender)});
      answer(reply);
    }
    else
      ping(rank, {r->target, r->target, now_ + period / 3},
        [this, rank, answer, asker = r->sender](const bytes& of_target)
        {
          bytes reply;
          append_gossip_answer(reply,
            {decode_gossip_answer(of_target, conditions_.members)->incarnation,
              members_[rank].state->take_reports(asker)});
          answer(reply);
        });
    set_alarm(rank);
  }

  void take_answer(
    std::uint32_t rank, const swim::ping& what, const answer_function& relay, const bytes& message)
  {
    if (now_ > what.until)
      return;
    const auto a = decode_gossip_answer(message, conditions_.members);
    REQUIRE(a);
    take(rank, a->reports);
    members_[rank].state->take_contact(what.target, a->incarnation, now_);
    if (relay)
      relay(message);
    set_alarm(rank);
  }

  const conditions conditions_;
  std::mt19937 random_;
  std::uint64_t incarnation_ = 0;
  time_point now_{};
  std::multimap<time_point, event> events_;
  std::vector<member> members_;
  rank_set behind_;
};

} // namespace test::swim_simulation

#endif // BOOST_RDMA_TEST_UNIT_SWIM_SIMULATION_HPP
