//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/agent_fixture.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <thread>
#include <vector>

// Tests leases of the peer's memory: allocation, quotas, use and renewal.

using namespace test;
using namespace std::chrono_literals;

TEST_CASE("async_allocate leases zeroed memory of the peer that can be written and read")
{
  agent_fixture f;
  rdma::remote_memory memory = f.allocate(4096);
  CHECK(memory.is_valid());
  CHECK(memory.size() == 4096);
  CHECK(memory.rights() == rdma::remote_access);
  CHECK(memory.expires_at() == rdma::remote_memory::clock::time_point::max());
  CHECK(f.lessor.statistics().bytes == 4096);
  CHECK(f.lessor.statistics().regions == 1);
  CHECK(f.read(memory) == std::string(4096, '\0'));
  CHECK(f.write(f.client, "six hundred and sixty-six", memory) == error_code());
  CHECK(f.read(memory.first(25)) == "six hundred and sixty-six");
  CHECK(f.write(f.client, "end", memory.slice(4093)) == error_code());
  CHECK(f.read(memory.slice(4090)) == std::string(3, '\0') + "end");
  if (has(feature::atomics))
  {
    value_record before;
    f.client.async_fetch_add(memory.elements<std::uint64_t>(100), 42, before.handler());
    REQUIRE(run_until(f.io, [&] { return before.done(); }));
    CHECK(before.ec == error_code());
    CHECK(before.value() == 0);
  }

  plain_record released;
  f.client.agent().async_release(std::move(memory), released.handler());
  REQUIRE(run_until(f.io, [&] { return released.done(); }));
  CHECK(released.ec == error_code());
  CHECK(f.lessor.statistics().bytes == 0);
  CHECK(f.lessor.statistics().regions == 0);
  CHECK(f.lessor.statistics().grants == 1);
  CHECK(f.lessor.pool().statistics().bytes_allocated == 0);
}

TEST_CASE("leased memory contains only zeros when its pool memory is reused")
{
  agent_fixture f;
  const std::uint64_t address = f.allocate(100).buffer().address();
  REQUIRE(f.all_back());
  for (int i = 0; i != 3; ++i)
  {
    const rdma::remote_memory memory = f.allocate(100);
    CHECK(memory.buffer().address() == address); // otherwise the test proves nothing
    CHECK(f.read(memory) == std::string(100, '\0'));
    CHECK(f.write(f.client, std::string(100, 'x'), memory) == error_code());
  }
}

TEST_CASE("destroying remote_memory releases it after its agent handle is destroyed")
{
  agent_fixture f;
  {
    const rdma::remote_memory one = f.allocate(10);
    rdma::remote_memory two = f.allocate(20);
    CHECK(f.lessor.statistics().bytes == 30);
    two.release();
    CHECK_FALSE(two.is_valid());
    CHECK(two.size() == 0);
    REQUIRE(run_until(f.io, [&] { return f.lessor.statistics().bytes == 10; }));
  }
  CHECK(f.all_back());
  CHECK(f.client.is_connected());
}

TEST_CASE("agent messages consume no receive of the program")
{
  agent_fixture f;
  const rdma::registered_buffer at_server = f.server_context.allocate(16);
  const rdma::registered_buffer at_client = f.client_context.allocate(16);
  bytes_record server_got;
  bytes_record client_got;
  f.server->async_receive(at_server, server_got.handler());
  f.client.async_receive(at_client, client_got.handler());
  for (int i = 0; i != 20; ++i)
    f.allocate(64);
  CHECK(f.all_back());
  CHECK_FALSE(server_got.done());
  CHECK_FALSE(client_got.done());
  bytes_record sent;
  f.client.async_send(buffer_of(f.client_context, "mine"), sent.handler());
  REQUIRE(run_until(f.io, [&] { return sent.done() && server_got.done(); }));
  CHECK(text_of(at_server.first(server_got.value())) == "mine");
}

