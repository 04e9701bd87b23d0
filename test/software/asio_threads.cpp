//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

// Tests distinct objects in many threads under load; most valuable with the thread sanitizer.

using namespace test;

namespace {

struct thread_group
{
  std::vector<std::thread> threads;

  template <class F>
  void start(int n, F f)
  {
    for (int i = 0; i < n; ++i)
      threads.emplace_back(f);
  }
  void join()
  {
    for (std::thread& each : threads)
      each.join();
    threads.clear();
  }
  ~thread_group() { join(); }
};

// Echoes messages until it receives a message without bytes.
asio::awaitable<void> echo(rdma::queue_pair peer, std::atomic<int>& ended)
{
  rdma::registered_buffer buffer = peer.context().allocate(256);
  try
  {
    for (;;)
    {
      const std::size_t n = co_await peer.async_receive(buffer, asio::use_awaitable);
      if (n == 0)
        break;
      co_await peer.async_send(buffer.first(n), asio::use_awaitable);
    }
  }
  catch (const rdma::system_error&)
  {
  }
  ++ended;
}

asio::awaitable<void> ask(
  rdma::queue_pair peer, int rounds, std::atomic<int>& right, std::atomic<int>& ended)
{
  rdma::registered_buffer buffer = peer.context().allocate(256);
  try
  {
    for (int i = 0; i < rounds; ++i)
    {
      *buffer.as<int>() = i;
      co_await peer.async_send(
        buffer.first(4 + static_cast<std::size_t>(i % 200)), asio::use_awaitable);
      const std::size_t n = co_await peer.async_receive(buffer, asio::use_awaitable);
      right += n == 4 + static_cast<std::size_t>(i % 200) && *buffer.as<int>() == i;
    }
    co_await peer.async_send(rdma::no_data, asio::use_awaitable);
  }
  catch (const rdma::system_error&)
  {
  }
  ++ended;
}

} // namespace

TEST_CASE("queue pairs on strands work in an io_context that four threads run")
{
  const auto mode = GENERATE(rdma::completion_mode::event, rdma::completion_mode::busy_poll,
    rdma::completion_mode::adaptive);
  CAPTURE(static_cast<int>(mode));
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair_options options;
  options.completions.emplace(io, context, rdma::completion_queue_options{.mode = mode});
  constexpr int pairs = 6;
  constexpr int rounds = 150;
  std::atomic<int> right{0};
  std::atomic<int> ended{0};
  std::atomic<int> asked{0};
  for (int i = 0; i < pairs; ++i)
  {
    auto near_strand = asio::make_strand(io);
    auto far_strand = asio::make_strand(io);
    rdma::queue_pair a(near_strand, context, options);
    rdma::queue_pair b(far_strand, context, options);
    connect(a, b);
    asio::co_spawn(far_strand, echo(std::move(b), ended), asio::detached);
    asio::co_spawn(near_strand, ask(std::move(a), rounds, right, asked), asio::detached);
  }
  {
    const auto limit = std::chrono::steady_clock::now() + patience;
    thread_group group;
    group.start(4,
      [&]
      {
        while (asked != pairs && std::chrono::steady_clock::now() < limit)
          io.run_one_for(std::chrono::milliseconds(50));
      });
  }
  CHECK(asked == pairs);
  CHECK(right == pairs * rounds);
}

TEST_CASE("queue pairs in two io_contexts exchange messages from two threads")
{
  asio::io_context near_io;
  asio::io_context far_io;
  rdma::context context = make_context();
  std::atomic<int> right{0};
  std::atomic<int> ended{0};
  std::atomic<int> asked{0};
  constexpr int pairs = 3;
  constexpr int rounds = 300;
  for (int i = 0; i < pairs; ++i)
  {
    rdma::queue_pair a(near_io, context);
    rdma::queue_pair b(far_io, context);
    connect(a, b);
    asio::co_spawn(far_io, echo(std::move(b), ended), asio::detached);
    asio::co_spawn(near_io, ask(std::move(a), rounds, right, asked), asio::detached);
  }
  thread_group group;
  group.start(1, [&] { far_io.run_for(patience); });
  REQUIRE(run_until(near_io, [&] { return asked == pairs; }));
  CHECK(right == pairs * rounds);
  far_io.stop();
}

