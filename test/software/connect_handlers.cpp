//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/handlers.hpp"
#include "software/connect_fixture.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// Tests the handlers of async_connect and async_accept: tokens, executors, and when they are
// called.

using namespace test;

TEST_CASE("connect and accept work with futures")
{
  connect_fixture f;
  std::jthread runner;
  rdma::queue_pair client(f.io, f.client_context);
  std::future<rdma::queue_pair> server = f.acceptor.async_accept(asio::use_future);
  std::future<void> connected = client.async_connect(f.acceptor.local_endpoint(), asio::use_future);
  runner = std::jthread([&] { f.io.run(); });
  connected.get();
  CHECK(server.get().is_connected());
}

TEST_CASE("connect and accept work with coroutines, deferred operations and user-defined tokens")
{
  connect_fixture f;
  int done = 0;
  asio::co_spawn(
    f.io,
    [&]() -> asio::awaitable<void>
    {
      for (int i = 0; i < 2; ++i)
      {
        rdma::queue_pair peer = co_await f.acceptor.async_accept(asio::use_awaitable);
        CHECK(peer.is_open()); // the client may have disconnected already
      }
      ++done;
    },
    asio::detached);
  auto outcome = std::shared_ptr<result<std::monostate>>();
  asio::co_spawn(
    f.io,
    [&]() -> asio::awaitable<void>
    {
      rdma::queue_pair first(f.io, f.client_context);
      co_await first.async_connect(f.acceptor.local_endpoint(), asio::use_awaitable);
      rdma::queue_pair second(f.io, f.client_context);
      auto operation = second.async_connect(f.acceptor.local_endpoint(), asio::deferred);
      co_await std::move(operation)(asio::use_awaitable);
      rdma::queue_pair third(f.io, f.client_context);
      outcome = third.async_connect(tcp::endpoint(loopback(1)), watched_t<std::monostate>{});
      ++done;
      third.close();
    },
    asio::detached);
  REQUIRE(run_until(f.io, [&] { return done == 2 && outcome && outcome->calls == 1; }));
  CHECK(outcome->ec);
}

TEST_CASE("connect and accept use the default token of their executor")
{
  using executor = asio::use_awaitable_t<>::executor_with_default<asio::any_io_executor>;
  connect_fixture f;
  rdma::basic_acceptor<executor> acceptor(f.io, f.server_context, loopback());
  bool done = false;
  asio::co_spawn(
    f.io,
    [&]() -> asio::awaitable<void>
    {
      rdma::basic_queue_pair<executor> client(f.io, f.client_context);
      client.async_connect(acceptor.local_endpoint(), asio::detached);
      rdma::basic_queue_pair<executor> peer = co_await acceptor.async_accept();
      done = peer.is_connected();
    },
    asio::detached);
  REQUIRE(run_until(f.io, [&] { return done; }));
}

TEST_CASE("connect and accept take move-only handlers")
{
  connect_fixture f;
  result<std::monostate> connected;
  result<std::optional<rdma::queue_pair>> accepted;
  rdma::queue_pair client(f.io, f.client_context);
  f.acceptor.async_accept(move_only_handler<std::optional<rdma::queue_pair>>(accepted));
  client.async_connect(f.acceptor.local_endpoint(), move_only_handler<std::monostate>(connected));
  REQUIRE(run_until(f.io, [&] { return connected.calls == 1 && accepted.calls == 1; }));
  CHECK(!connected.ec);
  CHECK(accepted.value->is_connected());
}

TEST_CASE("handlers of connect and accept run on their associated executors")
{
  connect_fixture f;
  asio::thread_pool pool(1);
  const auto pool_thread =
    asio::post(pool, asio::use_future([] { return std::this_thread::get_id(); })).get();
  std::atomic<int> there{0};
  rdma::queue_pair client(f.io, f.client_context);
  f.acceptor.async_accept(asio::bind_executor(pool.get_executor(),
    [&](error_code, rdma::queue_pair) { there += std::this_thread::get_id() == pool_thread; }));
  client.async_connect(f.acceptor.local_endpoint(),
    asio::bind_executor(pool.get_executor(),
      [&](error_code) { there += std::this_thread::get_id() == pool_thread; }));
  CHECK(run_out(f.io));
  pool.join(); // both handlers kept it running
  CHECK(there == 2);
}

