//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/stream.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <utility>
#include <vector>

// Tests that no operation allocates from the heap in steady state.

using namespace test;

namespace {

const int warm_up = emulated() ? 50 : 200;
const int counted = emulated() ? 100 : 500;

// Runs `round` `warm_up` times and then counts allocations over the next `counted` rounds. All
// rounds start inside handlers, as in a long-running program: Asio's memory cache per thread exists
// only while run() is active.
struct counted_rounds
{
  int rounds = 0;
  std::optional<allocation_count> count;
  std::size_t allocations = 0;
  bool done = false;
  std::function<void()> stop;

  // Ends a round; returns false if it was the last one.
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

// Runs io by run(): run_one() and run_for() start each handler with an empty memory cache.
bool run_through(asio::io_context& io, counted_rounds& rounds)
{
  asio::steady_timer limit(io, patience);
  limit.async_wait([&](error_code) { io.stop(); });
  rounds.stop = [&] { io.stop(); };
  io.restart();
  io.run();
  return rounds.done;
}

// A round of every operation that the device supports.
template <class QueuePair>
struct callback_rounds
{
  basic_link<QueuePair>& l;
  QueuePair& near = l.near;
  QueuePair& far = l.far;
  rdma::registered_buffer mine = l.near_context.allocate(4096);
  rdma::registered_buffer into = l.near_context.allocate(4096); // used by the read only
  rdma::registered_buffer theirs = l.far_context.allocate(4096);
  rdma::memory_region target{l.far_context, 4096, exposed};
  rdma::memory_region behind_windows{
    l.far_context, 64, rdma::access::local_write | rdma::access::window_bind};
  rdma::remote_buffer remote = target.remote();
  bool atomics = has(feature::atomics);
  bool windows = has(feature::memory_windows);
  bool immediate_writes = has(feature::write_with_immediate);
  std::optional<rdma::memory_window> peer_invalidates;
  std::optional<rdma::memory_window> owner_invalidates;
  rdma::batch batch;
  rdma::batch writes;
  counted_rounds rounds;
  int pending = 0;
  int receives = 0;
  bool failed = false;

  explicit callback_rounds(basic_link<QueuePair>& link)
    : l(link)
  {
    batch.write(mine.first(100), remote).write(mine.slice(100, 1000), remote).send(mine.first(8));
    for (int i = 0; i < 3; ++i)
      writes.write(mine.first(8), remote);
    if (!windows)
      return;
    peer_invalidates.emplace(l.far_context);
    owner_invalidates.emplace(l.far_context);
  }

  void note(error_code ec)
  {
    if (ec && !failed)
    {
      failed = true;
      UNSCOPED_INFO(ec.message());
    }
  }

  void finish_one()
  {
    if (--pending == 0 && rounds.next())
      start();
  }

  // Counted at creation: no handler is called before start() returns.
  auto ended()
  {
    ++pending;
    return [this](error_code ec, auto...)
    {
      note(ec);
      finish_one();
    };
  }

  void receive()
  {
    const rdma::mutable_buffer place =
      theirs.slice(512 * static_cast<std::size_t>(receives++), 512);
    if (receives % 2 == 0)
      far.async_receive(place, ended());
    else
      far.async_receive_message(place, ended());
  }

  void start()
  {
    // A slot allocates memory for a batch when it first receives one, and batches get arbitrary
    // slots. The first round therefore submits more batches than any other round has operations.
    if (rounds.rounds == 0)
    {
      for (int i = 0; i < 32; ++i)
        near.async_submit(writes, ended());
      return;
    }
    receives = 0;
    receive();
    near.async_send(mine.first(64), ended());
    receive();
    near.async_send(mine.first(64), asio::deferred)(ended());
    receive();
    near.async_send_with_immediate(mine.first(64), 7, ended());
    near.async_write(mine, remote, ended());
    near.async_read(into, remote, ended());
    receive();
    if (immediate_writes)
      near.async_write_with_immediate(mine.first(300), remote, 8, ended());
    else
      near.async_send(rdma::no_data, ended());
    receive();
    near.async_submit(batch, ended());
    if (atomics)
    {
      near.async_fetch_add(remote, 1, ended());
      near.async_compare_exchange(remote, 1, 2, ended());
    }
    if (windows)
      open_windows();
  }

