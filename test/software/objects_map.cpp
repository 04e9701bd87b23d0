//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/map_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace test::objects_map {

// Tests maps through one connection. unit/map_test.cpp tests many processes.

TEST_CASE("both sides of a map see the changes of the other one")
{
  shared_map m;
  CHECK(m.remote.part_count() == m.owner.part_count());
  CHECK(m.find(m.remote, 1) == std::nullopt);
  CHECK(m.insert(m.remote, 1, {1.5, 1}));
  CHECK_FALSE(m.insert(m.owner, 1, {9, 9}));
  CHECK(m.find(m.owner, 1) == score{1.5, 1});
  CHECK(m.update(m.owner, 1, {2.5, 2}));
  CHECK_FALSE(m.update(m.remote, 2, {2.5, 2}));
  CHECK(m.find(m.remote, 1) == score{2.5, 2});
  CHECK_FALSE(m.put(m.remote, 1, {3, 3}));
  CHECK(m.put(m.remote, 2, {4, 4}));
  CHECK(m.find(m.owner, 1) == score{3, 3});
  CHECK(m.find(m.owner, 2) == score{4, 4});
  CHECK(m.erase(m.owner, 1));
  CHECK_FALSE(m.erase(m.remote, 1));
  CHECK(m.find(m.remote, 1) == std::nullopt);
  CHECK(m.all(m.remote).size() == 1);
}

TEST_CASE("a map has the entries of a std::map after many changes by both sides")
{
  shared_map m({.capacity = 32});
  std::map<player, score> expected;
  for (std::uint32_t i = 0; i != 200; ++i)
  {
    score_map& side = i % 2 == 0 ? m.remote : m.owner;
    const std::uint32_t key = (i * 37) % 50;
    const score value{i * 0.5, i};
    if (i % 7 == 6)
      CHECK(m.erase(side, key) == (expected.erase(named(key)) != 0));
    else
      CHECK(m.put(side, key, value) == expected.insert_or_assign(named(key), value).second);
  }
  CHECK(m.all(m.remote) == expected);
  CHECK(m.all(m.owner) == expected);
  for (std::uint32_t key = 0; key != 50; ++key)
  {
    const auto found = m.find(m.remote, key);
    const auto there = expected.find(named(key));
    CHECK(found == (there == expected.end() ? std::nullopt : std::optional(there->second)));
  }
}

TEST_CASE("concurrent changes of a map take effect in some order")
{
  shared_map m({.capacity = 4}); // few buckets, so that they meet
  score_map another = m.owner;
  constexpr std::uint32_t count = 4; // no more operations than blocks
  std::array<record<bool>, count> inserts;
  std::array<record<bool>, count> same;
  for (std::uint32_t i = 0; i != count; ++i)
  {
    (i % 2 == 0 ? m.remote : another).async_insert(named(i), {1, i}, inserts[i].handler());
    (i % 3 == 0 ? m.remote : another).async_insert(named(1000), {2, i}, same[i].handler());
  }
  std::array<record<std::optional<score>>, 4> finds;
  for (auto& each : finds)
    m.remote.async_find(named(1000), each.handler());
  const auto done = [](const auto& each) { return each.done(); };
  REQUIRE(run_until(m.io,
    [&]
    {
      return std::ranges::all_of(inserts, done) && std::ranges::all_of(same, done)
        && std::ranges::all_of(finds, done);
    }));
  const auto all = m.all(m.owner);
  CHECK(all.size() == count + 1);
  int inserted = 0;
  for (std::uint32_t i = 0; i != count; ++i)
  {
    CHECK_FALSE(inserts[i].ec);
    CHECK(inserts[i].value());
    CHECK(all.at(named(i)) == score{1, i});
    CHECK_FALSE(same[i].ec);
    inserted += same[i].value();
    if (same[i].value())
      CHECK(all.at(named(1000)) == score{2, i});
  }
  CHECK(inserted == 1);
  for (const auto& each : finds)
    CHECK((!each.value() || *each.value() == all.at(named(1000))));
}

TEST_CASE("an insertion into a map fails with object_full when the memory is used up")
{
  shared_map m({.capacity = 1});
  std::uint32_t inserted = 0;
  record<bool> r;
  for (; !r.ec && inserted != 1000; ++inserted)
  {
    r = {};
    m.remote.async_insert(named(inserted), {}, r.handler());
    REQUIRE(run_until(m.io, [&] { return r.done(); }));
  }
  CHECK(r.ec == rdma::error::object_full);
  CHECK(inserted > 4);
  CHECK(m.all(m.remote).size() == inserted - 1);
  CHECK(m.erase(m.owner, 0));
  CHECK(m.insert(m.remote, 1000, {}));
}

