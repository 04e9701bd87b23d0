//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/map_simulation.hpp"

#include <boost_rdma/detail/objects/map_growth.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace test::map_growth_test {

// Tests maps that grow, on simulated memory.

namespace {

struct grow : objects::map_growth
{
  explicit grow(const objects::map_tables& to)
    : target(to)
  {
  }
  objects::step begin() { return map_growth::begin(target, old_room.room(), new_room.room()); }

  objects::map_tables target;
  operations::room old_room{};
  operations::room new_room{};
};

// The tables of a map, one behind the other in memory.
struct table_row
{
  table_row(const map_shape& first, std::size_t count)
  {
    map_shape shape = first;
    for (std::size_t i = 0; i != count; ++i)
    {
      tables.push_back(tables_of(shape, size).first);
      size += shape.size();
      shape.buckets *= 2;
      shape.blocks *= 2;
    }
  }

  void encode(std::vector<std::uint64_t>& memory) const
  {
    for (std::size_t i = 1; i != tables.size(); ++i)
      objects::encode_pending(tables[i].shape,
        std::span(memory).subspan(tables[i].memory.address() / 8, tables[i].shape.size() / 8));
  }

  // The tables when the map has grown to one of these.
  [[nodiscard]] objects::map_tables at(std::size_t current) const
  {
    return {tables[0], tables[current], current == 0 ? objects::map_table() : tables[current - 1]};
  }

  std::vector<objects::map_table> tables;
  std::uint64_t size = 0;
};

} // namespace

TEST_CASE("a map that grows has its entries in the larger table")
{
  const table_row row(shape_of(3, 12, 7), 3);
  single_map m(row.tables[0].shape);
  m.simulation.memory.resize(row.size / 8);
  row.encode(m.simulation.memory);
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
      const find found = m.run(find(m.tables, key));
      CHECK(found.result() == key);
      CHECK(found.tables().current.shape.buckets == row.tables[to].shape.buckets);
      CHECK(found.tables().current.memory.address() == row.tables[to].memory.address());
    }
    CHECK(m.look_up(count) == std::nullopt);
    CHECK(m.put(map_action::insert, count, 1));
    CHECK_FALSE(m.put(map_action::insert, count, 2));
    CHECK(m.put(map_action::erase, count));
    std::size_t entries_found = 0;
    const observed_table newest(row.tables[to].shape, row.tables[to].memory.address());
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
  for (std::uint64_t seed = 1; seed != 400; ++seed)
  {
    const table_row row(shape_of(1, 3, seed), 2);
    single_map m(row.tables[0].shape);
    m.simulation.memory.resize(row.size / 8);
    row.encode(m.simulation.memory);
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
    for (const auto& each : row.tables)
      REQUIRE(observed_table(each.shape, each.memory.address()).leaked(m.simulation.memory));
    CHECK(observed_table(row.tables[1].shape, row.tables[1].memory.address())
            .leaked(m.simulation.memory)
      == 0);
  }
  CHECK(aborted > 50);
}

TEST_CASE("a map whose directory is impossible fails with object_mismatch")
{
  const table_row row(shape_of(2, 4), 2);
  const auto word = GENERATE(0, 1, 2, 3);
  objects::map_directory directory{
    {.address = row.tables[1].memory.address(), .buckets = 4, .blocks = 8, .key = 1, .kind = 1},
    {}};
  objects::map_tables tables = row.at(0);
  CHECK(tables.set(directory));
  CHECK(tables.current.shape.buckets == 4);
  CHECK(tables.previous.shape.buckets == 2);
  auto& current = directory.current;
  if (word == 0)
    current.address += 4;
  else if (word == 1)
    current.buckets = UINT64_MAX;
  else if (word == 2)
    current.blocks = 0;
  else
    current.kind = 2;
  CHECK_FALSE(tables.set(directory));
}

