//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/handlers.hpp"
#include "common/rdma_fixture.hpp"
#include "software/refusal.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

// Tests when and on which executor handlers run, and what keeps an io_context running.

using namespace test;

namespace {

// True inside an initiating call.
thread_local bool initiating = false;

struct initiation
{
  initiation() { initiating = true; }
  ~initiation() { initiating = false; }
};

} // namespace

TEST_CASE("handlers of immediate errors do not run inside the initiating call")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair lonely(io, context);
  rdma::registered_buffer buffer = context.allocate(8);
  int calls = 0;
  auto check = [&](error_code ec, auto...)
  {
    CHECK_FALSE(initiating);
    CHECK(ec);
    ++calls;
  };
  auto start = [&]
  {
    initiation mark;
    lonely.async_send(buffer, check);
    lonely.async_receive(buffer.first(0), check);
    lonely.async_write(buffer, rdma::remote_buffer(), check);
    lonely.async_fetch_add(rdma::remote_buffer(), 1, check);
    lonely.async_invalidate(1, check);
    lonely.async_submit(rdma::batch(), check);
  };
  start();
  CHECK(calls == 0);
  REQUIRE(run_until(io, [&] { return calls == 6; }));

  SECTION("from within a handler")
  {
    asio::post(io, start);
    REQUIRE(run_until(io, [&] { return calls == 12; }));
  }
  SECTION("for an object that was closed or moved from")
  {
    lonely.close();
    asio::post(io, start);
    REQUIRE(run_until(io, [&] { return calls == 12; }));
    rdma::queue_pair other = std::move(lonely);
    initiation mark;
    lonely.async_send(buffer, check);
    lonely.async_receive(buffer, check);
    initiating = false;
    REQUIRE(run_until(io, [&] { return calls == 14; }));
  }
}

TEST_CASE("a handler does not run inside the initiating call when its message has arrived already")
{
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  // All messages are sent before handlers post the receives.
  int sent = 0;
  for (int i = 0; i < 8; ++i)
    l.far.async_send(rdma::no_data, [&](error_code, std::size_t) { ++sent; });
  int received = 0;
  std::function<void()> receive = [&]
  {
    initiation mark;
    l.near.async_receive(buffer,
      [&](error_code ec, std::size_t n)
      {
        CHECK_FALSE(initiating);
        CHECK(ec == error_code());
        CHECK(n == 0);
        if (++received < 8)
          receive();
      });
  };
  receive();
  CHECK(received == 0);
  REQUIRE(run_until(l.io, [&] { return received == 8 && sent == 8; }));
}

TEST_CASE("handlers of operations started in handlers do not nest")
{
  linked_pair l;
  rdma::registered_buffer buffer = buffer_of(l.near_context, "x");
  rdma::registered_buffer far_buffer = l.far_context.allocate(1);
  int depth = 0;
  int left = 50;
  std::function<void()> go = [&]
  {
    l.far.async_receive(far_buffer, [&](error_code, std::size_t) {});
    l.near.async_send(buffer,
      [&](error_code ec, std::size_t)
      {
        CHECK(ec == error_code());
        CHECK(++depth == 1);
        if (--left != 0)
          go();
        --depth;
      });
  };
  go();
  REQUIRE(run_until(l.io, [&] { return left == 0; }));
}

TEST_CASE("run() returns only when no operation is outstanding")
{
  linked_pair l;
  l.io.run_for(patience);
  REQUIRE(l.io.stopped()); // nothing was outstanding

  rdma::registered_buffer buffer = l.near_context.allocate(8);
  bytes_record received;
  l.near.async_receive(buffer, received.handler());
  l.io.restart();
  check_alive(l.io, l.near, l.far); // other operations begin and end
  l.io.poll();
  CHECK_FALSE(l.io.stopped());
  CHECK_FALSE(received.done());

  l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(run_out(l.io));
  CHECK(received.calls == 1);
  CHECK(received.ec == error_code());
}

