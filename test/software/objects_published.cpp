//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/published_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <array>
#include <atomic>
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

namespace {

bool is_ready(const std::future<void>& result)
{
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

} // namespace

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

TEST_CASE("a prepared buffer is the program's from the call of the handler on")
{
  published_table p;
  p.publish(1);
  record<table*> prepared;
  p.owner.async_prepare(prepared.handler());
  CHECK_THROWS_AS(p.owner.commit(), rdma::system_error);
  const auto value = make_table(2);
  record<std::uint64_t> published;
  p.owner.async_publish(*value, published.handler());
  REQUIRE(run_until(p.io, [&] { return prepared.done() && published.done(); }));
  CHECK_FALSE(prepared.ec);
  CHECK(published.ec == asio::error::already_started);
  CHECK(published.value() == 1);
  CHECK(prepared.value() != &p.owner.value());
  CHECK(is_table(p.owner.value(), 1));
  *prepared.value() = *value;
  CHECK(p.owner.commit() == 2);
  CHECK(prepared.value() == &p.owner.value());
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

TEST_CASE("the end of a published value ends a publication in each of its stages")
{
  for (int turns = 0; turns != 16; ++turns)
  {
    linked_pair l;
    using object = rdma::published<std::uint64_t>;
    std::optional<object> owner(
      std::in_place, l.io, l.far_context, of_lease(std::chrono::milliseconds(1), 2));
    const auto remote = open<rdma::remote_published<std::uint64_t>>(l, owner->remote());
    record<rdma::published_snapshot<std::uint64_t>> held;
    remote.async_snapshot(held.handler());
    REQUIRE(run_until(l.io, [&] { return held.done(); }));
    const std::uint64_t value = 0;
    record<std::uint64_t> first;
    record<std::uint64_t> second;
    owner->async_publish(value, first.handler());
    REQUIRE(run_until(l.io, [&] { return first.done(); }));
    owner->async_publish(value, second.handler());
    for (int i = 0; i != turns && !second.done(); ++i)
      l.io.run_one(); // the owner ends the lease when it has passed
    owner.reset();
    REQUIRE(run_until(l.io, [&] { return second.done(); }));
    CHECK(second.value() == (second.ec ? 1 : 2));
  }
}

TEST_CASE("a publication may wait when its io_context is destroyed")
{
  std::optional<published_table> p(std::in_place, of_lease(never, 2));
  std::optional<table_snapshot> held(p->snapshot());
  const auto value = make_table(1);
  record<std::uint64_t> first;
  record<std::uint64_t> second;
  p->owner.async_publish(*value, first.handler());
  REQUIRE(run_until(p->io, [&] { return first.done(); }));
  p->owner.async_publish(*value, second.handler());
  held.reset(); // an I/O object, which its io_context must outlive
  p.reset();
  CHECK(second.calls == 0);
}

TEST_CASE("loads and snapshots are whole while another thread publishes")
{
  published_table p(of_lease(never, 2));
  const auto value = std::make_unique<table>();
  std::atomic<unsigned> reads{0};
  bool whole = true;
  bool ordered = true;
  const auto reader = [&]() -> asio::awaitable<void>
  {
    auto found = std::make_unique<table>();
    std::uint64_t newest = 0;
    const auto check = [&](std::uint64_t generation)
    {
      ++reads;
      whole = whole && is_table(*found, generation);
      ordered = ordered && generation >= newest;
      newest = generation;
    };
    while (reads < 10 || newest < 6)
    {
      check(co_await p.remote.async_load(*found, asio::use_awaitable));
      const table_snapshot snapshot = co_await p.remote.async_snapshot(asio::use_awaitable);
      co_await snapshot.async_read(*found, asio::use_awaitable);
      check(snapshot.generation());
    }
  };
  std::future<void> ended = asio::co_spawn(p.io, reader, asio::use_future);
  const auto work = asio::make_work_guard(p.io);
  std::thread running([&] { p.io.run(); });
  const auto limit = std::chrono::steady_clock::now() + patience;
  const auto reader_ends = [&]
  { return is_ready(ended) || std::chrono::steady_clock::now() > limit; };
  while (!reader_ends())
  {
    // A few publications during each read let the reader begin again, and end.
    const unsigned before = reads;
    for (int i = 0; i != 3; ++i)
    {
      value->number = p.owner.generation() + 1;
      value->words.fill(value->number);
      auto published = p.owner.async_publish(*value, asio::use_future);
      if (published.wait_until(limit) != std::future_status::ready)
        break;
      published.get();
    }
    while (reads == before && !reader_ends())
      std::this_thread::yield();
  }
  p.io.stop();
  running.join();
  REQUIRE(is_ready(ended));
  ended.get();
  CHECK(whole);
  CHECK(ordered);
}

} // namespace test::objects_published