TEST_CASE("an immediate error of async_connect is reported after the initiating call")
{
  connect_fixture f;
  connect_fixture::accepted server;
  plain_record first;
  rdma::queue_pair connected(f.io, f.client_context);
  f.acceptor.async_accept(server.handler());
  connected.async_connect(f.acceptor.local_endpoint(), first.handler());
  REQUIRE(run_until(f.io, [&] { return first.done() && server.calls == 1; }));
  rdma::queue_pair closed(f.io, f.client_context);
  closed.close();
  rdma::queue_pair moved(f.io, f.client_context);
  rdma::queue_pair taken(std::move(moved));
  rdma::queue_pair busy(f.io, f.client_context); // no accept is outstanding for it
  busy.async_connect(f.acceptor.local_endpoint(), [](error_code) {});

  bool initiating = false;
  std::vector<error_code> outcomes;
  const auto start = [&]
  {
    const auto note = [&](error_code ec)
    {
      CHECK_FALSE(initiating);
      outcomes.push_back(ec);
    };
    initiating = true;
    closed.async_connect(f.acceptor.local_endpoint(), note);
    moved.async_connect(f.acceptor.local_endpoint(), note); // NOLINT: that is the test
    connected.async_connect(f.acceptor.local_endpoint(), note);
    busy.async_connect(f.acceptor.local_endpoint(), note);
    initiating = false;
  };
  SECTION("outside of run()")
  {
    start();
  }
  SECTION("in a handler")
  {
    asio::post(f.io, start);
  }
  REQUIRE(run_until(f.io, [&] { return outcomes.size() == 4; }));
  CHECK(outcomes
    == std::vector<error_code>{
      error::closed, error::closed, error::already_connected, error::already_connected});
}

TEST_CASE("an accept that completes immediately calls its handler after the initiating call")
{
  const bool in_a_handler = GENERATE(false, true);
  CAPTURE(in_a_handler);
  connect_fixture f;
  std::optional<rdma::acceptor> refusing(std::in_place, f.io, f.server_context, loopback());
  std::optional<rdma::acceptor> taken;
  error_code expected;
  std::vector<plain_peer> clients;
  rdma::queue_pair described(f.io, f.client_context);
  rdma::queue_pair other(f.io, f.client_context);

  SECTION("its acceptor is closed")
  {
    refusing->close();
    expected = error::closed;
  }
  SECTION("its acceptor was moved from")
  {
    taken.emplace(std::move(*refusing));
    expected = error::closed;
  }
  SECTION("a client has completed the handshake")
  {
    refusing.reset();
    connect_fixture::accepted withdrawn;
    f.acceptor.async_accept(withdrawn.handler());
    std::vector<std::string> answers;
    for (rdma::queue_pair* each : {&described, &other})
    {
      clients.push_back(plain_peer::connect(f.io, f.acceptor.local_endpoint()));
      clients.back().send(good_request(each->local_endpoint()));
      answers.push_back(clients.back().read_header());
      REQUIRE(answers.back().starts_with("HTTP/1.1 101"));
    }
    f.acceptor.cancel();
    REQUIRE(run_until(f.io, [&] { return withdrawn.calls != 0; }));
    REQUIRE(withdrawn.ec == asio::error::operation_aborted);
    REQUIRE(confirm_as_client(clients[0], described, answers[0]));
    // When the acceptor has processed the end of the second client, it has processed the first as
    // well.
    REQUIRE(confirm_as_client(clients[1], other, answers[1]));
    clients[1].send(rdma::detail::frame_type::bye);
    REQUIRE(clients[1].read_end());
  }
  SECTION("a client has connected and sent its request")
  {
    refusing.reset();
    described.async_connect(f.acceptor.local_endpoint(), [](error_code) {});
  }

  rdma::acceptor& acceptor = refusing ? *refusing : f.acceptor;
  connect_fixture::accepted accepted;
  bool initiating = false;
  bool nested = false;
  const auto start = [&]
  {
    initiating = true;
    acceptor.async_accept(
      [&, handler = accepted.handler()](error_code ec, rdma::queue_pair peer)
      {
        nested = initiating;
        handler(ec, std::move(peer));
      });
    initiating = false;
  };
  if (in_a_handler)
    asio::post(f.io, start);
  else
    start();
  REQUIRE(run_until(f.io, [&] { return accepted.calls != 0; }));
  CHECK_FALSE(nested);
  CHECK(accepted.ec == expected);
  CHECK(accepted.peer->is_connected() == !expected);
  if (taken)
    taken->close();
  REQUIRE(run_out(f.io));
  CHECK(accepted.calls == 1);
}

