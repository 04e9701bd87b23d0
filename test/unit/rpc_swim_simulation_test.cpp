//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/swim_simulation.hpp"

#include "common/catch.hpp"
#include "unit/simulated_seeds.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <set>

// Failure detection of a group whose members are killed, stopped, started again and partitioned,
// and whose messages are lost and late. Times are simulated.

namespace test::rpc_swim_simulation_test {
namespace {

using namespace swim_simulation;

rank_set some(std::mt19937& random, std::uint32_t members, std::uint32_t most)
{
  rank_set result;
  for (auto n = 1 + random() % most; n != 0; --n)
    result.insert(static_cast<std::uint32_t>(random() % members));
  return result;
}

// Periods after which all members have found a failure, also if all gossip is lost: each one has
// pinged the member itself and the suspicion time is over.
std::uint32_t bound(std::uint32_t members)
{
  return 2 * (members - 1) + 2 + swim::suspicion_periods(members);
}

} // namespace

TEST_CASE("members that are killed or stopped are found by all others, and no others are")
{
  const unsigned seeds = exhaustive() ? 300 : 25;
  for (unsigned seed = 0; seed != share(seeds); ++seed)
  {
    CAPTURE(seed);
    std::mt19937 random(seed);
    conditions c;
    c.members = 2 + random() % 40;
    c.delay_max = std::chrono::milliseconds(1 + random() % 80);
    simulation s(c, seed);
    s.run(random() % 10 * period);
    REQUIRE(s.all_find({}));
    const rank_set failed = some(random, c.members, c.members / 2);
    for (const std::uint32_t each : failed)
      seed % 2 == 0 ? s.kill(each) : s.stop(each);
    REQUIRE(s.periods_until(failed, bound(c.members)) <= bound(c.members));
    // It stays so; and started again or resumed, they are members again.
    s.run(3 * c.members * period);
    REQUIRE(s.all_find(failed));
    for (const std::uint32_t each : failed)
      seed % 2 == 0 ? s.start(each) : s.resume(each);
    REQUIRE(s.periods_until({}, bound(c.members)) <= bound(c.members));
  }
}

TEST_CASE("members that work do not stay failed while messages are lost and late")
{
  const unsigned seeds = exhaustive() ? 200 : 15;
  for (unsigned seed = 0; seed != share(seeds); ++seed)
  {
    CAPTURE(seed);
    std::mt19937 random(seed);
    conditions c;
    c.members = 3 + random() % 40;
    c.delay_max = std::chrono::milliseconds(1 + random() % 500);
    c.lost = random() % 300;
    simulation s(c, seed);
    s.run(20 * period);
    const rank_set failed = some(random, c.members, c.members / 3);
    for (const std::uint32_t each : failed)
      s.kill(each);
    // A false suspicion may be in the way at any one time.
    REQUIRE(s.periods_until(failed, 4 * bound(c.members)) <= 4 * bound(c.members));
    for (const std::uint32_t each : failed)
      s.start(each);
    REQUIRE(s.periods_until({}, 4 * bound(c.members)) <= 4 * bound(c.members));
  }
}

TEST_CASE("both sides of a partition find the other to have failed, and come together after it")
{
  const unsigned seeds = exhaustive() ? 200 : 15;
  for (unsigned seed = 0; seed != share(seeds); ++seed)
  {
    CAPTURE(seed);
    std::mt19937 random(seed);
    conditions c;
    c.members = 2 + random() % 30;
    simulation s(c, seed);
    s.run(3 * period);
    s.partition(some(random, c.members, c.members));
    s.run((random() % 2 == 0 ? bound(c.members) : random() % 20) * period);
    s.partition({});
    REQUIRE(s.periods_until({}, bound(c.members)) <= bound(c.members));
  }
}

TEST_CASE("members that are killed and started again at any time are known in the end")
{
  const unsigned seeds = exhaustive() ? 200 : 15;
  for (unsigned seed = 0; seed != share(seeds); ++seed)
  {
    CAPTURE(seed);
    std::mt19937 random(seed);
    conditions c;
    c.members = 2 + random() % 30;
    c.lost = random() % 100;
    simulation s(c, seed);
    std::map<std::uint32_t, int> states; // 0: works, 1: killed, 2: stopped
    for (int i = 0; i != 60; ++i)
    {
      const auto rank = static_cast<std::uint32_t>(random() % c.members);
      int& state = states[rank];
      if (state == 1)
        s.start(rank);
      else if (state == 2)
        s.resume(rank);
      state = state == 0 ? static_cast<int>(random() % 3) : 0;
      if (state == 1)
        s.kill(rank);
      else if (state == 2)
        s.stop(rank);
      s.run(std::chrono::milliseconds(random() % 5000));
    }
    rank_set failed;
    for (const auto& [rank, state] : states)
      if (state != 0)
        failed.insert(rank);
    REQUIRE(s.periods_until(failed, 4 * bound(c.members)) <= 4 * bound(c.members));
  }
}

TEST_CASE("the messages of a member in a period do not depend on the number of members")
{
  for (const std::uint32_t members : {4U, 16U, 64U, 200U})
  {
    CAPTURE(members);
    simulation s({.members = members}, members);
    s.run(5 * period);
    static_cast<void>(s.take_sent());
    constexpr std::uint32_t periods = 50;
    s.run(periods * period);
    for (const std::uint32_t sent : s.take_sent())
      CHECK(sent <= periods + 1); // one ping a period
    // One of four members fails: pings of helpers are added.
    const rank_set failed = [&]
    {
      rank_set result;
      for (std::uint32_t i = 0; i < members; i += 4)
        result.insert(i);
      return result;
    }();
    for (const std::uint32_t each : failed)
      s.kill(each);
    s.run(periods * period);
    for (const std::uint32_t sent : s.take_sent())
      CHECK(sent <= periods * (2 + 2 * helpers));
    CHECK(s.largest <= 20 + 16 * (swim::reports_max + 1));
  }
}

} // namespace test::rpc_swim_simulation_test
