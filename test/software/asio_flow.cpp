//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "completion/queue_pair_core.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

// Tests full queues, batches, and the modes in which a completion queue detects completions.

using namespace test;

namespace {

rdma::queue_pair_options of_depth(std::uint32_t depth)
{
  rdma::queue_pair_options options;
  options.send_depth = depth;
  options.receive_depth = depth;
  return options;
}

// Two queue pairs, each on its own completion queue of the given mode; run() polls manual queues.
struct mode_link
{
  explicit mode_link(rdma::completion_mode mode)
    : completions_a(io, context, {.mode = mode})
    , completions_b(io, context, {.mode = mode})
    , a(io, context, with(completions_a))
    , b(io, context, with(completions_b))
  {
    connect(a, b);
  }

  static rdma::queue_pair_options with(const rdma::completion_queue& queue)
  {
    rdma::queue_pair_options options;
    options.completions = queue;
    return options;
  }

  template <class Condition>
  [[nodiscard]] bool run(Condition done)
  {
    if (completions_a.mode() != rdma::completion_mode::manual)
      return run_until(io, done);
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (!done() && std::chrono::steady_clock::now() < limit)
    {
      completions_a.poll();
      completions_b.poll();
      io.restart();
      io.poll();
    }
    return done();
  }

  /// Returns true if few handlers run during some interval, not necessarily the first. Connection
  /// attempts of unrelated devices, such as those of other tests that look for a vanished peer,
  /// wake the polling thread.
  [[nodiscard]] bool comes_to_rest()
  {
    const auto limit = std::chrono::steady_clock::now() + patience;
    std::size_t ran = 0; // handlers of the polling loop
    do
    {
      ran = 0;
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
      while (std::chrono::steady_clock::now() < end)
        ran += io.run_one_until(end);
    } while (ran >= 10 && std::chrono::steady_clock::now() < limit);
    return ran < 10;
  }

  asio::io_context io;
  rdma::context context = make_context();
  rdma::completion_queue completions_a;
  rdma::completion_queue completions_b;
  rdma::queue_pair a;
  rdma::queue_pair b;
};

// Sends n numbered messages at once and checks that they arrive and complete in order.
template <class Run>
void bulk(rdma::queue_pair& from, rdma::queue_pair& to, const rdma::context& context,
  std::uint32_t n, Run run)
{
  rdma::registered_buffer out = context.allocate(std::size_t{4} * n);
  rdma::registered_buffer in = context.allocate(std::size_t{4} * n);
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  bool in_order = true;
  for (std::uint32_t i = 0; i < n; ++i)
  {
    std::memcpy(out.data() + std::size_t{4} * i, &i, 4);
    to.async_receive(in.slice(std::size_t{4} * i, 4),
      [&, i](error_code ec, std::size_t size)
      { in_order = in_order && !ec && size == 4 && received++ == i; });
    from.async_send(out.slice(std::size_t{4} * i, 4),
      [&, i](error_code ec, std::size_t size)
      { in_order = in_order && !ec && size == 4 && sent++ == i; });
  }
  REQUIRE(run([&] { return !in_order || (sent == n && received == n); }));
  CHECK(in_order);
  CHECK(std::memcmp(in.data(), out.data(), std::size_t{4} * n) == 0);
}

asio::awaitable<void> ping(rdma::queue_pair& a, rdma::context context, int rounds, int& left)
{
  rdma::registered_buffer mine = context.allocate(8);
  for (int i = 0; i < rounds; ++i)
  {
    *mine.as<int>() = i;
    co_await a.async_send(mine.first(4), asio::use_awaitable);
    const std::size_t n = co_await a.async_receive(mine, asio::use_awaitable);
    CHECK(n == 4);
    CHECK(*mine.as<int>() == i + 1);
  }
  --left;
}

asio::awaitable<void> pong(rdma::queue_pair& b, rdma::context context, int rounds, int& left)
{
  rdma::registered_buffer mine = context.allocate(8);
  for (int i = 0; i < rounds; ++i)
  {
    co_await b.async_receive(mine, asio::use_awaitable);
    ++*mine.as<int>();
    co_await b.async_send(mine.first(4), asio::use_awaitable);
  }
  --left;
}

} // namespace

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

