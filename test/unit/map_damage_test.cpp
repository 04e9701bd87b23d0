//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/map_growth_simulation.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

namespace test::map_damage_test {

// Tests operations on maps whose memory other programs have changed.

namespace {

constexpr unsigned reads_max = objects::map_read::reads_max;
constexpr unsigned always = 1'000'000;
constexpr key_type keys = 9; // of a bucket with blocks

// Answers reads of the first table with words that have other tags.
template <class Machine>
struct misled : Machine
{
  template <class... Arguments>
  explicit misled(single_map& m, Arguments&&... arguments)
    : Machine(std::forward<Arguments>(arguments)...)
    , shape(m.shape)
  {
    m.simulation.memory[0] = UINT64_MAX;
  }

  objects::access_request request(std::size_t i)
  {
    objects::access_request result = Machine::request(i);
    if (i != 0 || result.kind != rdma::detail::request_kind::read || result.memory->address() != 0)
      return result;
    if (result.offset >= shape.block_offset(0))
      mislead(result, block_reads++, stale);
    else if (result.offset >= shape.cell_offset(0) && result.offset < shape.state_offset(0))
      mislead(result, cell_reads++, torn);
    return result;
  }

  // The first reads of so many and one fail.
  static void mislead(objects::access_request& read, unsigned number, unsigned fail)
  {
    if (number % (fail + 1) != fail)
      read.offset = 0;
  }