  void open_windows()
  {
    pending += 2;
    far.async_bind_window(*peer_invalidates, behind_windows, rdma::access::remote_read,
      [this](error_code ec, const rdma::remote_buffer&)
      {
        note(ec);
        receive();
        near.async_send_with_invalidate(mine.first(8), peer_invalidates->key(), ended());
        finish_one();
      });
    far.async_bind_window(*owner_invalidates, behind_windows, rdma::access::remote_read,
      [this](error_code ec, const rdma::remote_buffer&)
      {
        note(ec);
        far.async_invalidate(owner_invalidates->key(), asio::deferred)(ended());
        finish_one();
      });
  }
};

rdma::queue_pair_options in_mode(
  asio::io_context& io, const rdma::context& context, rdma::completion_mode mode)
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
  INFO(first_stack());
  CHECK(all.rounds.allocations == 0);
}

} // namespace

TEST_CASE("operations with callbacks allocate nothing in steady state")
{
  const auto mode = GENERATE(rdma::completion_mode::event, rdma::completion_mode::adaptive,
    rdma::completion_mode::busy_poll);
  CAPTURE(static_cast<int>(mode));
  SECTION("on any_io_executor")
  {
    count_callbacks<rdma::queue_pair>(mode,
      [](auto& l, auto m)
      {
        l.near = rdma::queue_pair(l.io, l.near_context, in_mode(l.io, l.near_context, m));
        l.far = rdma::queue_pair(l.io, l.far_context, in_mode(l.io, l.far_context, m));
      });
  }
  SECTION("on io_context::executor_type")
  {
    using queue_pair = rdma::basic_queue_pair<asio::io_context::executor_type>;
    count_callbacks<queue_pair>(mode,
      [](auto& l, auto m)
      {
        l.near = queue_pair(l.io, l.near_context, in_mode(l.io, l.near_context, m));
        l.far = queue_pair(l.io, l.far_context, in_mode(l.io, l.far_context, m));
      });
  }
  SECTION("on a strand")
  {
    count_callbacks<rdma::queue_pair>(mode,
      [](auto& l, auto m)
      {
        auto strand = asio::make_strand(l.io);
        l.near = rdma::queue_pair(strand, l.near_context, in_mode(l.io, l.near_context, m));
        l.far = rdma::queue_pair(strand, l.far_context, in_mode(l.io, l.far_context, m));
      });
  }
}

TEST_CASE("operations on a polled completion queue allocate nothing in steady state")
{
  linked_pair l;
  constexpr auto manual = rdma::completion_mode::manual;
  const rdma::queue_pair_options near_options = in_mode(l.io, l.near_context, manual);
  const rdma::queue_pair_options far_options = in_mode(l.io, l.far_context, manual);
  l.near = rdma::queue_pair(l.io, l.near_context, near_options);
  l.far = rdma::queue_pair(l.io, l.far_context, far_options);
  connect(l.near, l.far);
  rdma::completion_queue near_queue = *near_options.completions;
  rdma::completion_queue far_queue = *far_options.completions;
  callback_rounds<rdma::queue_pair> all(l);
  std::function<void()> poll = [&]
  {
    near_queue.poll();
    far_queue.poll();
    asio::post(l.io, [&] { poll(); }); // until run() is stopped
  };
  asio::post(l.io, [&] { poll(); });
  all.start();
  REQUIRE(run_through(l.io, all.rounds));
  CHECK_FALSE(all.failed);
  INFO(first_stack());
  CHECK(all.rounds.allocations == 0);
}

