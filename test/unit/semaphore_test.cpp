//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "common/catch.hpp"
#include "unit/lease_simulation.hpp"

#include <boost_rdma/detail/objects/semaphore.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace test::semaphore_test {

// Tests the state machines of remote_semaphore on simulated memory.

using objects::lease_word;
using objects::permit_request;
using objects::semaphore_memory;

namespace {

using semaphore_words = std::array<std::uint64_t, sizeof(semaphore_memory) / 8>;
constexpr std::uint64_t permits_offset = offsetof(semaphore_memory, permits);

semaphore_words memory_of_new_semaphore(std::size_t permits)
{
  return std::bit_cast<semaphore_words>(objects::new_semaphore(permits, 1ms));
}

struct semaphore_simulation : object_simulation
{
  explicit semaphore_simulation(std::uint64_t seed, std::size_t permits)
    : object_simulation(seed, semaphore_words().size())
  {
    std::ranges::copy(memory_of_new_semaphore(permits), memory.begin());
    simulated_clock::simulation = this;
  }

  struct result
  {
    bool done = false;
    rdma::error_code ec;
    std::optional<objects::held_lease> held;
    bool ended_lease = false;
    unsigned steps_cancelled = 0;
  };

  void acquire(std::size_t process, result& r, bool tries = false)
  {
    using machine = clocked<permit_request>;
    start<machine>(process, machine(permit_request(tries, &simulated_clock::now), 1),
      [&r](const rdma::error_code& ec, machine& m) {
        r = {true, ec, m.held(), m.ended_lease(), m.steps_cancelled};
      });
  }
  void release(std::size_t process, const objects::held_lease& held, result& r)
  {
    start<objects::lease_change>(process,
      objects::lease_change(objects::lease_change::kind::release, held,
        permits_offset + 8 * held.index(), &simulated_clock::now),
      [&r](const rdma::error_code& ec, objects::lease_change& m) {
        r = {true, ec, m.held()};
      });
  }

  template <class Start>
  result run(Start begin)
  {
    result r;
    begin(r);
    while (!r.done && turn())
      ;
    REQUIRE(r.done);
    return r;
  }
  result acquire_now(std::size_t process, bool tries = false)
  {
    return run([&](result& r) { acquire(process, r, tries); });
  }
  result release_now(std::size_t process, const objects::held_lease& held)
  {
    return run([&](result& r) { release(process, held, r); });
  }
};

} // namespace

TEST_CASE("a semaphore has as many holders as permits")
{
  const std::size_t permits = GENERATE(1, 3, 64);
  semaphore_simulation s(permits, permits);
  std::set<std::size_t> indices;
  std::vector<objects::held_lease> held;
  for (std::size_t i = 0; i != permits; ++i)
  {
    const auto r = s.acquire_now(i, i % 2 == 0);
    REQUIRE(r.held);
    CHECK(r.held->index() < permits);
    CHECK(indices.insert(r.held->index()).second);
    CHECK(r.held->fencing_token() == 1);
    held.push_back(*r.held);
  }
  const auto none = s.acquire_now(permits, true);
  CHECK_FALSE(none.ec);
  CHECK_FALSE(none.held);
  CHECK_FALSE(s.release_now(0, held[0]).ec);
  CHECK(s.release_now(0, held[0]).ec == rdma::error::lease_ended);
  const auto again = s.acquire_now(permits, true);
  REQUIRE(again.held);
  CHECK(again.held->index() == held[0].index());
  CHECK(again.held->fencing_token() == 2);
  CHECK(s.release_now(0, held[0]).ec == rdma::error::lease_ended);
  CHECK(s.release_now(0, {}).ec == rdma::error::lease_ended);
}

TEST_CASE("a try for a permit fails only if no permit was free at one moment")
{
  unsigned changes = 0;
  for (std::uint64_t seed = 0; seed != seeds_of(3000); ++seed)
  {
    INFO("seed " << seed);
    semaphore_simulation s(seed, 2);
    // One process takes one permit after the other, so one of the two is always free.
    semaphore_simulation::result other;
    std::optional<objects::held_lease> held;
    s.acquire(1, other);
    semaphore_simulation::result tried;
    s.acquire(0, tried, true);
    while (!tried.done && s.turn())
    {
      if (s.below(8) == 0)
        s.stop(0, s.below(100));
      if (!other.done)
        continue;
      REQUIRE_FALSE(other.ec);
      held = held ? std::nullopt : other.held;
      other = {};
      ++changes;
      if (held)
        s.release(1, *held, other);
      else
        s.acquire(1, other);
    }
    REQUIRE(tried.done);
    CHECK_FALSE(tried.ec);
    CHECK(tried.held);
  }
  CHECK(changes >= least(3000));
}

