//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Beast's WebSocket over rdma::stream, and the functions by which it ends a stream.

#include "common/handlers.hpp"
#include "software/connect_fixture.hpp"
#include "software/stream_fixture.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/websocket.hpp>

#include <chrono>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace test::stream_websocket {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using asio::awaitable;
using asio::use_awaitable;
using socket = websocket::stream<rdma::stream>;
static_assert(std::is_same_v<beast::lowest_layer_type<socket>, rdma::stream>);

/// A client and a server of WebSocket.
struct socket_pair : stream_pair
{
  explicit socket_pair(const rdma::stream_options& options = {})
    : stream_pair(options)
    , client(std::move(a))
    , server(std::move(b))
  {
  }

  /// Returns the extensions that the server accepts.
  std::string shake_hands()
  {
    websocket::response_type answer;
    run_all(
      io, [&] { return client.async_handshake(answer, "rdma", "/", use_awaitable); },
      [&] { return server.async_accept(use_awaitable); });
    return std::string(answer[http::field::sec_websocket_extensions]);
  }

  socket client;
  socket server;
};

/// Writes a message and reads its echo.
awaitable<void> ask(socket& server, std::string text)
{
  co_await server.async_write(asio::buffer(text), use_awaitable);
  beast::flat_buffer got;
  co_await server.async_read(got, use_awaitable);
  CHECK(server.got_text() == server.text());
  CHECK(beast::buffers_to_string(got.data()) == text);
}

/// Answers messages until the peer closes. Returns the error.
awaitable<error_code> echo(socket& client)
{
  for (;;)
  {
    beast::flat_buffer got;
    error_code ec;
    co_await client.async_read(got, asio::redirect_error(use_awaitable, ec));
    if (ec)
      co_return ec;
    client.text(client.got_text());
    co_await client.async_write(got.data(), use_awaitable);
  }
}

awaitable<error_code> read_error(socket& from)
{
  beast::flat_buffer got;
  error_code ec;
  co_await from.async_read(got, asio::redirect_error(use_awaitable, ec));
  co_return ec;
}

/// Checks the error that an operation returns.
awaitable<void> expect(error_code expected, awaitable<error_code> operation)
{
  const error_code ec = co_await std::move(operation);
  CHECK(ec == expected);
}

/// Stores the control frames that a WebSocket receives.
struct control_frames
{
  explicit control_frames(socket& from)
  {
    from.control_callback(
      [this](websocket::frame_type type, beast::string_view payload)
      {
        if (type == websocket::frame_type::ping)
          pings.emplace_back(payload);
        if (type == websocket::frame_type::pong)
          pongs.emplace_back(payload);
      });
  }

  std::vector<std::string> pings;
  std::vector<std::string> pongs;
};

/// Short time limits, of which the test needs one to expire.
websocket::stream_base::timeout impatient_timeout()
{
  return {std::chrono::milliseconds(20), std::chrono::milliseconds(20), false};
}

error_code read_byte(asio::io_context& io, rdma::stream& from)
{
  char byte = 0;
  bytes_record got;
  from.async_read_some(asio::buffer(&byte, 1), got.handler());
  REQUIRE(run_until(io, [&] { return got.done(); }));
  return got.ec;
}

} // namespace

TEST_CASE("WebSocket carries messages of all sizes over a stream, compressed or not")
{
  socket_pair f(of_ring(8192));
  const bool compressed = GENERATE(false, true);
  websocket::permessage_deflate deflate;
  deflate.client_enable = compressed;
  deflate.server_enable = compressed;
  f.client.set_option(deflate);
  f.server.set_option(deflate);
  CHECK(f.shake_hands().starts_with("permessage-deflate") == compressed);
  run_all(
    f.io,
    [&]() -> awaitable<void>
    {
      unsigned seed = 0;
      for (const std::size_t size : {0u, 1u, 125u, 126u, 4096u, 65'535u, 65'536u, 1'000'000u})
      {
        f.client.text(size % 2 == 0);
        const std::string text = random_text(size, ++seed);
        co_await ask(f.client, text);
      }
      co_await f.client.async_close(websocket::close_code::normal, use_awaitable);
    },
    [&] { return expect(websocket::error::closed, echo(f.server)); });
}

TEST_CASE("either side of a WebSocket over a stream pings the other")
{
  socket_pair f;
  f.shake_hands();
  const bool by_server = GENERATE(false, true);
  socket& from = by_server ? f.server : f.client;
  socket& to = by_server ? f.client : f.server;
  const control_frames here(from);
  const control_frames there(to);
  run_all(
    f.io,
    [&]() -> awaitable<void>
    {
      for (int i = 0; i != 3; ++i)
      {
        co_await from.async_ping(websocket::ping_data(std::to_string(i)), use_awaitable);
        co_await ask(from, "after the ping");
      }
      co_await from.async_close({}, use_awaitable);
    },
    [&] { return expect(websocket::error::closed, echo(to)); });
  const std::vector<std::string> sent{"0", "1", "2"};
  CHECK(there.pings == sent);
  CHECK(here.pongs == sent);
}