  map_shape shape;
  unsigned torn = 0;
  unsigned stale = 0;
  unsigned cell_reads = 0;
  unsigned block_reads = 0;
};

} // namespace

TEST_CASE("a scan of a map counts the attempts for each bucket")
{
  single_map m(shape_of(4, 40));
  std::size_t inserted = 0;
  for (key_type key = 0; key != 4 * keys; ++key)
    inserted += m.put(map_action::insert, key, key);
  misled<operations::scan> scan(m, handle(m.tables), 0, 4);
  (GENERATE(false, true) ? scan.torn : scan.stale) = reads_max - 10;
  m.run(scan);
  CHECK_FALSE(m.ec);
  CHECK(scan.entries.size() == inserted);
  CHECK(scan.cell_reads > 2 * reads_max);
}

TEST_CASE("a growth of a map counts the attempts for each bucket")
{
  growing_map m(shape_of(4, 40), 2);
  for (key_type key = 0; key != 4 * keys; ++key)
    m.put(map_action::insert, key, key);
  misled<grow> growth(m, m.row.at(1));
  growth.stale = reads_max - 10;
  m.run(growth);
  CHECK_FALSE(m.ec);
  CHECK(growth.block_reads > 2 * reads_max);
}

TEST_CASE("a scan and a growth of a map fail with contended when a named block never arrives")
{
  growing_map m(shape_of(1, 4), 2);
  for (key_type key = 0; key != keys; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  misled<operations::scan> scan(m, handle(m.tables), 0, 1);
  misled<grow> growth(m, m.row.at(1));
  scan.stale = growth.stale = always;
  m.run(scan);
  CHECK(m.ec == rdma::error::contended);
  m.run(growth);
  CHECK(m.ec == rdma::error::contended);
  CHECK(m.observed[0].state(m.simulation.memory, 0) == objects::bucket_state::open);
}

TEST_CASE("torn reads of a bucket of a map and those of its blocks are counted together")
{
  single_map m(shape_of(1, 4));
  for (key_type key = 0; key != keys; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  misled<find> found(m, m.tables, 8);
  found.torn = reads_max / 4;
  found.stale = always;
  m.run(found);
  CHECK(m.ec == rdma::error::contended);
  CHECK(found.cell_reads < 2 * reads_max);
}

namespace {

// Another process stores the bucket before each look of this operation's store.
struct forestalled : misled<change>
{
  forestalled(single_map& m, map_action what)
    : misled<change>(m, m.tables, what, key_type{1}, number{1})
    , map(m)
  {
  }

  objects::access_request request(std::size_t i)
  {
    if (i == 0)
    {
      const auto what = change::request(0);
      if (what.kind == rdma::detail::request_kind::read && what.bytes.size() == shape.cell_size())
        store();
    }
    return misled<change>::request(i);
  }

  void store()
  {
    const std::size_t head = shape.cell_offset(0) / 8;
    const std::uint64_t version = ++stores;
    map.simulation.memory[head] = objects::cell_head{static_cast<objects::tag>(version),
      static_cast<objects::tag>(version), objects::cell_head::phase::idle}
                                    .packed();
    for (std::size_t word = head + 1; word != head + shape.cell_size() / 8; ++word)
      map.simulation.memory[word] = version << 32;
  }

  single_map& map;
  std::uint64_t stores = 0;
};

} // namespace

TEST_CASE("a change of a map fails with contended when others forestall it each time")
{
  single_map m(shape_of(1, 4));
  forestalled change(m, map_action::insert);
  m.run(change);
  CHECK(m.ec == rdma::error::contended);
  CHECK(change.stores == objects::map_change::attempts_max);
  CHECK_FALSE(m.look_up(1));
}

TEST_CASE("an operation on a map without tables fails with closed")
{
  single_map m(shape_of(1, 4));
  const auto none = GENERATE(as<std::shared_ptr<objects::shared_tables>>(), nullptr,
    std::make_shared<objects::shared_tables>());
  m.run(operations::find(none, 1));
  CHECK(m.ec == rdma::error::closed);
  m.run(operations::change(none, map_action::insert, 1, 1));
  CHECK(m.ec == rdma::error::closed);
  m.run(operations::scan(none, 0, 1));
  CHECK(m.ec == rdma::error::closed);
}

TEST_CASE("a directory of a map is taken only if each table is twice the one before")
{
  const table_row row(shape_of(6, 4), 3);
  using table = objects::map_directory::table;
  const table grown{
    .address = row.tables[1].memory.address(), .buckets = 12, .blocks = 8, .key = 1, .kind = 1};
  objects::map_tables tables = row.at(0);
  REQUIRE(tables.set({grown, {}}));
  CHECK(tables.current.shape.buckets == 12);
  CHECK(tables.previous.shape.buckets == 6);
  const auto with = [&](std::uint64_t table::*what, std::uint64_t value)
  {
    table result = grown;
    result.*what = value;
    return result;
  };
  CHECK(tables.set({with(&table::buckets, 24), grown}));
  CHECK(tables.set({{}, {}}));
  CHECK(tables.previous.shape.buckets == 0);
  const auto wrong_kind = [&]
  {
    table result = grown;
    result.kind = 2;
    return result;
  }();
  for (const auto& impossible : {with(&table::address, 4), with(&table::buckets, UINT64_MAX),
         with(&table::blocks, 0), wrong_kind})
  {
    CHECK_FALSE(tables.set({impossible, {}}));
    CHECK_FALSE(tables.set({with(&table::buckets, 24), impossible}));
  }
  // Of the tables now and before.
  for (const auto& [now, before] : {std::pair(24, 0), {12, 12}, {6, 3}, {8, 4}, {36, 18}, {3, 0}})
    CHECK_FALSE(tables.set({with(&table::buckets, static_cast<std::uint64_t>(now)),
      with(&table::buckets, static_cast<std::uint64_t>(before))}));
  CHECK(tables.current.shape.buckets == 6);
}

namespace {

// A map that has grown to the second one of some tables, and what is in its directory.
struct damaged_map : growing_map
{
  damaged_map()
    : growing_map(shape_of(3, 8), 2)
  {
    for (key_type key = 0; key != keys; ++key)
      put(map_action::insert, key, key);
    run(grow(row.at(1)));
  }

  void set(const objects::map_directory& directory)
  {
    objects::encode_cell(
      std::span(simulation.memory)
        .subspan(objects::map_directory_offset / 8, objects::map_directory_words),
      std::as_bytes(std::span(&directory, 1)));
  }
};

} // namespace

TEST_CASE("operations on a map fail with object_mismatch when its directory is impossible")
{
  damaged_map m;
  const std::uint64_t address = m.row.tables[1].memory.address();
  using table = objects::map_directory::table;
  const table four{.address = address, .buckets = 4, .blocks = 8, .key = 1, .kind = 1};
  const table two{.address = address, .buckets = 2, .blocks = 8, .key = 1, .kind = 1};
  // No growth, and one that is none of the first table.
  m.set(GENERATE_COPY(objects::map_directory{}, objects::map_directory{four, two}));
  m.look_up(1);
  CHECK(m.ec == rdma::error::object_mismatch);
  m.put(map_action::erase, 1);
  CHECK(m.ec == rdma::error::object_mismatch);
  m.run(operations::scan(handle(m.tables), 0, 3));
  CHECK(m.ec == rdma::error::object_mismatch);
}

TEST_CASE("the owner of a map takes no table from the directory")
{
  damaged_map m;
  CHECK(m.look_up(1) == 1);
  const auto owner = std::make_shared<objects::shared_tables>(m.tables);
  m.run(operations::find(owner, 1));
  CHECK(m.ec == rdma::error::object_mismatch);
  CHECK(owner->get().current.shape.buckets == 3);
  owner->set(m.row.at(1));
  m.set({{.address = 1 << 30, .buckets = 6, .blocks = 8, .key = 1, .kind = 1}, {}});
  operations::find found(owner, 1);
  m.run(found);
  CHECK_FALSE(m.ec);
  CHECK(std::get<0>(found.results()) == 1);
}

} // namespace test::map_damage_test
