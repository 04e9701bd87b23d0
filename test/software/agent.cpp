//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/agent_fixture.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <set>
#include <thread>
#include <vector>

// Tests leases of the peer's memory: allocation, use, renewal, release, loans and hand-over.

namespace {

using namespace test;
using namespace std::chrono_literals;

} // namespace

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

TEST_CASE("a loan is readable by the peer until it is returned")
{
  agent_fixture f;
  const rdma::registered_buffer region = buffer_of(f.server_context, "the server's own words");
  loan_record lent;
  memory_record borrowed;
  rdma::agent lender = f.server->agent();
  lender.async_lend(region, lent.handler());
  f.client.agent().async_receive_remote(borrowed.handler());
  REQUIRE(run_until(f.io, [&] { return lent.done() && borrowed.done(); }));
  REQUIRE(lent.ec == error_code());
  REQUIRE(borrowed.ec == error_code());
  CHECK(lent.value.is_active());
  CHECK(borrowed.value.rights() == rdma::access::remote_read);
  CHECK(f.read(borrowed.value) == "the server's own words");
  bytes_record refused;
  f.client.async_write(buffer_of(f.client_context, "no"), borrowed.value, refused.handler());
  REQUIRE(run_until(f.io, [&] { return refused.done(); }));
  CHECK(refused.ec == error::remote_right_missing);

  SECTION("by the peer, which releases it")
  {
    plain_record back;
    lender.async_wait_return(lent.value, back.handler());
    plain_record given;
    f.client.agent().async_release(std::move(borrowed.value), given.handler());
    REQUIRE(run_until(f.io, [&] { return back.done() && given.done(); }));
    CHECK(back.ec == error_code());
    CHECK(given.ec == error_code());
    CHECK_FALSE(lent.value.is_active());
    CHECK(f.client.is_connected());
  }
  SECTION("by the lender, which takes it back")
  {
    plain_record back;
    lender.async_wait_return(lent.value, back.handler());
    if (GENERATE(false, true))
      lent.value.take_back();
    else
      lent.value = rdma::loan();
    CHECK_FALSE(lent.value.is_active());
    const error_code ec = [&]
    {
      error_code result;
      f.read(f.client, borrowed.value, result);
      return result;
    }();
    if (has(feature::exact_statuses))
      CHECK(ec == rdma::wc_status::remote_access_error);
    else
      CHECK(ec);
    REQUIRE(run_until(f.io, [&] { return back.done(); }));
    CHECK(back.ec == error_code());
  }
  SECTION("by the lender, which notifies the peer")
  {
    lent.value.take_back();
    memory_record next;
    // Some operation must be outstanding, or the client does not process the recall.
    f.client.agent().async_receive_remote(next.handler());
    REQUIRE(run_until(f.io, [&] { return !borrowed.value.is_valid(); }));
    CHECK(f.client.is_connected());
    f.client.close();
    REQUIRE(run_until(f.io, [&] { return next.done(); }));
    CHECK(next.ec == asio::error::operation_aborted);
  }
}

TEST_CASE("a loan with a lifetime is returned when the lifetime is over")
{
  agent_fixture f;
  const rdma::registered_buffer region = f.server_context.allocate(64);
  rdma::lend_options brief;
  brief.lifetime = 50ms;
  brief.rights = rdma::remote_access;
  loan_record lent;
  memory_record borrowed;
  f.client.agent().async_receive_remote(borrowed.handler());
  f.server->agent().async_lend(region, brief, lent.handler());
  REQUIRE(run_until(f.io, [&] { return lent.done() && borrowed.done(); }));
  REQUIRE(lent.ec == error_code());
  plain_record back;
  f.server->agent().async_wait_return(lent.value, back.handler());
  REQUIRE(run_until(f.io, [&] { return back.done(); }));
  CHECK(back.ec == error_code());
  CHECK_FALSE(lent.value.is_active());
  plain_record again;
  f.client.agent().async_release(std::move(borrowed.value), again.handler());
  REQUIRE(run_until(f.io, [&] { return again.done(); }));
  CHECK(again.ec == error::lease_ended);
}

