//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "completion/queue_pair_core.hpp"

#include <algorithm>
#include <vector>

// Tests full queues and batches.

using namespace test;

TEST_CASE("completions of earlier messages are delivered before waiting operations are aborted",
  "[software]")
{
  constexpr std::uint32_t messages = 2; // equal to the queue depth
  constexpr std::uint32_t operations = 6;
  asio::io_context io;
  rdma::context context = make_context();
  rdma::completion_queue completions(io, context, {.mode = rdma::completion_mode::manual});
  rdma::queue_pair_options options = of_depth(messages);
  options.completions = completions;
  rdma::queue_pair near(io, context, options);
  rdma::queue_pair far(io, context, of_depth(16));
  connect(near, far);
  rdma::registered_buffer buffer = context.allocate(64);

  std::vector<error_code> received;
  std::vector<error_code> sent;
  std::uint32_t far_done = 0;
  for (std::uint32_t i = 0; i < operations; ++i)
  {
    near.async_receive(
      buffer.slice(1 + i, 1), [&](error_code ec, std::size_t) { received.push_back(ec); });
    far.async_receive(
      buffer.slice(17 + i, 1), [&](error_code ec, std::size_t) { far_done += ec ? 0 : 1; });
  }
  for (std::uint32_t i = 0; i < operations; ++i)
    near.async_send(buffer.first(1), [&](error_code ec, std::size_t) { sent.push_back(ec); });
  for (std::uint32_t i = 0; i < messages; ++i)
    far.async_send(buffer.first(1), [&](error_code ec, std::size_t) { far_done += ec ? 0 : 1; });
  REQUIRE(run_until(io, [&] { return far_done == 2 * messages; }));

  SECTION("the user closes the queue pair")
  {
    near.close();
  }
  SECTION("the queue pair ends by itself")
  {
    near.core()->disconnect(rdma::error::peer_closed);
    // Operations that start now complete after all others, as on the device.
    near.async_receive(
      buffer.slice(33, 1), [&](error_code ec, std::size_t) { received.push_back(ec); });
    near.async_send(buffer.first(1), [&](error_code ec, std::size_t) { sent.push_back(ec); });
  }
  const std::size_t started = near.is_open() ? operations + 1 : operations;
  const auto limit = std::chrono::steady_clock::now() + patience;
  while ((received.size() < started || sent.size() < started)
    && std::chrono::steady_clock::now() < limit)
  {
    completions.poll();
    io.restart();
    io.poll();
  }
  REQUIRE(received.size() == started);
  REQUIRE(sent.size() == started);
  for (std::size_t i = 0; i < started; ++i)
  {
    INFO(i);
    CHECK(received[i].failed() == (i >= messages));
  }
  // Some acknowledgements of near's own sends may not have arrived.
  CHECK(std::ranges::is_partitioned(sent, [](const error_code& ec) { return !ec; }));
}

