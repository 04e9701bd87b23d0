//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/handlers.hpp"
#include "software/connect_fixture.hpp"
#include "software/tls.hpp"

#include <boost_rdma/upgrade.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/_experimental/test/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// Tests async_upgrade on the user's streams: with an HTTP server of Beast, with TLS and with other
// streams.

namespace {

using namespace test;
namespace beast = boost::beast;
namespace http = beast::http;
namespace ssl = asio::ssl;

// Ways in which a program creates its streams.
struct plain
{
  using stream = beast::tcp_stream;

  stream make(tcp::socket socket, bool) { return stream(std::move(socket)); }
  asio::awaitable<void> shake_hands(stream&, ssl::stream_base::handshake_type) { co_return; }
};

struct bare_socket
{
  using stream = tcp::socket;

  stream make(tcp::socket socket, bool) { return socket; }
  asio::awaitable<void> shake_hands(stream&, ssl::stream_base::handshake_type) { co_return; }
};

template <class Stream>
struct basic_tls
{
  using stream = Stream;

  basic_tls() { certify(server); }
  stream make(tcp::socket socket, bool serves)
  {
    return stream(typename Stream::next_layer_type(std::move(socket)), serves ? server : client);
  }
  asio::awaitable<void> shake_hands(stream& through, ssl::stream_base::handshake_type type)
  {
    co_await through.async_handshake(type, asio::use_awaitable);
  }

  ssl::context server{ssl::context::tls_server};
  ssl::context client{ssl::context::tls_client};
};
using tls = basic_tls<beast::ssl_stream<beast::tcp_stream>>;
using asio_tls = basic_tls<ssl::stream<tcp::socket>>;

// A web site with RDMA at one of its targets.
template <class Streams>
struct web_site
{
  using stream = typename Streams::stream;

  explicit web_site(bool answers = true)
    : answers_upgrades(answers)
  {
    need(feature::endpoint_descriptions);
    options.data = "welcome";
  }

  // Serves one more connection.
  void serve() { asio::co_spawn(io, serve_one(), asio::detached); }

  asio::awaitable<void> serve_one()
  {
    stream connection = streams.make(co_await listener.async_accept(asio::use_awaitable), true);
    co_await streams.shake_hands(connection, ssl::stream_base::server);
    beast::flat_buffer buffer;
    for (;;)
    {
      http::request<http::string_body> request;
      co_await http::async_read(connection, buffer, request, asio::use_awaitable);
      if (rdma::is_upgrade(request) && !answers_upgrades)
      {
        silent.emplace(std::move(connection));
        co_return;
      }
      if (rdma::is_upgrade(request) && decide)
        if (auto refusal = decide(request))
        {
          co_await http::async_write(connection, *refusal, asio::use_awaitable);
          co_return; // which closes the connection
        }
      if (rdma::is_upgrade(request) && request.target() == "/rdma")
      {
        rdma::async_upgrade(std::move(connection), request, server_context, options,
          asio::bind_cancellation_slot(signal.slot(),
            [this](error_code ec, rdma::queue_pair made)
            {
              ++accepts;
              accepted = ec;
              peer.emplace(std::move(made));
            }));
        co_return;
      }
      http::response<http::string_body> page(http::status::ok, 11, "a page");
      page.prepare_payload();
      co_await http::async_write(connection, page, asio::use_awaitable);
    }
  }

  asio::awaitable<stream> connect() { return connect(listener.local_endpoint()); }
  asio::awaitable<stream> connect(tcp::endpoint to)
  {
    tcp::socket socket(co_await asio::this_coro::executor);
    co_await socket.async_connect(to, asio::use_awaitable);
    stream made = streams.make(std::move(socket), false);
    co_await streams.shake_hands(made, ssl::stream_base::client);
    co_return made;
  }

  asio::awaitable<void> fetch(std::string& page)
  {
    stream connection = co_await connect();
    http::request<http::empty_body> request(http::verb::get, "/", 11);
    request.set(http::field::host, "localhost");
    co_await http::async_write(connection, request, asio::use_awaitable);
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    co_await http::async_read(connection, buffer, response, asio::use_awaitable);
    page = response.body();
  }

  // Connects the client by a stream.
  void upgrade(plain_record& done) { upgrade(done, listener.local_endpoint()); }
  void upgrade(plain_record& done, tcp::endpoint to)
  {
    asio::co_spawn(
      io,
      [this, &done, to]() -> asio::awaitable<void>
      {
        stream connection = co_await connect(to);
        rdma::async_upgrade(std::move(connection), client, wishes,
          asio::bind_cancellation_slot(client_signal.slot(), done.handler()));
      },
      asio::detached);
  }

