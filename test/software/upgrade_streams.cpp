//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/plain_peer_client.hpp"
#include "software/upgrade_fixture.hpp"

#include <boost_rdma/upgrade.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/_experimental/test/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

// Tests async_upgrade on the user's streams: with an HTTP server of Beast, with TLS and with other
// streams.

using namespace test;

TEMPLATE_TEST_CASE(
  "a Beast server serves pages and queue pairs on one port", "", plain, bare_socket, tls, asio_tls)
{
  web_site<TestType> site;
  std::string page;
  site.serve();
  asio::co_spawn(site.io, site.fetch(page), asio::detached);
  REQUIRE(run_until(site.io, [&] { return !page.empty(); }));
  CHECK(page == "a page");

  REQUIRE(site.connects());
  CHECK(site.peer->peer_data() == "hello");
  CHECK(site.client.peer_data() == "welcome");
  CHECK(messages_go_each_way(site, site.client, *site.peer));

  page.clear(); // the site still serves pages
  site.serve();
  asio::co_spawn(site.io, site.fetch(page), asio::detached);
  REQUIRE(run_until(site.io, [&] { return !page.empty(); }));
}

TEMPLATE_TEST_CASE(
  "a server program reads the request and its refusal reaches the client", "", plain, tls)
{
  web_site<TestType> site;
  std::vector<std::string> heard;
  site.decide = [&](const auto& request) -> std::optional<http::response<http::string_body>>
  {
    heard.push_back(rdma::upgrade_data(request));
    if (request[http::field::authorization] == "Bearer sesame")
      return std::nullopt;
    return rdma::refuse_upgrade(http::status::unauthorized, "a token, please");
  };
  plain_record connected;
  site.serve();
  site.upgrade(connected);
  REQUIRE(run_until(site.io, [&] { return connected.done(); }));
  CHECK(connected.ec == error::refused);
  CHECK(site.client.diagnose().reason.find("\"a token, please\"") != std::string::npos);
  CHECK(site.accepts == 0);

  site.client = rdma::queue_pair(site.io, site.client_context);
  site.wishes.fields = {{"Authorization", "Bearer sesame"}};
  site.wishes.data.assign(rdma::connect_options::data_size_max, '\0');
  REQUIRE(site.connects());
  CHECK(site.peer->peer_data() == site.wishes.data);
  CHECK(heard == std::vector<std::string>{"hello", site.wishes.data});
}

TEST_CASE("async_upgrade works without options and with the stream's default token")
{
  using socket = asio::use_awaitable_t<>::as_default_on_t<tcp::socket>;
  using queue_pair = rdma::basic_queue_pair<socket::executor_type>;
  need(feature::endpoint_descriptions);
  const bool default_token = GENERATE(true, false);
  asio::io_context io;
  const rdma::context server_context = make_context();
  const rdma::context client_context = make_context();
  tcp::acceptor listener(io, loopback());
  socket near(io);
  near.connect(listener.local_endpoint());
  socket far(socket::executor_type(io.get_executor()));
  listener.accept(far);
  std::optional<queue_pair> peer;
  queue_pair client(socket::executor_type(io.get_executor()), client_context);
  const auto serve = [&]() -> asio::awaitable<void>
  {
    beast::flat_buffer buffer;
    http::request<http::empty_body> request;
    co_await http::async_read(far, buffer, request);
    if (default_token)
      peer.emplace(co_await rdma::async_upgrade(std::move(far), request, server_context));
    else
      rdma::async_upgrade(std::move(far), request, server_context,
        [&](error_code, queue_pair made) { peer.emplace(std::move(made)); });
  };
  const auto connect = [&]() -> asio::awaitable<void>
  {
    if (default_token)
      co_await rdma::async_upgrade(std::move(near), client);
    else
      co_await rdma::async_upgrade(std::move(near), client, asio::use_awaitable);
  };
  asio::co_spawn(io, serve(), asio::detached);
  asio::co_spawn(io, connect(), asio::detached);
  REQUIRE(run_until(io, [&] { return peer && client.is_connected(); }));
  CHECK(peer->is_connected());
}

TEMPLATE_TEST_CASE("both sides of an upgraded stream detect that the peer closes", "", plain, tls)
{
  const bool server_closes = GENERATE(true, false);
  web_site<TestType> site;
  REQUIRE(site.connects());
  rdma::queue_pair& closes = server_closes ? *site.peer : site.client;
  rdma::queue_pair& stays = server_closes ? site.client : *site.peer;
  bytes_record received;
  auto buffer = stays.context().allocate(64);
  stays.async_receive(buffer, received.handler());
  closes.close();
  REQUIRE(run_until(site.io, [&] { return received.done(); }));
  CHECK(received.ec == error::peer_closed);
}

