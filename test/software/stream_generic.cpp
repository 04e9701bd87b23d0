//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Code of Asio and Beast that is written for any stream, over rdma::stream.

#include "software/stream_fixture.hpp"

#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace test::stream_generic {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::use_awaitable;

/// Ends the timer's wait, as its expiry does, when the text has bytes.
void end_after_bytes(asio::io_context& io, const asio::streambuf& text, asio::steady_timer& limit)
{
  if (text.size() == 0)
    asio::post(io, [&] { end_after_bytes(io, text, limit); });
  else
    limit.cancel();
}

/// Answers each request with its body, in chunks with extensions and a trailer.
awaitable<void> answer_in_chunks(rdma::stream& client)
{
  beast::flat_buffer buffer;
  for (;;)
  {
    http::request<http::string_body> request;
    error_code ec;
    co_await http::async_read(client, buffer, request, asio::redirect_error(use_awaitable, ec));
    if (ec == http::error::end_of_stream)
      co_return;
    if (ec)
      throw rdma::system_error(ec);
    CHECK(request.chunked());

    http::response<http::empty_body> head(http::status::ok, 11);
    head.set(http::field::trailer, "Length");
    head.chunked(true);
    http::response_serializer<http::empty_body> serializer(head);
    co_await http::async_write_header(client, serializer, use_awaitable);
    const std::string& body = request.body();
    std::size_t done = 0;
    for (std::size_t number = 1; done != body.size(); ++number)
    {
      const std::size_t size = std::min(number * number * 100, body.size() - done);
      http::chunk_extensions extensions;
      extensions.insert("number", std::to_string(number));
      co_await asio::async_write(client,
        http::make_chunk(asio::buffer(body.data() + done, size), extensions), use_awaitable);
      done += size;
    }
    http::fields trailer;
    trailer.set("Length", std::to_string(done));
    co_await asio::async_write(client, http::make_chunk_last(trailer), use_awaitable);
  }
}

/// Sends a text in one chunk and checks the answer. Returns the number of its chunks.
awaitable<std::size_t> post(rdma::stream& server, beast::flat_buffer& buffer, std::string text)
{
  http::request<http::string_body> request(http::verb::post, "/", 11);
  request.chunked(true);
  request.body() = text;
  co_await http::async_write(server, request, use_awaitable);

  std::size_t chunks = 0;
  auto on_header = [&](std::uint64_t size, boost::string_view found, error_code&)
  {
    if (size != 0)
      CHECK(found == ";number=" + std::to_string(++chunks));
  };
  http::response_parser<http::string_body> answer;
  answer.on_chunk_header(on_header);
  co_await http::async_read(server, buffer, answer, use_awaitable);
  CHECK(answer.get().body() == text);
  CHECK(answer.get()["Length"] == std::to_string(text.size()));
  co_return chunks;
}

} // namespace

TEST_CASE("async_read_until finds the ends of lines that arrive in any parts")
{
  stream_pair f(of_ring(1024));
  std::vector<std::string> lines;
  for (const std::size_t size : {0u, 1u, 237u, 238u, 239u, 240u, 1022u, 1023u, 5000u, 70'000u})
    lines.push_back(random_text(size, static_cast<unsigned>(size)) + "\r\n");
  run_all(
    f.io,
    [&]() -> awaitable<void>
    {
      for (const std::string& each : lines)
      {
        // The delimiter is split.
        co_await asio::async_write(f.a, asio::buffer(each.data(), each.size() - 1), use_awaitable);
        co_await asio::async_write(f.a, asio::buffer("\n", 1), use_awaitable);
      }
      f.a.shutdown(rdma::stream::shutdown_type::shutdown_send);
    },
    [&]() -> awaitable<void>
    {
      std::string text;
      for (const std::string& each : lines)
      {
        const std::size_t size =
          co_await asio::async_read_until(f.b, asio::dynamic_buffer(text), "\r\n", use_awaitable);
        CHECK(text.substr(0, size) == each);
        text.erase(0, size);
      }
      error_code ec;
      co_await asio::async_read_until(
        f.b, asio::dynamic_buffer(text), "\r\n", asio::redirect_error(use_awaitable, ec));
      CHECK(ec == asio::error::eof);
      CHECK(text.empty());
    });
}

TEST_CASE("a read of a stream in a group with a timer ends with it and loses no bytes")
{
  stream_pair f;
  asio::streambuf text;
  run_all(f.io,
    [&]() -> awaitable<void>
    {
      co_await asio::async_write(f.a, asio::buffer("a li", 4), use_awaitable);
      asio::steady_timer limit(f.io, asio::steady_timer::time_point::max());
      auto group = asio::experimental::make_parallel_group(
        asio::async_read_until(f.b, text, '\n', asio::deferred), limit.async_wait(asio::deferred));
      asio::post(f.io, [&] { end_after_bytes(f.io, text, limit); });
      const auto [order, read, size, waited] =
        co_await group.async_wait(asio::experimental::wait_for_one(), use_awaitable);
      CHECK(order[0] == 1);
      CHECK(read == asio::error::operation_aborted);
      co_await asio::async_write(f.a, asio::buffer("ne\n", 3), use_awaitable);
      co_await asio::async_read_until(f.b, text, '\n', use_awaitable);
    });
  CHECK(beast::buffers_to_string(text.data()) == "a line\n");
}

TEST_CASE("HTTP carries chunked bodies with extensions and trailers over a stream")
{
  stream_pair f(of_ring(GENERATE(1024u, 64u * 1024u)));
  run_all(
    f.io, [&] { return answer_in_chunks(f.b); },
    [&]() -> awaitable<void>
    {
      beast::flat_buffer buffer;
      for (const auto& [size, expected] : {std::pair(9u, 1u), {300'000u, 21u}, {1u, 1u}})
      {
        const std::size_t chunks = co_await post(f.a, buffer, random_text(size, size));
        CHECK(chunks == expected);
      }
      CHECK(buffer.size() == 0);
      f.a.shutdown(rdma::stream::shutdown_type::shutdown_send); // the server's end_of_stream
    });
}

} // namespace test::stream_generic