TEST_CASE("async_lend fails with inbox_full when the peer's inbox is full")
{
  agent_fixture f;
  const rdma::registered_buffer region = f.server_context.allocate(64);
  f.allocate(1); // creates the client's agent
  std::deque<loan_record> lent(70);
  for (loan_record& each : lent)
    f.server->agent().async_lend(region, each.handler());
  // The client's agent runs while an operation of the client is outstanding.
  bytes_record never;
  f.client.async_receive(f.client_context.allocate(8), never.handler());
  memory_record first;
  REQUIRE(run_until(f.io,
    [&] { return std::all_of(lent.begin(), lent.end(), [](auto& each) { return each.done(); }); }));
  const auto refused = std::count_if(
    lent.begin(), lent.end(), [](auto& each) { return each.ec == error::inbox_full; });
  CHECK(refused == 6);
  for (const loan_record& each : lent)
    CHECK(each.value.is_active() == !each.ec);
  f.client.agent().async_receive_remote(first.handler());
  REQUIRE(run_until(f.io, [&] { return first.done(); }));
  CHECK(first.value.is_valid());
}

TEST_CASE("async_lend refuses a buffer that cannot be lent")
{
  agent_fixture f;
  const rdma::registered_buffer own = f.client_context.allocate(64);
  const auto outcome = [&](const rdma::mutable_buffer& region, rdma::access rights)
  {
    loan_record lent;
    rdma::lend_options options;
    options.rights = rights;
    f.client.agent().async_lend(region, options, lent.handler());
    REQUIRE(run_until(f.io, [&] { return lent.done(); }));
    CHECK_FALSE(lent.value.is_active());
    return lent.ec;
  };
  std::array<char, 64> plain{};
  CHECK(outcome(own.first(0), rdma::access::remote_read) == error::empty_buffer);
  CHECK(outcome(rdma::mutable_buffer(asio::buffer(plain)), rdma::access::remote_read)
    == error::not_registered);
  CHECK(outcome(f.server_context.allocate(64), rdma::access::remote_read) == error::wrong_context);
  CHECK(outcome(own, rdma::access::local_read) == error::bad_access);
  CHECK(outcome(own, rdma::access::local_write) == error::bad_access);
  const rdma::memory_region unwritable(
    f.client_context, 64, rdma::access::remote_read | rdma::access::window_bind);
  CHECK(outcome(unwritable, rdma::access::remote_write) == error::bad_access);
  CHECK(f.client.is_connected());
}

TEST_CASE("async_hand_over transfers leased memory with its content to the peer's program")
{
  agent_fixture f;
  const bool early = GENERATE(true, false);
  buffer_record taken;
  rdma::agent at_server = f.server->agent();
  if (early)
    at_server.async_receive_local(taken.handler());
  rdma::remote_memory memory = f.allocate(11);
  CHECK(f.write(f.client, "for the server", memory) == error::remote_range_too_small);
  CHECK(f.write(f.client, "for you all", memory) == error_code());
  const rdma::remote_buffer gone = memory;
  plain_record handed;
  f.client.agent().async_hand_over(std::move(memory), handed.handler());
  REQUIRE(run_until(f.io, [&] { return handed.done(); }));
  CHECK(handed.ec == error_code());
  if (!early)
  {
    CHECK(f.lessor.statistics().bytes == 11);
    at_server.async_receive_local(taken.handler());
  }
  REQUIRE(run_until(f.io, [&] { return taken.done(); }));
  REQUIRE(taken.ec == error_code());
  CHECK(text_of(taken.value) == "for you all");
  CHECK(f.lessor.statistics().bytes == 0);
  // The peer can no longer access the memory.
  CHECK(f.write(f.client, "after", gone));
  CHECK(text_of(taken.value) == "for you all");
}

