//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <functional>
#include <optional>

// In steady state no operation takes anything from the heap.

using namespace test;

namespace {

constexpr int warm_up = 200;
constexpr int counted = 500;

// Lets `round` run `warm_up` times, counts over the next `counted`, from inside handlers as in any
// program that runs for long: what Asio keeps per thread is kept while run() lasts.
struct counted_rounds
{
  int rounds = 0;
  std::optional<allocation_count> count;
  std::size_t allocations = 0;
  bool done = false;
  std::function<void()> stop;

  // At the end of each round; false when it was the last.
  bool next()
  {
    ++rounds;
    if (rounds == warm_up)
      count.emplace();
    if (rounds < warm_up + counted)
      return true;
    count->stop();
    allocations = count->value();
    done = true;
    stop();
    return false;
  }
};

// Runs io by run() itself: run_one() and run_for() begin each handler with what Asio keeps per
// thread empty.
bool run_through(asio::io_context& io, counted_rounds& rounds)
{
  asio::steady_timer limit(io, patience);
  limit.async_wait([&](error_code) { io.stop(); });
  rounds.stop = [&] { io.stop(); };
  io.restart();
  io.run();
  return rounds.done;
}

// A round of every hot operation, one after the other.
template <class QueuePair>
struct callback_rounds
{
  basic_link<QueuePair>& l;
  QueuePair& near = l.near;
  QueuePair& far = l.far;
  rdma::registered_buffer mine = l.near_context.allocate(4096);
  rdma::registered_buffer into = l.near_context.allocate(4096); // nothing else uses it meanwhile
  rdma::registered_buffer theirs = l.far_context.allocate(4096);
  rdma::memory_region target{l.far_context, 4096, exposed};
  rdma::remote_buffer remote = target.remote();
  bool atomics = missing(feature::atomics).empty();
  rdma::batch batch;
  counted_rounds rounds;
  int pending = 0;
  bool failed = false;

  explicit callback_rounds(basic_link<QueuePair>& link)
      : l(link)
  {
    batch.write(mine.first(100), remote).write(mine.slice(100, 1000), remote).send(mine.first(8));
  }

  auto ended()
  {
    return [this](error_code ec, auto...)
    {
      if (ec && !failed)
      {
        failed = true;
        UNSCOPED_INFO(ec.message());
      }
      if (--pending == 0 && rounds.next())
        start();
    };
  }

  void start()
  {
    pending = 7;
    far.async_receive(theirs.first(2048), ended());
    far.async_receive_message(theirs.slice(2048), ended());
    near.async_send(mine.first(64), ended());
    near.async_write(mine, remote, ended());
    near.async_read(into, remote, ended());
    if (atomics)
      near.async_fetch_add(remote, 1, ended());
    else
      near.async_write(mine.first(8), remote, ended());
    near.async_submit(batch, ended());
  }
};

rdma::queue_pair_options in_mode(asio::io_context& io, const rdma::context& context,
                                 rdma::completion_mode mode)
{
  rdma::queue_pair_options options;
  options.completions.emplace(io, context, rdma::completion_queue_options{.mode = mode});
  return options;
}

template <class QueuePair, class Rebuild>
void count_callbacks(rdma::completion_mode mode, Rebuild rebuild)
{
  basic_link<QueuePair> l;
  rebuild(l, mode);
  connect(l.near, l.far);
  callback_rounds<QueuePair> all(l);
  all.start();
  REQUIRE(run_through(l.io, all.rounds));
  CHECK_FALSE(all.failed);
  INFO(allocation_count::first());
  CHECK(all.rounds.allocations == 0);
}

} // namespace

