//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/sanitizers.hpp"
#include "unit/map_simulation.hpp"

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>

namespace test::map_test {

// Tests the state machines of maps with one process.

TEST_CASE("operations of a map have the effect of their names")
{
  single_map m(shape_of(3, 8));
  CHECK(m.look_up(1) == std::nullopt);
  CHECK_FALSE(m.put(map_action::update, 1, 10));
  CHECK_FALSE(m.put(map_action::erase, 1));
  CHECK(m.put(map_action::insert, 1, 11));
  CHECK_FALSE(m.put(map_action::insert, 1, 12));
  CHECK(m.look_up(1) == 11);
  CHECK(m.put(map_action::update, 1, 13));
  CHECK(m.look_up(1) == 13);
  CHECK(m.run(change(m.tables, map_action::insert_or_assign, 1, 14)).was_present());
  CHECK_FALSE(m.run(change(m.tables, map_action::insert_or_assign, 2, 15)).was_present());
  CHECK(m.look_up(1) == 14);
  CHECK(m.look_up(2) == 15);
  CHECK(m.put(map_action::erase, 1));
  CHECK(m.look_up(1) == std::nullopt);
  CHECK(m.look_up(2) == 15);
}

TEST_CASE("a map has the entries of a std::map after many changes by one process")
{
  const std::uint64_t blocks = GENERATE(3, 40);
  single_map m(shape_of(2, blocks));
  observed_table observed(m.shape);
  entries expected;
  std::size_t full = 0;
  std::size_t out_of_line = 0;
  for (unsigned i = 0; i != 4000; ++i)
  {
    const auto key = static_cast<key_type>(m.simulation.below(blocks == 3 ? 30 : 60));
    const auto action = static_cast<map_action>(m.simulation.below(4));
    const auto value = static_cast<number>(i);
    const bool present = expected.contains(key);
    change done(m.tables, action, key, value);
    m.run(done);
    if (m.ec)
    {
      REQUIRE(m.ec == rdma::error::object_full);
      ++full;
    }
    else
    {
      REQUIRE(done.was_present() == present);
      const bool changes =
        action == map_action::insert_or_assign || present != (action == map_action::insert);
      REQUIRE(done.changed() == changes);
      if (changes && action == map_action::erase)
        expected.erase(key);
      else if (changes)
        expected[key] = value;
    }
    const auto looked_up = static_cast<key_type>(m.simulation.below(60));
    find found(m.tables, looked_up);
    m.run(found);
    const auto there = expected.find(looked_up);
    REQUIRE(
      found.result() == (there == expected.end() ? std::nullopt : std::optional(there->second)));
    out_of_line += found.block_reads();
    REQUIRE(observed.leaked(m.simulation.memory) == 0);
  }
  CHECK(full > 20);
  CHECK(out_of_line > 1000);
}

TEST_CASE("a bucket of a map has room for 20 entries")
{
  single_map m(shape_of(1, 9));
  for (key_type key = 0; key != objects::map_slots; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  CHECK_FALSE(m.put(map_action::insert, 100));
  CHECK(m.ec == rdma::error::object_full);
  CHECK(m.put(map_action::insert_or_assign, 19, 7)); // the copy of a block
  CHECK(m.look_up(19) == 7);
  CHECK(m.put(map_action::erase, 3));
  CHECK(m.put(map_action::insert, 100, 100));
  for (const key_type key : {0, 1, 2, 4, 5, 12, 18, 100})
    CHECK(m.look_up(key) == key);
}

TEST_CASE("entries of a map share blocks, which are free when they are empty")
{
  single_map m(shape_of(1, 8));
  const auto taken = [&]
  {
    std::size_t count = 0;
    for (std::uint64_t i = 0; i != m.shape.blocks; ++i)
      count += objects::block_state::of(m.simulation.memory[m.shape.state_offset(i) / 8]).taken;
    return count;
  };
  for (key_type key = 0; key != objects::map_slots; ++key)
  {
    REQUIRE(m.put(map_action::insert, key));
    CHECK(taken() == key / objects::map_entries);
  }
  for (key_type key = objects::map_slots; key-- != 0;)
  {
    REQUIRE(m.put(map_action::erase, key));
    CHECK(taken() == (key + 3U) / objects::map_entries - (key == 0 ? 0 : 1));
  }
}

TEST_CASE("an entry of a map moves from a block to the cell when one of the cell is erased")
{
  single_map m(shape_of(1, 4));
  for (key_type key = 0; key != 7; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  for (key_type erased = 0; erased != 7; ++erased)
  {
    unsigned block_reads = 0;
    for (key_type key = 0; key != 7; ++key)
    {
      find found(m.tables, key);
      m.run(found);
      CHECK(found.result() == (key < erased ? std::nullopt : std::optional(key)));
      block_reads += found.result() && found.block_reads() != 0;
    }
    CHECK(block_reads == (erased < 3 ? 3U - erased : 0U));
    REQUIRE(m.put(map_action::erase, erased));
    CHECK(observed_table(m.shape).leaked(m.simulation.memory) == 0);
  }
}

TEST_CASE("a block of a map has nothing of the writer's memory beside the entries")
{
  single_map m(shape_of(1, 1));
  for (key_type key = 0; key != 4; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  change fifth(m.tables, map_action::insert, 4, 4);
  fifth.slots.fill(std::byte(0x5a));
  CHECK(m.run(fifth).changed());
  for (std::size_t i = 1; i != m.shape.block_words(); ++i)
    CHECK(
      m.simulation.memory[m.shape.block_offset(0) / 8 + i] == objects::cell_word{0, 1}.packed());
}

TEST_CASE("a bucket of a map that names an impossible block fails with object_mismatch")
{
  single_map m(shape_of(1, 2));
  for (key_type key = 0; key != 5; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  // The first data word of links[0], in both copies.
  const std::size_t at = m.shape.cell_offset(0) / 8 + 1 + 1;
  m.simulation.memory[at] |= 2;
  m.simulation.memory[at + objects::copy_words(m.shape.bucket_size())] |= 2;
  CHECK(m.look_up(4) == std::nullopt);
  CHECK(m.ec == rdma::error::object_mismatch);
  CHECK(m.look_up(0) == 0);
  CHECK_FALSE(m.ec);
}

TEST_CASE("a lookup in a map fails with contended when a named block never arrives")
{
  single_map m(shape_of(1, 1));
  for (key_type key = 0; key != 5; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  m.simulation.memory[m.shape.block_offset(0) / 8] ^= std::uint64_t{1} << 32;
  CHECK(m.run(find(m.tables, 4)).stale() == objects::map_read::reads_max);
  CHECK(m.ec == rdma::error::contended);
}

// Poisson with 3.2 entries for each bucket: E[max(X - 4, 0)] / 3.2 and P(X > 4).
#if !BOOST_RDMA_TEST_ADDRESS_SANITIZER // the same code as above, 100,000 times
TEST_CASE("lookups in a map at its capacity need a second read as often as the guide states")
{
  constexpr std::uint64_t count = 20'000;
  const map_shape shape = map_shape::with_capacity(form.key_size, form.value_size, count);
  single_map m(shape_of(shape.buckets, shape.blocks, 12345));
  for (std::uint64_t i = 0; i != count; ++i)
    REQUIRE(m.put(map_action::insert, static_cast<key_type>(i + count), static_cast<number>(i)));
  for (std::uint64_t i = 0; i != count; ++i) // nothing depends on what was there before
  {
    REQUIRE(m.put(map_action::insert, static_cast<key_type>(i), static_cast<number>(i)));
    REQUIRE(m.put(map_action::erase, static_cast<key_type>(i + count)));
  }
  std::size_t present = 0;
  std::size_t absent = 0;
  for (std::uint64_t i = 0; i != count; ++i)
  {
    present += m.run(find(m.tables, static_cast<key_type>(i))).block_reads();
    absent += m.run(find(m.tables, static_cast<key_type>(i + count))).block_reads();
  }
  CHECK(std::abs(static_cast<double>(present) / count - 0.123) < 0.01);
  CHECK(std::abs(static_cast<double>(absent) / count - 0.219) < 0.015);
}
#endif

} // namespace test::map_test
