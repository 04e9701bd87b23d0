//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/object_simulation.hpp"

#include <boost_rdma/detail/objects/map.hpp>

#include <boost/asio/error.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

// Tests the state machines of maps on simulated memory.

using namespace test;
using objects::map_action;
using objects::map_shape;

namespace {

using key_type = std::uint16_t;
using number = std::uint16_t;
constexpr map_shape form = {sizeof(key_type), sizeof(number), 0, 0, 0};

map_shape shape_of(std::uint64_t buckets, std::uint64_t blocks, std::uint64_t seed = 1)
{
  return {form.key_size, form.value_size, buckets, blocks, seed};
}

template <class Machine>
struct with_room : Machine
{
  objects::map_room room() { return {cell, words, slots}; }

  std::array<std::uint64_t, objects::cell_words(form.bucket_size())> cell{};
  std::array<std::uint64_t, objects::map_links * form.block_words()> words{};
  std::array<std::byte, form.slots_size()> slots{};
};

struct find : with_room<objects::map_read>
{
  find(const map_shape& map, key_type looked_up)
    : shape(map)
    , key(looked_up)
  {
  }
  objects::step begin()
  {
    const auto bytes = std::as_bytes(std::span(&key, 1));
    return map_read::begin(shape, shape.bucket_of(bytes), bytes, false, room());
  }
  std::optional<number> result() const
  {
    if (!found())
      return std::nullopt;
    number value = 0;
    std::memcpy(&value, entry(*found()).data() + sizeof key, sizeof value);
    return value;
  }
  map_shape shape;
  key_type key;
};

struct change : with_room<objects::map_change>
{
  change(const map_shape& map, map_action what, key_type key, number value)
    : shape(map)
    , action(what)
    , entry{key, value}
  {
  }
  objects::step begin()
  {
    return map_change::begin(shape, action, std::as_bytes(std::span(entry)), room());
  }
  map_shape shape;
  map_action action;
  std::array<std::uint16_t, 2> entry;
};

using entries = std::map<key_type, number>;

// The memory of a map, seen by something that stops the time.
struct observed_map
{
  explicit observed_map(const map_shape& map)
    : shape(map)
  {
  }

  // The entries that the committed version of a bucket names; nothing if it is damaged.
  std::optional<entries> bucket(
    const std::vector<std::uint64_t>& memory, std::uint64_t which, std::set<std::uint32_t>& blocks)
  {
    std::array<std::byte, form.slots_size()> slots{};
    objects::tag version = 0;
    const std::span all(memory);
    if (!objects::decode_cell(all.subspan(shape.cell_offset(which) / 8, shape.cell_size() / 8),
          std::span(slots).first(shape.bucket_size()), version))
      return std::nullopt;
    objects::map_head head;
    std::memcpy(&head, slots.data(), sizeof head);
    for (std::size_t link = 0; link != objects::map_links; ++link)
    {
      if (!head.has_block(link))
        continue;
      if ((head.used & objects::map_head::group) != objects::map_head::group)
        return std::nullopt; // blocks are used only while all slots of the cell are
      const auto [block, allocation] = head.links[link];
      if (block >= shape.blocks || !blocks.insert(block).second
        || memory[shape.state_offset(block) / 8] != objects::block_state{true, allocation}.packed())
        return std::nullopt;
      for (std::size_t i = 0; i != shape.block_words(); ++i)
      {
        const auto word = objects::cell_word::of(memory[shape.block_offset(block) / 8 + i]);
        if (word.tag != allocation)
          return std::nullopt;
        const std::size_t slot = objects::map_entries * (1 + link);
        std::memcpy(slots.data() + sizeof head + slot * shape.entry_size() + 4 * i, &word.data, 4);
      }
    }
    entries result;
    for (std::size_t slot = 0; slot != objects::map_slots; ++slot)
    {
      if (!head.is_used(slot))
        continue;
      std::array<std::uint16_t, 2> entry;
      std::memcpy(entry.data(), slots.data() + sizeof head + 4 * slot, 4);
      if (!result.emplace(entry[0], entry[1]).second)
        return std::nullopt; // the key is there twice
    }
    return result;
  }

