//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/swim.hpp"

#include "common/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

// The failure detection of a group's member, transition by transition.

namespace test::rpc_swim_test {
namespace {

using namespace rdma::detail::rpc;
using namespace std::chrono_literals;
using enum swim_health;
using ranks = std::vector<std::uint32_t>;
using reports = std::vector<swim_report>;

constexpr auto period = 300ms;

// Member 0 of some members, with the incarnation 100.
struct fixture
{
  explicit fixture(std::uint32_t members = 5)
    : state({.members = members, .incarnation = 100, .period = period, .suspicion = 1s}, now)
  {
  }

  // Calls on_time() at the next alarm.
  std::vector<swim::ping> next()
  {
    now = state.alarm();
    return state.on_time(now);
  }
  void run_until(swim::time_point time)
  {
    while (state.alarm() <= time)
      next();
    now = time;
  }
  // Returns the target of the next probe. Others have answered.
  std::uint32_t next_target()
  {
    for (;;)
      if (const auto pings = next(); !pings.empty() && pings[0].to == pings[0].target)
        return pings[0].target;
  }
  // Goes on to a probe of this member. All other members answer, with their last incarnations.
  void probe(std::uint32_t rank)
  {
    for (std::uint32_t target = next_target(); target != rank; target = next_target())
      state.take_contact(target, 0, now);
  }