TEST_CASE("thousands of operations on shallow queues complete in order")
{
  rdma::context context = make_context();
  asio::io_context io;
  rdma::queue_pair a(io, context, of_depth(4));
  rdma::queue_pair b(io, context, of_depth(4));
  connect(a, b);
  bulk(a, b, context, 5000, [&](auto done) { return run_until(io, done); });
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

TEST_CASE("ping-pong and bulk transfers complete in every completion mode")
{
  const auto mode = GENERATE(rdma::completion_mode::event, rdma::completion_mode::busy_poll,
    rdma::completion_mode::adaptive, rdma::completion_mode::manual);
  CAPTURE(static_cast<int>(mode));
  mode_link l(mode);
  CHECK(l.completions_a.mode() == mode);
  int left = 2;
  asio::co_spawn(l.io, ping(l.a, l.context, 200, left), asio::detached);
  asio::co_spawn(l.io, pong(l.b, l.context, 200, left), asio::detached);
  REQUIRE(l.run([&] { return left == 0; }));
  bulk(l.a, l.b, l.context, 1000, [&](auto done) { return l.run(done); });
}

TEST_CASE("the completion mode can change while operations are outstanding")
{
  mode_link l(rdma::completion_mode::event);
  int left = 2;
  asio::co_spawn(l.io, ping(l.a, l.context, 300, left), asio::detached);
  asio::co_spawn(l.io, pong(l.b, l.context, 300, left), asio::detached);
  const rdma::completion_mode modes[] = {rdma::completion_mode::busy_poll,
    rdma::completion_mode::event, rdma::completion_mode::adaptive};
  std::size_t turns = 0;
  REQUIRE(l.run(
    [&]
    {
      l.completions_a.mode(modes[turns % 3]);
      l.completions_b.mode(modes[(turns / 2) % 3]);
      ++turns;
      return left == 0;
    }));
  // A manual queue stays manual, and another queue cannot become manual.
  l.completions_a.mode(rdma::completion_mode::event);
  l.completions_a.mode(rdma::completion_mode::manual);
  CHECK(l.completions_a.mode() == rdma::completion_mode::event);
  rdma::completion_queue by_hand(l.io, l.context, {.mode = rdma::completion_mode::manual});
  by_hand.mode(rdma::completion_mode::event);
  CHECK(by_hand.mode() == rdma::completion_mode::manual);
}

TEST_CASE("an idle queue in event mode runs no handlers and still completes later operations")
{
  mode_link l(rdma::completion_mode::event);
  // First a message in each direction: it establishes the software device's connection, which wakes
  // the io_context.
  bytes_record first;
  bytes_record back;
  l.a.async_receive(rdma::no_data, first.handler());
  l.b.async_receive(rdma::no_data, back.handler());
  l.b.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(l.run([&] { return first.done(); }));
  l.a.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(l.run([&] { return back.done(); }));

  bytes_record received;
  l.a.async_receive(rdma::no_data, received.handler());
  CHECK(l.comes_to_rest());
  l.b.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(l.run([&] { return received.done(); }));
}

TEST_CASE("an adaptive queue stops polling when it is idle")
{
  mode_link l(rdma::completion_mode::adaptive);
  bytes_record received;
  l.a.async_receive(rdma::no_data, received.handler());
  CHECK(l.comes_to_rest());
  l.b.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(l.run([&] { return received.done(); }));
}

TEST_CASE("other handlers run while a queue is in busy_poll mode")
{
  mode_link l(rdma::completion_mode::busy_poll);
  bytes_record never;
  l.a.async_receive(rdma::no_data, never.handler());
  int turns = 0;
  std::function<void()> turn = [&]
  {
    if (++turns < 1000)
      asio::post(l.io, turn);
  };
  turn();
  REQUIRE(l.run([&] { return turns == 1000; }));
}

TEST_CASE("a shared completion queue grows with the number of its queue pairs")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::completion_queue small(io, context, {.depth = 1});
  rdma::queue_pair_options options = of_depth(16);
  options.completions = small;
  std::deque<rdma::queue_pair> pairs;
  int received = 0;
  int sent = 0;
  constexpr int count = 60;
  constexpr int messages = 16;
  for (int i = 0; i < count; ++i)
  {
    rdma::queue_pair& a = pairs.emplace_back(io, context, options);
    rdma::queue_pair& b = pairs.emplace_back(io, context, options);
    connect(a, b);
    for (int k = 0; k < messages; ++k)
    {
      // Nothing is polled before everything is posted, so the queue must hold every completion.
      b.async_receive(rdma::no_data, [&](error_code ec, std::size_t) { received += !ec; });
      a.async_send(rdma::no_data, [&](error_code ec, std::size_t) { sent += !ec; });
    }
  }
  REQUIRE(run_until(io, [&] { return received == count * messages && sent == count * messages; }));
  pairs.clear();
  REQUIRE(run_out(io));
}

