//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/asio_tokens.hpp"

#include <boost_rdma/in_flight.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

// Tests rdma::in_flight.

using namespace test;

namespace {

/// Sends that wait for receives of the peer's, so that the test decides when each one completes.
struct held_sends : linked_pair
{
  rdma::in_flight sends{io, 3};
  std::vector<error_code> errors;

  void acquire()
  {
    sends.async_acquire(
      [this](error_code ec, rdma::in_flight::slot slot)
      {
        errors.push_back(ec);
        if (!ec)
          near.async_send(rdma::no_data, std::move(slot));
      });
  }
  void receive()
  {
    far.async_receive(rdma::no_data, [](error_code, std::size_t) {});
  }
  /// Runs what can run without another receive.
  void settle()
  {
    bytes_record read;
    rdma::memory_region region(near_context, 64, exposed);
    far.async_read(far_context.allocate(8), region.remote().first(8), read.handler());
    REQUIRE(run_until(io, [&] { return read.done(); }));
    io.restart();
    io.poll();
  }
};

struct wait_all_operation : any_operation
{
  using result = std::monostate;

  template <class QueuePair>
  struct fixture : operation_fixture<QueuePair>
  {
    rdma::basic_in_flight<typename QueuePair::executor_type> writes{this->io, 1};
  };
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.writes.async_acquire(
      [&f](error_code ec, auto slot)
      {
        CHECK(ec == error_code());
        f.near.async_write(f.local, f.remote, std::move(slot));
      });
    REQUIRE(run_until(f.io, [&] { return f.writes.size() == 1; }));
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.writes.async_wait_all(std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::monostate)
  {
    CHECK(text_of(f.region.first(16)) == "0123456789abcdef");
  }
};

} // namespace

TEST_CASE("in_flight::async_acquire waits while the limit is reached")
{
  held_sends s;
  for (int i = 0; i < 5; ++i)
    s.acquire();
  CHECK(s.errors.empty()); // no handler is called inside the initiating function
  s.settle();
  CHECK(s.errors.size() == 3);
  CHECK(s.sends.size() == 3);
  s.receive();
  REQUIRE(run_until(s.io, [&] { return s.errors.size() == 4; }));
  s.settle();
  CHECK(s.errors.size() == 4);
  for (int i = 0; i < 4; ++i)
    s.receive();
  plain_record all;
  s.sends.async_wait_all(all.handler());
  REQUIRE(run_until(s.io, [&] { return all.done(); }));
  CHECK(all.ec == error_code());
  CHECK(s.errors == std::vector<error_code>(5));
  CHECK(s.sends.size() == 0);
}

TEST_CASE("in_flight::async_wait_all accepts every kind of token")
{
  with_every_token<wait_all_operation>();
}

TEST_CASE("coroutines that share an in_flight keep to its limit together")
{
  linked_pair l;
  rdma::memory_region target(l.far_context, 64, exposed);
  rdma::registered_buffer buffer = buffer_of(l.near_context, "written.");
  rdma::in_flight writes(l.io, 4);
  std::size_t most = 0;
  int started = 0;
  int left = 3;
  const auto start_some = [&]() -> asio::awaitable<void>
  {
    for (int i = 0; i < 50; ++i)
    {
      auto slot = co_await writes.async_acquire(asio::use_awaitable);
      most = std::max(most, writes.size());
      ++started;
      l.near.async_write(buffer, target.remote(), std::move(slot));
    }
    co_await writes.async_wait_all(asio::use_awaitable);
    --left;
  };
  for (int i = 0; i < 3; ++i)
    asio::co_spawn(l.io, start_some(), asio::detached);
  REQUIRE(run_until(l.io, [&] { return left == 0; }));
  CHECK(started == 150);
  CHECK(most <= 4); // a write may complete before the next one starts
  CHECK(writes.size() == 0);
}

TEST_CASE("in_flight reports the first error, async_acquire at once and async_wait_all at the end")
{
  held_sends s;
  for (int i = 0; i < 3; ++i)
    s.acquire();
  s.settle();
  plain_record all;
  s.sends.async_wait_all(all.handler());
  s.acquire(); // waits
  s.near.close();
  REQUIRE(run_until(s.io, [&] { return all.done() && s.errors.size() == 4; }));
  CHECK(all.ec == asio::error::operation_aborted);
  CHECK(s.errors[3] == asio::error::operation_aborted);
  s.acquire();
  REQUIRE(run_until(s.io, [&] { return s.errors.size() == 5; }));
  CHECK(s.errors[4] == asio::error::operation_aborted);
}

