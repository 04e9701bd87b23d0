//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/map_growth_simulation.hpp"

#include <boost/asio/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace test::map_growth_test {

// Tests maps that grow, on simulated memory.

TEST_CASE("a map that grows has its entries in the larger table")
{
  growing_map m(shape_of(3, 12, 7), 3);
  const table_row& row = m.row;
  const bool later = GENERATE(false, true);
  constexpr key_type count = 30;
  for (key_type key = 0; key != count; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  for (std::size_t to = 1; to != row.tables.size(); ++to)
  {
    m.run(grow(row.at(to)));
    REQUIRE_FALSE(m.ec);
    // The handle has the first table, or one that it has found before.
    for (key_type key = 0; key != count; ++key)
    {
      find found(m.tables, key);
      m.run(found);
      CHECK(found.result() == key);
      CHECK(found.tables().current.shape.buckets == row.tables[to].shape.buckets);
      CHECK(found.tables().current.memory.address() == row.tables[to].memory.address());
    }
    CHECK(m.look_up(count) == std::nullopt);
    CHECK(m.put(map_action::insert, count, 1));
    CHECK_FALSE(m.put(map_action::insert, count, 2));
    CHECK(m.put(map_action::erase, count));
    std::size_t entries_found = 0;
    const observed_table& newest = m.observed[to];
    std::set<std::uint32_t> blocks;
    for (std::uint64_t i = 0; i != newest.shape.buckets; ++i)
      entries_found += newest.bucket(m.simulation.memory, i, blocks).value().size();
    CHECK(entries_found == count);
    CHECK(newest.leaked(m.simulation.memory) == 0);
    if (later)
      m.tables = row.at(to);
  }
}

// A change that has taken a block of the old table finds its bucket in the new one, and is
// cancelled. The tables have blocks of the same index and number.
TEST_CASE("a change of a map frees its block in the table from which it has taken it")
{
  constexpr std::size_t inserted = 9;
  std::size_t aborted = 0;
  for (std::uint64_t seed = 1; seed != seeds_of(400); ++seed)
  {
    growing_map m(shape_of(1, 3, seed), 2);
    const table_row& row = m.row;
    std::vector<key_type> keys; // of one bucket of the new table
    for (key_type key = 0; keys.size() != inserted + 2; ++key)
      if (row.tables[1].shape.bucket_of(position_of(m.shape, key)) == 0)
        keys.push_back(key);
    for (std::size_t i = 0; i != inserted; ++i)
      REQUIRE(m.put(map_action::insert, keys[i]));
    bool ended = false;
    rdma::error_code ec;
    m.simulation.start<change>(1, change(m.tables, map_action::insert, keys[inserted], 1),
      [&](const rdma::error_code& error, change&)
      {
        ended = true;
        ec = error;
      });
    for (std::uint64_t turns = m.simulation.below(150); turns != 0; --turns)
      m.simulation.turn();
    m.simulation.stop(1, 1'000'000);
    bool grown = false;
    m.simulation.start<grow>(
      0, grow(row.at(1)), [&](const rdma::error_code& error, grow&) { grown = !error; });
    while (!grown)
      REQUIRE(m.simulation.turn());
    m.simulation.stop(1, 0);
    for (std::uint64_t turns = m.simulation.below(100); turns != 0; --turns)
      m.simulation.turn();
    m.simulation.cancel(1);
    while (m.simulation.turn())
      ;
    REQUIRE(ended);
    aborted += ec == boost::asio::error::operation_aborted;
    REQUIRE(m.observed[0].leaked(m.simulation.memory));
    CHECK(m.observed[1].leaked(m.simulation.memory) == 0);
  }
  CHECK(aborted >= least(50));
}

namespace {

// Takes all blocks of a table, or frees them.
void set_states(growing_map& m, std::size_t table, bool taken)
{
  const auto& in = m.observed[table];
  for (std::uint64_t i = 0; i != in.shape.blocks; ++i)
    m.simulation.memory[in.first + in.shape.state_offset(i) / 8] =
      objects::block_state{taken, 0}.packed();
}

constexpr key_type out_of_line = 9; // keys that are in one bucket, with blocks

} // namespace

TEST_CASE("a map that cannot grow for want of blocks can be changed")
{
  growing_map m(shape_of(1, 6, 3), 2);
  for (key_type key = 0; key != 2 * out_of_line; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  set_states(m, 1, true);
  m.run(grow(m.row.at(1)));
  CHECK(m.ec == rdma::error::object_full);
  CHECK(m.observed[0].state(m.simulation.memory, 0) == objects::bucket_state::open);
  CHECK(m.put(map_action::erase, 2));
  CHECK_FALSE(m.ec);
  set_states(m, 1, false);
  m.run(grow(m.row.at(1)));
  CHECK_FALSE(m.ec);
  for (key_type key = 0; key != 2 * out_of_line; ++key)
    CHECK(m.look_up(key) == (key == 2 ? std::nullopt : std::optional(key)));
  CHECK(m.observed[1].leaked(m.simulation.memory) == 0);
}

// The first block is taken before the search for the second one fails.
TEST_CASE("a growth of a map for want of blocks loses none")
{
  growing_map m(shape_of(1, 6, 3), 2);
  for (key_type key = 0; key != 2 * out_of_line; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  set_states(m, 1, true);
  const auto& in = m.observed[1];
  std::uint64_t& state = m.simulation.memory[in.first + in.shape.state_offset(4) / 8];
  state = objects::block_state{false, 0}.packed();
  m.run(grow(m.row.at(1)));
  CHECK(m.ec == rdma::error::object_full);
  CHECK(state == objects::block_state{false, 1}.packed());
}

namespace {

// Records where blocks are looked for.
struct searching_grow : grow
{
  using grow::grow;

  objects::access_request request(std::size_t i)
  {
    const auto result = grow::request(i);
    if (result.kind == rdma::detail::request_kind::read
      && result.memory->address() == target.current.memory.address()
      && result.offset >= target.current.shape.state_offset(0))
      looks.insert(result.offset);
    return result;
  }

  std::set<std::uint64_t> looks;
};

} // namespace

TEST_CASE("a growth of a map that is repeated looks for blocks in other places")
{
  growing_map m(shape_of(1, 5000, 3), 2);
  for (key_type key = 0; key != out_of_line; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  set_states(m, 1, true);
  std::set<std::uint64_t> looks;
  constexpr std::size_t times = 4;
  for (std::size_t i = 0; i != times; ++i)
  {
    looks.merge(m.run(searching_grow(m.row.at(1))).looks);
    CHECK(m.ec == rdma::error::object_full);
  }
  CHECK(looks.size() > (times - 1) * objects::block_taking::looks_max);
}

TEST_CASE("a growth of a map that passes moved buckets can be cancelled")
{
  growing_map m(shape_of(64, 4), 2);
  m.run(grow(m.row.at(1)));
  REQUIRE_FALSE(m.ec);
  const std::uint64_t from = m.simulation.now;
  m.run(grow(m.row.at(1)));
  const std::uint64_t all = m.simulation.now - from;
  grow again(m.row.at(1));
  rdma::error_code ec;
  m.simulation.start<lent<grow>>(
    0, {&again}, [&](const rdma::error_code& error, lent<grow>&) { ec = error; });
  for (std::uint64_t i = 0; i != all / 2; ++i)
    REQUIRE(m.simulation.turn());
  m.simulation.cancel(0);
  while (m.simulation.turn())
    ;
  CHECK(ec == boost::asio::error::operation_aborted);
  CHECK(m.simulation.now - from < 2 * all);
}

namespace {

// Somebody changes a pending bucket after the growth has read it.
struct disturbed_grow : grow
{
  disturbed_grow(growing_map& in, const objects::map_tables& to)
    : grow(to)
    , map(in)
  {
  }

  objects::access_request request(std::size_t i)
  {
    const auto result = grow::request(i);
    const auto& in = map.observed[1];
    const std::uint64_t cell = in.shape.cell_offset(0);
    if (result.kind == rdma::detail::request_kind::read && result.offset == cell
      && result.memory->address() == target.current.memory.address() && ++reads == 2)
    {
      for (std::uint64_t word = 1; word != in.shape.cell_size() / 8; ++word)
        map.simulation.memory[in.first + cell / 8 + word] |= std::uint64_t{1} << 32;
      map.simulation.memory[in.first + cell / 8] =
        objects::cell_head{1, 1, objects::cell_head::phase::idle}.packed();
    }
    return result;
  }

  growing_map& map;
  int reads = 0;
};

} // namespace

TEST_CASE("a growth of a map fails with object_mismatch when somebody changes a pending bucket")
{
  growing_map m(shape_of(1, 4), 2);
  REQUIRE(m.put(map_action::insert, 1, 1));
  m.run(disturbed_grow(m, m.row.at(1)));
  CHECK(m.ec == rdma::error::object_mismatch);
  CHECK(m.observed[1].state(m.simulation.memory, 0) == objects::bucket_state::pending);
}

TEST_CASE("a growth of a map fails with object_mismatch when a bucket of the old table is pending")
{
  growing_map m(shape_of(1, 4), 2);
  REQUIRE(m.put(map_action::insert, 1, 1));
  const auto& in = m.observed[0];
  const auto pending = static_cast<std::uint64_t>(objects::bucket_state::pending);
  // The head's first word, in both copies: the current one is of an unknown number.
  for (std::uint64_t word = 1; word != in.shape.cell_size() / 8; ++word)
  {
    std::uint64_t& at = m.simulation.memory[in.first + in.shape.cell_offset(0) / 8 + word];
    if (static_cast<std::uint32_t>(at) == 1) // one slot is used
      at |= pending << objects::map_head::state_shift;
  }
  REQUIRE(in.state(m.simulation.memory, 0) == objects::bucket_state::pending);
  m.run(grow(m.row.at(1)));
  CHECK(m.ec == rdma::error::object_mismatch);
  CHECK(in.state(m.simulation.memory, 0) == objects::bucket_state::pending);
}

} // namespace test::map_growth_test