TEST_CASE("handed-over memory remains available after the connection has ended")
{
  agent_fixture f;
  rdma::remote_memory memory = f.allocate(4);
  CHECK(f.write(f.client, "kept", memory) == error_code());
  plain_record handed;
  f.client.agent().async_hand_over(std::move(memory), handed.handler());
  REQUIRE(run_until(f.io, [&] { return handed.done(); }));
  plain_record ended;
  rdma::agent at_server = f.server->agent();
  f.server->async_wait_close(ended.handler());
  f.client.close();
  REQUIRE(run_until(f.io, [&] { return ended.done(); }));
  buffer_record taken;
  if (GENERATE(true, false))
    at_server.async_receive_local(taken.handler());
  else
    f.server->agent().async_receive_local(taken.handler());
  REQUIRE(run_until(f.io, [&] { return taken.done(); }));
  REQUIRE(taken.ec == error_code());
  CHECK(text_of(taken.value) == "kept");
  buffer_record none;
  at_server.async_receive_local(none.handler());
  REQUIRE(run_until(f.io, [&] { return none.done(); }));
  CHECK(none.ec == error::peer_closed);
  CHECK(f.lessor.statistics().bytes == 0);
}

TEST_CASE("async_hand_over completes without error when the peer ends the connection at once")
{
  for (int i = 0; i != (emulated() ? 3 : 20); ++i)
  {
    agent_fixture f;
    plain_record handed;
    buffer_record taken;
    f.server->agent().async_receive_local(
      [&](const error_code& ec, rdma::registered_buffer buffer)
      {
        taken.handler()(ec, std::move(buffer));
        if (i % 2 == 0)
          f.server->close();
        else
          f.server->async_shutdown([](const error_code&) {});
      });
    f.client.agent().async_hand_over(f.allocate(8), handed.handler());
    REQUIRE(run_until(f.io, [&] { return handed.done() && taken.done(); }));
    CHECK(handed.ec == error_code());
    CHECK(taken.ec == error_code());
  }
}

TEST_CASE("async_receive_local completes without error when the peer ends the connection at once")
{
  for (int i = 0; i != (emulated() ? 3 : 20); ++i)
  {
    agent_fixture f;
    plain_record handed;
    buffer_record taken;
    buffer_record late;
    f.server->agent().async_receive_local(taken.handler());
    f.server->agent().async_receive_local(late.handler());
    f.client.agent().async_hand_over(f.allocate(8),
      [&](const error_code& ec)
      {
        handed.handler()(ec);
        f.client.close();
      });
    REQUIRE(run_until(f.io, [&] { return handed.done() && taken.done() && late.done(); }));
    CHECK(handed.ec == error_code());
    CHECK(taken.ec == error_code());
    CHECK(taken.value.size() == 8);
    CHECK(late.ec == error::peer_closed);
    CHECK(f.lessor.statistics().bytes == 0);
  }
}

TEST_CASE("a lend that times out before the peer receives it leaves both agents usable")
{
  agent_fixture f;
  const rdma::registered_buffer region = f.server_context.allocate(64);
  rdma::lend_options options;
  options.time_limit = 50ms;
  loan_record lent;
  f.server->agent().async_lend(region, options, lent.handler()); // the client has no agent yet
  REQUIRE(run_until(f.io, [&] { return lent.done(); }));
  CHECK(lent.ec == asio::error::timed_out);
  CHECK_FALSE(lent.value.is_active());
  memory_record borrowed;
  f.client.agent().async_receive_remote(borrowed.handler());
  loan_record again;
  f.server->agent().async_lend(region, again.handler());
  REQUIRE(run_until(f.io, [&] { return again.done() && borrowed.done(); }));
  CHECK(again.ec == error_code());
  CHECK(borrowed.value.is_valid());
  CHECK(f.allocate(8).is_valid());
  CHECK(f.all_back());
}

TEST_CASE("async_hand_over fails with lease_ended when the memory is a loan")
{
  agent_fixture f;
  const rdma::registered_buffer region = f.server_context.allocate(64);
  loan_record lent;
  memory_record borrowed;
  f.client.agent().async_receive_remote(borrowed.handler());
  f.server->agent().async_lend(region, lent.handler());
  REQUIRE(run_until(f.io, [&] { return lent.done() && borrowed.done(); }));
  plain_record handed;
  f.client.agent().async_hand_over(std::move(borrowed.value), handed.handler());
  REQUIRE(run_until(f.io, [&] { return handed.done(); }));
  CHECK(handed.ec == error::lease_ended);
}