namespace {

// Operations of random processes, which are stopped and killed, while the owner lets the map grow.
// Something that stops the time after each turn sees the content of each bucket of the first table
// and of those to which it has grown. It changes by one key at a time. Each operation has to have
// its effect while it runs.
struct growth_history
{
  explicit growth_history(std::uint64_t seed)
    : cancels(seed % 2 == 0)
    , kills_max(seed % 4 < 2 ? 0 : 3)
    , row(shape_of(2, 3 + seed % 4, seed), tables_max)
    , shape(row.tables[0].shape)
    , simulation(seed, row.size / 8)
  {
    row.encode(simulation.memory);
    for (const auto& each : row.tables)
      observed.emplace_back(each.shape, each.memory.address());
    for (auto& part : parts)
      part.push_back({});
    known.fill(row.at(0));
    for (std::size_t i = 1; i != processes; ++i)
      next(i);
    simulation.start<find>(
      0, find(row.at(0), 0), [this](const rdma::error_code&, find&) { own(); });
  }

  struct moment
  {
    entries content;
    std::optional<key_type> key{}; // that was changed
    bool claimed = false;          // by the operation that has changed it
  };
  using bucket_state = objects::bucket_state;

  bucket_state state(std::size_t table, std::uint64_t bucket) const
  {
    std::array<std::byte, form.bucket_size()> value;
    objects::tag version = 0;
    const observed_table& in = observed[table];
    objects::map_head head;
    if (objects::decode_cell(
          std::span(simulation.memory)
            .subspan(in.first + in.shape.cell_offset(bucket) / 8, in.shape.cell_size() / 8),
          value, version))
      std::memcpy(&head, value.data(), sizeof head);
    return head.state();
  }

  // Adds the entries of a bucket, wherever they are. Returns false if something is damaged.
  bool collect(
    std::size_t table, std::uint64_t bucket, entries& to, std::set<std::uint32_t>* blocks)
  {
    std::vector<std::set<std::uint32_t>> own(tables_max);
    const auto content = observed[table].bucket(
      simulation.memory, bucket, blocks != nullptr ? blocks[table] : own[table]);
    if (!content)
      return false;
    std::array<bool, 2> moved{};
    if (state(table, bucket) == bucket_state::frozen && table + 1 != tables_max)
      for (std::uint64_t half = 0; half != 2; ++half)
        if (state(table + 1, 2 * bucket + half) != bucket_state::pending)
        {
          moved[half] = true;
          if (!collect(table + 1, 2 * bucket + half, to, blocks))
            return false;
        }
    if (moved[0] && moved[1])
      return true;
    const std::uint64_t buckets = 2 * observed[table].shape.buckets;
    for (const auto& [key, value] : *content)
      if (!moved[position_of(shape, key) * buckets >> 32 & 1])
        if (!to.emplace(key, value).second)
          return false;
    return true;
  }

  void observe()
  {
    for (std::uint64_t i = 0; i != shape.buckets; ++i)
    {
      // Only a change of a head can change the content.
      std::vector<std::uint64_t> heads;
      for (std::size_t table = 0; table != tables_max; ++table)
        for (std::uint64_t j = i << table; j != (i + 1) << table; ++j)
          heads.push_back(observed[table].head(simulation.memory, j).committed);
      if (std::exchange(seen[i], heads) == heads)
        continue;
      moment now;
      right = right && collect(0, i, now.content, nullptr);
      if (!right)
        return;
      const entries& before = parts[i].back().content;
      std::size_t differences = 0;
      for (const auto& [key, value] : now.content)
        if (const auto was = before.find(key); was == before.end() || was->second != value)
        {
          ++differences;
          now.key = key;
          right = right && values.insert(value).second; // no store takes effect twice
        }
      for (const auto& [key, value] : before)
        if (!now.content.contains(key))
        {
          ++differences;
          now.key = key;
        }
      right = right && differences <= 1;
      if (differences != 0)
        parts[i].push_back(now);
    }
  }

