//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/agent_fixture.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <deque>

// Tests loans and memory that is handed over.

using namespace test;
using namespace std::chrono_literals;

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