TEST_CASE("queue pairs can be destroyed under load while others continue")
{
  asio::io_context io;
  rdma::context context = make_context();
  std::atomic<int> right{0};
  std::atomic<int> ended{0};
  std::atomic<int> asked{0};
  std::atomic<int> called{0}; // handlers of the destroyed pairs
  constexpr int generations = 12;
  constexpr int doomed_sends = 300;
  constexpr int doomed_receives = 300;
  constexpr int doomed_handlers = generations * (doomed_sends + doomed_receives);
  auto guard = asio::make_work_guard(io);
  thread_group group;
  group.start(3, [&] { io.run_for(patience); });
  rdma::queue_pair_options hasty;
  hasty.timeout = 8;
  hasty.retry_count = 1;
  for (int i = 0; i < generations; ++i)
  {
    auto strand = asio::make_strand(io);
    // One pair that remains, and one that is destroyed under load.
    auto far_strand = asio::make_strand(io);
    rdma::queue_pair a(strand, context);
    rdma::queue_pair b(far_strand, context);
    connect(a, b);
    asio::co_spawn(far_strand, echo(std::move(b), ended), asio::detached);
    asio::co_spawn(strand, ask(std::move(a), 50, right, asked), asio::detached);

    auto doomed = std::make_shared<rdma::queue_pair>(strand, context, hasty);
    auto peer = std::make_shared<rdma::queue_pair>(far_strand, context, hasty);
    connect(*doomed, *peer);
    asio::post(far_strand,
      [peer, &called]
      {
        for (int k = 0; k < doomed_receives; ++k)
          peer->async_receive(
            rdma::no_data, [peer, &called](error_code, std::size_t) { ++called; });
      });
    asio::post(strand,
      [doomed, &called]
      {
        for (int k = 0; k < doomed_sends; ++k)
          doomed->async_send(rdma::no_data,
            [doomed, k, &called](error_code, std::size_t)
            {
              ++called;
              if (k == 100)
                doomed->close();
            });
      });
    asio::post(far_strand, [peer] { peer->close(); });
  }
  const auto limit = std::chrono::steady_clock::now() + patience;
  while ((asked != generations || ended != generations || called < doomed_handlers)
    && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  guard.reset();
  group.join(); // run() returns because no work is left
  CHECK(io.stopped());
  CHECK(asked == generations);
  CHECK(ended == generations);
  CHECK(right == generations * 50);
  CHECK(called == doomed_handlers);
}

TEST_CASE("operations can be cancelled on their strand while others complete")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair_options shallow;
  shallow.receive_depth = 4;
  auto strand = asio::make_strand(io);
  auto far_strand = asio::make_strand(io);
  rdma::queue_pair a(strand, context, shallow);
  rdma::queue_pair b(far_strand, context);
  connect(a, b);
  constexpr int n = 400;
  std::vector<asio::cancellation_signal> signals(n);
  std::atomic<int> called{0};
  std::atomic<int> aborted{0};
  asio::post(strand,
    [&]
    {
      for (std::size_t i = 0; i < n; ++i)
        a.async_receive(rdma::no_data,
          asio::bind_cancellation_slot(signals[i].slot(),
            [&](error_code ec, std::size_t)
            {
              ++called;
              aborted += ec == asio::error::operation_aborted;
            }));
    });
  for (std::size_t i = n; i-- > 0;)
    asio::post(strand,
      [&, i]
      {
        if (i % 2 == 1)
          signals[i].emit(asio::cancellation_type::total);
      });
  std::atomic<int> sent{0};
  asio::post(far_strand,
    [&]
    {
      for (int i = 0; i < n / 2; ++i)
        b.async_send(rdma::no_data, [&](error_code, std::size_t) { ++sent; });
    });
  {
    const auto limit = std::chrono::steady_clock::now() + patience;
    thread_group group;
    group.start(4,
      [&]
      {
        while (sent != n / 2 && std::chrono::steady_clock::now() < limit)
          io.run_one_for(std::chrono::milliseconds(20));
      });
  }
  CHECK(sent == n / 2);
  a.close();
  REQUIRE(run_until(io, [&] { return called == n; }));
  REQUIRE(run_out(io));
  CHECK(called == n); // no handler was called twice
  CHECK(aborted <= n / 2 + 4);
}

TEST_CASE("many threads can allocate and free buffers of one pool")
{
  rdma::context context = make_context();
  {
    thread_group group;
    group.start(4,
      [&]
      {
        std::vector<rdma::registered_buffer> held;
        for (std::size_t i = 0; i < 2000; ++i)
        {
          held.push_back(context.allocate(1 + i * 37 % 3000));
          *held.back().data() = std::byte{1};
          if (held.size() > 20)
            held.erase(held.begin(), held.begin() + 10);
        }
      });
  }
  CHECK(context.pool_statistics().buffers == 0);
  CHECK(context.pool_statistics().bytes_allocated == 0);
}

TEST_CASE("many threads can create and destroy queue pairs on one io_context")
{
  asio::io_context io;
  rdma::context context = make_context();
  std::atomic<int> made{0};
  {
    thread_group group;
    group.start(4,
      [&]
      {
        for (int i = 0; i < 25; ++i)
        {
          rdma::queue_pair a(io, context);
          rdma::queue_pair b(io, context);
          connect(a, b);
          a.async_receive(rdma::no_data, [](error_code, std::size_t) {});
          b.async_send(rdma::no_data, [](error_code, std::size_t) {});
          ++made;
        }
      });
    // Runs while queue pairs are created: completions that are not yet flushed occupy the
    // completion queue.
    group.start(1,
      [&]
      {
        while (made != 100)
        {
          io.restart();
          io.run_for(std::chrono::milliseconds(200));
        }
      });
  }
  CHECK(made == 100);
  REQUIRE(run_out(io));
}