  // Number of blocks that are taken; nothing if a bucket is damaged.
  std::optional<std::size_t> leaked(const std::vector<std::uint64_t>& memory)
  {
    std::set<std::uint32_t> named;
    for (std::uint64_t i = 0; i != shape.buckets; ++i)
      if (!bucket(memory, i, named))
        return std::nullopt;
    std::size_t taken = 0;
    for (std::uint64_t i = 0; i != shape.blocks; ++i)
      taken += objects::block_state::of(memory[shape.state_offset(i) / 8]).taken;
    return taken - named.size();
  }

  map_shape shape;
};

// One process, which does one operation after the other.
struct single_map
{
  explicit single_map(const map_shape& map)
    : shape(map)
    , simulation(map.seed, map.size() / 8)
  {
  }

  template <class Machine>
  Machine run(Machine machine)
  {
    std::optional<Machine> result;
    simulation.start<Machine>(0, std::move(machine),
      [&](const rdma::error_code& error, Machine& m)
      {
        ec = error;
        result.emplace(m);
      });
    while (simulation.turn())
      ;
    return *result;
  }

  change apply(map_action action, key_type key, number value = 0)
  {
    return run(change(shape, action, key, value));
  }
  // Returns true if it had an effect.
  bool put(map_action action, key_type key, number value = 0)
  {
    return apply(action, key, value).changed();
  }
  std::optional<number> look_up(key_type key) { return run(find(shape, key)).result(); }

  map_shape shape;
  object_simulation simulation;
  rdma::error_code ec;
};

} // namespace

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
  CHECK(m.apply(map_action::insert_or_assign, 1, 14).was_present());
  CHECK_FALSE(m.apply(map_action::insert_or_assign, 2, 15).was_present());
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
  observed_map observed(m.shape);
  entries expected;
  std::size_t full = 0;
  std::size_t out_of_line = 0;
  for (unsigned i = 0; i != 4000; ++i)
  {
    const auto key = static_cast<key_type>(m.simulation.below(blocks == 3 ? 30 : 60));
    const auto action = static_cast<map_action>(m.simulation.below(4));
    const auto value = static_cast<number>(i);
    const bool present = expected.contains(key);
    const change done = m.apply(action, key, value);
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
    const find found = m.run(find(m.shape, looked_up));
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
      const find found = m.run(find(m.shape, key));
      CHECK(found.result() == (key < erased ? std::nullopt : std::optional(key)));
      block_reads += found.result() && found.block_reads() != 0;
    }
    CHECK(block_reads == (erased < 3 ? 3U - erased : 0U));
    REQUIRE(m.put(map_action::erase, erased));
    CHECK(observed_map(m.shape).leaked(m.simulation.memory) == 0);
  }
}

TEST_CASE("a block of a map has nothing of the writer's memory beside the entries")
{
  single_map m(shape_of(1, 1));
  for (key_type key = 0; key != 4; ++key)
    REQUIRE(m.put(map_action::insert, key, key));
  change fifth(m.shape, map_action::insert, 4, 4);
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
  const find found = m.run(find(m.shape, 4));
  CHECK(m.ec == rdma::error::contended);
  CHECK(found.stale() == objects::map_read::reads_max);
}

// Poisson with 3.2 entries for each bucket: E[max(X - 4, 0)] / 3.2 and P(X > 4).
TEST_CASE("lookups in a map at its capacity need a second read as often as the guide states")
{
  constexpr std::uint64_t count = 20'000;
  const map_shape shape = map_shape::with_capacity(form.key_size, form.value_size, count);
  single_map m({form.key_size, form.value_size, shape.buckets, shape.blocks, 12345});
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
    present += m.run(find(m.shape, static_cast<key_type>(i))).block_reads();
    absent += m.run(find(m.shape, static_cast<key_type>(i + count))).block_reads();
  }
  CHECK(std::abs(static_cast<double>(present) / count - 0.123) < 0.01);
  CHECK(std::abs(static_cast<double>(absent) / count - 0.219) < 0.015);
}