TEST_CASE("an unanswered agent request ends by time-out or cancellation")
{
  agent_fixture f;
  // The client's program has no agent, so requests to it wait.
  rdma::allocation_options options;
  SECTION("by time-out of its options")
  {
    options.time_limit = 50ms;
    memory_record granted;
    f.server->agent().async_allocate(8, options, granted.handler());
    REQUIRE(run_until(f.io, [&] { return granted.done(); }));
    CHECK(granted.ec == asio::error::timed_out);
  }
  SECTION("by the default time limit of the handle")
  {
    const rdma::registered_buffer region = f.server_context.allocate(8);
    rdma::agent hasty = f.server->agent();
    hasty.time_limit(50ms);
    options.time_limit = rdma::agent_time_limit / 2;
    memory_record later, granted;
    loan_record lent;
    f.server->agent().async_allocate(8, options, later.handler());
    hasty.async_allocate(8, granted.handler());
    hasty.async_lend(region, lent.handler());
    REQUIRE(run_until(f.io, [&] { return granted.done() && lent.done(); }));
    CHECK(granted.ec == asio::error::timed_out);
    CHECK(lent.ec == asio::error::timed_out);
    CHECK_FALSE(later.done());
  }
  SECTION("by cancellation")
  {
    options.time_limit = std::chrono::milliseconds::max();
    asio::cancellation_signal signal;
    memory_record granted;
    f.server->agent().async_allocate(
      8, options, asio::bind_cancellation_slot(signal.slot(), granted.handler()));
    f.io.poll();
    CHECK_FALSE(granted.done());
    signal.emit(GENERATE(asio::cancellation_type::terminal, asio::cancellation_type::partial,
      asio::cancellation_type::total));
    CHECK_FALSE(granted.done());
    REQUIRE(run_until(f.io, [&] { return granted.done(); }));
    CHECK(granted.ec == asio::error::operation_aborted);
    CHECK(granted.calls == 1);
  }
  SECTION("waits for loans and hand-overs by cancellation")
  {
    asio::cancellation_signal signals[2];
    memory_record remote;
    buffer_record local;
    f.server->agent().async_receive_remote(
      asio::bind_cancellation_slot(signals[0].slot(), remote.handler()));
    f.server->agent().async_receive_local(
      asio::bind_cancellation_slot(signals[1].slot(), local.handler()));
    f.io.poll();
    for (auto& each : signals)
      each.emit(asio::cancellation_type::total);
    REQUIRE(run_until(f.io, [&] { return remote.done() && local.done(); }));
    CHECK(remote.ec == asio::error::operation_aborted);
    CHECK(local.ec == asio::error::operation_aborted);
  }
  CHECK(f.server->is_connected());
}

TEST_CASE("a lease granted to a cancelled request is released")
{
  agent_fixture f;
  f.allocate(1);
  for (int i = 0; i != 50; ++i)
  {
    asio::cancellation_signal signal;
    memory_record granted;
    f.client.agent().async_allocate(
      64, asio::bind_cancellation_slot(signal.slot(), granted.handler()));
    for (int turn = 0; turn != i % 7; ++turn)
      f.io.poll_one();
    signal.emit(asio::cancellation_type::terminal);
    REQUIRE(run_until(f.io, [&] { return granted.done(); }));
    CHECK((granted.ec == asio::error::operation_aborted) == !granted.value.is_valid());
  }
  plain_record nothing;
  f.client.async_wait_close(nothing.handler());
  f.allocate(1); // by now the late grants have been received
  CHECK(f.all_back());
}

