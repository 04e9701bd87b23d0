//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <thread>

#include <poll.h>

// Tests the modes in which a completion queue detects completions, and shared completion queues.

using namespace test;

namespace {

// Two queue pairs, each on its own completion queue of the given mode; run() polls manual and
// external queues.
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
    const rdma::completion_mode mode = completions_a.mode();
    if (mode != rdma::completion_mode::manual && mode != rdma::completion_mode::external)
      return run_until(io, done);
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (!done() && std::chrono::steady_clock::now() < limit)
    {
      const std::size_t found = completions_a.poll() + completions_b.poll();
      io.restart();
      if (io.poll() + found == 0 && mode == rdma::completion_mode::external)
        sleep();
    }
    return done();
  }

  /// Until one of two external queues has a completion.
  void sleep()
  {
    if (!completions_a.arm() || !completions_b.arm())
      return;
    std::array<pollfd, 2> sleeps{
      pollfd{completions_a.native_handle(), POLLIN, 0}, {completions_b.native_handle(), POLLIN, 0}};
    constexpr std::chrono::milliseconds limit = patience;
    CHECK(::poll(sleeps.data(), sleeps.size(), static_cast<int>(limit.count())) > 0);
  }

  /// Waits until the io_context repeatedly has no handler to run. A polling loop always has one.
  /// Connection attempts of unrelated devices, such as those of other tests that look for a
  /// vanished peer, wake the polling thread.
  [[nodiscard]] bool comes_to_rest()
  {
    constexpr int polls = 100;
    int empty = 0;
    return until(
      [&]
      {
        io.restart();
        empty = io.poll_one() == 0 ? empty + 1 : 0;
        return empty == polls;
      });
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

TEST_CASE("thousands of operations on shallow queues complete in order")
{
  rdma::context context = make_context();
  asio::io_context io;
  rdma::queue_pair a(io, context, of_depth(4));
  rdma::queue_pair b(io, context, of_depth(4));
  connect(a, b);
  bulk(a, b, context, 5000, [&](auto done) { return run_until(io, done); });
}

TEST_CASE("ping-pong and bulk transfers complete in every completion mode")
{
  const auto mode = GENERATE(rdma::completion_mode::event, rdma::completion_mode::busy_poll,
    rdma::completion_mode::adaptive, rdma::completion_mode::manual,
    rdma::completion_mode::external);
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

TEST_CASE("poll calls the handlers of an external queue, and a sleep ends when an operation ends")
{
  mode_link l(rdma::completion_mode::external);
  bytes_record received;
  bytes_record refused;
  l.a.async_receive(rdma::no_data, received.handler());
  REQUIRE(l.completions_a.native_handle() >= 0);
  while (!l.completions_a.arm())
    CHECK(l.completions_a.poll() == 0);
  l.a.async_send(l.context.allocate(8).first(0), refused.handler()); // ends without the device
  pollfd sleeps{l.completions_a.native_handle(), POLLIN, 0};
  CHECK(::poll(&sleeps, 1, 0) == 1);
  CHECK_FALSE(refused.done());
  CHECK(l.completions_a.poll() == 1);
  CHECK(refused.ec == rdma::error::empty_buffer);
  l.b.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(l.run([&] { return received.done(); }));
  CHECK(received.ec == error_code());
  CHECK(rdma::completion_queue(l.io, l.context).native_handle() == -1);
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
