//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/published_fixture.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace test::objects_snapshots {

// Tests snapshots of published values through one connection.

TEST_CASE("a snapshot keeps its value while others are published")
{
  published_table p(of_lease(never));
  p.publish(1);
  table_snapshot snapshot = p.snapshot();
  REQUIRE(snapshot);
  for (std::uint64_t i = 2; i != 9; ++i)
    p.publish(i);
  CHECK(snapshot.generation() == 1);
  auto whole = std::make_unique<table>();
  CHECK_FALSE(p.result_of([&](auto h) { snapshot.async_read(*whole, h); }));
  CHECK(is_table(*whole, 1));
  std::array<std::uint64_t, 3> part{};
  CHECK_FALSE(p.result_of(
    [&](auto h) { snapshot.async_read(sizeof(table) - sizeof part, std::span(part), h); }));
  CHECK(part == std::array<std::uint64_t, 3>{1, 1, 1});
  const table_snapshot later = p.snapshot();
  CHECK(later.generation() == 8);
  CHECK_FALSE(p.result_of([&](auto h) { later.async_read(*whole, h); }));
  CHECK(is_table(*whole, 8));
}

TEST_CASE("a part that is not inside the value cannot be read")
{
  published_table p;
  const table_snapshot snapshot = p.snapshot();
  std::array<std::uint64_t, 2> part{};
  const auto read = [&](std::uint64_t offset, std::size_t words)
  {
    return p.result_of(
      [&](auto h) { snapshot.async_read(offset, std::span(part).first(words), h); });
  };
  CHECK_FALSE(read(sizeof(table) - 16, 2));
  CHECK(read(sizeof(table) - 8, 2) == rdma::error::out_of_range);
  CHECK(read(UINT64_MAX, 2) == rdma::error::out_of_range);
  CHECK(read(0, 0) == rdma::error::empty_buffer);
  record<std::uint64_t> r;
  p.remote.async_load(rdma::mutable_buffer(std::span(part)), r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::wrong_size);
}

TEST_CASE("a publication waits until a snapshot is released")
{
  const bool destroys = GENERATE(false, true);
  published_table p(of_lease(never, 2));
  table_snapshot snapshot = p.snapshot();
  p.publish(1);
  const auto value = make_table(2);
  record<std::uint64_t> r;
  p.owner.async_publish(*value, r.handler());
  const table_snapshot other = p.snapshot();
  CHECK_FALSE(r.done());
  CHECK(other.generation() == 1);
  record<std::uint64_t> second;
  p.owner.async_publish(*value, second.handler());
  REQUIRE(run_until(p.io, [&] { return second.done(); }));
  CHECK(second.ec == asio::error::already_started);
  CHECK_THROWS_AS(p.owner.commit(), rdma::system_error);
  if (destroys)
    snapshot = {};
  else
  {
    CHECK_FALSE(p.result_of([&](auto h) { snapshot.async_release(h); }));
    std::uint64_t word = 0;
    CHECK(p.result_of([&](auto h) { snapshot.async_read(0, std::span(&word, 1), h); })
      == rdma::error::lease_ended);
    CHECK(p.result_of([&](auto h) { snapshot.async_renew(h); }) == rdma::error::lease_ended);
  }
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK_FALSE(r.ec);
  CHECK(r.value() == 2);
}

TEST_CASE("a snapshot that is not renewed ends when its buffer is needed")
{
  published_table p(of_lease(std::chrono::milliseconds(20), 2));
  table_snapshot snapshot = p.snapshot();
  CHECK(snapshot.expires_at() > std::chrono::steady_clock::now() - patience);
  std::uint64_t word = 1;
  for (std::uint64_t i = 1; i != 4; ++i)
    p.publish(i);
  CHECK(snapshot.expires_at() <= std::chrono::steady_clock::now());
  const auto read = [&](auto h) { snapshot.async_read(0, std::span(&word, 1), h); };
  CHECK(p.result_of(read) == rdma::error::lease_ended);
  CHECK(p.result_of([&](auto h) { snapshot.async_renew(h); }) == rdma::error::lease_ended);
  snapshot = p.snapshot();
  CHECK_FALSE(p.result_of(read));
  CHECK(word == 3);
}

TEST_CASE("a renewed snapshot outlives its first lease")
{
  published_table p(of_lease(std::chrono::milliseconds(200), 2));
  table_snapshot snapshot = p.snapshot();
  const auto first_end = snapshot.expires_at();
  p.publish(1);
  const auto value = make_table(2);
  record<std::uint64_t> r;
  p.owner.async_publish(*value, r.handler());
  bool kept = true;
  while (kept && std::chrono::steady_clock::now() < first_end + std::chrono::milliseconds(200))
  {
    const auto before = snapshot.expires_at();
    kept = !p.result_of([&](auto h) { snapshot.async_renew(h); });
    // On a busy machine a lease may end between two renewals.
    if (kept ? snapshot.expires_at() <= before : std::chrono::steady_clock::now() < before)
      FAIL("a lease ended early or was not renewed");
    if (r.done() && kept)
      FAIL("the buffer of a snapshot was reused");
  }
  snapshot = {};
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK_FALSE(r.ec);
}