  swim::time_point now{};
  swim state;
};

} // namespace

TEST_CASE("each other member is pinged once in each round of probes")
{
  fixture f(7);
  std::set<ranks> orders;
  for (int round = 0; round != 4; ++round)
  {
    ranks order;
    for (int i = 0; i != 6; ++i)
    {
      const auto before = f.now;
      order.push_back(f.next_target());
      CHECK(f.now == before + period);
      f.state.take_contact(order.back(), 0, f.now);
    }
    orders.insert(order);
    std::ranges::sort(order);
    CHECK(order == ranks{1, 2, 3, 4, 5, 6});
  }
  CHECK(orders.size() > 1);
}

TEST_CASE("a member that is alone pings nobody")
{
  fixture f(1);
  CHECK(f.state.alarm() == swim::time_point::max());
  CHECK(f.state.on_time(f.now + 1h).empty());
}

TEST_CASE("helpers are asked after a third of a period without an answer")
{
  fixture f(7);
  const std::uint32_t target = f.next_target();
  const auto started = f.now;
  CHECK(f.state.alarm() == started + period / 3);
  CHECK(f.state.on_time(started + period / 3 - 1ns).empty());
  const auto pings = f.next();
  REQUIRE(pings.size() == 3);
  std::set<std::uint32_t> helpers;
  for (const auto& each : pings)
  {
    CHECK(each.target == target);
    CHECK(each.to != target);
    CHECK(each.to != 0);
    CHECK(each.until == started + period);
    helpers.insert(each.to);
  }
  CHECK(helpers.size() == 3);
  CHECK(f.state.alarm() == started + period); // once
}

TEST_CASE("helpers are not asked when the member has answered")
{
  fixture f;
  f.state.take_contact(f.next_target(), 0, f.now);
  CHECK(f.state.alarm() == f.now + period);
}

TEST_CASE("members that have failed are pinged, but are no helpers and need none")
{
  fixture f(4);
  f.state.take({1, failed, 0}, f.now);
  f.state.take({2, failed, 0}, f.now);
  std::set<std::uint32_t> targets;
  for (int i = 0; i != 30; ++i)
    for (const auto& each : f.next())
    {
      targets.insert(each.target);
      if (each.to != each.target)
        CHECK(each.target == 3); // the only one that is alive
    }
  CHECK(targets == std::set<std::uint32_t>{1, 2, 3});
}

TEST_CASE("a member that does not answer is suspected at the end of the period, and then fails")
{
  fixture f;
  f.probe(2);
  const auto started = f.now;
  CHECK(f.state.health(2) == alive);
  std::vector<swim::ping> pings;
  while (f.state.health(2) == alive)
    pings = f.next();
  CHECK(f.now == started + period);
  REQUIRE(pings.size() == 2); // the next probe, and one with the suspicion
  CHECK(pings[1] == swim::ping{2, 2, f.now + period});
  CHECK(f.state.health(2) == suspected);
  CHECK(f.state.version() == 0);
  CHECK(f.state.failed().empty());
  while (f.state.health(2) == suspected)
  {
    for (const auto& each : f.next())
      if (each.target != 2)
        f.state.take_contact(each.target, 0, f.now);
  }
  CHECK(f.now == started + period + 1s);
  CHECK(f.state.health(2) == failed);
  CHECK(f.state.version() == 1);
  CHECK(f.state.failed() == ranks{2});
}

TEST_CASE("an answer to a helper, or a ping of the member, is an answer")
{
  fixture f(2);
  static_cast<void>(f.next_target());
  f.next(); // helpers
  f.state.take_contact(1, 0, f.now);
  f.next();
  CHECK(f.state.health(1) == alive);
}

TEST_CASE("a report of another member that the target is alive is no answer")
{
  fixture f(3);
  const std::uint32_t target = f.next_target();
  f.state.take({target, alive, 5}, f.now);
  while (f.state.health(target) == alive)
    f.next();
  CHECK(f.state.health(target) == suspected);
}

TEST_CASE("of two reports the one with the larger incarnation or the worse health is kept")
{
  const swim_health old_health = GENERATE(alive, suspected, failed);
  const swim_health new_health = GENERATE(alive, suspected, failed);
  const std::uint64_t incarnation = GENERATE(9U, 10U, 11U);
  CAPTURE(old_health, new_health, incarnation);
  fixture f;
  f.state.take({1, old_health, 10}, f.now);
  REQUIRE(f.state.health(1) == old_health);
  const auto version = f.state.version();
  f.state.take({1, new_health, incarnation}, f.now);
  const bool is_newer = incarnation > 10 || (incarnation == 10 && new_health > old_health);
  CHECK(f.state.health(1) == (is_newer ? new_health : old_health));
  const bool changes = is_newer && (new_health == failed) != (old_health == failed);
  CHECK(f.state.version() == version + (changes ? 1 : 0));
}

TEST_CASE("a suspicion ends when the member takes a larger incarnation, and can begin again")
{
  fixture f;
  const auto start = f.now;
  f.state.take({1, suspected, 10}, f.now);
  f.run_until(start + 900ms);
  f.state.take({1, alive, 11}, f.now);
  f.run_until(start + 950ms);
  f.state.take({1, suspected, 11}, f.now);
  f.run_until(start + 1950ms - 1ns);
  CHECK(f.state.health(1) == suspected);
  const auto version = f.state.version(); // others do not answer either
  f.run_until(start + 1950ms);
  CHECK(f.state.health(1) == failed);
  CHECK(f.state.version() == version + 1);
  f.state.take_contact(1, 12, f.now); // for example another process
  CHECK(f.state.health(1) == alive);
  CHECK(f.state.version() == version + 2);
}

TEST_CASE("the same suspicion of another member does not make it last longer")
{
  fixture f;
  const auto start = f.now;
  f.state.take({1, suspected, 10}, f.now);
  f.run_until(start + 200ms);
  f.state.take({1, suspected, 10}, f.now);
  f.run_until(start + 1s - 1ns);
  CHECK(f.state.health(1) == suspected);
  f.run_until(start + 1s);
  CHECK(f.state.health(1) == failed);
}

TEST_CASE("a member refutes reports of itself with a larger incarnation")
{
  fixture f;
  f.state.take({0, suspected, 99}, f.now);
  CHECK(f.state.incarnation() == 100);
  f.state.take({0, suspected, 100}, f.now);
  CHECK(f.state.incarnation() == 101);
  f.state.take({0, failed, 200}, f.now);
  CHECK(f.state.incarnation() == 201);
  f.state.take({0, alive, 300}, f.now); // of a process before this one, whose clock was ahead
  CHECK(f.state.incarnation() == 300);
  CHECK(f.state.health(0) == alive);
  CHECK(f.state.version() == 0);
  CHECK(f.state.take_reports(1).empty()); // messages have the sender's incarnation anyway
}

TEST_CASE("the largest incarnation does not overflow")
{
  fixture f;
  f.state.take({0, failed, swim_report::incarnation_max}, f.now);
  CHECK(f.state.incarnation() == swim_report::incarnation_max);
}

TEST_CASE("a report is in a bounded number of messages, the newest reports first")
{
  fixture f(200);
  const auto repeats = swim::repeats(200);
  f.state.take({1, suspected, 10}, f.now);
  for (std::uint32_t i = 0; i != repeats; ++i)
    CHECK(f.state.take_reports(2) == reports{{1, suspected, 10}});
  CHECK(f.state.take_reports(2).empty());

  for (std::uint32_t i = 10; i != 150; ++i)
    f.state.take({i, failed, 1}, f.now);
  std::map<std::uint32_t, std::uint32_t> counts;
  for (std::size_t n = 1; n != 0;)
  {
    const auto all = f.state.take_reports(2);
    n = all.size();
    CHECK(n <= swim::reports_max);
    for (const swim_report& each : all)
      ++counts[each.rank];
  }
  CHECK(counts.size() == 140);
  for (const auto& [rank, count] : counts)
    CHECK(count == repeats);

  f.state.take({3, failed, 1}, f.now);
  static_cast<void>(f.state.take_reports(2));
  f.state.take({4, failed, 1}, f.now);
  CHECK(f.state.take_reports(2).front().rank == 4);
  // A change begins the count again.
  f.state.take({3, alive, 2}, f.now);
  CHECK(f.state.take_reports(2).front() == swim_report{3, alive, 2});
}

TEST_CASE("new incarnations are repeated less often, and behind reports of another health")
{
  fixture f(200);
  f.state.take({1, suspected, 10}, f.now);
  for (std::uint32_t i = 0; i != swim::repeats(200) - 1; ++i)
    static_cast<void>(f.state.take_reports(2));
  for (std::uint32_t i = 10; i != 10 + swim::reports_max; ++i)
    f.state.take({i, alive, 1}, f.now);
  CHECK(f.state.take_reports(2).front() == swim_report{1, suspected, 10});
  std::uint32_t messages = 1;
  while (!f.state.take_reports(2).empty())
    ++messages;
  CHECK(messages == swim::repeats(200) / 3 + 1); // not all of them are in the first one
}

TEST_CASE("a message to a member that is not alive always begins with the report on it")
{
  fixture f;
  f.state.take({1, failed, 10}, f.now);
  for (std::uint32_t i = 0; i != 2 * swim::repeats(5); ++i)
  {
    const auto to = f.state.take_reports(1);
    REQUIRE(to.size() == 1);
    CHECK(to[0] == swim_report{1, failed, 10});
  }
  CHECK(f.state.take_reports(2).empty());
}

TEST_CASE("a member that was stopped itself draws no conclusion")
{
  fixture f;
  const std::uint32_t target = f.next_target();
  const std::uint32_t other = target == 1 ? 2 : 1;
  f.state.take({other, suspected, 10}, f.now);
  f.now += 1h;
  f.state.on_time(f.now);
  CHECK(f.state.health(target) == alive);
  CHECK(f.state.health(other) == suspected);
  // It goes on as before.
  f.run_until(f.now + 1s);
  CHECK(f.state.health(other) == failed);
}

TEST_CASE("the suspicion time by default grows with the logarithm of the number of members")
{
  CHECK(swim::suspicion_periods(2) == 5);
  CHECK(swim::suspicion_periods(64) == 10);
  CHECK(swim::suspicion_periods(1024) == 14);
}

} // namespace test::rpc_swim_test
