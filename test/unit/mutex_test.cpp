//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "common/catch.hpp"
#include "unit/lease_simulation.hpp"

#include <boost_rdma/detail/objects/mutex.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>

namespace test::mutex_test {

// Tests the state machines of remote_mutex on simulated memory.

using objects::lease_word;
using objects::mutex_lock_request;
using objects::mutex_memory;

namespace {

using mutex_words = std::array<std::uint64_t, sizeof(mutex_memory) / 8>;
constexpr std::size_t served_word = offsetof(mutex_memory, served) / 8;
constexpr std::size_t next_word = offsetof(mutex_memory, next) / 8;

mutex_words memory_of_new_mutex()
{
  return std::bit_cast<mutex_words>(objects::new_mutex(1ms));
}

struct mutex_simulation : object_simulation
{
  explicit mutex_simulation(std::uint64_t seed)
    : object_simulation(seed, mutex_words().size())
  {
    std::ranges::copy(memory_of_new_mutex(), memory.begin());
    simulated_clock::simulation = this;
  }

  struct result
  {
    bool done = false;
    rdma::error_code ec;
    std::optional<objects::held_lease> held;
    std::uint64_t at = 0;
    unsigned steps_cancelled = 0;
    unsigned skipped = 0;
  };

  void lock(std::size_t process, result& r, bool tries = false)
  {
    using machine = clocked<mutex_lock_request>;
    start<machine>(process, machine(mutex_lock_request(tries, &simulated_clock::now), 1),
      [this, &r](const rdma::error_code& ec, machine& m) {
        r = {true, ec, m.held(), now, m.steps_cancelled, m.skipped()};
      });
  }

  void change(std::size_t process, objects::lease_change::kind what,
    const objects::held_lease& held, result& r)
  {
    start<objects::lease_change>(process,
      objects::lease_change(what, held, 8 * served_word, &simulated_clock::now),
      [this, &r](const rdma::error_code& ec, objects::lease_change& m) {
        r = {true, ec, m.held(), now};
      });
  }
  void renew(std::size_t process, const objects::held_lease& held, result& r)
  {
    change(process, objects::lease_change::kind::renew, held, r);
  }
  void unlock(std::size_t process, const objects::held_lease& held, result& r)
  {
    change(process, objects::lease_change::kind::release, held, r);
  }

  // Returns the operation's result.
  template <class Start>
  result run(Start start)
  {
    result r;
    start(r);
    while (!r.done && turn())
      ;
    REQUIRE(r.done);
    return r;
  }
  result lock_now(std::size_t process, bool tries = false)
  {
    return run([&](result& r) { lock(process, r, tries); });
  }
  result unlock_now(std::size_t process, const objects::held_lease& held)
  {
    return run([&](result& r) { unlock(process, held, r); });
  }