TEST_CASE("receives beyond 32,768 fail with queue_too_deep and the others complete")
{
  linked_pair l(of_depth(4), of_depth(4));
  constexpr int n = 40'000;
  int ended = 0;
  int refused = 0;
  for (int i = 0; i < n; ++i)
    l.near.async_receive(rdma::no_data,
      [&](error_code ec, std::size_t)
      {
        ++ended;
        refused += ec == rdma::error::queue_too_deep;
      });
  REQUIRE(run_until(l.io, [&] { return ended == n - 32'768; }));
  CHECK(refused == ended);
  l.near.close();
  REQUIRE(run_until(l.io, [&] { return ended == n; }));
  CHECK(refused == n - 32'768);
}

TEST_CASE("waiting sends do not starve one-sided operations")
{
  linked_pair l(of_depth(2), of_depth(2));
  rdma::memory_region target(l.far_context, 64, exposed);
  std::vector<int> order;
  for (int i = 0; i < 6; ++i)
    l.far.async_receive(rdma::no_data, [](error_code, std::size_t) {});
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  for (int i = 0; i < 12; ++i)
  {
    auto handler = [&order, i](error_code ec, std::size_t)
    {
      CHECK(ec == error_code());
      order.push_back(i);
    };
    if (i % 2 == 0)
      l.near.async_send(rdma::no_data, handler);
    else
      l.near.async_write(buffer, target.remote(), handler);
  }
  REQUIRE(run_until(l.io, [&] { return order.size() == 12; }));
  for (int i = 0; i < 12; ++i)
    CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("batches wait for enough free slots for all their operations and keep their order")
{
  linked_pair l(of_depth(4), of_depth(64));
  rdma::registered_buffer text = buffer_of(l.near_context, "abcdefgh");
  rdma::registered_buffer into = l.far_context.allocate(64);
  int received = 0;
  for (std::size_t i = 0; i < 22; ++i)
    l.far.async_receive(into.slice(i, 1),
      [&](error_code ec, std::size_t n)
      {
        CHECK(ec == error_code());
        CHECK(n == 1);
        ++received;
      });
  rdma::batch three;
  three.send(text.slice(0, 1)).send(text.slice(1, 1)).send_with_immediate(text.slice(2, 1), 9);
  rdma::batch four;
  four.send(text.slice(4, 1)).send(text.slice(5, 1)).send(text.slice(6, 1)).send(text.slice(7, 1));
  std::vector<std::size_t> sizes;
  auto handler = [&](error_code ec, std::size_t n)
  {
    CHECK(ec == error_code());
    sizes.push_back(n);
  };
  for (int i = 0; i < 2; ++i)
  {
    l.near.async_submit(three, handler); // the same batch, submitted again while it is outstanding
    l.near.async_submit(three, handler);
    l.near.async_send(text.slice(3, 1), handler);
    l.near.async_submit(four, handler);
  }
  REQUIRE(run_until(l.io, [&] { return sizes.size() == 8 && received == 22; }));
  CHECK(sizes == std::vector<std::size_t>{3, 3, 1, 4, 3, 3, 1, 4});
  CHECK(text_of(into.first(22)) == "abcabcdefghabcabcdefgh");
}

TEST_CASE("async_submit fails with bad_batch when the batch is empty")
{
  linked_pair l(of_depth(4), of_depth(8));
  rdma::batch batch;
  bytes_record r;
  l.near.async_submit(batch, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::bad_batch);
  CHECK(l.near.is_connected());
  batch.clear();
  CHECK(batch.empty());
  for (int i = 0; i < 4; ++i)
  {
    batch.send(rdma::no_data);
    l.far.async_receive(rdma::no_data, [](error_code, std::size_t) {});
  }
  bytes_record again;
  l.near.async_submit(batch, again.handler());
  REQUIRE(run_until(l.io, [&] { return again.done(); }));
  CHECK(again.ec == error_code());
}

TEST_CASE(
  "a batch fails once with the error of its failed operation and later operations are flushed")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  linked_pair l(of_depth(4), of_depth(4));
  rdma::memory_region target(l.far_context, 64, exposed);
  const rdma::remote_buffer real = target.remote();
  const rdma::remote_buffer outside(real.address() + 4096, 8, real.keys(), real.rights());
  rdma::registered_buffer buffer = buffer_of(l.near_context, "written.");
  rdma::batch batch;
  batch.write(buffer, real).write(buffer, outside).write(buffer, real.slice(8));
  bytes_record r;
  bytes_record next;
  bytes_record waits;
  l.near.async_submit(batch, r.handler());
  l.near.async_submit(batch, waits.handler()); // waits for a free slot
  l.near.async_write(buffer, real, next.handler());
  REQUIRE(run_until(l.io, [&] { return r.done() && next.done() && waits.done(); }));
  CHECK(r.ec == rdma::wc_status::remote_access_error);
  CHECK(r.value() == 0);
  CHECK(next.ec == rdma::wc_status::flushed);
  CHECK(waits.ec == rdma::wc_status::flushed);
  CHECK(r.calls == 1);
  CHECK(text_of(target.first(16)) == "written." + std::string(8, '\0'));
  CHECK(l.near_context.pool_statistics().buffers == 1);
}

TEST_CASE("a batch of hundreds completes in every completion mode when its first operation fails")
{
  // Its flushed operations fill several polls in which no operation completes.
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  const auto mode = GENERATE(rdma::completion_mode::event, rdma::completion_mode::busy_poll,
    rdma::completion_mode::adaptive);
  CAPTURE(static_cast<int>(mode));
  asio::io_context io;
  rdma::context context = make_context();
  rdma::completion_queue_options options;
  options.mode = mode;
  rdma::completion_queue completions(io, context, options);
  rdma::queue_pair_options deep = of_depth(500);
  deep.completions = completions;
  rdma::queue_pair near(io, context, deep);
  rdma::queue_pair far(io, context);
  connect(near, far);
  rdma::memory_region target(context, 64, exposed);
  const rdma::remote_buffer real = target.remote();
  const rdma::remote_buffer outside(real.address() + 4096, 8, real.keys(), real.rights());
  rdma::registered_buffer buffer = buffer_of(context, "written.");
  rdma::batch batch;
  batch.write(buffer, outside);
  for (int i = 0; i < 499; ++i)
    batch.write(buffer, real);
  bytes_record r;
  near.async_submit(batch, r.handler());
  REQUIRE(run_until(io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::wc_status::remote_access_error);
  CHECK(text_of(target.first(8)) == std::string(8, '\0'));
}
