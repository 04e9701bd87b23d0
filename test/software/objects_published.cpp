//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/published_fixture.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace test::objects_published {

// Tests published values through one connection. published_history_test.cpp simulates many
// processes.

TEST_CASE("a published value is zeros until the first publication")
{
  published_table p;
  CHECK(p.owner.generation() == 0);
  CHECK(is_table(p.owner.value(), 0));
  CHECK(p.remote.buffers() == 3);
  CHECK(p.remote.lease() == std::chrono::seconds(1));
  auto found = make_table(7);
  record<std::uint64_t> r;
  p.remote.async_load(*found, r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK_FALSE(r.ec);
  CHECK(r.value() == 0);
  CHECK(is_table(*found, 0));
}

TEST_CASE("a peer loads the value that was published last")
{
  published_table p;
  rdma::memory_region registered(p.near_context, sizeof(table));
  auto plain = std::make_unique<table>();
  for (std::uint64_t i = 1; i != 8; ++i)
  {
    p.publish(i);
    CHECK(p.owner.generation() == i);
    CHECK(is_table(p.owner.value(), i));
    record<std::uint64_t> r;
    if (i % 2 == 0)
      p.remote.async_load(*plain, r.handler());
    else
      p.remote.async_load(registered, r.handler());
    REQUIRE(run_until(p.io, [&] { return r.done(); }));
    REQUIRE_FALSE(r.ec);
    CHECK(r.value() == i);
    CHECK(is_table(i % 2 == 0 ? *plain : *registered.as<table>(), i));
  }
}

TEST_CASE("a prepared buffer is published by commit")
{
  published_table p;
  CHECK_THROWS_AS(p.owner.commit(), rdma::system_error);
  p.publish(1);
  record<table*> r;
  p.owner.async_prepare(r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  REQUIRE_FALSE(r.ec);
  table* const next = r.value();
  *next = p.owner.value();
  next->words[5] = 500;
  CHECK(p.snapshot().generation() == 1);
  p.owner.async_prepare(r.handler());
  REQUIRE(run_until(p.io, [&] { return r.calls == 2; }));
  CHECK(r.value() == next);
  CHECK(p.owner.commit() == 2);
  const table_snapshot snapshot = p.snapshot();
  CHECK(snapshot.generation() == 2);
  std::array<std::uint64_t, 2> part{};
  CHECK_FALSE(p.result_of(
    [&](auto h) { snapshot.async_read(offsetof(table, words) + 32, std::span(part), h); }));
  CHECK(part == std::array<std::uint64_t, 2>{1, 500});
  CHECK_THROWS_AS(p.owner.commit(), rdma::system_error);
}

TEST_CASE("async_open of a published value fails for other memory")
{
  published_table p;
  const auto fails = [&]<class Object>(
                       std::type_identity<Object>, const rdma::remote_buffer& memory)
  {
    record<Object> r;
    Object::async_open(p.near, memory, r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(p.io, [&] { return r.done(); }));
    return r.ec;
  };
  struct other
  {
    std::array<std::uint32_t, 600'002> values; // the same size
  };
  static_assert(sizeof(other) == sizeof(table));
  using right = std::type_identity<remote_table>;
  CHECK(fails(std::type_identity<rdma::remote_published<other>>(), p.owner.remote())
    == rdma::error::object_mismatch);
  rdma::memory_region zeros(p.far_context, 4096, exposed);
  CHECK(fails(right(), zeros.remote()) == rdma::error::object_mismatch);
  CHECK(fails(right(), zeros.remote().slice(4)) == rdma::error::misaligned);
  const auto all = p.owner.remote();
  CHECK(fails(right(), all.first(all.size() - 1)) == rdma::error::remote_range_too_small);
  CHECK(fails(right(), all.first(63)) == rdma::error::remote_range_too_small);
  CHECK_FALSE(fails(right(), all));
}

TEST_CASE("options of a published value that are out of range are refused")
{
  asio::io_context io;
  rdma::context context = make_context();
  const auto refused = [&](auto change)
  {
    rdma::published_options options;
    change(options);
    try
    {
      const rdma::published<std::uint64_t> made(io, context, options);
      return false;
    }
    catch (const rdma::system_error& e)
    {
      return e.code() == asio::error::invalid_argument;
    }
  };
  CHECK(refused([](auto& o) { o.buffers = 1; }));
  CHECK(refused([](auto& o) { o.buffers = 256; }));
  CHECK(refused([](auto& o) { o.snapshots = 0; }));
  CHECK(refused([](auto& o) { o.snapshots = 4097; }));
  CHECK(refused([](auto& o) { o.lease = std::chrono::milliseconds(0); }));
  CHECK(refused([](auto& o) { o.lease = std::chrono::hours(25); }));
  CHECK_FALSE(refused([](auto& o) { o.buffers = 255; }));
}

TEST_CASE("operations on a published value without a queue pair complete with closed")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::memory_region memory(context, 4096, exposed);
  record<remote_table> r;
  remote_table::async_open(
    rdma::queue_pair(io.get_executor(), nullptr), memory.remote(), r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::closed);
  record<table_snapshot> taken;
  r.value().async_snapshot(taken.handler());
  CHECK_FALSE(taken.done());
  REQUIRE(run_until(io, [&] { return taken.done(); }));
  CHECK(taken.ec == rdma::error::closed);
}

TEST_CASE("the end of the connection ends the operations of a reader")
{
  published_table p;
  const table_snapshot snapshot = p.snapshot();
  auto whole = std::make_unique<table>();
  record<std::uint64_t> loaded;
  plain_record read;
  p.remote.async_load(*whole, loaded.handler());
  std::uint64_t word = 0;
  snapshot.async_read(0, std::span(&word, 1), read.handler());
  p.near.close();
  REQUIRE(run_until(p.io, [&] { return loaded.done() && read.done(); }));
  CHECK(loaded.ec);
  CHECK(read.ec);
}

TEST_CASE("cancelled operations of a published value have no effect or are complete")
{
  published_table p(of_lease(never, 2));
  for (int i = 0; i != 12; ++i)
  {
    asio::cancellation_signal signal;
    record<table_snapshot> r;
    p.remote.async_snapshot(asio::bind_cancellation_slot(signal.slot(), r.handler()));
    for (int turns = 0; turns != i && !r.done(); ++turns)
      p.io.poll_one();
    signal.emit(asio::cancellation_type::total);
    REQUIRE(run_until(p.io, [&] { return r.done(); }));
    CHECK((!r.ec || r.ec == asio::error::operation_aborted));
    CHECK(bool(r.value()) == !r.ec);
  }
  p.publish(1);
  p.publish(2); // no snapshot was left

  const table_snapshot held = p.snapshot();
  p.publish(3);
  asio::cancellation_signal signal;
  record<std::uint64_t> publication;
  const auto value = make_table(4);
  p.owner.async_publish(*value, asio::bind_cancellation_slot(signal.slot(), publication.handler()));
  const table_snapshot other = p.snapshot();
  CHECK_FALSE(publication.done());
  signal.emit(asio::cancellation_type::total);
  REQUIRE(run_until(p.io, [&] { return publication.done(); }));
  CHECK(publication.ec == asio::error::operation_aborted);
  CHECK(publication.value() == 3);
  CHECK(p.owner.generation() == 3);
}

TEST_CASE("the end of a published value ends an operation that waits")
{
  published_table p(of_lease(never, 2));
  const table_snapshot held = p.snapshot();
  p.publish(1);
  record<table*> r;
  std::optional<rdma::published<table>> owner(std::move(p.owner));
  owner->async_prepare(r.handler());
  const table_snapshot other = p.snapshot();
  CHECK_FALSE(r.done());
  owner.reset();
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
  CHECK(r.value() == nullptr);
}

TEST_CASE("loads and snapshots are whole while another thread publishes")
{
  published_table p(of_lease(never, 2));
  const auto value = std::make_unique<table>();
  std::size_t loads = 0;
  std::size_t reads = 0;
  bool whole = true;
  bool ordered = true;
  const auto reader = [&]() -> asio::awaitable<void>
  {
    auto found = std::make_unique<table>();
    std::uint64_t newest = 0;
    const auto check = [&](std::uint64_t generation)
    {
      whole = whole && is_table(*found, generation);
      ordered = ordered && generation >= newest;
      newest = generation;
    };
    while (loads < 20 || reads < 20 || newest < 20)
    {
      const auto [ec, generation] =
        co_await p.remote.async_load(*found, asio::as_tuple(asio::use_awaitable));
      if (!ec)
      {
        ++loads;
        check(generation);
      }
      const table_snapshot snapshot = co_await p.remote.async_snapshot(asio::use_awaitable);
      co_await snapshot.async_read(*found, asio::use_awaitable);
      ++reads;
      check(snapshot.generation());
    }
  };
  std::future<void> ended = asio::co_spawn(p.io, reader, asio::use_future);
  const auto work = asio::make_work_guard(p.io);
  std::thread running([&] { p.io.run(); });
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (ended.wait_for(std::chrono::seconds(0)) != std::future_status::ready
    && std::chrono::steady_clock::now() < limit)
  {
    value->number = p.owner.generation() + 1;
    value->words.fill(value->number);
    p.owner.async_publish(*value, asio::use_future).get();
  }
  p.io.stop();
  running.join();
  REQUIRE(ended.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  ended.get();
  CHECK(whole);
  CHECK(ordered);
}

} // namespace test::objects_published
