//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/leases.hpp"
#include "software/agent_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>

#include <memory>
#include <vector>

// Tests the ends of agent requests, leases, connections and io_contexts.

using namespace test;
using namespace std::chrono_literals;

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

TEST_CASE("a loan ends when the borrower's queue pair fails, although its program keeps it open")
{
  agent_fixture f;
  const rdma::registered_buffer region = f.server_context.allocate(64);
  rdma::lend_options readable;
  readable.rights = rdma::remote_access;
  loan_record lent;
  memory_record borrowed;
  f.client.agent().async_receive_remote(borrowed.handler());
  f.server->agent().async_lend(region, readable, lent.handler());
  REQUIRE(run_until(f.io, [&] { return lent.done() && borrowed.done(); }));
  REQUIRE(lent.ec == error_code());
  plain_record back;
  f.server->agent().async_wait_return(lent.value, back.handler());

  const rdma::memory_region constant(f.client_context, 64, rdma::access::local_read);
  bytes_record read;
  f.client.async_read(constant.first(8), borrowed.value.buffer().first(8), read.handler());
  REQUIRE(run_until(f.io, [&] { return read.done() && back.done(); }));
  CHECK(read.ec != error_code());
  CHECK(back.ec != error_code());
  CHECK_FALSE(lent.value.is_active());
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

TEST_CASE("closing a lease ends the peer's access before the lease is destroyed")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  agent_fixture f;
  rdma::detail::owned_lease lease;
  lease.window = std::make_shared<rdma::detail::window_impl>(
    f.server_context.impl(), f.server->core()->device().name());
  const std::weak_ptr<rdma::detail::window_impl> window = lease.window;
  lease.registered =
    rdma::memory_region(rdma::protection_domain(f.server_context), 64, rdma::access::local_write);
  lease.close();
  CHECK(window.expired());
  CHECK(lease.registered.size() == 0);
}
