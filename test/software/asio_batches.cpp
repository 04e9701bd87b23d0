//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

// The lifetime of batches, and batches that are larger than the send queue.

using namespace test;

namespace {

/// A different character at each place.
std::string pattern(std::size_t size)
{
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>('!' + i % 93);
  return text;
}

/// Writes a pattern to the far side, byte by byte.
struct byte_writer
{
  explicit byte_writer(linked_pair& link, std::size_t size)
    : text(pattern(size))
    , buffer(buffer_of(link.near_context, text))
    , target(link.far_context, size, exposed)
  {
  }

  /// Writes of the bytes [first, first + count).
  [[nodiscard]] rdma::batch batch(std::size_t first, std::size_t count) const
  {
    rdma::batch result;
    for (std::size_t i = first; i < first + count; ++i)
      result.write(buffer.slice(i, 1), target.remote().slice(i));
    return result;
  }

  std::string text;
  rdma::registered_buffer buffer;
  rdma::memory_region target;
};

} // namespace

TEST_CASE("a batch may be changed or destroyed when it waits for room in the send queue")
{
  linked_pair l;
  REQUIRE(l.near.options().send_depth == 128);
  byte_writer bytes(l, 9 * 16);
  std::vector<int> order;
  const auto handler = [&order](int i)
  {
    return [&order, i](error_code ec, std::size_t n)
    {
      CHECK(ec == error_code());
      CHECK(n == 16);
      order.push_back(i);
    };
  };
  const auto way = GENERATE("destroyed", "reused", "moved");
  CAPTURE(way);
  rdma::batch reused;
  for (int i = 0; i < 9; ++i) // the ninth finds the queue full
  {
    rdma::batch batch = bytes.batch(static_cast<std::size_t>(i) * 16, 16);
    if (way == std::string("destroyed"))
      l.near.async_submit(batch, handler(i));
    else if (way == std::string("moved"))
      l.near.async_submit(std::move(batch), handler(i));
    else
    {
      reused = batch;
      l.near.async_submit(reused, handler(i));
      reused.clear();
    }
  }
  REQUIRE(run_until(l.io, [&] { return order.size() == 9; }));
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(text_of(bytes.target.first(9 * 16)) == bytes.text);
}

TEST_CASE("a temporary batch lives until its operation starts, with every kind of token")
{
  linked_pair l;
  rdma::registered_buffer text = buffer_of(l.near_context, "ab");
  rdma::memory_region target(l.far_context, 16, exposed);
  const auto write = [&](std::size_t at) { return target.remote().slice(at); };
  int calls = 0;
  const auto handler = [&calls](error_code ec, std::size_t n)
  {
    CHECK(ec == error_code());
    CHECK(n == 2);
    ++calls;
  };

  l.near.async_submit(
    rdma::batch().write(text.first(1), write(0)).write(text.slice(1), write(1)), handler);
  auto later = l.near.async_submit(
    rdma::batch().write(text.first(1), write(2)).write(text.slice(1), write(3)), asio::deferred);
  std::move(later)(handler);
  auto coroutine = [&]() -> asio::awaitable<void>
  {
    handler(
      {}, co_await l.near.async_submit(rdma::batch().write(text, write(4)), asio::use_awaitable));
    auto awaitable = l.near.async_submit(rdma::batch().write(text, write(6)), asio::use_awaitable);
    handler({}, co_await std::move(awaitable));
    auto deferred = l.near.async_submit(rdma::batch().write(text, write(8)), asio::deferred);
    handler({}, co_await std::move(deferred));
    rdma::batch named;
    named.write(text, write(10));
    handler({}, co_await l.near.async_submit(named, asio::deferred));
    CHECK(named.size() == 1); // an lvalue stays as it is
  };
  asio::co_spawn(l.io, coroutine(), asio::detached);
  REQUIRE(run_until(l.io, [&] { return calls == 6; }));
  CHECK(text_of(target.first(12)) == "abababababab");
}

TEST_CASE("a batch larger than send_depth is posted in parts and completes once, in order")
{
  const auto depth = GENERATE(1u, 2u, 3u, 8u);
  const auto size = GENERATE(4u, 9u, 64u);
  CAPTURE(depth, size);
  linked_pair l(of_depth(depth));
  const std::size_t total = std::size_t{2} * size + 3;
  byte_writer bytes(l, total);
  std::vector<std::size_t> completed;
  const auto handler = [&](error_code ec, std::size_t n)
  {
    CHECK(ec == error_code());
    completed.push_back(n);
  };
  const auto one = [&](std::size_t i)
  { l.near.async_write(bytes.buffer.slice(i, 1), bytes.target.remote().slice(i), handler); };

  one(0);
  l.near.async_submit(bytes.batch(1, size), handler);
  one(size + 1);
  l.near.async_submit(bytes.batch(size + 2, size), handler);
  one(total - 1);
  REQUIRE(run_until(l.io, [&] { return completed.size() == 5; }));
  CHECK(completed == std::vector<std::size_t>{1, size, 1, size, 1});
  CHECK(text_of(bytes.target.first(total)) == bytes.text);
  CHECK(l.near_context.pool_statistics().buffers == 1);
}