TEST_CASE("every cancellation type ends a wait of in_flight and leaves the operations alone")
{
  const auto type = GENERATE(asio::cancellation_type::terminal, asio::cancellation_type::partial,
    asio::cancellation_type::total);
  held_sends s;
  for (int i = 0; i < 3; ++i)
    s.acquire();
  s.settle();
  asio::cancellation_signal signal;
  int calls = 0;
  const auto check = [&calls](error_code ec, auto&&...)
  {
    CHECK(ec == asio::error::operation_aborted);
    ++calls;
  };
  SECTION("async_acquire")
  {
    s.sends.async_acquire(asio::bind_cancellation_slot(signal.slot(), check));
  }
  SECTION("async_wait_all")
  {
    s.sends.async_wait_all(asio::bind_cancellation_slot(signal.slot(), check));
  }
  s.settle();
  CHECK(calls == 0);
  signal.emit(type);
  REQUIRE(run_until(s.io, [&] { return calls == 1; }));
  CHECK(s.sends.size() == 3);
  for (int i = 0; i < 3; ++i)
    s.receive();
  plain_record all;
  s.sends.async_wait_all(all.handler());
  REQUIRE(run_until(s.io, [&] { return all.done(); }));
  CHECK(all.ec == error_code());
}

TEST_CASE("a slot that is destroyed unused lets the next operation start")
{
  asio::io_context io;
  rdma::in_flight one(io, 1);
  std::optional<rdma::in_flight::slot> unused;
  one.async_acquire([&](error_code, rdma::in_flight::slot slot) { unused = std::move(slot); });
  REQUIRE(run_until(io, [&] { return unused.has_value(); }));
  int calls = 0;
  one.async_acquire(
    [&](error_code ec, rdma::in_flight::slot)
    {
      CHECK(ec == error_code());
      ++calls;
    });
  io.restart();
  io.poll();
  CHECK(calls == 0);
  unused.reset();
  REQUIRE(run_until(io, [&] { return calls == 1; }));
  CHECK(one.size() == 0);
}

TEST_CASE("an in_flight may be destroyed before its operations and its io_context")
{
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  asio::io_context io;
  rdma::queue_pair near(io, near_context);
  rdma::queue_pair far(io, far_context);
  connect(near, far);
  int started = 0;
  {
    rdma::in_flight sends(io, 2);
    for (int i = 0; i < 3; ++i)
      sends.async_acquire(
        [&](error_code, rdma::in_flight::slot slot)
        {
          near.async_send(rdma::no_data, std::move(slot));
          ++started;
        });
    REQUIRE(run_until(io, [&] { return started == 2; }));
  }
  SECTION("its operations complete")
  {
    for (int i = 0; i < 3; ++i)
      far.async_receive(rdma::no_data, [](error_code, std::size_t) {});
    REQUIRE(run_until(io, [&] { return started == 3; }));
    near.close();
    far.close();
    REQUIRE(run_out(io));
  }
  SECTION("the io_context is destroyed first") {}
}

TEST_CASE("in_flight takes nothing from the heap in steady state")
{
  linked_pair l;
  rdma::memory_region target(l.far_context, 64, exposed);
  rdma::registered_buffer buffer = buffer_of(l.near_context, "written.");
  rdma::in_flight writes(l.io, 4);
  std::size_t allocations = 1;
  const auto go = [&]() -> asio::awaitable<void>
  {
    std::optional<allocation_count> count;
    for (int i = 0; i < 2000; ++i)
    {
      if (i == 1000)
        count.emplace();
      auto slot = co_await writes.async_acquire(asio::use_awaitable);
      l.near.async_write(buffer, target.remote(), std::move(slot));
    }
    count->stop();
    allocations = count->value();
    co_await writes.async_wait_all(asio::use_awaitable);
    l.io.stop();
  };
  asio::co_spawn(l.io, go(), asio::detached);
  asio::steady_timer limit(l.io, patience);
  limit.async_wait([&](error_code) { l.io.stop(); });
  l.io.run();
  INFO(first_stack());
  CHECK(allocations == 0);
}