  // Acts as a client that requests RDMA and then sends nothing; its stream stays open.
  void ask_and_be_silent()
  {
    asio::co_spawn(
      io,
      [this]() -> asio::awaitable<void>
      {
        silent.emplace(co_await connect());
        const std::string text = good_request(client.local_endpoint());
        co_await asio::async_write(*silent, asio::buffer(text), asio::use_awaitable);
        ++asked;
      },
      asio::detached);
  }

  [[nodiscard]] bool connects()
  {
    plain_record connected;
    serve();
    upgrade(connected);
    return run_until(io, [&] { return connected.done() && accepts == 1; }) && !connected.ec
      && !accepted;
  }

  Streams streams;
  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  tcp::acceptor listener{io, loopback()};
  rdma::upgrade_options options;
  bool answers_upgrades;
  // Returns the program's refusal, if any.
  std::function<std::optional<http::response<http::string_body>>(
    const http::request<http::string_body>&)>
    decide;
  asio::cancellation_signal signal;
  asio::cancellation_signal client_signal;
  std::optional<stream> silent;
  int asked = 0;
  rdma::connect_options wishes{.host = "localhost", .fields = {}, .data = "hello"};
  int accepts = 0;
  error_code accepted;
  std::optional<rdma::queue_pair> peer;
  rdma::queue_pair client{io, client_context};
};

template <class Site>
bool messages_go_each_way(Site& site, rdma::queue_pair& a, rdma::queue_pair& b)
{
  auto question = buffer_of(a.context(), "question");
  auto answer = buffer_of(b.context(), "the answer");
  auto heard = b.context().allocate(64);
  auto told = a.context().allocate(64);
  bytes_record received, sent, replied, got;
  b.async_receive(heard, received.handler());
  a.async_receive(told, got.handler());
  a.async_send(question, sent.handler());
  b.async_send(answer, replied.handler());
  return run_until(
           site.io, [&] { return received.done() && sent.done() && replied.done() && got.done(); })
    && text_of(rdma::mutable_buffer(heard).first(received.value())) == "question"
    && text_of(rdma::mutable_buffer(told).first(got.value())) == "the answer";
}

} // namespace

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

TEST_CASE("async_connect reports the refusal of a program and the answer of a web server")
{
  const bool by_us = GENERATE(true, false);
  web_site<plain> site;
  site.decide = [&](const auto&) -> std::optional<http::response<http::string_body>>
  {
    if (by_us)
      return rdma::refuse_upgrade();
    http::response<http::string_body> answer(http::status::forbidden, 11, "no");
    answer.prepare_payload();
    return answer;
  };
  plain_record connected;
  site.serve();
  site.client.async_connect(site.listener.local_endpoint(), connected.handler());
  REQUIRE(run_until(site.io, [&] { return connected.done(); }));
  CHECK(connected.ec == (by_us ? error::refused : error::not_an_acceptor));
  CHECK((site.client.diagnose().reason.find("not authorised") != std::string::npos) == by_us);
}

TEST_CASE("refuse_upgrade makes a closing response with an error status and a one-line reason")
{
  const auto refusal = rdma::refuse_upgrade(http::status::service_unavailable, "full,\r\nsorry");
  CHECK(refusal.result() == http::status::service_unavailable);
  CHECK(refusal[http::field::upgrade] == "boost-rdma/1");
  CHECK(refusal["Rdma-Reason"] == "full,??sorry");
  CHECK_FALSE(refusal.keep_alive());
  CHECK(refusal.has_content_length());
  CHECK(rdma::refuse_upgrade().result() == http::status::forbidden);
  for (const http::status none :
    {http::status::ok, http::status::switching_protocols, http::status(600), http::status(0)})
    CHECK(rdma::refuse_upgrade(none, "why").result() == http::status::internal_server_error);
}