TEST_CASE("async_entries reads the buckets that are there")
{
  shared_map m({.capacity = 40});
  for (std::uint32_t i = 0; i != 40; ++i)
    m.put(m.remote, i, {0, i});
  std::map<player, score> parts;
  for (std::uint64_t first = 0; first < m.remote.part_count(); first += 3)
  {
    record<std::vector<std::pair<player, score>>> r;
    m.remote.async_entries(first, 3, r.handler());
    for (const auto& entry : m.end(r))
      CHECK(parts.insert(entry).second);
  }
  CHECK(parts == m.all(m.owner));
  CHECK(parts.size() == 40);
  record<std::vector<std::pair<player, score>>> behind;
  m.remote.async_entries(m.remote.part_count() + 1, 3, behind.handler());
  CHECK(m.end(behind).empty());
  CHECK_FALSE(behind.ec);
}

TEST_CASE("async_open of a map fails for other memory")
{
  shared_map m;
  const auto fails = [&]<class Object>(
                       std::type_identity<Object>, const rdma::remote_buffer& memory)
  {
    record<Object> r;
    Object::async_open(m.near, memory, r.handler());
    REQUIRE(run_until(m.io, [&] { return r.done(); }));
    return r.ec;
  };
  struct other_name // the same size
  {
    std::array<std::uint32_t, 3> name;
  };
  using right = std::type_identity<score_map>;
  const auto memory = m.owner.remote();
  CHECK(fails(std::type_identity<rdma::remote_map<player, std::array<char, 16>>>(), memory)
    == rdma::error::object_mismatch);
  CHECK(fails(std::type_identity<rdma::remote_map<other_name, score>>(), memory)
    == rdma::error::object_mismatch);
  CHECK(fails(std::type_identity<rdma::remote_map<player, std::uint64_t>>(), memory)
    == rdma::error::object_mismatch);
  rdma::memory_region zeros(m.far_context, 4096, exposed);
  CHECK(fails(right(), zeros.remote()) == rdma::error::object_mismatch);
  CHECK(fails(right(), memory.first(63)) == rdma::error::remote_range_too_small);
  CHECK(fails(right(), memory.first(score_map::size_for({.capacity = 16}) - 1))
    == rdma::error::remote_range_too_small);
  CHECK(fails(right(), zeros.remote().slice(4)) == rdma::error::misaligned);
  CHECK_FALSE(fails(right(), memory));
}

