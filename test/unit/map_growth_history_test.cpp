//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/map_growth_simulation.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace test::map_growth_history_test {

// Tests operations of many processes on a map that grows, on simulated memory.

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
    , row(shape_of(2, 3 + seed % 4, seed), tables_max, seed % 3 == 0 ? 1 : 0)
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
    return observed[table].state(simulation.memory, bucket);
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

  // The owner grows the map, and tries again as long as others may make room.
  void own()
  {
    if (grown + 1 == tables_max || (is_full && begun > operations_max))
      return;
    simulation.start<grow>(0, grow(row.at(grown + 1)),
      [this](const rdma::error_code& ec, grow&)
      {
        right = right
          && (!ec || ec == rdma::error::object_full || ec == boost::asio::error::operation_aborted);
        grown += !ec;
        cancelled += ec == boost::asio::error::operation_aborted;
        is_full = ec == rdma::error::object_full;
        full += is_full;
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
          previous += !ec && f.reading().buffers().head().state() == bucket_state::frozen;
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
    right = right && (grown + 1 == tables_max || is_full);
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
  bool is_full = false; // the last growth has failed
  bool right = true;

  std::size_t completed = 0;
  std::size_t followed = 0; // operations that found a later table
  std::size_t previous = 0; // lookups in frozen buckets
  std::size_t scans = 0;
  std::size_t cancelled = 0; // growths that had to be continued
  std::size_t full = 0;
};

} // namespace

TEST_CASE("operations of a map that grows are linearizable with processes that stop and die")
{
  std::size_t completed = 0;
  std::size_t followed = 0;
  std::size_t previous = 0;
  std::size_t scans = 0;
  std::size_t cancelled = 0;
  std::size_t full = 0;
  for (std::uint64_t seed = 0; seed != seeds_of(600); ++seed)
  {
    growth_history history(seed);
    history.run();
    INFO("seed " << seed);
    REQUIRE(history.right);
    completed += history.completed;
    followed += history.followed;
    previous += history.previous;
    scans += history.scans;
    cancelled += history.cancelled;
    full += history.full;
  }
  INFO("completed " << completed << ", followed " << followed << ", previous " << previous
                    << ", scans " << scans << ", cancelled " << cancelled << ", full " << full);
  CHECK(completed >= least(60'000));
  CHECK(followed >= least(1000));
  CHECK(previous >= least(300));
  CHECK(scans >= least(2000));
  CHECK(cancelled >= least(200));
  CHECK(full >= least(15));
}

} // namespace test::map_growth_history_test