TEST_CASE("a cancelled operation leaves the permit free")
{
  unsigned cancelled = 0;
  const bool tries = GENERATE(false, true);
  for (std::uint64_t seed = 0; seed != 2000; ++seed)
  {
    INFO("seed " << seed);
    semaphore_simulation s(seed, 1);
    semaphore_simulation::result r;
    s.acquire(0, r, tries);
    for (std::uint64_t turns = s.below(80); turns != 0; --turns)
      s.turn();
    s.cancel(0);
    while (!r.done && s.turn())
      ;
    CHECK((r.ec == boost::asio::error::operation_aborted) == (r.steps_cancelled != 0));
    cancelled += r.steps_cancelled != 0;
    if (r.held)
      CHECK_FALSE(s.release_now(0, *r.held).ec);
    CHECK(s.acquire_now(1, true).held);
  }
  CHECK(cancelled > 1000);
}

TEST_CASE("a process waits for a permit until another releases one or its lease ends")
{
  semaphore_simulation s(1, 2);
  const auto a = s.acquire_now(0);
  const auto b = s.acquire_now(1);
  semaphore_simulation::result waiting;
  s.acquire(2, waiting);
  for (int i = 0; i != 500; ++i)
    s.turn();
  CHECK_FALSE(waiting.done);
  CHECK_FALSE(s.release_now(0, *a.held).ec);
  while (!waiting.done && s.turn())
    ;
  REQUIRE(waiting.held);
  CHECK(waiting.held->index() == a.held->index());
  CHECK_FALSE(waiting.ended_lease);
  const std::uint64_t from = s.now;
  const auto later = s.acquire_now(3);
  REQUIRE(later.held);
  CHECK(later.ended_lease);
  CHECK(s.now >= from + 2000);
  CHECK(s.now < from + 2000 + 4000); // the longest pause is as long as the lease
  const auto& lost = later.held->index() == b.held->index() ? b : waiting;
  CHECK(s.release_now(1, *lost.held).ec == rdma::error::lease_ended);
}

namespace {

struct semaphore_history : lease_history<semaphore_history>
{
  semaphore_history(std::uint64_t seed, std::size_t permits)
    : lease_history(seed, memory_of_new_semaphore(permits), permits_offset, permits)
  {
  }

  void start_taking(std::size_t process)
  {
    const bool tries = simulation.below(5) == 0;
    start<permit_request>(process, permit_request(tries, &simulated_clock::now),
      [this, process, tries](const rdma::error_code& ec, auto& m)
      {
        right = right && (m.held() || ec || tries);
        if (m.held())
        {
          ended_leases += m.ended_lease();
          renewed_at_once +=
            lease_word::of(simulation.memory[permits_offset / 8 + m.held()->index()]).beat != 0;
        }
        failed_tries += !m.held() && !ec;
        taken(process, ec, m.held());
      });
  }

  unsigned ended_leases = 0;
  unsigned failed_tries = 0;
  unsigned renewed_at_once = 0; // because the answer came late
};

} // namespace

TEST_CASE("a semaphore has no more holders than permits with processes that stop and die")
{
  std::size_t takes = 0, renewals = 0, cancelled = 0, full = 0;
  unsigned ended_leases = 0, failed_tries = 0, lost = 0, at_once = 0;
  for (std::uint64_t seed = 0; seed != seeds_of(900); ++seed)
  {
    const std::size_t permits = 1 + seed % 3;
    semaphore_history history(seed, permits);
    INFO("seed " << seed);
    REQUIRE(history.run());
    CHECK(history.most_holders <= permits);
    full += history.most_holders == permits;
    takes += history.takes;
    renewals += history.renewals;
    cancelled += history.cancelled;
    ended_leases += history.ended_leases;
    failed_tries += history.failed_tries;
    lost += history.oracle.lost_leases;
    at_once += history.renewed_at_once;
  }
  INFO(takes << ' ' << renewals << ' ' << cancelled << ' ' << full << ' ' << ended_leases << ' '
             << failed_tries << ' ' << lost << ' ' << at_once);
  CHECK(takes >= least(30'000));
  CHECK(renewals >= least(30'000));
  CHECK(cancelled >= least(3000));
  CHECK(full >= least(800));
  CHECK(ended_leases >= least(1500));
  CHECK(failed_tries >= least(2000));
  CHECK(lost >= least(1000));
  CHECK(at_once >= least(20));
}

} // namespace test::semaphore_test