TEST_CASE("async_allocate completes every request with its own memory when there are many requests")
{
  agent_fixture f;
  constexpr std::size_t count = 200;
  std::deque<memory_record> granted(count);
  rdma::agent agent = f.client.agent();
  for (std::size_t i = 0; i != count; ++i)
    agent.async_allocate(1 + i, granted[i].handler());
  CHECK_FALSE(granted.front().done()); // handlers are never called inside the initiating function
  REQUIRE(run_until(f.io,
    [&] {
      return std::all_of(granted.begin(), granted.end(), [](auto& each) { return each.done(); });
    }));
  std::set<std::uint64_t> addresses;
  for (std::size_t i = 0; i != count; ++i)
  {
    CHECK(granted[i].calls == 1);
    CHECK(granted[i].ec == error_code());
    CHECK(granted[i].value.size() == 1 + i);
    addresses.insert(granted[i].value.buffer().address());
  }
  CHECK(addresses.size() == count);
  granted.clear();
  CHECK(f.all_back());
}

TEST_CASE("a lessor refuses requests beyond its quotas with the matching error")
{
  rdma::lessor_options quotas;
  quotas.bytes_max = 1000;
  quotas.bytes_per_peer_max = 600;
  quotas.regions_per_peer_max = 3;
  quotas.regions_max = 5;
  quotas.rights = rdma::access::remote_read | rdma::access::remote_write;
  quotas.lifetime_max = 1h;
  agent_fixture f(quotas);
  rdma::allocation_options plain;
  plain.rights = quotas.rights;

  SECTION("bytes per peer")
  {
    CHECK(f.refusal(601, plain) == error::quota_exceeded);
    CHECK(f.refusal(SIZE_MAX, plain) == error::quota_exceeded);
    const rdma::remote_memory all = f.allocate(600, plain);
    CHECK(f.refusal(1, plain) == error::quota_exceeded);
  }
  SECTION("regions per peer")
  {
    std::vector<rdma::remote_memory> held;
    for (int i = 0; i != 3; ++i)
      held.push_back(f.allocate(1, plain));
    CHECK(f.refusal(1, plain) == error::quota_exceeded);
    held.pop_back();
    held.push_back(f.allocate(1, plain));
  }
  SECTION("total bytes")
  {
    rdma::queue_pair other(f.io, f.client_context);
    std::optional<rdma::queue_pair> peer;
    f.connect(other, peer);
    const rdma::remote_memory first = f.allocate(other, 600, plain);
    CHECK(f.refusal(401, plain) == error::quota_exceeded);
    CHECK(f.allocate(400, plain).is_valid());
  }
  SECTION("total regions")
  {
    rdma::queue_pair other(f.io, f.client_context);
    std::optional<rdma::queue_pair> peer;
    f.connect(other, peer);
    std::vector<rdma::remote_memory> held;
    for (int i = 0; i != 3; ++i)
      held.push_back(f.allocate(other, 1, plain));
    for (int i = 0; i != 2; ++i)
      held.push_back(f.allocate(1, plain));
    CHECK(f.refusal(1, plain) == error::quota_exceeded);
    held.pop_back();
    held.push_back(f.allocate(1, plain));
  }
  SECTION("rights")
  {
    rdma::allocation_options options;
    CHECK(f.refusal(8, options) == error::remote_right_missing);
    options.rights = rdma::access::remote_atomic;
    CHECK(f.refusal(8, options) == error::remote_right_missing);
    options.rights = rdma::access::local_write;
    CHECK(f.refusal(8, options) == error::bad_access);
    options.rights = rdma::access::local_read;
    CHECK(f.refusal(8, options) == error::bad_access);
  }
  SECTION("alignment")
  {
    rdma::allocation_options options = plain;
    for (const std::uint32_t wrong : {0u, 3u, 8192u})
    {
      options.alignment = wrong;
      CHECK(f.refusal(8, options) == error::bad_alignment);
    }
    for (const std::uint32_t right : {1u, 8u, 4096u})
    {
      options.alignment = right;
      CHECK(f.allocate(8, options).buffer().address() % right == 0);
    }
  }
  SECTION("size")
  {
    CHECK(f.refusal(0, plain) == error::empty_buffer);
  }
  SECTION("lifetime, which is shortened")
  {
    const rdma::remote_memory memory = f.allocate(8, plain);
    CHECK(memory.expires_at() < rdma::remote_memory::clock::now() + 61min);
    CHECK(memory.expires_at() > rdma::remote_memory::clock::now() + 50min);
  }
  CHECK(f.client.is_connected());
  CHECK(f.all_back());
}

