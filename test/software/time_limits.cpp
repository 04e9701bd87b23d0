//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/inventory.hpp"
#include "software/connect_fixture.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <functional>
#include <memory>

// Tests time limits on every operation of connecting and ending, with operator||. A cancelled
// operation leaves no object, no thread and no half-open peer.

namespace {

using namespace test;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

auto into(error_code& ec)
{
  return asio::redirect_error(asio::use_awaitable, ec);
}

/// A peer that accepts TCP connections and sends nothing, and a connected pair.
struct scene : connect_fixture
{
  scene()
    : client(io, client_context)
  {
    plain_record connected;
    acceptor.async_accept(server.handler());
    client.async_connect(acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(io, [&] { return connected.done() && server.calls != 0; }));
    REQUIRE(!connected.ec);
    client.async_send(stuck, [](error_code, std::size_t) {}); // the peer posts no receive for it
  }

  plain_server silent;
  accepted server;
  rdma::queue_pair client;
  rdma::registered_buffer stuck = buffer_of(client_context, "stuck");
};

/// An operation that does not end by itself, on objects that it owns; it stores its result in `ec`.
struct contest
{
  const char* name;
  std::function<asio::awaitable<void>(scene&, error_code&)> run;
};

const contest contests[] = {
  {"connect",
    [](scene& s, error_code& ec) -> asio::awaitable<void>
    {
      rdma::queue_pair late(s.io, s.client_context);
      co_await late.async_connect(s.silent.endpoint(), into(ec));
    }},
  {"accept",
    [](scene& s, error_code& ec) -> asio::awaitable<void>
    { co_await s.acceptor.async_accept(into(ec)); }},
  {"shutdown",
    [](scene& s, error_code& ec) -> asio::awaitable<void>
    { co_await s.client.async_shutdown(into(ec)); }},
  {"wait_close",
    [](scene& s, error_code& ec) -> asio::awaitable<void>
    { co_await s.server.peer->async_wait_close(into(ec)); }},
  {"receive",
    [](scene& s, error_code& ec) -> asio::awaitable<void>
    {
      rdma::registered_buffer buffer = s.client_context.allocate(16);
      co_await s.client.async_receive(buffer, into(ec));
    }},
  {"send",
    [](scene& s, error_code& ec) -> asio::awaitable<void>
    { co_await s.client.async_send(s.stuck, into(ec)); }},
};

} // namespace

TEST_CASE("every operation can be cancelled by a timer and leaves no resources")
{
  inventory before;
  for (const contest& each : contests)
    for (const bool first :
      {true, false}) // the first round includes objects that the process creates once
    {
      CAPTURE(each.name);
      {
        scene s;
        error_code ec;
        error_code ignored;
        bool timed_out = false;
        std::exception_ptr problem;
        asio::co_spawn(
          s.io,
          [&]() -> asio::awaitable<void>
          {
            asio::steady_timer timer(s.io, 20ms);
            const auto winner = co_await (each.run(s, ec) || timer.async_wait(into(ignored)));
            timed_out = winner.index() == 1;
            s.client.close();
            s.server.peer->close();
          },
          [&](std::exception_ptr e) { problem = e; });
        REQUIRE(run_out(s.io));
        CHECK(problem == nullptr);
        CHECK(timed_out);
        CHECK(ec == asio::error::operation_aborted);
      }
      if (first)
        before = inventory();
      else
        CHECK(settled(before) <= before);
    }
}

TEST_CASE("a parallel group of connects completes with the first one and cancels the others")
{
  connect_fixture f;
  plain_server silent;
  rdma::queue_pair good(f.io, f.client_context);
  rdma::queue_pair bad(f.io, f.client_context);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  int calls = 0;
  std::array<std::size_t, 2> order{};
  error_code to_good, to_bad;
  asio::experimental::make_parallel_group(
    good.async_connect(f.acceptor.local_endpoint(), asio::deferred),
    bad.async_connect(silent.endpoint(), asio::deferred))
    .async_wait(asio::experimental::wait_for_one(),
      [&](std::array<std::size_t, 2> completed, error_code first, error_code second)
      {
        ++calls;
        order = completed;
        to_good = first;
        to_bad = second;
      });
  REQUIRE(run_until(f.io, [&] { return calls != 0 && server.calls != 0; }));
  CHECK(order == std::array<std::size_t, 2>{0, 1});
  CHECK(to_good == error_code());
  CHECK(to_bad == asio::error::operation_aborted);
  CHECK(good.is_connected());
  plain_peer abandoned = silent.accept();
  abandoned.read_header();
  CHECK(abandoned.read_end()); // the peer is not half-open
}

TEST_CASE("one co_await connects or ends both sides of a connection")
{
  connect_fixture f;
  rdma::queue_pair client(f.io, f.client_context);
  bool done = false;
  std::exception_ptr problem;
  asio::co_spawn(
    f.io,
    [&]() -> asio::awaitable<void>
    {
      auto server = co_await (f.acceptor.async_accept(asio::use_awaitable)
        && client.async_connect(f.acceptor.local_endpoint(), asio::use_awaitable));
      co_await (
        server.async_shutdown(asio::use_awaitable) && client.async_shutdown(asio::use_awaitable));
      done = true;
    },
    [&](std::exception_ptr e) { problem = e; });
  REQUIRE(run_out(f.io));
  CHECK(problem == nullptr);
  CHECK(done);
}
