//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_UPGRADE_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_UPGRADE_FIXTURE_HPP

#include "software/connect_fixture.hpp"
#include "software/tls.hpp"

#include <boost_rdma/upgrade.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include <functional>
#include <optional>
#include <string>

// Web sites with RDMA at one of their targets, over different streams.

namespace test {

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

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_UPGRADE_FIXTURE_HPP