TEST_CASE("outstanding connects and accepts are destroyed without a call with their io_context")
{
  const auto handler_token = std::make_shared<int>();
  plain_server silent;
  {
    auto f = std::make_unique<connect_fixture>();
    // Each object is owned by its own handler, so only the end of the io_context breaks the cycle.
    auto acceptor = std::make_shared<rdma::acceptor>(f->io, f->server_context, loopback());
    auto client = std::make_shared<rdma::queue_pair>(f->io, f->client_context);
    acceptor->async_accept(
      [acceptor, handler_token](error_code, rdma::queue_pair) { FAIL("called"); });
    client->async_connect(
      silent.endpoint(), [client, handler_token](error_code) { FAIL("called"); });
    asio::co_spawn(
      f->io,
      [](rdma::acceptor owned, std::shared_ptr<int>) -> asio::awaitable<void> {
        co_await owned.async_accept(asio::use_awaitable);
      }(rdma::acceptor(f->io, f->server_context, loopback()), handler_token),
      asio::detached);
    f->io.poll();
    acceptor.reset();
    client.reset();
    CHECK(handler_token.use_count() == 4);
  }
  CHECK(handler_token.use_count() == 1);
}

TEST_CASE("an io_context can be shut down more than once")
{
  // ~io_context() calls shutdown() since Boost 1.82, and then ~execution_context() calls it again.
  struct shut_down_twice : asio::io_context
  {
    ~shut_down_twice()
    {
      shutdown();
      after_first();
    }
    std::function<void()> after_first;
  };
  need(feature::endpoint_descriptions);
  const auto handler_token = std::make_shared<int>();
  const rdma::context context = make_context();
  {
    shut_down_twice io;
    // The first shutdown releases all objects owned by outstanding operations, although timers are
    // shut down after connection services.
    io.after_first = [&] { CHECK(handler_token.use_count() == 1); };
    auto acceptor = std::make_shared<rdma::acceptor>(io, context, loopback());
    auto client = std::make_shared<rdma::queue_pair>(io, context);
    client->async_connect(
      acceptor->local_endpoint(), [client, handler_token](error_code ec) { CHECK(!ec); });
    std::optional<rdma::queue_pair> server;
    acceptor->async_accept(
      [&](error_code ec, rdma::queue_pair peer)
      {
        CHECK(!ec);
        server.emplace(std::move(peer));
      });
    REQUIRE(run_until(io, [&] { return server && handler_token.use_count() == 1; }));
    server->async_receive(
      asio::mutable_buffer(), [handler_token](error_code, std::size_t) { FAIL("called"); });
    server.reset();
    acceptor->async_accept(
      [acceptor, handler_token](error_code, rdma::queue_pair) { FAIL("called"); });
    const auto timer = std::make_shared<asio::steady_timer>(io, std::chrono::hours(1));
    timer->async_wait([timer, acceptor, client, handler_token](error_code) { FAIL("called"); });
    asio::post(io, [acceptor, client, handler_token] { FAIL("called"); });
    acceptor.reset();
    client.reset();
  }
}