TEST_CASE("receives of a shared receive queue allocate nothing in steady state")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  const auto mode = GENERATE(rdma::completion_mode::event, rdma::completion_mode::adaptive,
    rdma::completion_mode::busy_poll);
  CAPTURE(static_cast<int>(mode));
  asio::io_context io;
  rdma::context context = make_context();
  rdma::shared_receive_queue_options few;
  few.depth = 4; // so that some receives wait for a free slot
  few.completions.emplace(io, context, rdma::completion_queue_options{.mode = mode});
  rdma::shared_receive_queue queue(io, context, few);
  rdma::queue_pair_options sharing;
  sharing.receive_from(queue);
  rdma::queue_pair a(io, context, sharing);
  rdma::queue_pair b(io, context, sharing);
  rdma::queue_pair peer_a(io, context, in_mode(io, context, mode));
  rdma::queue_pair peer_b(io, context, in_mode(io, context, mode));
  connect(a, peer_a);
  connect(b, peer_b);
  rdma::registered_buffer mine = context.allocate(64);
  rdma::registered_buffer theirs = context.allocate(8 * 64);
  counted_rounds rounds;
  int pending = 0;
  bool failed = false;
  std::function<void()> start = [&]
  {
    auto ended = [&](error_code ec, auto...)
    {
      failed = failed || ec;
      if (--pending == 0 && rounds.next())
        start();
    };
    pending = 16;
    for (std::size_t i = 0; i < 8; ++i)
    {
      queue.async_receive_message(theirs.slice(64 * i, 64), ended);
      (i % 2 == 0 ? peer_a : peer_b).async_send(mine, ended);
    }
  };
  start();
  REQUIRE(run_through(io, rounds));
  CHECK_FALSE(failed);
  INFO(first_stack());
  CHECK(rounds.allocations == 0);
}

TEST_CASE("operations awaited by coroutines allocate nothing in steady state")
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
    // One message more than needed: the end of a coroutine allocates and must not be part of a
    // round.
    for (int i = 0; i < 2 * (warm_up + counted) + 1; ++i)
    {
      const std::size_t n = co_await l.far.async_receive(buffer, asio::use_awaitable);
      co_await l.far.async_send(buffer.first(n), asio::use_awaitable);
    }
  };
  auto ask = [&]() -> asio::awaitable<void>
  {
    const bool atomics = has(feature::atomics);
    const bool windows = has(feature::memory_windows);
    rdma::registered_buffer buffer = l.near_context.allocate(4096);
    rdma::memory_region target(l.far_context, 4096, exposed);
    const rdma::remote_buffer remote = target.remote();
    rdma::memory_region behind_window(
      l.near_context, 64, rdma::access::local_write | rdma::access::window_bind);
    std::optional<rdma::memory_window> window;
    if (windows)
      window.emplace(l.near_context);
    rdma::batch batch;
    batch.write(buffer.first(1000), remote).write(buffer.slice(1000), remote);
    do
    {
      co_await l.near.async_send(buffer.first(1000), asio::use_awaitable);
      co_await l.near.async_receive(buffer, asio::use_awaitable);
      co_await l.near.async_write(buffer, remote, asio::use_awaitable);
      co_await l.near.async_read(buffer, remote, asio::use_awaitable);
      co_await l.near.async_submit(batch, asio::use_awaitable);
      co_await l.near.async_send_with_immediate(buffer.first(8), 7, asio::deferred);
      co_await l.near.async_receive_message(buffer, asio::deferred);
      if (atomics)
      {
        co_await l.near.async_fetch_add(remote, 1, asio::use_awaitable);
        co_await l.near.async_compare_exchange(remote, 1, 2, asio::deferred);
      }
      if (windows)
      {
        co_await l.near.async_bind_window(
          *window, behind_window, rdma::access::remote_read, asio::use_awaitable);
        co_await l.near.async_invalidate(window->key(), asio::use_awaitable);
      }
    } while (rounds.next());
  };
  asio::co_spawn(l.io, serve(), asio::detached);
  asio::co_spawn(l.io, ask(), asio::detached);
  REQUIRE(run_through(l.io, rounds));
  INFO(first_stack());
  CHECK(rounds.allocations == 0);
}