TEST_CASE("async_open of a map fails with object_mismatch when the header is impossible")
{
  linked_pair l;
  rdma::memory_region memory(l.far_context, 1 << 16, exposed);
  record<score_map> r;
  score_map::async_create(l.near, memory.remote(), {.capacity = 4}, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  REQUIRE_FALSE(r.ec);
  const auto header = memory.as_span<std::uint64_t>().first(8);
  using layout = rdma::detail::objects::header;
  const std::size_t word = // number of buckets, and of blocks
    GENERATE(offsetof(layout, capacity), offsetof(layout, parameters)) / sizeof header[0];
  const auto [value, expected] = GENERATE(std::pair(std::uint64_t{0}, rdma::error::object_mismatch),
    std::pair(UINT64_MAX, rdma::error::object_mismatch),
    std::pair(std::uint64_t{1} << 31, rdma::error::remote_range_too_small));
  header[word] = value;
  record<score_map> again;
  score_map::async_open(l.near, memory.remote(), again.handler());
  REQUIRE(run_until(l.io, [&] { return again.done(); }));
  CHECK(again.ec == expected);
}

TEST_CASE("a map is created in memory of the peer, whatever was there")
{
  linked_pair l;
  const rdma::map_options options{.capacity = 4000}; // more than one write
  const std::uint64_t size = score_map::size_for(options);
  rdma::memory_region memory(l.far_context, size + 8, exposed);
  std::ranges::fill(memory.as_span<std::uint64_t>(), UINT64_MAX);
  record<score_map> r;
  score_map::async_create(l.near, memory.remote(), options, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  REQUIRE_FALSE(r.ec);
  score_map created = r.value();
  CHECK(memory.as_span<std::uint64_t>().back() == UINT64_MAX);
  const auto opened = open<score_map>(l, memory.remote());
  CHECK(opened.part_count() == created.part_count());
  record<bool> inserted;
  created.async_insert(named(1), {1, 2}, inserted.handler());
  REQUIRE(run_until(l.io, [&] { return inserted.done(); }));
  CHECK(inserted.value());
  record<std::vector<std::pair<player, score>>> all;
  opened.async_entries(0, UINT64_MAX, all.handler());
  REQUIRE(run_until(l.io, [&] { return all.done(); }));
  CHECK(all.value() == std::vector{std::pair(named(1), score{1, 2})});
  record<score_map> small;
  score_map::async_create(l.near, memory.remote().first(size - 1), options, small.handler());
  REQUIRE(run_until(l.io, [&] { return small.done(); }));
  CHECK(small.ec == rdma::error::remote_range_too_small);
}

TEST_CASE("a reader of a map needs only the right to read")
{
  shared_map m;
  m.put(m.owner, 1, {1, 1});
  const auto memory = m.owner.remote();
  auto reader = open<score_map>(m,
    rdma::remote_buffer(memory.address(), memory.size(), memory.keys(), rdma::access::remote_read));
  CHECK(m.find(reader, 1) == score{1, 1});
  record<bool> r;
  reader.async_erase(named(1), r.handler());
  m.end(r);
  CHECK(r.ec == rdma::error::remote_right_missing);
  CHECK(m.find(reader, 1) == score{1, 1});
}

TEST_CASE("async_open of a map completes with closed when the queue pair was moved from")
{
  shared_map m;
  record<score_map> r;
  score_map::async_open(
    rdma::queue_pair(m.io.get_executor(), nullptr), m.owner.remote(), r.handler());
  m.end(r);
  CHECK(r.ec == rdma::error::closed);
}

TEST_CASE("operations of a map that was not opened complete with closed")
{
  shared_map m;
  record<score_map> r;
  rdma::memory_region zeros(m.far_context, 4096, exposed);
  score_map::async_open(m.near, zeros.remote(), r.handler());
  m.end(r);
  CHECK(r.ec == rdma::error::object_mismatch);
  score_map none = r.value();
  CHECK(none.part_count() == 0);
  record<std::optional<score>> find;
  none.async_find(named(1), find.handler());
  m.end(find);
  CHECK(find.ec == rdma::error::closed);
  record<bool> insert;
  none.async_insert(named(1), {}, insert.handler());
  m.end(insert);
  CHECK(insert.ec == rdma::error::closed);
  record<std::vector<std::pair<player, score>>> entries;
  none.async_entries(0, 1, entries.handler());
  m.end(entries);
  CHECK(entries.ec == rdma::error::closed);
  none = m.remote;
  CHECK(m.insert(none, 1, {1, 1}));
}

TEST_CASE("operations of a map's handle that was moved from complete with closed")
{
  shared_map m;
  score_map taken;
  CHECK(taken.part_count() == 0);
  taken = std::move(m.remote);
  CHECK(m.remote.part_count() == 0);
  record<std::optional<score>> r;
  m.remote.async_find(named(1), r.handler());
  m.end(r);
  CHECK(r.ec == rdma::error::closed);
  CHECK(m.find(taken, 1) == std::nullopt);
}

TEST_CASE("operations of a map end with an error when the queue pair is closed")
{
  shared_map m;
  record<bool> insert;
  record<std::optional<score>> find;
  m.remote.async_insert(named(1), {1, 1}, insert.handler());
  m.remote.async_find(named(1), find.handler());
  m.near.close();
  REQUIRE(run_until(m.io, [&] { return insert.done() && find.done(); }));
  CHECK(insert.ec);
  record<bool> after;
  m.remote.async_insert(named(2), {1, 1}, after.handler());
  m.end(after);
  CHECK(after.ec == rdma::error::closed);
  CHECK(m.put(m.owner, 3, {3, 3}));
}

TEST_CASE("cancelling a change of a map leaves it consistent")
{
  shared_map m({.capacity = 1});
  for (std::uint32_t key = 10; key != 15; ++key) // so that changes need a block
    REQUIRE(m.put(m.owner, key, {}));
  int aborted = 0;
  for (int i = 0; i != 60; ++i)
  {
    asio::cancellation_signal signal;
    record<bool> r;
    m.remote.async_insert(
      named(1), {1, 1}, asio::bind_cancellation_slot(signal.slot(), r.handler()));
    for (int turns = 0; turns != i && !r.done(); ++turns)
      m.io.run_one();
    signal.emit(asio::cancellation_type::total);
    REQUIRE(run_until(m.io, [&] { return r.done(); }));
    if (r.ec)
      CHECK(r.ec == asio::error::operation_aborted);
    aborted += r.ec == asio::error::operation_aborted;
    CHECK(m.find(m.remote, 1).has_value() == !r.ec);
    CHECK(m.erase(m.owner, 1) == !r.ec); // without a pause: a cancelled change leaves no claim
  }
  CHECK(aborted != 0);
  for (std::uint32_t key = 20; key != 25; ++key) // no block was lost
    CHECK(m.insert(m.remote, key, {}));
}

} // namespace test::objects_map