TEST_CASE("the end of a connection ends its leases and frees their memory")
{
  agent_fixture f;
  std::vector<rdma::remote_memory> held;
  for (int i = 0; i != 10; ++i)
    held.push_back(f.allocate(1000));
  const rdma::registered_buffer region = f.server_context.allocate(64);
  loan_record lent;
  memory_record borrowed;
  plain_record back;
  f.client.agent().async_receive_remote(borrowed.handler());
  f.server->agent().async_lend(region, lent.handler());
  REQUIRE(run_until(f.io, [&] { return lent.done() && borrowed.done(); }));
  f.server->agent().async_wait_return(lent.value, back.handler());
  memory_record waits;
  f.client.agent().async_receive_remote(waits.handler());
  error_code at_client = asio::error::operation_aborted;
  error_code at_server = error::peer_closed;
  SECTION("when the client closes")
  {
    f.client.close();
  }
  SECTION("when the server closes")
  {
    f.server->close();
    std::swap(at_client, at_server);
  }
  SECTION("when the client's queue pair fails")
  {
    bytes_record failed;
    f.client.async_write(buffer_of(f.client_context, "x"),
      rdma::remote_buffer(f.client.transport().device == "soft0" ? rdma::device_kind::software
                                                                 : rdma::device_kind::nic,
        4096, 4096, 0x12345678),
      failed.handler());
    REQUIRE(run_until(f.io, [&] { return failed.done(); }));
    CHECK(failed.ec);
    at_client = failed.ec;
    f.server->close();        // a queue pair in the error state does not notify its peer
    at_server = error_code(); // the error may come from the server's own device
  }
  REQUIRE(run_until(f.io, [&] { return waits.done() && back.done(); }));
  CHECK(waits.ec == at_client);
  if (at_server)
    CHECK(back.ec == at_server);
  else
    CHECK(back.ec);
  CHECK(f.all_back());
  CHECK_FALSE(lent.value.is_active());
  for (const rdma::remote_memory& each : held)
    CHECK_FALSE(each.is_valid());
  CHECK_FALSE(borrowed.value.is_valid());
  CHECK(f.lessor.pool().statistics().bytes_allocated == 0);
  memory_record late;
  f.client.agent().async_allocate(8, late.handler());
  REQUIRE(run_until(f.io, [&] { return late.done(); }));
  CHECK(late.ec);
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

TEST_CASE("an agent keeps run() running only while operations are outstanding")
{
  agent_fixture f;
  asio::io_context io;
  rdma::queue_pair client(io, f.client_context);
  plain_record connected;
  connect_fixture::accepted accepted;
  f.acceptor.async_accept(accepted.handler());
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, io, [&] { return accepted.calls != 0 && connected.done(); }));
  memory_record granted;
  client.agent().async_allocate(8, granted.handler());
  io.restart();
  CHECK(io.poll() != 0);
  CHECK_FALSE(io.stopped()); // waits for the answer
  REQUIRE(run_until(f.io, io, [&] { return granted.done(); }));
  CHECK(granted.ec == error_code());
  CHECK(run_out(io)); // although the lease and the agents' queue pair still exist
  CHECK(granted.value.is_valid());
  granted.value.release();
  CHECK(run_until(f.io, io, [&] { return f.lessor.statistics().bytes == 0; }));
  memory_record waits;
  client.agent().async_receive_remote(waits.handler());
  io.restart();
  io.poll();
  CHECK_FALSE(io.stopped());
  client.close();
  CHECK(run_out(io));
  CHECK(waits.ec == asio::error::operation_aborted);
}

TEST_CASE("destroying the io_context ends agents, leases and requests")
{
  auto f = std::make_unique<agent_fixture>();
  const rdma::remote_memory held = f->allocate(100);
  const rdma::registered_buffer region = f->server_context.allocate(64);
  rdma::lessor lessor = f->lessor;
  loan_record lent;
  memory_record waits;
  f->server->agent().async_lend(region, lent.handler());
  f->client.agent().async_receive_remote(waits.handler());
  REQUIRE(run_until(f->io, [&] { return lent.done() && waits.done(); }));
  memory_record never;
  f->client.agent().async_receive_remote(never.handler());
  buffer_record never_either;
  f->server->agent().async_receive_local(never_either.handler());
  f->io.poll();
  f.reset();
  CHECK_FALSE(held.is_valid());
  CHECK_FALSE(lent.value.is_active());
  CHECK(lessor.statistics().bytes == 0);
  CHECK_FALSE(never.done());
  CHECK_FALSE(never_either.done());
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