TEST_CASE("reads and writes of a stream allocate nothing in steady state")
{
  const std::size_t size = GENERATE(64u, 4096u, 100'000u);
  linked_pair l;
  rdma::stream near(std::move(l.near));
  rdma::stream far(std::move(l.far));
  counted_rounds rounds;
  const auto serve = [&]() -> asio::awaitable<void>
  {
    std::vector<char> bytes(size);
    for (int i = 0; i < warm_up + counted + 1; ++i) // one more: see above
    {
      co_await asio::async_read(far, asio::buffer(bytes), asio::use_awaitable);
      co_await asio::async_write(far, asio::buffer(bytes), asio::use_awaitable);
    }
  };
  const auto ask = [&]() -> asio::awaitable<void>
  {
    std::vector<char> bytes(size);
    do
    {
      co_await asio::async_write(near, asio::buffer(bytes), asio::use_awaitable);
      co_await asio::async_read(near, asio::buffer(bytes), asio::use_awaitable);
    } while (rounds.next());
  };
  asio::co_spawn(l.io, serve(), asio::detached);
  asio::co_spawn(l.io, ask(), asio::detached);
  REQUIRE(run_through(l.io, rounds));
  INFO(first_stack());
  CHECK(rounds.allocations == 0);
}

TEST_CASE("calls of methods allocate nothing in steady state")
{
  // A heartbeat, of which there is one in a second, allocates.
  rdma::rpc::server_options of_server;
  rdma::rpc::client_options of_client;
  of_server.acceptor.queue_pair.heartbeat_limit = std::chrono::milliseconds::zero();
  of_client.queue_pair.heartbeat_limit = std::chrono::milliseconds::zero();
  rpc_pair p(of_server, of_client);
  p.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  p.start();
  counted_rounds rounds;
  bool failed = false;
  const std::function<void()> start = [&]
  {
    p.client.async_call<add>({1, 2},
      [&](error_code ec, std::int32_t sum)
      {
        failed = failed || ec || sum != 3;
        if (rounds.next())
          start();
      });
  };
  start();
  REQUIRE(run_through(p.io, rounds));
  CHECK_FALSE(failed);
  INFO(first_stack());
  CHECK(rounds.allocations == 0);
}

TEST_CASE("use_future allocates the promise and Asio's pointer to it, and nothing else")
{
  const std::size_t of_promise = allocations_of_each(
    []
    {
      std::promise<std::size_t> promise;
      std::future<std::size_t> future = promise.get_future();
      promise.set_value(1);
      future.get();
    });
  linked_pair l;
  rdma::registered_buffer mine = l.near_context.allocate(64);
  rdma::memory_region target(l.far_context, 64, exposed);
  const rdma::remote_buffer remote = target.remote();
  counted_rounds rounds;
  std::future<std::size_t> written;
  bool failed = false;
  std::function<void()> start = [&]
  {
    written = l.near.async_write(mine, remote, asio::use_future);
    l.near.async_write(mine, remote,
      [&](error_code ec, std::size_t)
      {
        // The first write has completed before, so that this does not wait.
        failed = failed || ec || written.get() != mine.size();
        if (rounds.next())
          start();
      });
  };
  start();
  REQUIRE(run_through(l.io, rounds));
  CHECK_FALSE(failed);
  CHECK(rounds.allocations == static_cast<std::size_t>(counted) * (of_promise + 1));
}

TEST_CASE("operations that wait for a free slot allocate nothing in steady state")
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
  rdma::memory_region target(l.far_context, 64, exposed);
  rdma::batch three;
  rdma::batch nine; // in parts
  for (std::size_t i = 0; i < 9; ++i)
  {
    nine.write(mine.first(8), target.remote());
    if (i < 3)
      three.write(mine.first(8), target.remote());
  }
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
    // Every slot of the near side has made room for the larger batch after the first rounds.
    if (rounds.rounds == 0)
    {
      pending = 48;
      for (int i = 0; i < 48; ++i)
        l.near.async_submit(nine, ended);
      return;
    }
    pending = 20;
    for (int i = 0; i < 8; ++i)
    {
      l.far.async_receive(theirs, ended);
      l.near.async_send(mine, ended);
      if (i % 4 != 0)
        continue;
      l.near.async_submit(three, ended);
      l.near.async_submit(nine, ended);
    }
  };
  start();
  REQUIRE(run_through(l.io, rounds));
  CHECK_FALSE(failed);
  INFO(first_stack());
  CHECK(rounds.allocations == 0);
}

TEST_CASE("allocating and freeing a pool buffer takes nothing from the heap")
{
  rdma::context context = make_context();
  const auto rounds = [&]
  {
    for (int i = 0; i < 100; ++i)
    {
      rdma::registered_buffer a = context.allocate(100);
      rdma::registered_buffer b = context.allocate(5000);
    }
  };
  rounds();
  const std::size_t taken = allocations_of_each(rounds);
  INFO(first_stack());
  CHECK(taken == 0);
}
