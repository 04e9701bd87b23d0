//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/map_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace test::objects_map_growth {

// Tests maps that grow through one connection.

TEST_CASE("a map grows while both sides use it")
{
  shared_map m({.capacity = 4});
  // Finds the tables by itself: only copies of a handle share what they have found.
  const auto early = open<score_map>(m, m.owner.remote());
  const std::uint64_t parts = m.remote.part_count();
  std::map<player, score> expected;
  std::uint32_t next = 0;
  for (int growths = 0; growths != 3; ++growths)
  {
    plain_record grown;
    m.owner.async_grow(grown.handler());
    CHECK_FALSE(grown.done());
    while (!grown.done() || next % 8 != 0)
    {
      score_map& side = next % 2 == 0 ? m.remote : m.owner;
      record<bool> r;
      side.async_insert(named(next), {1, next}, r.handler());
      REQUIRE(run_until(m.io, [&] { return r.done(); }));
      CHECK((!r.ec || r.ec == rdma::error::object_full));
      if (!r.ec)
      {
        CHECK(r.value());
        expected[named(next)] = {1, next};
        CHECK(m.find(m.remote, next) == score{1, next});
        CHECK(m.find(m.owner, next) == score{1, next});
      }
      ++next;
    }
    CHECK_FALSE(grown.ec);
  }
  const auto late = open<score_map>(m, m.owner.remote());
  CHECK(m.remote.part_count() == parts);
  CHECK(late.part_count() == parts);
  CHECK(m.all(early) == expected);
  CHECK(m.all(late) == expected);
  CHECK(m.all(m.owner) == expected);
  CHECK(m.find(late, next) == std::nullopt);
  for (const auto& [key, value] : expected)
  {
    record<std::optional<score>> r;
    early.async_find(key, r.handler());
    CHECK(m.end(r) == value);
  }
}

TEST_CASE("a map that has grown has room for twice as many entries")
{
  shared_map m({.capacity = 8});
  // Far more entries than it has room for: how many precede the first that is refused is chance.
  auto fill = [&, next = std::uint32_t{0}](int count) mutable
  {
    for (int i = 0; i != count; ++i)
    {
      record<bool> r;
      m.remote.async_insert(named(next++), {}, r.handler());
      REQUIRE(run_until(m.io, [&] { return r.done(); }));
      REQUIRE((!r.ec || r.ec == rdma::error::object_full));
    }
    return m.all(m.remote).size();
  };
  const std::size_t before = fill(100);
  plain_record grown;
  m.owner.async_grow(grown.handler());
  REQUIRE(run_until(m.io, [&] { return grown.done(); }));
  REQUIRE_FALSE(grown.ec);
  CHECK(m.all(m.remote).size() == before);
  CHECK(fill(200) > before + before / 2);
}

TEST_CASE("async_grow fails with already_started while the map grows")
{
  shared_map m;
  std::array<plain_record, 2> grown;
  m.owner.async_grow(grown[0].handler());
  m.owner.async_grow(grown[1].handler());
  REQUIRE(run_until(m.io, [&] { return grown[0].done() && grown[1].done(); }));
  CHECK_FALSE(grown[0].ec);
  CHECK(grown[1].ec == asio::error::already_started);
  plain_record again;
  m.owner.async_grow(again.handler());
  REQUIRE(run_until(m.io, [&] { return again.done(); }));
  CHECK_FALSE(again.ec);
}

TEST_CASE("async_grow of a map that was moved from completes with closed")
{
  shared_map m;
  auto taken = std::move(m.owner);
  std::array<plain_record, 2> r;
  m.owner.async_grow(r[0].handler());
  taken.async_grow(r[1].handler());
  REQUIRE(run_until(m.io, [&] { return r[0].done() && r[1].done(); }));
  CHECK(r[0].ec == rdma::error::closed);
  CHECK_FALSE(r[1].ec);
}

namespace {

// A map whose growth is cancelled after some events.
struct half_grown_map : shared_map
{
  half_grown_map()
    : shared_map({.capacity = 40})
  {
  }

  rdma::error_code grow(int events_most)
  {
    asio::cancellation_signal signal;
    plain_record r;
    owner.async_grow(asio::bind_cancellation_slot(signal.slot(), r.handler()));
    for (int events = 0; events != events_most && !r.done(); ++events)
      io.run_one();
    signal.emit(asio::cancellation_type::total);
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return r.ec;
  }
  rdma::error_code grow()
  {
    plain_record r;
    owner.async_grow(r.handler());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return r.ec;
  }

  // Number of parts whose entries are in the new table.
  std::uint64_t moved() const
  {
    namespace objects = rdma::detail::objects;
    auto shape = objects::map_operations<player, score>::buffers_type::shape;
    shape.buckets = owner.part_count();
    const auto words = std::span(
      static_cast<const std::uint64_t*>(owner.region().data()), owner.region().size() / 8);
    std::uint64_t result = 0;
    for (std::uint64_t i = 0; i != shape.buckets; ++i)
    {
      std::array<std::byte,
        objects::map_operations<player, score>::buffers_type::shape.bucket_size()>
        value;
      objects::tag version = 0;
      REQUIRE(objects::decode_cell(
        words.subspan(shape.cell_offset(i) / 8, shape.cell_size() / 8), value, version));
      objects::map_head head;
      std::memcpy(&head, value.data(), sizeof head);
      result += head.state() == objects::bucket_state::frozen;
    }
    return result;
  }

  // Lets the map grow until some parts have moved.
  void grow_half()
  {
    for (int events = 0; moved() < 6; events += 20)
      REQUIRE(grow(events) == asio::error::operation_aborted);
    REQUIRE(moved() < owner.part_count());
  }
};

} // namespace

TEST_CASE("a growth of a map that was cancelled goes on with the next call")
{
  half_grown_map m;
  for (std::uint32_t i = 0; i != 40; ++i)
    REQUIRE(m.insert(m.remote, i, {0, i}));
  CHECK(m.grow(0) == asio::error::operation_aborted);
  CHECK(m.moved() == 0);
  m.grow_half();
  for (std::uint32_t i = 0; i != 40; ++i)
  {
    CHECK(m.find(m.remote, i) == score{0, i});
    CHECK(m.update(i % 2 == 0 ? m.remote : m.owner, i, {1, i}));
  }
  CHECK_FALSE(m.grow());
  CHECK(m.moved() == m.owner.part_count());
  for (std::uint32_t i = 0; i != 40; ++i)
    CHECK(m.find(m.remote, i) == score{1, i});
}

TEST_CASE("a map whose new table is full can be changed and grows when there is room")
{
  half_grown_map m;
  m.grow_half();
  std::vector<std::uint32_t> keys;
  for (std::uint32_t i = 0; i != 800; ++i) // more than the buckets have room for
  {
    record<bool> r;
    m.remote.async_insert(named(i), {0, i}, r.handler());
    REQUIRE(run_until(m.io, [&] { return r.done(); }));
    if (!r.ec)
      keys.push_back(i);
    else
      REQUIRE(r.ec == rdma::error::object_full);
  }
  CHECK(m.grow() == rdma::error::object_full);
  CHECK(m.grow() == rdma::error::object_full);
  for (const std::uint32_t key : keys)
    CHECK(m.erase(m.remote, key));
  CHECK_FALSE(m.grow());
  CHECK(m.all(m.remote).empty());
  CHECK(m.insert(m.remote, 1, {}));
}

} // namespace test::objects_map_growth