namespace {

// Operations of random processes, which are stopped and killed, on one map. Something that stops
// the time after each turn sees every version of each bucket when it is committed. Operations have
// to agree with the version that they report, which was the current one while they ran.
struct random_history
{
  explicit random_history(std::uint64_t seed)
    : shape(shape_of(2, 2 + seed % 3, seed))
    , simulation(seed, shape.size() / 8)
    , observed(shape)
  {
    for (std::uint64_t i = 0; i != shape.buckets; ++i)
      versions[i].emplace(0, version{});
    for (std::size_t i = 0; i != processes; ++i)
      next(i);
  }

  struct version
  {
    entries content;
    bool claimed = false; // by the operation that stored it
  };

  [[nodiscard]] objects::tag committed(std::uint64_t bucket) const
  {
    return objects::cell_head::of(simulation.memory[shape.cell_offset(bucket) / 8]).committed;
  }

  // Sees new versions. Each changes one key.
  void observe()
  {
    for (std::uint64_t i = 0; i != shape.buckets; ++i)
    {
      const objects::tag now = committed(i);
      const auto last = versions[i].rbegin();
      if (now == last->first)
        continue;
      std::set<std::uint32_t> blocks;
      const auto content = observed.bucket(simulation.memory, i, blocks);
      right =
        right && now > last->first && content && observed.leaked(simulation.memory).has_value();
      if (!right)
        return;
      std::size_t differences = 0;
      for (const auto& [key, value] : *content)
        if (const auto before = last->second.content.find(key);
            before == last->second.content.end() || before->second != value)
        {
          ++differences;
          right = right && values.insert(value).second; // no store takes effect twice
        }
      for (const auto& [key, value] : last->second.content)
        differences += !content->contains(key);
      right = right && differences == 1;
      versions[i].emplace(now, version{*content});
    }
  }

  // The version that an operation reports was the current one at some time between its ends.
  version* reported(std::uint64_t bucket, objects::tag at, objects::tag floor)
  {
    const auto found = versions[bucket].find(at);
    right = right && found != versions[bucket].end() && at >= floor;
    return right ? &found->second : nullptr;
  }

  void next(std::size_t process)
  {
    if (++begun > operations_max)
      return;
    const auto key = static_cast<key_type>(simulation.below(keys));
    const std::uint64_t bucket = shape.bucket_of(std::as_bytes(std::span(&key, 1)));
    const objects::tag floor = committed(bucket);
    const std::uint64_t kind = simulation.below(10);
    finds[process] = kind < 4;
    if (finds[process])
      simulation.start<find>(process, find(shape, key),
        [this, process, key, bucket, floor](const rdma::error_code& ec, find& f)
        {
          block_reads += f.block_reads();
          stale += f.stale();
          ended(ec);
          if (!ec)
            if (const version* const at = reported(bucket, f.version(), floor))
            {
              const auto found = at->content.find(key);
              right = right
                && f.result()
                  == (found == at->content.end() ? std::nullopt : std::optional(found->second));
            }
          next(process);
        });
    else
    {
      const map_action action = kind < 6 ? map_action::insert
        : kind < 7                       ? map_action::update
        : kind < 8                       ? map_action::insert_or_assign
                                         : map_action::erase;
      simulation.start<change>(process, change(shape, action, key, static_cast<number>(begun)),
        [this, process, key, bucket, floor](const rdma::error_code& ec, change& c)
        {
          retries += c.retries();
          ended(ec);
          changed(ec, c, key, bucket, floor);
          next(process);
        });
    }
  }

  void ended(const rdma::error_code& ec)
  {
    full += ec == rdma::error::object_full;
    aborted += ec == boost::asio::error::operation_aborted;
    completed += !ec;
    right = right
      && (!ec || ec == rdma::error::object_full || ec == boost::asio::error::operation_aborted);
  }

