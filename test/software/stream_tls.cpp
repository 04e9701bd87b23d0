//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// TLS by asio::ssl::stream over rdma::stream.

#include "software/stream_fixture.hpp"
#include "software/tls.hpp"

#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace test::stream_tls {
namespace {

namespace beast = boost::beast;
namespace ssl = asio::ssl;
namespace websocket = beast::websocket;
using asio::awaitable;
using asio::use_awaitable;
using tls_stream = ssl::stream<rdma::stream>;
static_assert(std::is_same_v<beast::lowest_layer_type<tls_stream>, rdma::stream>);

/// The TLS contexts of a client and a server.
struct tls_contexts
{
  tls_contexts()
  {
    certify(for_server);
    for_client.set_verify_mode(ssl::verify_none);
  }

  ssl::context for_server{ssl::context::tlsv13_server};
  ssl::context for_client{ssl::context::tlsv13_client};
};

/// A client and a server of TLS.
struct tls_pair : stream_pair
{
  explicit tls_pair(const rdma::stream_options& options = {})
    : stream_pair(options)
    , client(std::move(a), contexts.for_client)
    , server(std::move(b), contexts.for_server)
  {
    run_all(
      io, [&] { return client.async_handshake(ssl::stream_base::client, use_awaitable); },
      [&] { return server.async_handshake(ssl::stream_base::server, use_awaitable); });
  }

  tls_contexts contexts;
  tls_stream client;
  tls_stream server;
};

awaitable<void> write(tls_stream& to, const std::string& text)
{
  co_await asio::async_write(to, asio::buffer(text), use_awaitable);
}

/// Reads this text.
awaitable<void> read(tls_stream& from, const std::string& expected)
{
  std::string got(expected.size(), '\0');
  co_await asio::async_read(from, asio::buffer(got), use_awaitable);
  CHECK(got == expected);
}

/// Reads an error.
awaitable<void> read_error(tls_stream& from, error_code expected)
{
  char byte = 0;
  error_code ec;
  co_await from.async_read_some(asio::buffer(&byte, 1), asio::redirect_error(use_awaitable, ec));
  CHECK(ec == expected);
}

/// Counts the KeyUpdate messages that this end receives.
void count_key_updates(tls_stream& of, int& count)
{
  ::SSL_set_msg_callback(of.native_handle(),
    [](int is_sent, int, int type, const void* bytes, std::size_t size, SSL*, void* argument)
    {
      if (is_sent == 0 && type == SSL3_RT_HANDSHAKE && size != 0
        && *static_cast<const unsigned char*>(bytes) == SSL3_MT_KEY_UPDATE)
        ++*static_cast<int*>(argument);
    });
  ::SSL_set_msg_callback_arg(of.native_handle(), &count);
}

} // namespace

TEST_CASE("TLS 1.3 carries large data in both directions at once over a stream")
{
  tls_pair f(of_ring(GENERATE(1024u, 64u * 1024u)));
  CHECK(std::string_view(::SSL_get_version(f.client.native_handle())) == "TLSv1.3");
  CHECK(&beast::get_lowest_layer(f.client) == &f.client.next_layer());
  const std::string up = random_text(1'000'000, 1);
  const std::string down = random_text(1'000'001, 2);
  run_all(
    f.io, [&] { return write(f.client, up); }, [&] { return read(f.server, up); },
    [&] { return write(f.server, down); }, [&] { return read(f.client, down); });
}

TEST_CASE("either side of TLS over a stream updates its key, and asks for the peer's")
{
  tls_pair f;
  const bool by_server = GENERATE(false, true);
  tls_stream& near = by_server ? f.server : f.client;
  tls_stream& far = by_server ? f.client : f.server;
  int near_updates = 0;
  int far_updates = 0;
  count_key_updates(near, near_updates);
  count_key_updates(far, far_updates);
  const std::string text = random_text(100'000, 1);
  for (int i = 1; i != 4; ++i)
  {
    REQUIRE(::SSL_key_update(near.native_handle(), SSL_KEY_UPDATE_REQUESTED) == 1);
    run_all(
      f.io, [&] { return write(near, text); }, [&] { return read(far, text); });
    run_all(
      f.io, [&] { return write(far, text); }, [&] { return read(near, text); });
    CHECK(far_updates == i);
    CHECK(near_updates == i);
  }
}

TEST_CASE("either side of TLS over a stream shuts it down in order")
{
  tls_pair f;
  const bool by_server = GENERATE(false, true);
  tls_stream& near = by_server ? f.server : f.client;
  tls_stream& far = by_server ? f.client : f.server;
  const std::string text = random_text(100'000, 1);
  run_all(
    f.io,
    [&]() -> awaitable<void>
    {
      co_await write(near, text);
      co_await near.async_shutdown(use_awaitable);
    },
    [&]() -> awaitable<void>
    {
      co_await read(far, text);
      co_await read_error(far, asio::error::eof);
      co_await far.async_shutdown(use_awaitable);
    });
}

TEST_CASE("TLS over a stream reports truncation when the peer closes the stream")
{
  tls_pair f;
  const std::string text = random_text(100'000, 1);
  const bool only_half = GENERATE(false, true);
  run_all(
    f.io,
    [&]() -> awaitable<void>
    {
      co_await write(f.server, text);
      if (only_half)
        f.server.next_layer().shutdown(rdma::stream::shutdown_type::shutdown_send);
      else
        f.server.next_layer().close();
    },
    [&]() -> awaitable<void>
    {
      co_await read(f.client, text);
      co_await read_error(f.client, ssl::error::stream_truncated);
    });
}

TEST_CASE("WebSocket over TLS over a stream closes the streams of both sides")
{
  using socket = websocket::stream<tls_stream>;
  static_assert(std::is_same_v<beast::lowest_layer_type<socket>, rdma::stream>);
  stream_pair f;
  tls_contexts contexts;
  socket client(std::move(f.a), contexts.for_client);
  socket server(std::move(f.b), contexts.for_server);
  const bool by_server = GENERATE(false, true);
  const auto end = [](socket& of, bool closes) -> awaitable<void>
  {
    beast::flat_buffer got;
    error_code ec;
    if (closes)
      co_await of.async_close({}, use_awaitable);
    else
    {
      co_await of.async_read(got, asio::redirect_error(use_awaitable, ec));
      CHECK(ec == websocket::error::closed);
    }
  };
  run_all(
    f.io,
    [&]() -> awaitable<void>
    {
      co_await client.next_layer().async_handshake(ssl::stream_base::client, use_awaitable);
      co_await client.async_handshake("rdma", "/", use_awaitable);
      co_await end(client, !by_server);
    },
    [&]() -> awaitable<void>
    {
      co_await server.next_layer().async_handshake(ssl::stream_base::server, use_awaitable);
      co_await server.async_accept(use_awaitable);
      co_await end(server, by_server);
    });
  CHECK_FALSE(beast::get_lowest_layer(client).is_open());
  CHECK_FALSE(beast::get_lowest_layer(server).is_open());
}

} // namespace test::stream_tls