TEST_CASE("destroyed queue pairs release their share of a completion queue")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::completion_queue queue(io, context);
  rdma::queue_pair_options options = of_depth(4096);
  options.completions = queue;
  for (int i = 0; i < 50; ++i)
  {
    rdma::queue_pair a(io, context, options);
    rdma::queue_pair b(io, context, options);
    connect(a, b);
    int ended = 0;
    for (int k = 0; k < 3; ++k)
      a.async_receive(rdma::no_data, [&](error_code, std::size_t) { ++ended; });
    b.async_send(rdma::no_data, [&](error_code, std::size_t) { ++ended; });
    REQUIRE(run_until(io, [&] { return ended == 2; }));
    a.close();
    REQUIRE(run_until(io, [&] { return ended == 4; }));
  }
}

TEST_CASE("poll processes completions and queues their handlers")
{
  mode_link l(rdma::completion_mode::manual);
  CHECK(l.completions_a.poll() == 0);
  bytes_record received;
  bytes_record refused;
  l.a.async_receive(rdma::no_data, received.handler());
  l.a.async_send(l.context.allocate(8).first(0), refused.handler());
  CHECK_FALSE(refused.done());
  CHECK(l.completions_a.poll() == 1);
  l.io.restart();
  l.io.poll();
  CHECK(refused.ec == rdma::error::empty_buffer);
  l.b.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(l.run([&] { return received.done(); }));
  CHECK(received.ec == error_code());

  SECTION("run() returns only after a poll")
  {
    bytes_record last;
    l.a.async_receive(rdma::no_data, last.handler());
    l.b.async_send(rdma::no_data, [](error_code, std::size_t) {});
    std::atomic<bool> returned{false};
    std::thread runner(
      [&]
      {
        l.io.restart();
        l.io.run_for(patience);
        returned = true;
      });
    const auto limit = std::chrono::steady_clock::now() + patience;
    std::size_t polled = 0;
    while (!returned && std::chrono::steady_clock::now() < limit)
      polled += l.completions_a.poll() + l.completions_b.poll();
    runner.join();
    CHECK(last.done());
    CHECK(polled >= 2);
  }
}

// Tests for lost wake-ups, where a completion arrives between the last poll and the arming of the
// queue. A second thread sends after random delays, so that completions arrive before, during and
// after the arming.
TEST_CASE("no wake-up is lost in event mode")
{
  mode_link l(rdma::completion_mode::event);
  auto guard = asio::make_work_guard(l.io);
  constexpr int rounds = 1500;
  std::atomic<int> received{0};
  std::thread runner([&] { l.io.run_for(patience); });
  std::uint32_t random = 12345;
  const auto limit = std::chrono::steady_clock::now() + patience;
  std::atomic<int> sent{0};
  for (int i = 1; i <= rounds; ++i)
  {
    l.a.async_receive(rdma::no_data, [&](error_code ec, std::size_t) { received += !ec; });
    random = random * 1664525u + 1013904223u;
    for (std::uint32_t spin = random >> 20; spin != 0; --spin) // up to 4095 turns
      std::atomic_signal_fence(std::memory_order_seq_cst);
    l.b.async_send(rdma::no_data, [&](error_code ec, std::size_t) { sent += !ec; });
    while ((received != i || sent != i) && std::chrono::steady_clock::now() < limit)
      if ((random & 1) != 0)
        std::this_thread::yield();
    if (received != i || sent != i)
      break;
  }
  CHECK(received == rounds);
  CHECK(sent == rounds);
  guard.reset();
  l.io.stop();
  runner.join();
}

TEST_CASE("no wake-up is lost when another thread polls the same queue")
{
  mode_link l(rdma::completion_mode::event);
  auto guard = asio::make_work_guard(l.io);
  constexpr int rounds = 1000;
  std::atomic<int> received{0};
  std::atomic<bool> stop{false};
  std::thread runner([&] { l.io.run_for(patience); });
  std::thread poller(
    [&]
    {
      std::uint32_t random = 99;
      while (!stop)
      {
        random = random * 1664525u + 1013904223u;
        for (std::uint32_t spin = random >> 21; spin != 0; --spin)
          std::atomic_signal_fence(std::memory_order_seq_cst);
        l.completions_a.poll();
        std::this_thread::yield();
      }
    });
  const auto limit = std::chrono::steady_clock::now() + patience;
  for (int i = 1; i <= rounds; ++i)
  {
    l.a.async_receive(rdma::no_data, [&](error_code ec, std::size_t) { received += !ec; });
    l.b.async_send(rdma::no_data, [](error_code, std::size_t) {});
    if (i % 64 == 0)
      stop = i > rounds / 2; // without the second poller in the second half
    while (received != i && std::chrono::steady_clock::now() < limit)
      std::this_thread::yield();
    if (received != i)
      break;
  }
  stop = true;
  CHECK(received == rounds);
  poller.join();
  guard.reset();
  l.io.stop();
  runner.join();
}