TEST_CASE("a handler runs on its associated executor")
{
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(8);

  SECTION("a strand")
  {
    auto strand = asio::make_strand(l.io);
    bool ran = false;
    l.near.async_receive(buffer,
      asio::bind_executor(strand,
        [&](error_code, std::size_t)
        {
          CHECK(strand.running_in_this_thread());
          ran = true;
        }));
    l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
    REQUIRE(run_until(l.io, [&] { return ran; }));
  }
  SECTION("another io_context, which the operation keeps running")
  {
    asio::io_context other;
    bool ran = false;
    l.near.async_receive(buffer,
      asio::bind_executor(other,
        [&](error_code, std::size_t)
        {
          CHECK(other.get_executor().running_in_this_thread());
          ran = true;
        }));
    other.poll();
    CHECK_FALSE(other.stopped());
    l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
    REQUIRE(run_out(l.io));
    CHECK_FALSE(ran);
    REQUIRE(run_out(other));
    CHECK(ran);
  }
  SECTION("another io_context, for an immediate error")
  {
    asio::io_context other;
    error_code result;
    l.near.async_send(buffer.first(0),
      asio::bind_executor(other, [&](error_code ec, std::size_t) { result = ec; }));
    REQUIRE(run_out(l.io));
    CHECK(result == error_code());
    REQUIRE(run_out(other));
    CHECK(result == rdma::error::empty_buffer);
  }
  SECTION("a thread_pool")
  {
    asio::thread_pool pool(1);
    std::promise<std::thread::id> promise;
    l.near.async_receive(buffer,
      asio::bind_executor(
        pool, [&](error_code, std::size_t) { promise.set_value(std::this_thread::get_id()); }));
    l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
    REQUIRE(run_out(l.io));
    pool.join(); // returns only after the handler ran
    auto future = promise.get_future();
    REQUIRE(future.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
    CHECK(future.get() != std::this_thread::get_id());
  }
}

TEST_CASE("a queue pair on a strand runs its handlers there")
{
  asio::io_context io;
  rdma::context context = make_context();
  auto strand = asio::make_strand(io);
  rdma::queue_pair a(strand, context);
  rdma::basic_queue_pair<asio::strand<asio::io_context::executor_type>> b(strand, context);
  connect(a, b);
  rdma::registered_buffer buffer = context.allocate(8);
  int ran = 0;
  auto check = [&](error_code ec, std::size_t)
  {
    CHECK(ec == error_code());
    CHECK(strand.running_in_this_thread());
    ++ran;
  };
  a.async_receive(buffer, check);
  b.async_receive(buffer, check);
  a.async_send(rdma::no_data, check);
  b.async_send(rdma::no_data, check);
  REQUIRE(run_out(io));
  CHECK(ran == 4);
}

TEST_CASE("a queue pair runs its handlers on its executor when its completion queue is on another")
{
  asio::io_context polling;
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair_options options;
  options.completions.emplace(polling, context);
  rdma::queue_pair a(io, context, options);
  rdma::queue_pair b(polling, context);
  connect(a, b);
  bool ran = false;
  a.async_receive(rdma::no_data,
    [&](error_code ec, std::size_t)
    {
      CHECK(ec == error_code());
      CHECK(io.get_executor().running_in_this_thread());
      ran = true;
    });
  io.poll();
  CHECK_FALSE(io.stopped()); // the handler runs here
  b.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(run_until(polling, io, [&] { return ran; }));
}

TEST_CASE("a queue pair works on a thread_pool without an io_context")
{
  asio::thread_pool pool(2);
  rdma::context context = make_context();
  std::atomic<int> ran{0};
  rdma::queue_pair a(pool, context);
  rdma::queue_pair b(pool, context);
  connect(a, b);
  rdma::registered_buffer buffer = context.allocate(8);
  b.async_receive(buffer, [&](error_code ec, std::size_t) { ran += !ec; });
  a.async_send(rdma::no_data, [&](error_code ec, std::size_t) { ran += !ec; });
  pool.join();
  CHECK(ran == 2);
}

TEST_CASE(
  "the constructor fails with wrong_context when the completion queue is of another context")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::context other = make_context();
  rdma::queue_pair_options options;
  options.completions.emplace(io, other);
  try
  {
    rdma::queue_pair refused(io, context, options);
    FAIL("the constructor did not fail");
  }
  catch (const rdma::system_error& e)
  {
    CHECK(e.code() == rdma::error::wrong_context);
  }
}

