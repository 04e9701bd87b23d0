//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/map_simulation.hpp"

#include <boost/asio/error.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace test::map_history_test {

// Tests operations of many processes on a map on simulated memory.

namespace {

// Operations of random processes, which are stopped and killed, on one map. Something that stops
// the time after each turn sees every version of each bucket when it is committed. Operations have
// to agree with the version that they report, which was the current one while they ran.
struct random_history
{
  explicit random_history(std::uint64_t seed)
    : kills_max(seed % 2 == 0 ? 0 : 3)
    , shape(shape_of(2, 2 + seed % 3, seed))
    , tables(tables_of(shape))
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
    return observed.head(simulation.memory, bucket).committed;
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
    const std::uint64_t bucket = shape.bucket_of(position_of(shape, key));
    const objects::tag floor = committed(bucket);
    const std::uint64_t kind = simulation.below(10);
    finds[process] = kind < 4;
    if (finds[process])
      simulation.start<find>(process, find(tables, key),
        [this, process, key, bucket, floor](const rdma::error_code& ec, find& f)
        {
          block_reads += f.block_reads();
          stale += f.stale();
          ended(ec);
          if (!ec)
            if (const version* const at = reported(bucket, f.reading().version(), floor))
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
      simulation.start<change>(process, change(tables, action, key, static_cast<number>(begun)),
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
      right = right && !values.contains(c.stored);
      return;
    }
    version* const at = reported(bucket, c.version(), floor);
    if (at == nullptr)
      return;
    const auto here = versions[bucket].find(c.version());
    const entries& before = c.changed() ? std::prev(here)->second.content : at->content;
    const bool present = before.contains(key);
    const bool changes =
      c.what == map_action::insert_or_assign || present != (c.what == map_action::insert);
    right = right && c.was_present() == present && c.changed() == changes;
    if (!c.changed() || !right)
      return;
    const auto after = at->content.find(key);
    right = right && c.version() > floor && !std::exchange(at->claimed, true)
      && (c.what == map_action::erase ? after == at->content.end()
                                      : after != at->content.end() && after->second == c.stored);
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

  std::size_t kills_max;
  map_shape shape;
  objects::map_tables tables;
  object_simulation simulation;
  observed_table observed;
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
  for (std::uint64_t seed = 0; seed != seeds_of(2000); ++seed)
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
  CHECK(completed >= least(100'000));
  CHECK(full >= least(2500));
  CHECK(aborted >= least(1000));
  CHECK(block_reads >= least(10'000));
  CHECK(stale >= least(150));
  CHECK(retries >= least(5000));
  CHECK(leaks >= least(100));
  CHECK(allocations >= least(10'000));
}

} // namespace test::map_history_test