TEST_CASE("upgrade_data returns the data of a request or fails with malformed_description")
{
  http::request<http::empty_body> request(http::verb::get, "/rdma", 11);
  error_code ec = error::refused;
  CHECK(rdma::upgrade_data(request, ec).empty());
  CHECK(!ec);
  request.set("Rdma-Data", "68656C6c6f");
  CHECK(rdma::upgrade_data(request, ec) == "hello");
  CHECK(!ec);
  CHECK(rdma::upgrade_data(
    http::request<http::empty_body, http::basic_fields<asio::recycling_allocator<char>>>(), ec)
          .empty());
  for (const std::string& bad :
    {std::string("6"), std::string("hello"), std::string(2 * 1024 + 2, '0')})
  {
    request.set("Rdma-Data", bad);
    CHECK(rdma::upgrade_data(request, ec).empty());
    CHECK(ec == error::malformed_description);
  }
  request.set("Rdma-Data", "68");
  request.insert("Rdma-Data", "69");
  CHECK_THROWS_AS(rdma::upgrade_data(request), rdma::system_error);
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
  site.io.run_for(std::chrono::milliseconds(20));
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
  std::this_thread::sleep_for(5 * site.options.queue_pair.heartbeat_limit);
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
  const auto race = [&](auto upgrade) -> asio::awaitable<void>
  {
    asio::steady_timer timer(site.io, std::chrono::milliseconds(50));
    const auto outcome = co_await (std::move(upgrade) || timer.async_wait(asio::use_awaitable));
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
    for (int i = 0; i < 10 && site.accepts == 0; ++i)
    {
      site.io.run_for(std::chrono::milliseconds(10));
      site.signal.emit(type);
    }
    REQUIRE(run_until(site.io, [&] { return site.accepts == 1; }));
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
      co_await own.async_receive(memory, asio::use_awaitable);
    };
    asio::co_spawn(*io, server(), asio::detached);
    asio::co_spawn(*io, client(), asio::detached);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    for (int i = 0; i < steps; ++i)
      io->run_one_until(limit);
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

TEST_CASE("async_upgrade of a server refuses a request of another version")
{
  web_site<plain> site;
  site.serve();
  plain_peer client = plain_peer::connect(site.io, site.listener.local_endpoint());
  client.send("GET /rdma HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: "
              "boost-rdma/9\r\n\r\n");
  std::string header;
  std::jthread reader(
    [&]
    {
      header = client.read_header();
      client.finish_sending();
    });
  REQUIRE(run_until(site.io, [&] { return site.accepts == 1; }));
  CHECK(site.accepted == error::refused);
  CHECK(!site.peer->is_open());
  reader.join();
  CHECK(header.find("HTTP/1.1 426 ") == 0);
  CHECK(header.find("Upgrade: boost-rdma/1") != std::string::npos);
}

TEST_CASE("async_upgrade of a server fails with invalid_argument when its data is too large")
{
  web_site<plain> site;
  site.options.data.assign(rdma::connect_options::data_size_max + 1, 'x');
  plain_record connected;
  site.serve();
  site.upgrade(connected);
  REQUIRE(run_until(site.io, [&] { return connected.done() && site.accepts == 1; }));
  CHECK(site.accepted == asio::error::invalid_argument);
  CHECK(connected.ec == error::peer_lost);
}

TEST_CASE("async_upgrade fails when the queue pair is of another execution context than the stream")
{
  web_site<plain> site;
  asio::io_context other;
  rdma::queue_pair client(other, site.client_context);
  plain_record connected;
  rdma::async_upgrade(tcp::socket(site.io), client, {}, connected.handler());
  REQUIRE(run_until(other, [&] { return connected.done(); }));
  CHECK(connected.ec == asio::error::invalid_argument);
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

TEST_CASE("is_upgrade recognises requests for RDMA")
{
  const auto asks = [](unsigned version, std::string_view connection, std::string_view upgrade)
  {
    http::request<http::empty_body> request(http::verb::get, "/", version);
    request.set(http::field::connection, beast::string_view(connection.data(), connection.size()));
    if (!upgrade.empty())
      request.set(http::field::upgrade, beast::string_view(upgrade.data(), upgrade.size()));
    return rdma::is_upgrade(request);
  };
  CHECK(asks(11, "Upgrade", "boost-rdma/1"));
  CHECK(asks(11, "keep-alive, upgrade", "websocket, Boost-RDMA/2"));
  CHECK(!asks(10, "Upgrade", "boost-rdma/1"));
  CHECK(!asks(11, "keep-alive", "boost-rdma/1"));
  CHECK(!asks(11, "Upgrade", "websocket"));
  CHECK(!asks(11, "Upgrade", "boost-rdmax/1"));
  CHECK(!asks(11, "Upgrade", ""));
}
