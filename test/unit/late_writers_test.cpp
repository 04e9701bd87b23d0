//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/late_writers.hpp"

#include "common/catch.hpp"
#include "common/patience.hpp"

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
  // The peer's pause is longer than the copy. It may last longer than planned on a busy machine,
  // but not each time longer than the patience.
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

TEST_CASE("a peer that does not finish is waited for once, and others are not delayed by it")
{
  copying_peer stopped;
  stopped.wait();
  CHECK(stopped.state->overdue);
  CHECK(stopped.state->patience <= 0ns);
  stopped.wait();
  const auto left = stopped.state->patience;
  stopped.wait();
  CHECK(stopped.state->patience == left); // it takes no more time
  copying_peer other;
  other.finish();
  other.wait();
  CHECK_FALSE(other.state->overdue);
}

TEST_CASE("a peer that is late again and again soon has no patience left")
{
  copying_peer slow;
  slow.wait();
  for (int i = 0; i != 3; ++i)
  {
    slow.finish();
    CHECK_FALSE(late_writers::may_write(slow.memory.data(), slow.memory.size()));
    CHECK_FALSE(slow.state->overdue);
    slow.mark = 1;
    late_writers::add(slow.memory.data(), slow.memory.size(), slow.state, 1, -1);
    slow.wait();
    CHECK(slow.state->overdue);
    CHECK(slow.state->patience <= 0ns);
  }
}

} // namespace test
