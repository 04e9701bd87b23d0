//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/handlers.hpp"
#include "software/upgrade_fixture.hpp"

#include <boost_rdma/upgrade.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// Tests the completion of async_upgrade: cancellation, threads, executors and tokens.

using namespace test;

TEMPLATE_TEST_CASE("each cancellation type ends async_upgrade on either side", "", plain, tls)
{
  const auto type = GENERATE(asio::cancellation_type::terminal, asio::cancellation_type::partial,
    asio::cancellation_type::total);
  SECTION("the server's side")
  {
    web_site<TestType> site;
    site.serve();
    site.ask_and_be_silent();
    REQUIRE(run_until(site.io, [&] { return site.asked == 1; }));
    site.io.poll();
    site.signal.emit(type); // possibly before the operation has started
    REQUIRE(run_until(site.io,
      [&]
      {
        site.signal.emit(type);
        return site.accepts == 1;
      }));
    CHECK(site.accepted == asio::error::operation_aborted);
  }
  SECTION("the client's side")
  {
    web_site<TestType> site(false);
    plain_record connected;
    site.serve();
    site.upgrade(connected);
    REQUIRE(run_until(site.io, [&] { return site.silent.has_value(); }));
    site.client_signal.emit(type);
    REQUIRE(run_until(site.io, [&] { return connected.done(); }));
    CHECK(connected.ec == asio::error::operation_aborted);
  }
}

TEMPLATE_TEST_CASE("closing a queue pair ends the async_upgrade of its stream", "", plain, tls)
{
  web_site<TestType> site(false);
  plain_record connected;
  site.serve();
  site.upgrade(connected);
  REQUIRE(run_until(site.io, [&] { return site.silent.has_value(); }));
  site.client.close();
  REQUIRE(run_until(site.io, [&] { return connected.done(); }));
  CHECK(connected.ec == asio::error::operation_aborted);
}

TEMPLATE_TEST_CASE(
  "upgrades are destroyed without a call with their io_context at any step", "", plain, tls)
{
  using stream = typename TestType::stream;
  const auto handler_token = std::make_shared<int>();
  TestType streams;
  for (int steps = 0; steps < 60; ++steps)
  {
    auto io = std::make_unique<asio::io_context>();
    const rdma::context context = make_context();
    tcp::acceptor listener(*io, loopback());
    int upgraded = 0; // sides that wait for a message
    const auto server = [&]() -> asio::awaitable<void>
    {
      stream connection = streams.make(co_await listener.async_accept(asio::use_awaitable), true);
      co_await streams.shake_hands(connection, ssl::stream_base::server);
      beast::flat_buffer buffer;
      http::request<http::string_body> request;
      co_await http::async_read(connection, buffer, request, asio::use_awaitable);
      auto kept = handler_token;
      rdma::queue_pair peer =
        co_await rdma::async_upgrade(std::move(connection), request, context, asio::use_awaitable);
      auto memory = context.allocate(64);
      ++upgraded;
      co_await peer.async_receive(memory, asio::use_awaitable);
    };
    const auto client = [&]() -> asio::awaitable<void>
    {
      tcp::socket socket(co_await asio::this_coro::executor);
      co_await socket.async_connect(listener.local_endpoint(), asio::use_awaitable);
      stream connection = streams.make(std::move(socket), false);
      co_await streams.shake_hands(connection, ssl::stream_base::client);
      auto kept = handler_token;
      rdma::queue_pair own(*io, context);
      co_await rdma::async_upgrade(std::move(connection), own, asio::use_awaitable);
      auto memory = context.allocate(64);
      ++upgraded;
      co_await own.async_receive(memory, asio::use_awaitable);
    };
    asio::co_spawn(*io, server(), asio::detached);
    asio::co_spawn(*io, client(), asio::detached);
    for (int i = 0; i < steps && upgraded != 2; ++i)
      REQUIRE(io->run_one_for(patience) == 1);
    listener = tcp::acceptor(asio::system_executor());
    io.reset();
    REQUIRE(handler_token.use_count() == 1);
  }
}