TEST_CASE("operations with callbacks take nothing from the heap in steady state")
{
  const auto mode = GENERATE(rdma::completion_mode::event, rdma::completion_mode::adaptive,
                             rdma::completion_mode::busy_poll);
  CAPTURE(static_cast<int>(mode));
  SECTION("on any_io_executor")
  {
    count_callbacks<rdma::queue_pair>(
      mode,
      [](auto& l, auto m)
      {
        l.near = rdma::queue_pair(l.io, l.near_context, in_mode(l.io, l.near_context, m));
        l.far = rdma::queue_pair(l.io, l.far_context, in_mode(l.io, l.far_context, m));
      });
  }
  SECTION("on io_context::executor_type")
  {
    using queue_pair = rdma::basic_queue_pair<asio::io_context::executor_type>;
    count_callbacks<queue_pair>(
      mode,
      [](auto& l, auto m)
      {
        l.near = queue_pair(l.io, l.near_context, in_mode(l.io, l.near_context, m));
        l.far = queue_pair(l.io, l.far_context, in_mode(l.io, l.far_context, m));
      });
  }
  SECTION("on a strand")
  {
    count_callbacks<rdma::queue_pair>(
      mode,
      [](auto& l, auto m)
      {
        auto strand = asio::make_strand(l.io);
        l.near = rdma::queue_pair(strand, l.near_context, in_mode(l.io, l.near_context, m));
        l.far = rdma::queue_pair(strand, l.far_context, in_mode(l.io, l.far_context, m));
      });
  }
}

TEST_CASE("operations awaited by coroutines take nothing from the heap in steady state")
{
  const auto mode = GENERATE(rdma::completion_mode::event, rdma::completion_mode::adaptive,
                             rdma::completion_mode::busy_poll);
  CAPTURE(static_cast<int>(mode));
  linked_pair l;
  l.near = rdma::queue_pair(l.io, l.near_context, in_mode(l.io, l.near_context, mode));
  l.far = rdma::queue_pair(l.io, l.far_context, in_mode(l.io, l.far_context, mode));
  connect(l.near, l.far);
  counted_rounds rounds;
  auto serve = [&]() -> asio::awaitable<void>
  {
    rdma::registered_buffer buffer = l.far_context.allocate(4096);
    // One round more than there is: the end of a coroutine takes memory, and is not a round's.
    for (int i = 0; i < warm_up + counted + 1; ++i)
    {
      const std::size_t n = co_await l.far.async_receive(buffer, asio::use_awaitable);
      co_await l.far.async_send(buffer.first(n), asio::use_awaitable);
    }
  };
  auto ask = [&]() -> asio::awaitable<void>
  {
    rdma::registered_buffer buffer = l.near_context.allocate(4096);
    rdma::memory_region target(l.far_context, 4096, exposed);
    const rdma::remote_buffer remote = target.remote();
    do
    {
      co_await l.near.async_send(buffer.first(1000), asio::use_awaitable);
      co_await l.near.async_receive(buffer, asio::use_awaitable);
      co_await l.near.async_write(buffer, remote, asio::use_awaitable);
      co_await l.near.async_read(buffer, remote, asio::use_awaitable);
    } while (rounds.next());
  };
  asio::co_spawn(l.io, serve(), asio::detached);
  asio::co_spawn(l.io, ask(), asio::detached);
  REQUIRE(run_through(l.io, rounds));
  INFO(allocation_count::first());
  CHECK(rounds.allocations == 0);
}

TEST_CASE("operations that wait for room take nothing from the heap in steady state")
{
  rdma::queue_pair_options shallow;
  shallow.send_depth = 4;
  shallow.receive_depth = 4;
  linked_pair l(shallow, shallow);
  counted_rounds rounds;
  int pending = 0;
  bool failed = false;
  rdma::registered_buffer mine = l.near_context.allocate(64);
  rdma::registered_buffer theirs = l.far_context.allocate(64);
  std::function<void()> start = [&]
  {
    auto ended = [&](error_code ec, std::size_t)
    {
      if (ec && !failed)
      {
        failed = true;
        UNSCOPED_INFO(ec.message());
      }
      if (--pending == 0 && rounds.next())
        start();
    };
    pending = 64;
    for (int i = 0; i < 32; ++i)
    {
      l.far.async_receive(theirs, ended);
      l.near.async_send(mine, ended);
    }
  };
  start();
  REQUIRE(run_through(l.io, rounds));
  CHECK_FALSE(failed);
  INFO(allocation_count::first());
  CHECK(rounds.allocations == 0);
}

TEST_CASE("taking a buffer from the pool and giving it back takes nothing from the heap")
{
  rdma::context context = make_context();
  auto round = [&]
  {
    rdma::registered_buffer a = context.allocate(100);
    rdma::registered_buffer b = context.allocate(5000);
  };
  round();
  allocation_count count;
  for (int i = 0; i < 100; ++i)
    round();
  count.stop();
  CHECK(count.value() == 0);
}