TEST_CASE("async_allocate fails with pool_exhausted when the lessor's pool is full")
{
  rdma::lessor_options quotas;
  quotas.pool.size_max = 64 << 10;
  quotas.pool.arena_size = quotas.pool.arena_size_max = 64 << 10;
  agent_fixture f(quotas);
  CHECK(f.refusal(1 << 20) == error::pool_exhausted);
  CHECK(f.allocate(1000).is_valid());
  CHECK(f.all_back());
}

TEST_CASE("the leases of all peers together take no more than the lessor's pool may contain")
{
  rdma::lessor_options quotas;
  quotas.pool.size_max = 64 << 10;
  quotas.pool.arena_size = quotas.pool.arena_size_max = 64 << 10;
  agent_fixture f(quotas);
  rdma::queue_pair second(f.io, f.client_context);
  std::optional<rdma::queue_pair> far;
  f.connect(second, far);
  const rdma::remote_memory first = f.allocate(second, 40 << 10);
  CHECK(f.refusal(40 << 10) == error::pool_exhausted);
  CHECK(f.allocate(8 << 10).is_valid());
  CHECK(first.is_valid());
}

TEST_CASE("async_allocate fails with no_lessor when the peer has none")
{
  agent_fixture f;
  memory_record granted;
  f.server->agent().async_allocate(8, granted.handler()); // the client has no lessor
  // The client's program has not created its agent yet, so the request waits.
  CHECK(f.allocate(8).is_valid());
  REQUIRE(run_until(f.io, [&] { return granted.done(); }));
  CHECK(granted.ec == error::no_lessor);
}

TEST_CASE("a lease ends when its lifetime is over")
{
  agent_fixture f;
  rdma::allocation_options brief;
  brief.lifetime = 30ms;
  const rdma::remote_memory memory = f.allocate(64, brief);
  const rdma::remote_memory other = f.allocate(64);
  CHECK(memory.expires_at() < rdma::remote_memory::clock::now() + 30ms);
  REQUIRE(run_until(f.io, [&] { return f.lessor.statistics().regions == 1; }));
  CHECK_FALSE(memory.is_valid());
  CHECK(other.is_valid());
  CHECK(f.lessor.statistics().bytes == 64);
  plain_record renewed;
  f.client.agent().async_renew(memory, 1h, renewed.handler());
  REQUIRE(run_until(f.io, [&] { return renewed.done(); }));
  CHECK(renewed.ec == error::lease_ended);
  // The key is invalid now.
  const error_code ec = f.write(f.client, "late", memory);
  if (has(feature::exact_statuses))
    CHECK(ec == rdma::wc_status::remote_access_error);
  else
    CHECK(ec);
}

TEST_CASE("async_renew extends a lease")
{
  agent_fixture f;
  rdma::allocation_options brief;
  brief.lifetime = 2s; // longer than the renewal takes
  const rdma::remote_memory memory = f.allocate(64, brief);
  plain_record renewed;
  f.client.agent().async_renew(memory, 1h, renewed.handler());
  REQUIRE(run_until(f.io, [&] { return renewed.done(); }));
  CHECK(renewed.ec == error_code());
  CHECK(memory.expires_at() > rdma::remote_memory::clock::now() + 50min);
  // Another lease, requested later with the same lifetime, expires; the first would have expired
  // too.
  const rdma::remote_memory expiring = f.allocate(64, brief);
  REQUIRE(run_until(f.io, [&] { return f.lessor.statistics().regions == 1; }));
  CHECK(f.read(memory) == std::string(64, '\0'));

  f.client.agent().async_renew(memory, 10ms, renewed.handler());
  CHECK(f.all_back());
}