TEST_CASE("concurrent renewals, reads and the release of a snapshot work")
{
  published_table p(of_lease(never));
  p.publish(1);
  table_snapshot snapshot = p.snapshot();
  std::array<plain_record, 8> renewals;
  std::array<plain_record, 8> reads;
  std::array<std::uint64_t, 8> words{};
  for (std::size_t i = 0; i != renewals.size(); ++i)
  {
    snapshot.async_renew(renewals[i].handler());
    snapshot.async_read(8 * i, std::span(&words[i], 1), reads[i].handler());
  }
  const auto done = [](const auto& each) { return each.done(); };
  REQUIRE(run_until(
    p.io, [&] { return std::ranges::all_of(renewals, done) && std::ranges::all_of(reads, done); }));
  for (std::size_t i = 0; i != renewals.size(); ++i)
  {
    CHECK_FALSE(renewals[i].ec);
    CHECK_FALSE(reads[i].ec);
    CHECK(words[i] == 1);
  }
  plain_record renewal, release;
  snapshot.async_renew(renewal.handler());
  snapshot.async_release(release.handler());
  REQUIRE(run_until(p.io, [&] { return renewal.done() && release.done(); }));
  CHECK_FALSE(release.ec);
}

TEST_CASE("a read keeps the snapshot whose handle is destroyed")
{
  published_table p(of_lease(never, 2));
  p.publish(1);
  auto whole = std::make_unique<table>();
  plain_record r;
  p.snapshot().async_read(*whole, r.handler());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK_FALSE(r.ec);
  CHECK(is_table(*whole, 1));
  p.publish(2);
  p.publish(3); // waits until the snapshot has been freed
}

TEST_CASE("slots of snapshots that nobody renews are used again")
{
  rdma::published_options options = of_lease(std::chrono::milliseconds(20));
  options.snapshots = 2;
  published_table p(options);
  std::array<std::optional<table_snapshot>, 2> held;
  for (auto& each : held)
    each = p.snapshot();
  const table_snapshot another = p.snapshot(); // waits for the end of a lease
  std::uint64_t word = 1;
  CHECK_FALSE(p.result_of([&](auto h) { another.async_read(0, std::span(&word, 1), h); }));
  CHECK(std::ranges::any_of(held,
    [&](auto& each)
    {
      return p.result_of([&](auto h) { each->async_read(0, std::span(&word, 1), h); })
        == rdma::error::lease_ended;
    }));
}

TEST_CASE("async_snapshot fails with object_full while all slots are renewed")
{
  rdma::published_options options = of_lease(std::chrono::milliseconds(500));
  options.snapshots = 1;
  published_table p(options);
  table_snapshot held = p.snapshot();
  record<table_snapshot> r;
  p.remote.async_snapshot(r.handler());
  bool kept = true;
  while (kept && !r.done())
    kept = !p.result_of([&](auto h) { held.async_renew(h); });
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  // On a busy machine a lease may end between two renewals.
  CHECK(r.ec == (kept ? make_error_code(rdma::error::object_full) : error_code()));
  CHECK(bool(r.value()) == !kept);
}

TEST_CASE("a peer with the right to read only can load and take no snapshot")
{
  published_table p;
  const auto all = p.owner.remote();
  auto reader = open<remote_table>(
    p, rdma::remote_buffer(all.address(), all.size(), all.keys(), rdma::access::remote_read));
  record<table_snapshot> r;
  reader.async_snapshot(r.handler());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::remote_right_missing);
  CHECK_FALSE(r.value());
  auto whole = make_table(1);
  record<std::uint64_t> loaded;
  reader.async_load(*whole, loaded.handler());
  REQUIRE(run_until(p.io, [&] { return loaded.done(); }));
  CHECK_FALSE(loaded.ec);
}

TEST_CASE("a coroutine may hold a snapshot when its io_context is destroyed")
{
  auto link = std::make_unique<linked_pair>();
  auto owner = std::make_unique<rdma::published<table>>(link->io, link->far_context);
  bool holding = false;
  const auto hold = [&]() -> asio::awaitable<void>
  {
    const auto remote =
      co_await remote_table::async_open(link->near, owner->remote(), asio::use_awaitable);
    const table_snapshot held = co_await remote.async_snapshot(asio::use_awaitable);
    holding = true;
    asio::steady_timer timer(link->io, asio::steady_timer::time_point::max());
    co_await timer.async_wait(asio::use_awaitable);
  };
  asio::co_spawn(link->io, hold(), asio::detached);
  REQUIRE(run_until(link->io, [&] { return holding; }));
  owner.reset();
  link.reset();
}

} // namespace test::objects_snapshots
