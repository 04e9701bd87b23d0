//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/late_writers.hpp"

#include "verbs/software/atomics.hpp"
#include "verbs/software/memory/grant_word.hpp"

#include "common/catch.hpp"
#include "common/patience.hpp"
#include "common/system_calls.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

// Waiting for peers in the middle of a copy.

namespace test {

namespace {

using rdma::software::late_writers;
using rdma::software::memory_peer;
using rdma::software::waiting_budget;
using namespace std::chrono_literals;

/// A peer in the middle of a copy, as its mark tells.
struct copying_peer
{
  copying_peer()
  {
    state->mark = &mark;
    late_writers::add(memory.data(), memory.size(), state, 1, -1);
  }
  copying_peer(const copying_peer&) = delete;
  copying_peer& operator=(const copying_peer&) = delete;
  ~copying_peer()
  {
    finish();
    CHECK_FALSE(late_writers::may_write(memory.data(), memory.size()));
  }

  void finish() { mark = 0; }
  void wait() const { late_writers::wait(memory.data(), memory.size()); }

  std::atomic<std::uint32_t> mark{1};
  std::shared_ptr<memory_peer> state = std::make_shared<memory_peer>();
  std::vector<std::byte> memory{64};
};

} // namespace

TEST_CASE("the end of an access waits for a peer that has to wait for a processor")
{
  // The pause is longer than a copy. On a busy machine it may also be longer than the budget, but
  // not each time.
  CHECK(until(
    []
    {
      copying_peer peer;
      std::thread resumes(
        [&]
        {
          std::this_thread::sleep_for(5 * late_writers::copy_time);
          peer.finish();
        });
      peer.wait();
      const bool has_finished = peer.mark == 0;
      resumes.join();
      return has_finished;
    }));
}

TEST_CASE("a peer that does not finish is waited for once")
{
  copying_peer stopped;
  stopped.wait();
  CHECK(stopped.state->overdue);
  stopped.wait();
  CHECK(stopped.state->overdue);
  copying_peer other;
  other.finish();
  other.wait();
  CHECK_FALSE(other.state->overdue);
  stopped.finish();
  CHECK_FALSE(late_writers::may_write(stopped.memory.data(), stopped.memory.size()));
  CHECK_FALSE(stopped.state->overdue);
}

TEST_CASE("waits take at first what the budget has, and then their share of the time")
{
  waiting_budget budget;
  auto now = waiting_budget::clock::time_point(1h);
  CHECK(budget.take(now, 0ms));
  CHECK(budget.take(now += 40ms, 40ms));
  CHECK(budget.take(now += 40ms, 40ms));
  CHECK_FALSE(budget.take(now += 40ms, 40ms));
  // Two waits of 1 ms each cost more than 20 ms give.
  CHECK_FALSE(budget.take(now += 20ms, 1ms));
  CHECK_FALSE(budget.take(now, 1ms));
  now += waiting_budget::share * 20ms;
  CHECK(budget.take(now, 1ms));
  // It never has more than its largest value.
  now += 24h;
  CHECK(budget.take(now, 0ms));
  CHECK_FALSE(budget.take(now, waiting_budget::largest));
}

TEST_CASE("a peer that keeps its mark notices the end of a grant at its next access")
{
  constexpr std::uint32_t generation = 3;
  std::atomic<std::uint32_t> word{generation};
  std::atomic<std::uint32_t> mark{0};
  rdma::software::grant_mark mine;
  REQUIRE(mine.enter(mark, 1, word, generation));
  CHECK(rdma::software::withdraw_grant<rdma::software::atomics>(word, mark, 1));
  CHECK_FALSE(mine.enter(mark, 1, word, generation));
}

TEST_CASE("the end of an access does not pause for a peer that is overdue")
{
  if (!replaces_system_calls())
  {
    WARN("skipped here: pauses are not counted");
    return;
  }
  copying_peer stopped;
  stopped.wait();
  REQUIRE(stopped.state->overdue);
  std::this_thread::yield();
  const pauses before = pauses_of_thread();
  REQUIRE(before.yields != 0); // they are counted
  stopped.wait();
  CHECK(pauses_of_thread().yields == before.yields);
  CHECK(pauses_of_thread().sleeps == before.sleeps);
}

TEST_CASE("the end of an access does not sleep for further peers that do not finish")
{
  if (!replaces_system_calls())
  {
    WARN("skipped here: pauses are not counted");
    return;
  }
  copying_peer first;
  first.wait();
  REQUIRE(first.state->overdue);
  // On a busy machine some time may pass before the wait, of which the budget gets its share.
  CHECK(until(
    []
    {
      copying_peer another;
      const unsigned before = pauses_of_thread().sleeps;
      another.wait();
      CHECK(another.state->overdue);
      return pauses_of_thread().sleeps == before;
    }));
}

} // namespace test