  void changed(
    const rdma::error_code& ec, change& c, key_type key, std::uint64_t bucket, objects::tag floor)
  {
    if (ec)
    {
      right = right && !values.contains(c.entry[1]);
      return;
    }
    version* const at = reported(bucket, c.version(), floor);
    if (at == nullptr)
      return;
    const auto here = versions[bucket].find(c.version());
    const entries& before = c.changed() ? std::prev(here)->second.content : at->content;
    const bool present = before.contains(key);
    const bool changes =
      c.action == map_action::insert_or_assign || present != (c.action == map_action::insert);
    right = right && c.was_present() == present && c.changed() == changes;
    if (!c.changed() || !right)
      return;
    const auto after = at->content.find(key);
    right = right && c.version() > floor && !std::exchange(at->claimed, true)
      && (c.action == map_action::erase
          ? after == at->content.end()
          : after != at->content.end() && after->second == c.entry[1]);
  }

  void run()
  {
    while (simulation.turn())
    {
      observe();
      right = right && simulation.now < 5'000'000;
      if (!right)
        return;
      const std::size_t process = simulation.below(processes);
      const std::uint64_t fate = simulation.below(2000);
      if (fate == 0 && kills != kills_max)
      {
        kills += simulation.is_busy(process);
        simulation.kill(process);
        next(process); // another process in its place
      }
      else if (fate < 8)
        simulation.stop(process, 2000 + simulation.below(5000)); // others take over after 2,400
      else if (fate < 14)
        simulation.cancel(process);
      else if (fate < 60 && finds[process]) // blocks are used again meanwhile
        simulation.stop(process, 500 + simulation.below(4000));
    }
    check_end();
  }

  // All that is lost is a block for each process that died.
  void check_end()
  {
    const auto lost = observed.leaked(simulation.memory);
    right = right && lost && *lost <= kills;
    leaks += lost.value_or(0);
    std::size_t unclaimed = 0;
    for (const auto& bucket : versions)
      for (const auto& each : bucket.second)
        unclaimed += !each.second.claimed;
    right = right && unclaimed <= kills + shape.buckets; // the first versions
    for (std::uint64_t i = 0; i != shape.blocks; ++i)
      allocations += objects::block_state::of(simulation.memory[shape.state_offset(i) / 8]).number;
  }

  static constexpr std::size_t processes = 6;
  static constexpr std::size_t operations_max = 150;
  static constexpr std::size_t keys = 20;
  static constexpr std::size_t kills_max = 3;

  map_shape shape;
  object_simulation simulation;
  observed_map observed;
  std::map<std::uint64_t, std::map<objects::tag, version>> versions; // of each bucket
  std::set<number> values;                                           // that were stored
  std::array<bool, processes> finds{};
  std::size_t begun = 0;
  std::size_t kills = 0;
  bool right = true;

  std::size_t completed = 0;
  std::size_t full = 0;
  std::size_t aborted = 0;
  std::size_t block_reads = 0;
  std::size_t stale = 0;
  std::size_t retries = 0;
  std::size_t leaks = 0;
  std::size_t allocations = 0;
};

} // namespace

TEST_CASE("operations of a map are linearizable with processes that stop and die")
{
  std::size_t completed = 0;
  std::size_t full = 0;
  std::size_t aborted = 0;
  std::size_t block_reads = 0;
  std::size_t stale = 0;
  std::size_t retries = 0;
  std::size_t leaks = 0;
  std::size_t allocations = 0;
  for (std::uint64_t seed = 0; seed != 4000; ++seed)
  {
    random_history history(seed);
    history.run();
    INFO("seed " << seed);
    REQUIRE(history.right);
    completed += history.completed;
    full += history.full;
    aborted += history.aborted;
    block_reads += history.block_reads;
    stale += history.stale;
    retries += history.retries;
    leaks += history.leaks;
    allocations += history.allocations;
  }
  INFO("completed " << completed << ", full " << full << ", aborted " << aborted << ", block reads "
                    << block_reads << ", stale " << stale << ", retries " << retries << ", leaks "
                    << leaks << ", allocations " << allocations);
  CHECK(completed > 100'000);
  CHECK(full > 5000);
  CHECK(aborted > 1000);
  CHECK(block_reads > 10'000);
  CHECK(stale > 300);
  CHECK(retries > 10'000);
  CHECK(leaks > 100);
  CHECK(allocations > 10'000);
}
