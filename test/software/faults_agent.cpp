//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/agent_fixture.hpp"
#include "software/faults.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

// Agents while some step fails.

using namespace test;

namespace {

/// A client and a server with agents.
struct agent_round : agent_fixture
{
  agent_round()
    : agent_fixture({}, options())
  {
  }

  /// Leases memory, uses it, and releases it.
  void lease(faulty_round& round)
  {
    for (const std::size_t size : {std::size_t{4096}, std::size_t{1024 * 1024}})
    {
      rdma::remote_memory leased;
      await_lease(round, size, leased);
      if (!leased.is_valid())
        return;
      const auto remote = leased.buffer().first(text.size());
      round.await(round.start([&](auto handler) { near->async_write(text, remote, handler); }));
      round.await(round.start([&](auto handler) { near->async_read(text, remote, handler); }));
    }
  }

  /// Leases memory, renews the lease, and hands the memory over. The last lease is released.
  void hand_over(faulty_round& round)
  {
    rdma::remote_memory leased;
    await_lease(round, 4096, leased);
    if (!leased.is_valid())
      return;
    round.await(round.start(
      [&](auto handler) { agent_of(near).async_renew(leased, std::chrono::minutes(1), handler); }));
    const auto& taken =
      round.start([&](auto handler) { agent_of(far).async_receive_local(handler); },
        [&](rdma::registered_buffer made) { inbox = std::move(made); });
    if (!taken.is_started)
      return;
    const auto& given = round.start(
      [&](auto handler) { agent_of(near).async_hand_over(std::move(leased), std::move(handler)); });
    round.await(given);
    if (!given.succeeded())
      return;
    round.await(taken);
    await_lease(round, 64, leased);
    if (leased.is_valid())
      round.await(round.start([&](auto handler)
        { agent_of(near).async_release(std::move(leased), std::move(handler)); }));
  }

  /// Leases memory until its lifetime is over, and asks for more time then.
  void expire(faulty_round& round)
  {
    rdma::remote_memory leased;
    await_lease(
      round, 4096, leased, {.lifetime = std::chrono::milliseconds(10), .time_limit = brief});
    if (!leased.is_valid())
      return;
    round.await_that([&] { return lessor.statistics().regions == 0; });
    round.await(round.start(
      [&](auto handler) { agent_of(near).async_renew(leased, std::chrono::minutes(1), handler); }));
  }

  /// Lends memory to the server and takes it back, and lends other memory, which the server reads
  /// and releases.
  void lend(faulty_round& round)
  {
    rdma::remote_memory borrowed; // the first until the second arrives, after the recall
    for (const bool takes_back : {true, false})
    {
      rdma::loan lent;
      const auto& received =
        round.start([&](auto handler) { agent_of(far).async_receive_remote(handler); },
          [&](rdma::remote_memory made) { borrowed = std::move(made); });
      if (!received.is_started)
        return;
      const auto& lending =
        round.start([&](auto handler) { agent_of(near).async_lend(text, handler); },
          [&](rdma::loan made) { lent = std::move(made); });
      round.await(lending);
      if (!lending.succeeded())
        return;
      round.await(received);
      const auto& back =
        round.start([&](auto handler) { agent_of(near).async_wait_return(lent, handler); });
      if (!takes_back && borrowed.is_valid())
      {
        const auto& read =
          round.start([&](auto handler) { far->async_read(inbox, borrowed.buffer(), handler); });
        round.await(read);
        if (!read.succeeded())
          return; // its queue pair has failed, which the peer does not notice until it is closed
        borrowed = {};
      }
      else
        lent.take_back();
      round.await(back);
    }
  }

  void end()
  {
    near.reset();
    far.reset();
  }

  [[nodiscard]] bool serves_next()
  {
    near.emplace(io, client_context, options());
    connect(*near, far);
    memory_record granted;
    near->agent().async_allocate(4096, granted.handler());
    if (!run_until(io, [&] { return granted.done(); }) || granted.ec)
      return false;
    granted.value = {};
    if (!all_back())
      return false;
    near.emplace(io, client_context, options());
    connect(*near, far); // the next round begins without agents
    return true;
  }

  /// A round makes no connection, so connecting has the default time limit.
  static rdma::queue_pair_options options()
  {
    rdma::queue_pair_options result = faulty_round_options();
    result.connect_timeout = rdma::queue_pair_options().connect_timeout;
    return result;
  }

  /// Returns an agent whose peer may be without one for lack of memory.
  static rdma::agent agent_of(const std::optional<rdma::queue_pair>& peer)
  {
    rdma::agent agent = peer->agent();
    agent.time_limit(brief);
    return agent;
  }

  void await_lease(faulty_round& round, std::size_t size, rdma::remote_memory& leased,
    const rdma::allocation_options& options = {.time_limit = brief})
  {
    round.await(
      round.start([&](auto handler) { agent_of(near).async_allocate(size, options, handler); },
        [&](rdma::remote_memory made) { leased = std::move(made); }));
  }

  static constexpr std::chrono::milliseconds brief{500};
  std::optional<rdma::queue_pair> near;
  std::optional<rdma::queue_pair> far;
  const rdma::registered_buffer text = client_context.allocate(64);
  rdma::registered_buffer inbox = server_context.allocate(64);
};

template <void (agent_round::*Run)(faulty_round&)>
struct agent_scene : agent_round
{
  agent_scene() { REQUIRE(serves_next()); }
  void run(faulty_round& round) { (this->*Run)(round); }
};

} // namespace

TEST_CASE("leases that are made and released while allocations fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a round takes seconds on others
  SECTION("leases")
  {
    with_failing_allocations<agent_scene<&agent_round::lease>>();
  }
  SECTION("handing over")
  {
    with_failing_allocations<agent_scene<&agent_round::hand_over>>();
  }
  SECTION("expiry")
  {
    with_failing_allocations<agent_scene<&agent_round::expire>>();
  }
  SECTION("loans")
  {
    with_failing_allocations<agent_scene<&agent_round::lend>>();
  }
}

TEST_CASE("leases that are made and released while system calls fail end once")
{
  SECTION("leases")
  {
    with_failing_calls<agent_scene<&agent_round::lease>>();
  }
  SECTION("handing over")
  {
    with_failing_calls<agent_scene<&agent_round::hand_over>>();
  }
  SECTION("expiry")
  {
    with_failing_calls<agent_scene<&agent_round::expire>>();
  }
  SECTION("loans")
  {
    with_failing_calls<agent_scene<&agent_round::lend>>();
  }
}
