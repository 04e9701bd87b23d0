//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/agent_fixture.hpp"
#include "software/faults.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/strand.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

// Agents without memory for some step.

using namespace test;

namespace {

/// A client and a server with agents.
struct agent_round : agent_fixture
{
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
      [&](auto handler) { near->agent().async_renew(leased, std::chrono::minutes(1), handler); }));
    const auto& taken =
      round.start([&](auto handler) { far->agent().async_receive_local(handler); },
        [&](rdma::registered_buffer made) { inbox = std::move(made); });
    if (!taken.is_started)
      return;
    const auto& given = round.start(
      [&](auto handler) { near->agent().async_hand_over(std::move(leased), std::move(handler)); });
    round.await(given);
    if (!given.succeeded())
      return;
    round.await(taken);
    await_lease(round, 64, leased);
    if (leased.is_valid())
      round.await(round.start(
        [&](auto handler) { near->agent().async_release(std::move(leased), std::move(handler)); }));
  }

  /// Lends memory to the server, which reads and releases it, and takes other memory back.
  void lend(faulty_round& round)
  {
    for (const bool takes_back : {false, true})
    {
      rdma::loan lent;
      rdma::remote_memory borrowed;
      const auto& received =
        round.start([&](auto handler) { far->agent().async_receive_remote(handler); },
          [&](rdma::remote_memory made) { borrowed = std::move(made); });
      if (!received.is_started)
        return;
      const auto& lending =
        round.start([&](auto handler) { near->agent().async_lend(text, {}, handler); },
          [&](rdma::loan made) { lent = std::move(made); });
      round.await(lending);
      if (!lending.succeeded())
        return;
      round.await(received);
      const auto& back =
        round.start([&](auto handler) { near->agent().async_wait_return(lent, handler); });
      if (takes_back)
        lent.take_back();
      else if (borrowed.is_valid())
      {
        const auto& read =
          round.start([&](auto handler) { far->async_read(inbox, borrowed.buffer(), handler); });
        round.await(read);
        borrowed = {};
      }
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
    near.emplace(io, client_context);
    connect(*near, far);
    memory_record granted;
    near->agent().async_allocate(4096, {}, granted.handler());
    if (!run_until(io, [&] { return granted.done(); }) || granted.ec)
      return false;
    granted.value = {};
    return all_back();
  }

  void await_lease(faulty_round& round, std::size_t size, rdma::remote_memory& leased)
  {
    round.await(round.start([&](auto handler) { near->agent().async_allocate(size, {}, handler); },
      [&](rdma::remote_memory made) { leased = std::move(made); }));
  }

  const asio::strand<asio::io_context::executor_type> elsewhere = asio::make_strand(io);
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
  SECTION("leases")
  {
    with_failing_allocations<agent_scene<&agent_round::lease>>();
  }
  SECTION("handing over")
  {
    with_failing_allocations<agent_scene<&agent_round::hand_over>>();
  }
  SECTION("loans")
  {
    with_failing_allocations<agent_scene<&agent_round::lend>>();
  }
}