TEST_CASE("an agent operation reports why there is no agent")
{
  need(feature::endpoint_descriptions);
  asio::io_context io;
  const rdma::context context = make_context();
  const auto outcome = [&](rdma::queue_pair& of)
  {
    memory_record granted;
    of.agent().async_allocate(8, granted.handler());
    REQUIRE(run_until(io, [&] { return granted.done(); }));
    return granted.ec;
  };
  rdma::queue_pair unconnected(io, context);
  CHECK(outcome(unconnected) == error::not_connected);
  rdma::queue_pair moved(std::move(unconnected));
  CHECK(outcome(unconnected) == error::closed); // NOLINT(bugprone-use-after-move)
  moved.close();
  CHECK(outcome(moved) == error::closed);
  rdma::queue_pair a(io, context);
  rdma::queue_pair b(io, context);
  connect(a, b);
  // Connected by connect(), so there is no control channel.
  CHECK(outcome(a) == asio::error::operation_not_supported);
  CHECK(run_out(io));
}

TEST_CASE("agent operations accept every kind of token")
{
  agent_fixture f;
  rdma::agent agent = f.client.agent();
  {
    auto future = agent.async_allocate(8, asio::use_future);
    REQUIRE(run_until(f.io, [&] { return future.wait_for(0s) == std::future_status::ready; }));
    CHECK(future.get().is_valid());
  }
  {
    memory_record granted;
    auto later = agent.async_allocate(8, asio::deferred);
    std::move(later)(granted.handler());
    REQUIRE(run_until(f.io, [&] { return granted.done(); }));
    CHECK(granted.ec == error_code());
  }
  bool finished = false;
  asio::co_spawn(
    f.io,
    [&]() -> asio::awaitable<void>
    {
      rdma::remote_memory memory = co_await agent.async_allocate(sizeof(int), asio::use_awaitable);
      const rdma::registered_buffer local = f.client_context.allocate(sizeof(int));
      *local.as<int>() = 666;
      co_await f.client.async_write(local, memory, asio::use_awaitable);
      co_await agent.async_renew(memory, 1h, asio::use_awaitable);
      co_await agent.async_release(std::move(memory), asio::use_awaitable);
      finished = true;
    },
    asio::detached);
  REQUIRE(run_until(f.io, [&] { return finished; }));
  {
    // Never started: the lease is released nevertheless.
    const auto never = agent.async_release(f.allocate(100), asio::deferred);
    CHECK(f.lessor.statistics().bytes == 100);
  }
  CHECK(f.all_back());
}

TEST_CASE("an agent is usable by many threads concurrently")
{
  agent_fixture f;
  rdma::agent borrower = f.client.agent();
  rdma::agent lender = f.server->agent();
  const rdma::registered_buffer region = f.server_context.allocate(64);
  const int turns = emulated() ? 20 : 200;
  std::atomic<int> failures{0};
  {
    f.io.restart();
    auto work = asio::make_work_guard(f.io);
    std::vector<std::thread> runners;
    for (int i = 0; i != 3; ++i)
      runners.emplace_back([&] { f.io.run(); });
    std::vector<std::thread> users;
    for (int i = 0; i != 3; ++i)
      users.emplace_back(
        [&, i]
        {
          for (int turn = 0; turn != turns; ++turn)
          {
            rdma::allocation_options options;
            options.lifetime = (turn % 5 == 0) ? 1ms : 1h;
            rdma::remote_memory memory =
              borrower.async_allocate(64 + static_cast<std::size_t>(i), options, asio::use_future)
                .get();
            failures += memory.size() == 0;
            if (turn % 3 == 0)
              borrower.async_release(std::move(memory), [](const error_code&) {});
            else if (turn % 3 == 1)
              borrower.async_renew(memory, 1h, [](const error_code&) {});
          }
        });
    users.emplace_back(
      [&]
      {
        for (int turn = 0; turn != turns; ++turn)
        {
          auto coming = borrower.async_receive_remote(asio::use_future);
          rdma::loan lent = lender.async_lend(region, asio::use_future).get();
          rdma::remote_memory borrowed = coming.get();
          failures += borrowed.size() != 64;
          if (turn % 2 == 0)
            lent.take_back();
          else
            borrowed.release();
        }
      });
    for (std::thread& each : users)
      each.join();
    work.reset();
    f.client.close();
    f.server->close();
    f.acceptor.close();
    for (std::thread& each : runners)
      each.join();
  }
  CHECK(failures == 0);
  CHECK(f.lessor.statistics().bytes == 0);
  CHECK(f.lessor.pool().statistics().bytes_allocated == 0);
  CHECK(f.lessor.statistics().grants == static_cast<std::uint64_t>(3 * turns));
}