TEST_CASE("the associated allocator is used and its memory is freed before the handler runs")
{
  linked_pair l;
  int allocations = 0;
  int live = 0;
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  int ran = 0;
  auto handler = [&](error_code, std::size_t)
  {
    CHECK(live == 0);
    ++ran;
  };
  l.near.async_receive(
    buffer, asio::bind_allocator(counting_allocator<void*>(allocations, live), handler));
  CHECK(allocations == 1);
  CHECK(live == 1);
  l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(run_until(l.io, [&] { return ran == 1; }));
  CHECK(live == 0);

  // also for an operation that fails at once
  l.near.async_send(
    buffer.first(0), asio::bind_allocator(counting_allocator<void*>(allocations, live), handler));
  REQUIRE(run_until(l.io, [&] { return ran == 2; }));
  CHECK(live == 0);

  l.near.async_receive(
    buffer, asio::bind_allocator(counting_allocator<void*>(allocations, live), handler));
  l.near.close();
  REQUIRE(run_until(l.io, [&] { return ran == 3; }));
  CHECK(live == 0);
}

TEST_CASE("an exception of a handler leaves run() and loses no completion")
{
  linked_pair l;
  int received = 0;
  int thrown = 0;
  constexpr int messages = 40;
  for (int i = 0; i < messages; ++i)
    l.near.async_receive(rdma::no_data,
      [&](error_code ec, std::size_t)
      {
        CHECK(ec == error_code());
        if (++received % 3 == 0)
          throw std::runtime_error("thrown by a handler");
      });
  int sent = 0;
  for (int i = 0; i < messages; ++i)
    l.far.async_send(rdma::no_data, [&](error_code, std::size_t) { ++sent; });
  while (received < messages || sent < messages)
    try
    {
      if (!run_until(l.io, [&] { return received == messages && sent == messages; }))
        break;
    }
    catch (const std::runtime_error&)
    {
      ++thrown;
    }
  CHECK(received == messages);
  CHECK(sent == messages);
  CHECK(thrown == messages / 3);
  REQUIRE(run_out(l.io));
}

TEST_CASE("a stopped io_context continues after restart")
{
  linked_pair l;
  int received = 0;
  for (int i = 0; i < 20; ++i)
  {
    l.near.async_receive(rdma::no_data,
      [&](error_code, std::size_t)
      {
        ++received;
        l.io.stop();
      });
    l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
  }
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (received < 20 && std::chrono::steady_clock::now() < limit)
  {
    l.io.restart();
    l.io.run_until(limit);
  }
  CHECK(received == 20);
  REQUIRE(run_out(l.io));
}

TEST_CASE("an operation started by another thread wakes a waiting io_context")
{
  linked_pair l;
  auto guard = asio::make_work_guard(l.io);
  std::atomic<int> received{0};
  std::thread runner([&] { l.io.run_for(patience); });
  for (int i = 1; i <= 100; ++i)
  {
    // Each object is used by this thread only.
    l.near.async_receive(rdma::no_data, [&](error_code, std::size_t) { ++received; });
    l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (received != i && std::chrono::steady_clock::now() < limit)
      std::this_thread::yield();
    if (received != i)
      break;
  }
  CHECK(received == 100);
  guard.reset();
  l.io.stop();
  runner.join();
}

TEST_CASE("a receive consumed by a write with immediate data reports zero bytes")
{
  linked_pair l;
  rdma::memory_region target(l.far_context, 4096, exposed);
  rdma::registered_buffer small = l.far_context.allocate(8);
  bytes_record received;
  l.far.async_receive(small, received.handler());
  bytes_record written;
  l.near.async_write_with_immediate(
    buffer_of(l.near_context, std::string(4096, 'w')), target.remote(), 7, written.handler());
  REQUIRE(run_until(l.io, [&] { return received.done() && written.done(); }));
  CHECK(received.ec == error_code());
  CHECK(received.value() == 0); // not 4096, which exceeds the buffer
  CHECK(text_of(target) == std::string(4096, 'w'));
}

TEST_CASE("operations accept any_completion_handler")
{
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  bytes_record received;
  bytes_record sent;
  bytes_record refused;
  using erased = asio::any_completion_handler<void(error_code, std::size_t)>;
  l.far.async_receive(l.far_context.allocate(8), erased(received.handler()));
  l.near.async_send(buffer, erased(sent.handler()));
  rdma::queue_pair taken(std::move(l.near));
  l.near.async_send(buffer, erased(refused.handler()));
  CHECK(refused.calls == 0);
  REQUIRE(run_until(l.io, [&] { return received.done() && sent.done() && refused.done(); }));
  CHECK(received.ec == error_code());
  CHECK(sent.ec == error_code());
  CHECK(refused.ec == rdma::error::closed);
}