TEMPLATE_TEST_CASE("both sides of an upgraded stream complete async_shutdown", "", plain, tls)
{
  web_site<TestType> site;
  REQUIRE(site.connects());
  plain_record here, there;
  site.client.async_shutdown(here.handler());
  site.peer->async_shutdown(there.handler());
  REQUIRE(run_until(site.io, [&] { return here.done() && there.done(); }));
  CHECK(!here.ec);
  CHECK(!there.ec);
}

TEMPLATE_TEST_CASE(
  "an upgraded stream keeps run() running until its queue pair is closed", "", plain, tls)
{
  web_site<TestType> site;
  REQUIRE(site.connects());
  REQUIRE(messages_go_each_way(site, site.client, *site.peer)); // its handlers have run
  site.io.poll();
  CHECK(!site.io.stopped());
  site.client.close();
  site.peer->close();
  CHECK(run_out(site.io));
}

TEST_CASE("async_connect connects to a Beast server")
{
  web_site<plain> site;
  plain_record connected;
  site.serve();
  site.client.async_connect(site.listener.local_endpoint(), connected.handler());
  REQUIRE(run_until(site.io, [&] { return connected.done() && site.accepts == 1; }));
  CHECK(!connected.ec);
  CHECK(!site.accepted);
  CHECK(messages_go_each_way(site, site.client, *site.peer));
}

TEST_CASE(
  "a program that blocks longer than its heartbeat limit keeps an upgraded stream connected")
{
  web_site<plain> site;
  site.options.queue_pair.heartbeat_limit = std::chrono::milliseconds(100);
  plain_record connected, ended;
  site.serve();
  site.client.async_connect(site.listener.local_endpoint(), connected.handler());
  REQUIRE(run_until(site.io, [&] { return connected.done() && site.accepts == 1; }));
  REQUIRE(!site.accepted);
  site.peer->async_wait_close(ended.handler());
  // The thread that runs the io_context also reads the stream, and it is busy.
  REQUIRE(lose_silent_peer(2 * site.options.queue_pair.heartbeat_limit));
  site.io.poll();
  CHECK_FALSE(ended.done());
  CHECK(messages_go_each_way(site, site.client, *site.peer));
  CHECK_FALSE(ended.done());
}

TEST_CASE("async_upgrade of a client connects to an acceptor")
{
  web_site<plain> site;
  rdma::acceptor acceptor(site.io, site.server_context, loopback());
  connect_fixture::accepted server;
  plain_record connected;
  acceptor.async_accept(server.handler());
  site.upgrade(connected, acceptor.local_endpoint());
  REQUIRE(run_until(site.io, [&] { return connected.done() && server.calls == 1; }));
  CHECK(!connected.ec);
  CHECK(server.peer->peer_data() == "hello");
  CHECK(messages_go_each_way(site, site.client, *server.peer));
}

TEMPLATE_TEST_CASE(
  "async_upgrade fails with handshake_timeout on either side when the peer is silent", "", plain,
  tls)
{
  SECTION("the server's side")
  {
    web_site<TestType> site;
    site.options.handshake_timeout = std::chrono::milliseconds(50);
    site.serve();
    site.ask_and_be_silent();
    REQUIRE(run_until(site.io, [&] { return site.accepts == 1; }));
    CHECK(site.accepted == error::handshake_timeout);
    CHECK(!site.peer->is_open());
  }
  SECTION("the client's side")
  {
    web_site<TestType> site(false);
    rdma::queue_pair_options options;
    options.connect_timeout = std::chrono::milliseconds(50);
    site.client = rdma::queue_pair(site.io, site.client_context, options);
    plain_record connected;
    site.serve();
    site.upgrade(connected);
    REQUIRE(run_until(site.io, [&] { return connected.done(); }));
    CHECK(connected.ec == error::handshake_timeout);
  }
}