  lease_word served() const { return lease_word::of(memory[served_word]); }
};

constexpr std::uint64_t lease_in_turns = 2000;

} // namespace

TEST_CASE("a lease word keeps its parts")
{
  const std::uint64_t ticket_max = (std::uint64_t{1} << 44) - 1;
  for (const lease_word word : {lease_word{ticket_max, 0, false}, lease_word{0, 0, true},
         lease_word{ticket_max - 5, lease_word::beat_mask, true}})
  {
    const lease_word read = lease_word::of(word.packed());
    CHECK(read.ticket == word.ticket);
    CHECK(read.beat == word.beat);
    CHECK(read.held == word.held);
  }
  CHECK(lease_word{7, lease_word::beat_mask, true}.renewed().packed()
    == lease_word{7, 0, true}.packed());
  CHECK(lease_word{7, 9, true}.released().packed() == lease_word{8, 0, false}.packed());
}

TEST_CASE("a mutex passes from holder to holder with growing tokens")
{
  mutex_simulation s(1);
  std::uint64_t last = 0;
  for (std::size_t i = 0; i != 100; ++i)
  {
    const auto locked = s.lock_now(i % 3);
    REQUIRE(locked.held);
    CHECK(locked.held->fencing_token() > last);
    last = locked.held->fencing_token();
    CHECK_FALSE(s.unlock_now(i % 3, *locked.held).ec);
  }
}

TEST_CASE("try_lock locks a mutex that is free and has no waiting process")
{
  mutex_simulation s(2);
  const auto first = s.lock_now(0, true);
  REQUIRE(first.held);
  const auto second = s.lock_now(1, true);
  CHECK_FALSE(second.ec);
  CHECK_FALSE(second.held);
  CHECK(s.memory[next_word] == first.held->fencing_token() + 1); // it has taken no ticket
  mutex_simulation::result waiting;
  s.lock(2, waiting);
  for (int i = 0; i != 100; ++i)
    s.turn();
  CHECK_FALSE(s.unlock_now(0, *first.held).ec);
  const auto third = s.lock_now(1, true);
  CHECK_FALSE(third.held);
  while (!waiting.done && s.turn())
    ;
  REQUIRE(waiting.held);
  CHECK_FALSE(s.unlock_now(2, *waiting.held).ec);
  CHECK(s.lock_now(1, true).held);
}

TEST_CASE("a lock that was unlocked cannot be renewed or unlocked")
{
  mutex_simulation s(3);
  const auto locked = s.lock_now(0);
  REQUIRE(locked.held);
  CHECK_FALSE(s.unlock_now(0, *locked.held).ec);
  const std::uint64_t before = s.memory[served_word];
  CHECK(s.unlock_now(0, *locked.held).ec == rdma::error::lease_ended);
  CHECK(s.run([&](auto& r) { s.renew(0, *locked.held, r); }).ec == rdma::error::lease_ended);
  CHECK(s.unlock_now(0, {}).ec == rdma::error::lease_ended);
  CHECK(s.memory[served_word] == before);
  const auto other = s.lock_now(1);
  REQUIRE(other.held);
  CHECK(s.unlock_now(0, *locked.held).ec == rdma::error::lease_ended);
  CHECK(s.served().held);
}

TEST_CASE("a lock is renewed and unlocked by the handle before a renewal whose answer was lost")
{
  mutex_simulation s(4);
  const auto locked = s.lock_now(0);
  REQUIRE(locked.held);
  const auto renewed = s.run([&](auto& r) { s.renew(0, *locked.held, r); });
  REQUIRE(renewed.held);
  CHECK(renewed.held->expires_at() > locked.held->expires_at());
  const auto again = s.run([&](auto& r) { s.renew(0, *locked.held, r); });
  CHECK_FALSE(again.ec);
  CHECK(again.held->expires_at() > renewed.held->expires_at());
  CHECK(s.served().beat == 2);
  const auto unlocked = s.run(
    [&](auto& r)
    {
      s.unlock(0, *locked.held, r);
      s.cancel(0); // has no effect
    });
  CHECK_FALSE(unlocked.ec);
  CHECK_FALSE(s.served().held);
}

TEST_CASE("try_lock fails when another process has skipped its ticket")
{
  mutex_simulation s(6);
  mutex_simulation::result tries;
  const std::uint64_t ticket = s.memory[next_word];
  s.lock(0, tries, true);
  while (s.memory[next_word] == ticket)
    REQUIRE(s.turn());
  s.stop(0, 3 * lease_in_turns); // before it can take its turn
  const auto other = s.lock_now(1);
  REQUIRE(other.held);
  CHECK(other.held->fencing_token() == ticket + 1);
  CHECK_FALSE(tries.done);
  CHECK_FALSE(s.unlock_now(1, *other.held).ec);
  while (!tries.done)
    REQUIRE(s.turn());
  CHECK_FALSE(tries.ec);
  CHECK_FALSE(tries.held);
  CHECK(s.lock_now(1, true).held);
}

TEST_CASE("more processes than marks wait for a mutex in their order")
{
  constexpr std::size_t waiting = mutex_memory::marks_max + 8;
  mutex_simulation s(7);
  // So many processes take many turns for a look.
  s.memory[offsetof(objects::header, lease_ms) / 8] = 1000;
  const auto holder = s.lock_now(0);
  REQUIRE(holder.held);
  std::array<mutex_simulation::result, waiting> locks;
  for (std::size_t i = 0; i != waiting; ++i)
  {
    const std::uint64_t ticket = s.memory[next_word];
    s.lock(i + 1, locks[i]);
    while (s.memory[next_word] == ticket)
      REQUIRE(s.turn());
  }
  const auto wait_for = [&](std::size_t i)
  {
    while (!locks[i].done)
      REQUIRE(s.turn());
  };
  // Their marks are at the indices of the first tickets, whose processes still wait.
  for (std::size_t i = mutex_memory::marks_max; i != waiting - 1; ++i)
    s.cancel(i + 1);
  for (std::size_t i = mutex_memory::marks_max; i != waiting - 1; ++i)
    wait_for(i);
  CHECK_FALSE(s.unlock_now(0, *holder.held).ec);
  for (std::size_t i = 0; i != waiting; ++i)
  {
    wait_for(i);
    CHECK(locks[i].skipped == 0);
    const bool cancelled = i >= mutex_memory::marks_max && i != waiting - 1;
    CHECK(locks[i].ec
      == (cancelled ? rdma::error_code(boost::asio::error::operation_aborted)
                    : rdma::error_code()));
    REQUIRE(locks[i].held.has_value() == !cancelled);
    if (cancelled)
      continue;
    CHECK(locks[i].held->fencing_token() == holder.held->fencing_token() + 1 + i);
    CHECK_FALSE(s.unlock_now(i + 1, *locks[i].held).ec);
  }
  CHECK(s.now < 1000 * lease_in_turns); // no lease has ended
}

TEST_CASE("a lock or a renewal that is answered after its lease has ended is renewed")
{
  mutex_simulation s(5);
  const auto stopped = [&](auto start)
  {
    mutex_simulation::result r;
    start(r);
    while (!r.done)
    {
      const std::uint64_t before = s.memory[served_word];
      REQUIRE(s.turn());
      if (s.memory[served_word] != before && s.now < 3 * lease_in_turns)
        s.stop(0, 3 * lease_in_turns); // before the process is told of its success
    }
    return r;
  };
  const auto locked = stopped([&](auto& r) { s.lock(0, r); });
  REQUIRE(locked.held);
  CHECK(s.now > 3 * lease_in_turns);
  CHECK(locked.held->expires_at() > simulated_clock::now());
  CHECK(s.served().beat == 1);
  s.now = 0; // stop() once more
  const auto renewed = stopped([&](auto& r) { s.renew(0, *locked.held, r); });
  CHECK_FALSE(renewed.ec);
  CHECK(s.now > 3 * lease_in_turns);
  CHECK(renewed.held->expires_at() > simulated_clock::now());
  CHECK(s.served().beat == 3);
}

TEST_CASE("a cancelled operation leaves the mutex free")
{
  unsigned cancelled = 0;
  const bool tries = GENERATE(false, true);
  for (std::uint64_t seed = 0; seed != share(2000); ++seed)
  {
    INFO("seed " << seed);
    mutex_simulation s(seed);
    mutex_simulation::result r;
    s.lock(0, r, tries);
    for (std::uint64_t turns = s.below(50); turns != 0; --turns)
      s.turn();
    s.cancel(0);
    while (!r.done && s.turn())
      ;
    CHECK((r.ec == boost::asio::error::operation_aborted) == (r.steps_cancelled != 0));
    cancelled += r.steps_cancelled != 0;
    if (r.held)
      CHECK_FALSE(s.unlock_now(0, *r.held).ec);
    CHECK(s.lock_now(1, true).held);
  }
  CHECK(cancelled > share(1000));
}

TEST_CASE("a cancelled wait for a mutex does not delay those behind it")
{
  unsigned cancelled = 0;
  for (std::uint64_t seed = 0; seed != share(2000); ++seed)
  {
    INFO("seed " << seed);
    mutex_simulation s(seed);
    // Process 0 holds the mutex, 1 to 3 are cancelled, 4 waits behind them.
    std::array<mutex_simulation::result, 5> locks;
    std::array<mutex_simulation::result, 5> unlocks;
    locks[0] = s.lock_now(0);
    for (std::size_t i = 1; i != locks.size(); ++i)
    {
      s.lock(i, locks[i]);
      for (std::uint64_t turns = s.below(100); turns != 0; --turns)
        s.turn();
    }
    const std::uint64_t end = s.now + s.below(600);
    const std::uint64_t cancels = s.now + s.below(600);
    while (!std::ranges::all_of(locks, &mutex_simulation::result::done))
    {
      for (std::size_t i = 0; i != 4; ++i)
        if (locks[i].held && !unlocks[i].done && !s.is_busy(i) && (i != 0 || s.now >= end))
          s.unlock(i, *locks[i].held, unlocks[i]);
      for (std::size_t i = 1; i != 4 && s.now >= cancels; ++i)
        if (!locks[i].done)
          s.cancel(i);
      if (!s.turn())
        break;
    }
    std::uint64_t last = cancels;
    for (std::size_t i = 0; i != 4; ++i)
    {
      CHECK(locks[i].steps_cancelled <= 4);
      CHECK(!unlocks[i].ec);
      last = std::max({last, locks[i].at, unlocks[i].at});
      cancelled += locks[i].ec == boost::asio::error::operation_aborted;
    }
    REQUIRE(locks[4].held);
    CHECK(locks[4].at < last + lease_in_turns / 2);
  }
  CHECK(cancelled > share(3000));
}

TEST_CASE("a mutex is locked by another process a lease after its holder died at any step")
{
  unsigned delays = 0;
  for (std::uint64_t seed = 0; seed != 4000; ++seed)
  {
    INFO("seed " << seed);
    mutex_simulation s(seed);
    std::array<mutex_simulation::result, 4> r;
    std::uint64_t killed_at = 0;
    std::uint64_t kill_after = s.below(250);
    s.lock(0, r[0]);
    for (std::uint64_t turns = s.below(3); turns != 0; --turns)
      s.turn();
    s.lock(1, r[1]);
    std::uint64_t changed = 0;
    std::uint64_t served = s.memory[served_word];
    while (!r[1].done)
    {
      if (killed_at == 0 && kill_after-- == 0)
      {
        s.kill(0);
        killed_at = s.now;
      }
      if (killed_at == 0 && r[0].held && !r[2].done && !s.is_busy(0))
        s.renew(0, *r[0].held, r[2]);
      if (killed_at == 0 && r[2].held && !r[3].done && !s.is_busy(0))
        s.unlock(0, *r[2].held, r[3]);
      if (!s.turn() || s.now > 10 * lease_in_turns)
        break;
      if (served != s.memory[served_word])
        changed = s.now;
      served = s.memory[served_word];
    }
    REQUIRE(r[1].held);
    // A request that was carried out after the death may begin a lease, too.
    const std::uint64_t slack = 1000;
    CHECK(r[1].at <= std::max(changed, killed_at) + slack);
    CHECK(r[1].at <= killed_at + 2 * lease_in_turns + slack);
    delays += r[1].at > killed_at + lease_in_turns / 2;
  }
  CHECK(delays > 300);
}

} // namespace test::mutex_test
