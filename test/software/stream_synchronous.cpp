//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/sleeping_threads.hpp"
#include "software/connect_fixture.hpp"
#include "software/stream_fixture.hpp"

#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>

#include <array>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// Synchronous functions of streams, by RDMA and by TCP. No thread runs the client's io_context.

namespace test::stream_synchronous {
namespace {

namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;

/// A server whose context a thread runs. It sends each line back, and keeps the last streams.
class line_server
{
public:
  explicit line_server(bool by_rdma = true)
    : acceptor_(io_, context_, loopback(), options(by_rdma))
    , thread_([this] { io_.run(); })
  {
    asio::co_spawn(io_, serve(), asio::detached);
  }
  line_server(const line_server&) = delete;
  line_server& operator=(const line_server&) = delete;
  ~line_server()
  {
    io_.stop();
    thread_.join();
  }

  [[nodiscard]] tcp::endpoint endpoint() const { return endpoint_; }

  /// Returns all bytes of the next client after those that it ended with a line, and the error.
  [[nodiscard]] std::pair<std::string, error_code> last_bytes() { return rest_.get_future().get(); }

private:
  static rdma::stream_acceptor_options options(bool by_rdma)
  {
    rdma::stream_acceptor_options result;
    if (!by_rdma)
      result.stream.transports = rdma::stream_transports::tcp;
    return result;
  }

  asio::awaitable<void> serve()
  {
    for (;;)
      asio::co_spawn(
        io_, talk(co_await acceptor_.async_accept(asio::use_awaitable)), asio::detached);
  }

  asio::awaitable<void> talk(rdma::stream client)
  {
    std::string text;
    error_code ec;
    for (;;)
    {
      const std::size_t size = co_await asio::async_read_until(
        client, asio::dynamic_buffer(text), '\n', asio::redirect_error(asio::use_awaitable, ec));
      if (ec)
        break;
      co_await asio::async_write(
        client, asio::buffer(text, size), asio::redirect_error(asio::use_awaitable, ec));
      text.erase(0, size);
    }
    rest_.set_value({text, ec});
  }

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  rdma::context context_ = make_context();
  rdma::stream_acceptor acceptor_;
  const tcp::endpoint endpoint_ = acceptor_.local_endpoint();
  std::promise<std::pair<std::string, error_code>> rest_;
  std::thread thread_;
};

/// Connected streams on one completion queue.
struct queue_fixture
{
  struct link
  {
    link(asio::io_context& io, const rdma::context& context)
      : link(rdma::queue_pair(io, context), rdma::queue_pair(io, context))
    {
    }
    link(rdma::queue_pair near, rdma::queue_pair far)
      : a((connect(near, far), std::move(near)))
      , b(std::move(far))
    {
    }

    rdma::stream a;
    rdma::stream b;
  };