TEST_CASE("either side of a WebSocket closes the streams of both")
{
  socket_pair f;
  f.shake_hands();
  const bool by_server = GENERATE(false, true);
  const bool is_writing = GENERATE(false, true); // messages of the other side are on the way
  socket& closing = by_server ? f.server : f.client;
  socket& other = by_server ? f.client : f.server;
  run_all(
    f.io,
    [&] {
      return closing.async_close({websocket::going_away, "bye"}, use_awaitable);
    },
    [&]() -> awaitable<void>
    {
      if (is_writing)
        co_await other.async_write(asio::buffer(random_text(500'000, 1)), use_awaitable);
      co_await expect(websocket::error::closed, read_error(other));
    });
  CHECK(other.reason().code == websocket::going_away);
  CHECK(other.reason().reason == "bye");
  CHECK_FALSE(closing.next_layer().is_open());
  CHECK_FALSE(other.next_layer().is_open());
}

TEST_CASE("a WebSocket whose peer is idle times out and closes its stream")
{
  socket_pair f;
  f.shake_hands();
  f.client.set_option(impatient_timeout());
  run_all(
    f.io, [&] { return expect(beast::error::timeout, read_error(f.client)); },
    [&] { return expect(asio::error::eof, read_error(f.server)); });
  CHECK_FALSE(f.client.next_layer().is_open());
}

TEST_CASE("a WebSocket handshake that the peer does not answer times out")
{
  socket_pair f;
  f.client.set_option(impatient_timeout());
  error_code ec;
  run_all(f.io,
    [&] { return f.client.async_handshake("rdma", "/", asio::redirect_error(use_awaitable, ec)); });
  CHECK(ec == beast::error::timeout);
  CHECK_FALSE(f.client.next_layer().is_open());
}

TEST_CASE("async_teardown of a stream discards the peer's bytes and closes")
{
  const auto role = GENERATE(beast::role_type::client, beast::role_type::server);
  stream_pair f;
  plain_record ended;
  async_teardown(role, f.a, ended.handler());
  const std::string text = random_text(100'000, 1);
  bytes_record written;
  asio::async_write(f.b, asio::buffer(text), written.handler());
  CHECK(read_byte(f.io, f.b) == asio::error::eof);
  REQUIRE(run_until(f.io, [&] { return written.done(); }));
  CHECK(written.ec == error_code());
  CHECK_FALSE(ended.done()); // the peer may still write
  CHECK(f.a.is_open());
  f.b.shutdown(rdma::stream::shutdown_type::shutdown_send);
  REQUIRE(run_until(f.io, [&] { return ended.done(); }));
  CHECK(ended.ec == error_code());
  CHECK_FALSE(f.a.is_open());
}

TEST_CASE("async_teardown of two streams at once closes both")
{
  stream_pair f;
  plain_record here;
  plain_record there;
  async_teardown(beast::role_type::client, f.a, here.handler());
  async_teardown(beast::role_type::client, f.b, there.handler());
  CHECK_FALSE(here.done()); // never inside the initiating function
  REQUIRE(run_until(f.io, [&] { return here.done() && there.done(); }));
  CHECK(here.ec == error_code());
  CHECK(there.ec == error_code());
}

TEST_CASE("async_teardown reports the end of a stream that is reset or closed")
{
  stream_pair f;
  plain_record ended;
  const bool by_peer = GENERATE(false, true);
  if (by_peer)
  {
    bytes_record written;
    asio::async_write(f.a, asio::buffer("unread"), written.handler());
    CHECK(read_byte(f.io, f.b) == error_code());
    f.b.close();
  }
  else
    f.a.close();
  async_teardown(beast::role_type::server, f.a, ended.handler());
  CHECK_FALSE(ended.done());
  REQUIRE(run_until(f.io, [&] { return ended.done(); }));
  if (by_peer)
    CHECK(ended.ec == asio::error::connection_reset);
  else
    CHECK(ended.ec == rdma::error::closed);
  CHECK_FALSE(f.a.is_open());
}

TEST_CASE("async_teardown honours the handler's executor, allocator and cancellation slot")
{
  stream_pair f;
  asio::io_context other;
  int allocations = 0;
  int live = 0;
  int live_in_handler = -1;
  asio::cancellation_signal signal;
  plain_record ended;
  const auto handler = [&](error_code ec)
  {
    live_in_handler = live;
    CHECK(other.get_executor().running_in_this_thread());
    ended.handler()(ec);
  };
  async_teardown(beast::role_type::client, f.a,
    asio::bind_cancellation_slot(signal.slot(),
      asio::bind_allocator(counting_allocator<char>(allocations, live),
        asio::bind_executor(other.get_executor(), handler))));
  CHECK(read_byte(f.io, f.b) == asio::error::eof);
  CHECK(allocations > 0);
  signal.emit(asio::cancellation_type::total);
  REQUIRE(run_until(f.io, other, [&] { return ended.done(); }));
  CHECK(ended.ec == asio::error::operation_aborted);
  CHECK(live_in_handler == 0);
  CHECK(f.a.is_open());
}

} // namespace test::stream_websocket