  // Returns true if `is` of one of the contents since `from`.
  template <class Is>
  bool at_some_moment(std::uint64_t part, std::size_t from, Is is)
  {
    return std::any_of(parts[part].begin() + static_cast<std::ptrdiff_t>(from), parts[part].end(),
      [&](const moment& m) { return is(m.content); });
  }

  // The owner grows the map, and tries again.
  void own()
  {
    if (grown + 1 == tables_max)
      return;
    simulation.start<grow>(0, grow(row.at(grown + 1)),
      [this](const rdma::error_code& ec, grow&)
      {
        right = right
          && (!ec || ec == rdma::error::object_full || ec == boost::asio::error::operation_aborted);
        grown += !ec;
        stalls += ec ? 1 : 0;
        own();
      });
  }

  void next(std::size_t process)
  {
    if (++begun > operations_max)
      return;
    const auto key = static_cast<key_type>(simulation.below(keys));
    const std::uint64_t part = shape.bucket_of(position_of(shape, key));
    const std::size_t from = parts[part].size() - 1;
    const objects::map_tables& tables = known[process];
    const std::uint64_t kind = simulation.below(11);
    const auto ended = [this, process](const rdma::error_code& ec, const objects::map_tables& now)
    {
      right = right
        && (!ec || ec == rdma::error::object_full || ec == boost::asio::error::operation_aborted);
      completed += !ec;
      followed += now.current.shape.buckets != known[process].current.shape.buckets;
      if (!ec && simulation.below(2) == 0)
        known[process] = now;
    };
    if (kind < 4)
      simulation.start<find>(process, find(tables, key),
        [this, process, key, part, from, ended](const rdma::error_code& ec, find& f)
        {
          ended(ec, f.tables());
          previous += !ec && f.reading().room().head().state() == bucket_state::frozen;
          right = right
            && (ec
              || at_some_moment(part, from,
                [&](const entries& e)
                {
                  const auto found = e.find(key);
                  return f.result()
                    == (found == e.end() ? std::nullopt : std::optional(found->second));
                }));
          next(process);
        });
    else if (kind == 10)
      scan(process, ended);
    else
    {
      const map_action action = kind < 6 ? map_action::insert
        : kind < 7                       ? map_action::update
        : kind < 8                       ? map_action::insert_or_assign
                                         : map_action::erase;
      simulation.start<change>(process, change(tables, action, key, static_cast<number>(begun)),
        [this, process, key, part, from, ended](const rdma::error_code& ec, change& c)
        {
          ended(ec, c.tables());
          right = right && (ec ? !values.contains(c.stored) : has_effect(c, key, part, from));
          next(process);
        });
    }
  }

  // Reads all entries. Those that are present all the time are found, and no key twice.
  template <class Ended>
  void scan(std::size_t process, const Ended& ended)
  {
    std::array<std::size_t, 2> from;
    for (std::size_t i = 0; i != from.size(); ++i)
      from[i] = parts[i].size() - 1;
    simulation.start<operations::scan>(process, {handle(known[process]), 0, shape.buckets},
      [this, process, ended, from](const rdma::error_code& ec, operations::scan& s)
      {
        ended(ec, s.tables());
        if (!ec)
          right = right && are_right(s.entries, from);
        scans += !ec;
        next(process);
      });
  }

  bool are_right(
    const std::vector<std::pair<key_type, number>>& found, const std::array<std::size_t, 2>& from)
  {
    const entries all(found.begin(), found.end());
    if (all.size() != found.size())
      return false;
    for (key_type key = 0; key != keys; ++key)
    {
      const std::uint64_t part = shape.bucket_of(position_of(shape, key));
      const auto there = all.find(key);
      if (!at_some_moment(part, from[part],
            [&](const entries& e)
            {
              const auto was = e.find(key);
              return there == all.end() ? was == e.end()
                                        : was != e.end() && was->second == there->second;
            }))
        return false;
    }
    return true;
  }