  asio::io_context io;
  rdma::context context = make_context();
  link first{io, context};
  link second{io, context};
};

std::string read_line(rdma::stream& from)
{
  std::string text;
  asio::read_until(from, asio::dynamic_buffer(text), '\n');
  return text;
}

} // namespace

TEST_CASE("a program that runs no context uses a stream by synchronous functions")
{
  need(feature::endpoint_descriptions);
  const bool by_rdma = GENERATE(true, false);
  line_server server(by_rdma);
  asio::io_context unused;
  const rdma::context context = make_context();
  const std::string last = random_text(100'000, 1);
  {
    rdma::stream client(unused, context);
    error_code ec;
    std::array<char, 1> byte{};
    CHECK(client.read_some(asio::buffer(byte), ec) == 0);
    CHECK(ec == error::not_connected);
    client.connect(server.endpoint());
    CHECK((client.transport().wire != rdma::wire::socket) == by_rdma);
    client.connect(server.endpoint(), ec);
    CHECK(ec == error::already_connected);
    for (const std::size_t size : {1, 239, 240, 70'000, 3'000'000})
    {
      const std::string line = random_text(size, 2) + '\n';
      asio::write(client, asio::buffer(line));
      CHECK(read_line(client) == line);
    }
    CHECK(client.read_some(asio::mutable_buffer(), ec) == 0);
    CHECK(ec == error_code());
    asio::write(client, asio::buffer(last));
  } // the destructor sends the end, after all bytes
  const auto [bytes, ec] = server.last_bytes();
  CHECK(bytes == last);
  CHECK(ec == asio::error::eof);
}

TEST_CASE("synchronous functions report the end of a stream")
{
  connected_pair pair(GENERATE(true, false));
  error_code ec;
  std::array<char, 8> bytes{};
  asio::write(pair.a(), asio::buffer("last", 4));
  SECTION("the peer's end, after its bytes; the other direction goes on")
  {
    pair.a().shutdown(rdma::stream::shutdown_type::shutdown_send);
    CHECK(pair.a().write_some(asio::buffer("x", 1), ec) == 0);
    CHECK(ec == asio::error::broken_pipe);
    pair.b.wait(rdma::stream::wait_read);
    CHECK(asio::read(pair.b, asio::buffer(bytes), ec) == 4);
    CHECK(ec == asio::error::eof);
    CHECK_THROWS_AS(pair.b.read_some(asio::buffer(bytes)), rdma::system_error);
    asio::write(pair.b, asio::buffer("back", 4));
    CHECK(pair.a().read_some(asio::buffer(bytes)) == 4);
  }
  SECTION("a reset")
  {
    asio::write(pair.b, asio::buffer("unread", 6));
    pair.a().wait(rdma::stream::wait_read);
    pair.a().close();
    CHECK(pair.b.read_some(asio::buffer(bytes), ec) == 4);
    pair.b.wait(rdma::stream::wait_read, ec);
    CHECK(ec == error_code());
    CHECK(pair.b.read_some(asio::buffer(bytes), ec) == 0);
    CHECK(ec == asio::error::connection_reset);
  }
  SECTION("a closed stream, and one that was moved from")
  {
    pair.b.close();
    CHECK(pair.b.read_some(asio::buffer(bytes), ec) == 0);
    CHECK(ec == error::closed);
    CHECK(pair.b.write_some(asio::buffer(bytes), ec) == 0);
    CHECK(ec == error::closed);
    pair.b.wait(rdma::stream::wait_read, ec);
    CHECK(ec == error::closed);
    const rdma::stream other = std::move(pair.b);
    CHECK(pair.b.read_some(asio::buffer(bytes), ec) == 0); // NOLINT(bugprone-use-after-move)
    CHECK(ec == error::closed);
    pair.b.connect(pair.acceptor.local_endpoint(), ec);
    CHECK(ec == error::closed);
  }
}

TEST_CASE("synchronous functions that must not wait end with would_block")
{
  connected_pair pair(GENERATE(true, false));
  CHECK_FALSE(pair.b.non_blocking());
  pair.b.non_blocking(true);
  CHECK(pair.b.non_blocking());
  error_code ec;
  std::array<char, 100> bytes{};
  CHECK(pair.b.read_some(asio::buffer(bytes), ec) == 0);
  CHECK(ec == asio::error::would_block);
  pair.b.wait(rdma::stream::wait_read, ec);
  CHECK(ec == asio::error::would_block);
  CHECK(pair.b.available() == 0);
  const std::string text = random_text(100'000, 1);
  std::size_t sent = 0;
  while (!ec || sent == 0)
    sent += pair.b.write_some(asio::buffer(text), ec);
  CHECK(ec == asio::error::would_block);

  asio::write(pair.a(), asio::buffer("bytes", 5));
  CHECK(until([&] { return pair.b.available() == 5; })); // nothing else polls
  CHECK(pair.b.read_some(asio::buffer(bytes), ec) == 5);
  for (std::size_t got = 0; got != sent;)
    got += pair.a().read_some(asio::buffer(bytes));
  pair.b.non_blocking(false);
  CHECK(pair.b.write_some(asio::buffer(text), ec) != 0);
}

TEST_CASE("two threads use the two directions of a stream by synchronous functions")
{
  connected_pair pair(GENERATE(true, false));
  const std::string forward = random_text(4'000'000, 1);
  const std::string back = random_text(4'000'000, 2);
  const auto write = [](rdma::stream& to, const std::string& text)
  {
    return std::async(std::launch::async,
      [&]
      {
        std::size_t size = 1;
        for (std::size_t at = 0; at != text.size(); size = size * 7 % 99'991)
          at += to.write_some(asio::buffer(text.substr(at, size)));
      });
  };
  const auto read = [](rdma::stream& from, std::size_t size)
  {
    return std::async(std::launch::async,
      [&from, size]
      {
        std::string text(size, '\0');
        asio::read(from, asio::buffer(text));
        return text;
      });
  };
  auto a_reads = read(pair.a(), back.size());
  auto b_reads = read(pair.b, forward.size());
  auto a_writes = write(pair.a(), forward);
  auto b_writes = write(pair.b, back);
  a_writes.get();
  b_writes.get();
  CHECK(a_reads.get() == back);
  CHECK(b_reads.get() == forward);
}

TEST_CASE("a handler that waits in a synchronous function does not call others meanwhile")
{
  queue_fixture f;
  bytes_record other;
  std::array<char, 5> other_bytes{};
  std::array<char, 5> bytes{};
  std::string reply;
  bool called_inside = true;
  f.first.a.async_read_some(asio::buffer(other_bytes), other.handler());
  f.second.a.async_read_some(asio::buffer(bytes),
    [&](error_code, std::size_t)
    {
      asio::write(f.first.b, asio::buffer("other", 5));
      asio::write(f.second.a, asio::buffer("back", 4));
      reply.resize(4);
      asio::read(f.second.b, asio::buffer(reply));
      called_inside = other.done();
    });
  bytes_record written;
  asio::async_write(f.second.b, asio::buffer("begin", 5), written.handler());
  REQUIRE(run_until(f.io, [&] { return !reply.empty() && other.done() && written.done(); }));
  CHECK(reply == "back");
  CHECK_FALSE(called_inside);
  CHECK(other.value() == 5);
}

TEST_CASE("synchronous functions go on while a handler waits for the thread that calls them")
{
  queue_fixture f;
  std::mutex held;
  std::promise<void> handler_begins;
  std::array<char, 5> bytes{};
  std::string got(4, ' ');
  f.first.a.async_read_some(asio::buffer(bytes),
    [&](error_code, std::size_t)
    {
      handler_begins.set_value();
      const std::lock_guard lock(held);
    });
  std::unique_lock lock(held);
  std::jthread runs([&] { f.io.run(); });
  asio::write(f.first.b, asio::buffer("begin", 5));
  handler_begins.get_future().get();
  asio::write(f.second.b, asio::buffer("back", 4));
  asio::read(f.second.a, asio::buffer(got));
  lock.unlock();
  CHECK(got == "back");
}

TEST_CASE("synchronous functions go on beside a thread that runs the context")
{
  connected_pair quiet(true);
  rdma::stream& a = quiet.a();
  auto work = asio::make_work_guard(quiet.io);
  std::jthread runs([&] { quiet.io.run(); });
  // The thread of the context calls the handlers of one end; this one waits for the other end.
  asio::co_spawn(
    quiet.io,
    [&]() -> asio::awaitable<void>
    {
      std::array<char, 64> bytes{};
      error_code ec;
      while (!ec)
      {
        const std::size_t size = co_await a.async_read_some(
          asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, ec));
        if (!ec)
          co_await asio::async_write(
            a, asio::buffer(bytes, size), asio::redirect_error(asio::use_awaitable, ec));
      }
    },
    asio::detached);
  bool all = true;
  for (int i = 0; i != 3000; ++i)
  {
    const std::string text = std::to_string(i) + '\n';
    asio::write(quiet.b, asio::buffer(text));
    if (i % 500 == 0)
      wait_for_sleeping_threads(); // the other one waits for the channel
    all = all && read_line(quiet.b) == text;
  }
  CHECK(all);
  quiet.b.close();
  work.reset();
}

TEST_CASE("synchronous functions wait in each mode of the completion queue")
{
  need(feature::endpoint_descriptions);
  line_server server;
  asio::io_context unused;
  const rdma::context context = make_context();
  rdma::queue_pair_options options;
  using enum rdma::completion_mode;
  const auto mode = GENERATE(event, busy_poll, adaptive, manual, external);
  CAPTURE(mode);
  options.completions = rdma::completion_queue(unused, context, {.mode = mode});
  rdma::stream client(unused, context, {}, options);
  client.connect(server.endpoint());
  REQUIRE(client.transport().wire != rdma::wire::socket);
  bool all = true;
  for (int i = 0; i != 300; ++i)
  {
    const std::string line = random_text(1 + static_cast<std::size_t>(i) * 100, 3) + '\n';
    asio::write(client, asio::buffer(line));
    all = all && read_line(client) == line;
  }
  CHECK(all);
}

TEST_CASE("a thread that waits in a read returns when another one closes the stream")
{
  connected_pair pair(true);
  error_code ec;
  std::jthread reader(
    [&]
    {
      std::array<char, 1> byte{};
      pair.b.read_some(asio::buffer(byte), ec);
    });
  if (GENERATE(true, false))
    wait_for_sleeping_threads();
  pair.b.close();
  reader.join();
  CHECK((ec == error::closed || ec == asio::error::operation_aborted));
}

TEST_CASE("Beast's synchronous HTTP and WebSocket run over a stream")
{
  connected_pair pair(GENERATE(true, false));
  SECTION("HTTP")
  {
    auto served = std::async(std::launch::async,
      [&]
      {
        boost::beast::flat_buffer buffer;
        http::request<http::string_body> request;
        http::read(pair.a(), buffer, request);
        http::response<http::string_body> response(http::status::ok, 11, request.body() + "!");
        response.chunked(true);
        http::write(pair.a(), response);
        pair.a().shutdown(rdma::stream::shutdown_type::shutdown_send);
      });
    http::request<http::string_body> request(http::verb::post, "/", 11, random_text(200'000, 1));
    request.prepare_payload();
    http::write(pair.b, request);
    boost::beast::flat_buffer buffer;
    http::response<http::string_body> response;
    http::read(pair.b, buffer, response);
    CHECK(response.body() == request.body() + "!");
    served.get();
  }
  SECTION("WebSocket")
  {
    websocket::stream<rdma::stream&> a(pair.a());
    websocket::stream<rdma::stream&> b(pair.b);
    auto served = std::async(std::launch::async,
      [&]
      {
        a.accept();
        boost::beast::flat_buffer buffer;
        a.read(buffer);
        a.write(buffer.data());
        error_code ec;
        a.read(buffer, ec);
        return ec;
      });
    b.handshake("host", "/");
    const std::string text = random_text(100'000, 2);
    b.write(asio::buffer(text));
    boost::beast::flat_buffer buffer;
    b.read(buffer);
    CHECK(boost::beast::buffers_to_string(buffer.data()) == text);
    b.close(websocket::close_code::normal);
    CHECK(served.get() == websocket::error::closed);
    CHECK_FALSE(pair.b.is_open());
  }
}

} // namespace test::stream_synchronous