TEMPLATE_TEST_CASE(
  "many clients upgrade concurrently on an io_context with several threads", "", plain, tls)
{
  using stream = typename TestType::stream;
  constexpr int count = 24;
  need(feature::endpoint_descriptions);
  TestType streams;
  std::atomic<int> over{0};
  std::atomic<int> failed{0};
  {
    asio::io_context io;
    const rdma::context server_context = make_context();
    const rdma::context client_context = make_context();
    tcp::acceptor listener(io, loopback());
    const auto count_end = [&](const std::exception_ptr& problem)
    {
      ++over;
      failed += problem ? 1 : 0;
    };
    const auto serve_one = [&](tcp::socket socket) -> asio::awaitable<void>
    {
      stream connection = streams.make(std::move(socket), true);
      co_await streams.shake_hands(connection, ssl::stream_base::server);
      beast::flat_buffer buffer;
      http::request<http::string_body> request;
      co_await http::async_read(connection, buffer, request, asio::use_awaitable);
      rdma::queue_pair peer = co_await rdma::async_upgrade(
        std::move(connection), request, server_context, asio::use_awaitable);
      auto memory = server_context.allocate(64);
      co_await peer.async_receive(memory, asio::use_awaitable);
      co_await peer.async_send(memory, asio::use_awaitable);
      error_code ended;
      co_await peer.async_wait_close(asio::redirect_error(asio::use_awaitable, ended));
    };
    const auto serve = [&]() -> asio::awaitable<void>
    {
      for (int i = 0; i < count; ++i)
      {
        const auto strand = asio::make_strand(io);
        tcp::socket socket = co_await listener.async_accept(strand, asio::use_awaitable);
        asio::co_spawn(strand, serve_one(std::move(socket)), count_end);
      }
    };
    const auto client = [&]() -> asio::awaitable<void>
    {
      const auto strand = co_await asio::this_coro::executor;
      tcp::socket socket(strand);
      co_await socket.async_connect(listener.local_endpoint(), asio::use_awaitable);
      stream connection = streams.make(std::move(socket), false);
      co_await streams.shake_hands(connection, ssl::stream_base::client);
      rdma::queue_pair own(strand, client_context);
      co_await rdma::async_upgrade(std::move(connection), own, asio::use_awaitable);
      auto memory = client_context.allocate(64);
      co_await own.async_send(memory, asio::use_awaitable);
      co_await own.async_receive(memory, asio::use_awaitable);
      co_await own.async_shutdown(asio::use_awaitable);
    };
    asio::co_spawn(io, serve(), asio::detached);
    for (int i = 0; i < count; ++i)
      asio::co_spawn(asio::make_strand(io), client(), count_end);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] { io.run(); }); // returns because all streams are closed
  }
  CHECK(over == 2 * count);
  CHECK(failed == 0);
}

TEST_CASE("async_upgrade works with futures, deferred, move-only handlers and user-defined tokens")
{
  web_site<plain> site;
  tcp::acceptor listener(site.io, loopback());
  const auto streams = [&]
  {
    tcp::socket one(site.io);
    one.connect(listener.local_endpoint());
    return std::pair(std::move(one), listener.accept());
  };
  // Requests RDMA on the first stream, and returns the second one with the request.
  const auto asked = [&](rdma::queue_pair& client, auto&& token)
  {
    auto [near, far] = streams();
    rdma::async_upgrade(std::move(near), client, {}, std::forward<decltype(token)>(token));
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos)
    {
      site.io.run_one_for(std::chrono::milliseconds(1));
      site.io.restart();
      std::array<char, 4096> some;
      far.non_blocking(true);
      error_code ec;
      text.append(some.data(), far.read_some(asio::buffer(some), ec));
    }
    http::request_parser<http::empty_body> parser;
    error_code ec;
    parser.put(asio::buffer(text), ec);
    REQUIRE(!ec);
    return std::pair(std::move(far), parser.release());
  };
  {
    rdma::queue_pair client(site.io, site.client_context);
    std::future<void> connected;
    result<std::monostate> moved;
    auto [stream, request] = asked(client, move_only_handler<std::monostate>(moved));
    std::future<rdma::queue_pair> server =
      rdma::async_upgrade(std::move(stream), request, site.server_context, {}, asio::use_future);
    REQUIRE(run_until(site.io, [&] { return moved.calls == 1; }));
    CHECK(!moved.ec);
    REQUIRE(run_until(site.io,
      [&] { return server.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }));
    CHECK(server.get().is_connected());
  }
  {
    rdma::queue_pair client(site.io, site.client_context);
    plain_record connected;
    result<std::optional<rdma::queue_pair>> accepted;
    auto [stream, request] = asked(client, connected.handler());
    auto operation =
      rdma::async_upgrade(std::move(stream), request, site.server_context, {}, asio::deferred);
    request = {}; // the request was copied
    std::move(operation)(move_only_handler<std::optional<rdma::queue_pair>>(accepted));
    REQUIRE(run_until(site.io, [&] { return connected.done() && accepted.calls == 1; }));
    CHECK(!connected.ec);
    CHECK(accepted.value->is_connected());
  }
  {
    rdma::queue_pair client(site.io, site.client_context);
    client.close();
    auto outcome = rdma::async_upgrade(streams().first, client, {}, watched_t<std::monostate>{});
    CHECK(outcome->calls == 0);
    REQUIRE(run_until(site.io, [&] { return outcome->calls == 1; }));
    CHECK(outcome->ec == error::closed);
  }
}