TEST_CASE("the messages of a batch larger than send_depth arrive in order between those of others")
{
  linked_pair l(of_depth(4), of_depth(64));
  rdma::registered_buffer text = buffer_of(l.near_context, pattern(22));
  rdma::registered_buffer into = l.far_context.allocate(22);
  std::size_t received = 0;
  for (std::size_t i = 0; i < 22; ++i)
    l.far.async_receive(into.slice(i, 1),
      [&](error_code ec, std::size_t)
      {
        CHECK(ec == error_code());
        ++received;
      });
  bytes_record before;
  bytes_record together;
  bytes_record after;
  l.near.async_send(text.first(1), before.handler());
  {
    rdma::batch batch;
    for (std::size_t i = 1; i < 21; ++i)
      batch.send(text.slice(i, 1));
    l.near.async_submit(batch, together.handler());
  }
  l.near.async_send(text.slice(21, 1), after.handler());
  REQUIRE(run_until(l.io, [&] { return received == 22 && after.done(); }));
  CHECK(before.ec == error_code());
  CHECK(together.ec == error_code());
  CHECK(together.value() == 20);
  CHECK(together.calls == 1);
  CHECK(after.ec == error_code());
  CHECK(text_of(into) == pattern(22));
}

TEST_CASE("a batch larger than send_depth completes once with the first error of its operations")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  const auto wrong = GENERATE(0u, 1u, 4u, 9u, 18u, 19u);
  CAPTURE(wrong);
  linked_pair l(of_depth(4), of_depth(4));
  rdma::memory_region target(l.far_context, 64, exposed);
  const rdma::remote_buffer real = target.remote();
  const rdma::remote_buffer outside(real.address() + 4096, 8, real.keys(), real.rights());
  rdma::registered_buffer buffer = buffer_of(l.near_context, "x");
  bytes_record r;
  bytes_record next;
  {
    rdma::batch batch;
    for (std::size_t i = 0; i < 20; ++i)
      batch.write(buffer, i == wrong ? outside : real.slice(i));
    l.near.async_submit(batch, r.handler());
  }
  l.near.async_write(buffer, real, next.handler());
  REQUIRE(run_until(l.io, [&] { return r.done() && next.done(); }));
  CHECK(r.ec == rdma::wc_status::remote_access_error);
  CHECK(r.value() == 0);
  CHECK(r.calls == 1);
  CHECK(next.ec == rdma::wc_status::flushed);
  CHECK(text_of(target.first(20)) == std::string(wrong, 'x') + std::string(20 - wrong, '\0'));
  CHECK(l.near_context.pool_statistics().buffers == 1);
  l.near.close();
  REQUIRE(run_out(l.io));
  CHECK(r.calls == 1);
}

TEST_CASE("async_shutdown waits for all parts of a batch larger than send_depth")
{
  connect_fixture f;
  connect_fixture::accepted server;
  plain_record connected;
  rdma::queue_pair client(f.io, f.client_context, of_depth(2));
  f.acceptor.async_accept(server.handler());
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls == 1; }));
  REQUIRE(connected.ec == error_code());
  rdma::registered_buffer text = buffer_of(f.client_context, pattern(20));
  rdma::registered_buffer into = f.server_context.allocate(20);
  bytes_record sent;
  {
    rdma::batch batch;
    for (std::size_t i = 0; i < 20; ++i)
      batch.send(text.slice(i, 1));
    client.async_submit(batch, sent.handler());
  }
  plain_record shut_down;
  client.async_shutdown(shut_down.handler());
  std::size_t received = 0;
  for (std::size_t i = 0; i < 20; ++i)
    server.peer->async_receive(into.slice(i, 1),
      [&](error_code ec, std::size_t)
      {
        CHECK(ec == error_code());
        ++received;
      });
  plain_record closed;
  server.peer->async_wait_close(closed.handler());
  plain_record other_side;
  REQUIRE(run_until(f.io, [&] { return received == 20; }));
  server.peer->async_shutdown(other_side.handler());
  REQUIRE(run_until(f.io, [&] { return shut_down.done() && closed.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(sent.value() == 20);
  CHECK(shut_down.ec == error_code());
  CHECK(text_of(into) == pattern(20));
}

TEST_CASE("a batch of which a part is posted may go before its io_context")
{
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  auto alive = std::make_shared<int>();
  {
    asio::io_context io;
    rdma::queue_pair near(io, near_context, of_depth(4));
    rdma::queue_pair far(io, far_context);
    connect(near, far);
    {
      const rdma::registered_buffer buffer = buffer_of(near_context, "none is received");
      rdma::batch batch;
      for (std::size_t i = 0; i < buffer.size(); ++i)
        batch.send(buffer.slice(i, 1));
      near.async_submit(batch, [alive](error_code, std::size_t) { FAIL("called"); });
    }
    CHECK(alive.use_count() == 2);
    CHECK(near_context.pool_statistics().buffers == 1);
  }
  CHECK(alive.use_count() == 1);
  CHECK(near_context.pool_statistics().buffers == 0);
}
