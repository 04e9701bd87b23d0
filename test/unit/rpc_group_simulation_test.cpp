//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/group_simulation.hpp"
#include "unit/simulated_seeds.hpp"

// Calls to a group whose members die and stop, and whose messages are lost, late or repeated.

namespace test::rpc_group_simulation_test {
namespace {

using namespace group_simulation;

// Returns the places that were counted. Each of the others is named; none is both.
std::set<std::uint32_t> check(const simulation& s, const conditions& c)
{
  REQUIRE(s.result);
  REQUIRE(s.ended <= time_point() + c.timeout);
  REQUIRE(s.most_starts() == 1);
  std::multiset<std::uint32_t> accounted;
  std::set<std::uint32_t> counted;
  for (const auto& value : s.result->values)
    for (const std::byte each : value)
    {
      accounted.insert(static_cast<std::uint32_t>(each));
      counted.insert(static_cast<std::uint32_t>(each));
    }
  REQUIRE(s.result->answered == accounted.size());
  for (const auto& each : s.result->missing)
    accounted.insert(each.place);
  REQUIRE(accounted.size() == c.members);
  for (std::uint32_t i = 0; i != c.members; ++i)
    REQUIRE(accounted.contains(i));
  return counted;
}

std::set<std::uint32_t> some(std::mt19937& random, std::uint32_t members, std::size_t most)
{
  std::set<std::uint32_t> result;
  for (auto n = random() % (most + 1); n != 0 && members > 1; --n)
    result.insert(1 + random() % (members - 1));
  return result;
}

} // namespace

TEST_CASE("a call to a group counts each member once or names it, whatever fails or is lost")
{
  const unsigned seeds = exhaustive() ? 3000 : 60;
  for (unsigned seed = 0; seed != share(seeds); ++seed)
  {
    CAPTURE(seed);
    std::mt19937 random(seed);
    conditions c;
    c.members = 1 + random() % 40;
    c.fan_out = 1 + random() % 5;
    c.delay_max = std::chrono::milliseconds(1 + random() % 500);
    c.handler_max = std::chrono::milliseconds(1 + random() % (seed % 3 == 0 ? 20'000 : 500));
    c.lost = seed % 2 == 0 ? 0 : random() % 300;
    c.repeated = random() % 300;
    c.dead = some(random, c.members, 5);
    c.stopped = some(random, c.members, 5);
    c.fails = random() % 300;
    c.content = seed % 4 == 1 ? random() % (4 * group_content::part_max) : 0;
    check(simulation(c, seed), c);
  }
}

TEST_CASE("only members that have failed are missing from a call to a group")
{
  const unsigned seeds = exhaustive() ? 3000 : 60;
  for (unsigned seed = 0; seed != share(seeds); ++seed)
  {
    CAPTURE(seed);
    std::mt19937 random(seed);
    conditions c;
    c.members = 1 + random() % 64;
    c.fan_out = 1 + random() % 5;
    // Chains of members that are all stopped need a silence limit that is longer than two messages.
    c.delay_max = c.timeout / (20 * (height_of(c.members, c.fan_out) + 1));
    c.handler_max = 1s;
    c.repeated = random() % 300;
    c.dead = some(random, c.members, 10);
    c.stopped = some(random, c.members, 10);
    c.content = seed % 2 == 1 ? 1 + random() % (3 * group_content::part_max) : 0;
    const auto counted = check(simulation(c, seed), c);
    for (std::uint32_t i = 0; i != c.members; ++i)
      REQUIRE(counted.contains(i) == (!c.dead.contains(i) && !c.stopped.contains(i)));
  }
}

TEST_CASE("half of the time is left for handlers below members that are all stopped")
{
  for (const std::uint32_t members : {2U, 5U, 16U, 40U})
    for (const std::uint32_t fan_out : {1U, 2U, 4U})
    {
      CAPTURE(members, fan_out);
      conditions c;
      c.members = members;
      c.fan_out = fan_out;
      c.delay_max = 1ms;
      c.handler_max = 4800ms;
      for (std::uint32_t i = 1; i + 1 < members; ++i)
        c.stopped.insert(i);
      const auto counted = check(simulation(c, members), c);
      CHECK(counted == std::set<std::uint32_t>{0, members - 1});
    }
}

} // namespace test::rpc_group_simulation_test