TEMPLATE_TEST_CASE(
  "operations end with peer_lost when the peer of an upgraded stream falls silent", "", plain, tls)
{
  web_site<TestType> site;
  site.options.queue_pair.heartbeat_limit = std::chrono::milliseconds(300);
  site.serve();
  asio::co_spawn(
    site.io,
    [&]() -> asio::awaitable<void>
    {
      site.silent.emplace(co_await site.connect());
      const std::string request = good_request(site.client.local_endpoint());
      co_await asio::async_write(*site.silent, asio::buffer(request), asio::use_awaitable);
      std::string answer;
      co_await asio::async_read_until(
        *site.silent, asio::dynamic_buffer(answer), "\r\n\r\n", asio::use_awaitable);
      connect_as_client(site.client, endpoint_in(answer));
      const std::string confirmed = rdma::detail::encode_frame(rdma::detail::frame_type::confirmed);
      co_await asio::async_write(*site.silent, asio::buffer(confirmed), asio::use_awaitable);
    },
    asio::detached);
  REQUIRE(run_until(site.io, [&] { return site.accepts == 1; }));
  REQUIRE(!site.accepted);
  auto buffer = site.server_context.allocate(8);
  bytes_record received;
  plain_record ended;
  site.peer->async_receive(buffer, received.handler());
  site.peer->async_wait_close(ended.handler());
  REQUIRE(run_until(site.io, [&] { return received.done() && ended.done(); }));
  CHECK(received.ec == error::peer_lost);
  CHECK(ended.ec == error::peer_lost);
}

TEMPLATE_TEST_CASE(
  "async_upgrade that is cancelled by a timer leaves no half-open peer on either side", "", plain,
  tls)
{
  using namespace asio::experimental::awaitable_operators;
  const bool at_server = GENERATE(true, false);
  web_site<TestType> site(false);
  std::size_t first = 2;
  error_code to_peer;
  // The peer must have got as far as to be silent, or it would never hear the end.
  const auto wait = [&]() -> asio::awaitable<void>
  {
    asio::steady_timer timer(site.io);
    do
    {
      timer.expires_after(std::chrono::milliseconds(50));
      co_await timer.async_wait(asio::use_awaitable);
    } while (!site.silent);
  };
  const auto race = [&](auto upgrade) -> asio::awaitable<void>
  {
    const auto outcome = co_await (std::move(upgrade) || wait());
    first = outcome.index();
  };
  const auto hear_end = [&]() -> asio::awaitable<void>
  {
    std::array<char, 64> data;
    while (!to_peer)
      co_await site.silent->async_read_some(
        asio::buffer(data), asio::redirect_error(asio::use_awaitable, to_peer));
  };
  asio::co_spawn(
    site.io,
    [&]() -> asio::awaitable<void>
    {
      if (at_server)
      {
        site.ask_and_be_silent();
        auto stream =
          site.streams.make(co_await site.listener.async_accept(asio::use_awaitable), true);
        co_await site.streams.shake_hands(stream, ssl::stream_base::server);
        beast::flat_buffer buffer;
        http::request<http::string_body> request;
        co_await http::async_read(stream, buffer, request, asio::use_awaitable);
        co_await race(rdma::async_upgrade(
          std::move(stream), request, site.server_context, asio::use_awaitable));
      }
      else
      {
        site.serve();
        co_await race(
          rdma::async_upgrade(co_await site.connect(), site.client, asio::use_awaitable));
      }
      co_await hear_end();
    },
    asio::detached);
  REQUIRE(run_until(site.io, [&] { return static_cast<bool>(to_peer); }));
  CHECK(first == 1);
  CHECK(run_out(site.io));
}

TEMPLATE_TEST_CASE("async_upgrade works on streams without a network", "", beast::test::stream,
  asio::local::stream_protocol::socket)
{
  web_site<plain> site;
  TestType near(site.io), far(site.io);
  if constexpr (std::is_same_v<TestType, beast::test::stream>)
    near.connect(far);
  else
    asio::local::connect_pair(near, far);
  plain_record connected;
  rdma::async_upgrade(std::move(near), site.client, {}, connected.handler());
  asio::co_spawn(
    site.io,
    [&]() -> asio::awaitable<void>
    {
      beast::flat_buffer buffer;
      http::request<http::string_body> request;
      co_await http::async_read(far, buffer, request, asio::use_awaitable);
      site.peer.emplace(co_await rdma::async_upgrade(
        std::move(far), request, site.server_context, site.options, asio::use_awaitable));
    },
    asio::detached);
  REQUIRE(run_until(site.io, [&] { return connected.done() && site.peer; }));
  CHECK(!connected.ec);
  CHECK(messages_go_each_way(site, site.client, *site.peer));
}