  bool has_effect(const change& c, key_type key, std::uint64_t part, std::size_t from)
  {
    const bool changes =
      c.what == map_action::insert_or_assign || c.was_present() != (c.what == map_action::insert);
    if (c.changed() != changes)
      return false;
    if (!changes)
      return at_some_moment(
        part, from, [&](const entries& e) { return e.contains(key) == c.was_present(); });
    for (std::size_t i = from + 1; i < parts[part].size(); ++i)
    {
      moment& now = parts[part][i];
      const auto after = now.content.find(key);
      const bool is_this = c.what == map_action::erase
        ? after == now.content.end()
        : after != now.content.end() && after->second == c.stored;
      if (now.key == key && !now.claimed && is_this)
      {
        now.claimed = true;
        return parts[part][i - 1].content.contains(key) == c.was_present();
      }
    }
    return false;
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
      if (fate == 0 && kills != kills_max && process != 0) // the owner's death ends the map
      {
        kills += simulation.is_busy(process);
        simulation.kill(process);
        next(process); // another process in its place
      }
      else if (fate < 8)
        simulation.stop(process, 2000 + simulation.below(5000));
      else if (fate < 14 && cancels)
        simulation.cancel(process);
    }
    check_end();
  }

  void check_end()
  {
    right = right && grown + 1 == tables_max;
    std::size_t unclaimed = 0;
    for (const auto& part : parts)
      for (const moment& each : part)
        unclaimed += each.key && !each.claimed;
    right = right && unclaimed <= kills;
    // The newest table has no lost blocks but those of processes that died.
    const auto lost = observed.back().leaked(simulation.memory);
    right = right && lost && *lost <= kills;
    std::vector<std::set<std::uint32_t>> blocks(tables_max);
    for (std::uint64_t i = 0; i != shape.buckets && right; ++i)
    {
      entries all;
      right = collect(0, i, all, blocks.data()) && all == parts[i].back().content;
    }
  }

  static constexpr std::size_t processes = 5; // the first one is the owner
  static constexpr std::size_t operations_max = 150;
  static constexpr std::size_t keys = 24;
  static constexpr std::size_t tables_max = 3;

  bool cancels; // otherwise, every operation has to end by itself
  std::size_t kills_max;
  table_row row;
  map_shape shape;
  object_simulation simulation;
  std::vector<observed_table> observed;
  std::array<std::vector<moment>, 2> parts;
  std::array<std::vector<std::uint64_t>, 2> seen;
  std::array<objects::map_tables, processes> known;
  std::set<number> values; // that were stored
  std::size_t begun = 0;
  std::size_t kills = 0;
  std::size_t grown = 0;
  bool right = true;

  std::size_t completed = 0;
  std::size_t followed = 0; // operations that found a later table
  std::size_t previous = 0; // lookups in frozen buckets
  std::size_t scans = 0;
  std::size_t stalls = 0; // growths that had to be continued
};

} // namespace

TEST_CASE("operations of a map that grows are linearizable with processes that stop and die")
{
  std::size_t completed = 0;
  std::size_t followed = 0;
  std::size_t previous = 0;
  std::size_t scans = 0;
  std::size_t stalls = 0;
  for (std::uint64_t seed = 0; seed != 600; ++seed)
  {
    growth_history history(seed);
    history.run();
    INFO("seed " << seed);
    REQUIRE(history.right);
    completed += history.completed;
    followed += history.followed;
    previous += history.previous;
    scans += history.scans;
    stalls += history.stalls;
  }
  INFO("completed " << completed << ", followed " << followed << ", previous " << previous
                    << ", scans " << scans << ", stalls " << stalls);
  CHECK(completed > 60'000);
  CHECK(followed > 1000);
  CHECK(previous > 300);
  CHECK(scans > 2000);
  CHECK(stalls > 300);
}

} // namespace test::map_growth_test
