//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/log_machines.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace test::log_simulation_test {

// Appends to, reads and trims simulated logs by processes that are stopped, killed and replaced.

namespace {

struct events
{
  std::size_t appended = 0;
  std::size_t given_up = 0; // indexes that were skipped during an append
  std::size_t waits = 0;    // of appends for room
  std::size_t full = 0;
  std::size_t torn = 0;
  std::size_t seals = 0;
  std::size_t holes = 0; // that readers passed
  std::size_t read = 0;
  std::size_t out_of_range = 0;
  std::size_t trimmed_first = 0; // appends whose index was trimmed before they ended
  std::size_t aborted = 0;
  std::uint64_t laps = 0;
};

struct log_history
{
  enum role : std::size_t
  {
    producer = 0, // 0 to 2
    reader = 3,   // 3 to 4
    trimmer = 5,  // 5 to 6
    processes = 7,
  };

  explicit log_history(std::uint64_t seed)
    : shape{.order = static_cast<unsigned>(seed % 4), .lease = std::chrono::microseconds(400)}
    , simulation(seed, log_words(shape))
  {
    // Half of the histories reach the end of the numbers of laps.
    if (seed % 8 < 4)
      start = (std::uint64_t{objects::lap_mask} - 5) << shape.order;
    simulation.memory[objects::log_tail_offset / 8] = start;
    simulation.memory[objects::log_first_offset / 8] = start;
    for (std::size_t i = objects::log_entries_offset / 8; i != simulation.memory.size(); ++i)
      simulation.memory[i] = objects::log_word{7, shape.lap_of(start - shape.capacity()),
        objects::log_word::mark::written}
                               .packed();
    before = simulation.memory;
    positions = {start, start};
    for (std::size_t i = 0; i != processes; ++i)
      next(i);
  }

  void require(bool condition, const char* rule)
  {
    if (!condition && broken == nullptr)
      broken = rule;
  }

  [[nodiscard]] objects::log_control control() const
  {
    return {simulation.memory[objects::log_tail_offset / 8],
      simulation.memory[objects::log_first_offset / 8]};
  }

  void next(std::size_t process)
  {
    if (process >= trimmer)
      trim(process);
    else if (process >= reader)
      read(process);
    else if (seen.appended < appends_max)
      append(process);
  }

  void rest(std::size_t process, std::uint64_t shortest = 0)
  {
    const std::uint64_t limit = simulation.below(8) == 0 ? 1000 : 100;
    simulation.start<idle>(process, {std::chrono::microseconds(shortest + simulation.below(limit))},
      [this, process](const rdma::error_code&, idle&) { next(process); });
  }

  void append(std::size_t process)
  {
    if (simulation.below(4) == 0)
      return rest(process);
    const auto number = static_cast<std::uint32_t>(++begun);
    const auto floor = newest_appended;
    const auto since = simulation.now;
    simulation.start<append_of>(process, {shape, number},
      [this, process, number, floor, since](const rdma::error_code& ec, append_of& a)
      {
        seen.given_up += a.attempts();
        seen.waits += a.waits();
        if (!ec)
          appended(number, a.index(), floor);
        else
        {
          failed.insert(number);
          require(ec != rdma::error::contended, "appends end");
          if (ec == rdma::error::object_full)
          {
            ++seen.full;
            require(full_at >= since, "object_full: the log was full during the append");
            return rest(process, 100);
          }
          else
            ++seen.aborted;
        }
        next(process);
      });
  }

  void appended(std::uint32_t number, std::uint64_t index, std::optional<std::uint64_t> floor)
  {
    ++seen.appended;
    require(!floor || index > *floor, "indexes respect the order of appends");
    require(!holes.contains(index), "an append has no index that was skipped");
    require(succeeded.emplace(index, number).second, "an index is given once");
    found(index, log_value_of(number));
    seen.trimmed_first += index < trim_begun;
    newest_appended = std::max(newest_appended.value_or(0), index);
  }

  // Of one index, all processes have the same value, and a value has one index.
  void found(std::uint64_t index, const log_value& value)
  {
    const std::uint32_t number = value[0] / 4;
    require(value == log_value_of(number) && number >= 1 && number <= begun, "values are whole");
    require(entries.emplace(index, number).first->second == number, "an index has one value");
    require(index_of.emplace(number, index).first->second == index, "a value has one index");
  }

  void read(std::size_t process)
  {
    if (closing)
      return;
    std::uint64_t& position = positions[process - reader];
    const bool follows = simulation.below(8) != 0;
    const std::uint64_t from = follows ? position : start + simulation.below(position - start + 1);
    const std::uint64_t trimmed = trim_ended;
    simulation.start<read_of>(process,
      {shape, from, 1 + simulation.below(read_of::count_max), process == reader},
      [this, process, &position, follows, from, trimmed](
        const rdma::error_code& ec, const read_of& r)
      {
        ended(ec, r, from, trimmed);
        if (follows)
          position = r.next_index();
        next(process);
      });
  }

  void ended(
    const rdma::error_code& ec, const read_of& r, std::uint64_t from, std::uint64_t trimmed)
  {
    seen.torn += r.torn();
    seen.seals += r.seals();
    require(ec != rdma::error::contended, "reads end");
    require(ec || from >= trimmed, "a trimmed entry is not read");
    if (ec == rdma::error::out_of_range)
    {
      ++seen.out_of_range;
      require(r.next_index() <= trim_begun && r.next_index() > from,
        "out_of_range: the entry is trimmed, and next is not");
      return;
    }
    require(ec || r.count() != 0, "a read has an entry");
    require(r.count() <= r.limit, "a read has not more entries than room");
    // The indexes before the entries have none.
    const std::uint64_t begin = r.next_index() - r.count();
    for (std::uint64_t index = from; index < begin; ++index)
      hole(index);
    for (std::size_t i = 0; i != r.count(); ++i, ++seen.read)
      found(begin + i, r.values[i]);
  }

  void hole(std::uint64_t index)
  {
    seen.holes += holes.insert(index).second;
    require(!entries.contains(index), "a skipped index has no entry");
  }

  void trim(std::size_t process)
  {
    if (closing)
      return;
    if (simulation.below(3) != 0)
      return rest(process);
    const std::uint64_t slowest = std::ranges::min(positions);
    // Usually what all have read; sometimes what nobody has read.
    const std::uint64_t index =
      simulation.below(16) != 0 ? slowest : start + simulation.below(control().tail - start + 1);
    trim_begun = std::max(trim_begun, index);
    simulation.start<objects::log_trim>(process, objects::log_trim(index),
      [this, process, index](const rdma::error_code& ec, objects::log_trim&)
      {
        if (!ec)
          trim_ended = std::max(trim_ended, index);
        require(!ec || ec == asio_aborted, "a trim succeeds");
        next(process);
      });
  }

  // First index of the lap that is the nearest one to that of `index`.
  [[nodiscard]] std::uint64_t nearest(objects::lap lap, std::uint64_t index) const
  {
    const objects::lap ahead = (lap - shape.lap_of(index)) & objects::lap_mask;
    const std::int64_t laps =
      ahead <= objects::lap_mask / 2 ? ahead : std::int64_t{ahead} - objects::lap_mask - 1;
    return ((index >> shape.order) + static_cast<std::uint64_t>(laps)) << shape.order;
  }

  // The rules of the memory itself: a word changes only to a later lap.
  void check_memory()
  {
    const auto& memory = simulation.memory;
    const auto [tail, first] = control();
    if (!control().has_room(tail, shape))
      full_at = simulation.now;
    for (std::size_t i = objects::log_entries_offset / 8; i != memory.size(); ++i)
      if (before[i] != memory[i])
      {
        const auto now = objects::log_word::of(memory[i]);
        require(objects::compare_lap(before[i], now.lap) < 0, "a word changes to a later lap");
        const std::size_t place = (i - objects::log_entries_offset / 8) / log_value_words;
        const std::uint64_t index = nearest(now.lap, tail) + place;
        require(index < tail, "entries have an index that was reserved");
        require(index < first + shape.capacity(), "an entry is not overwritten before the trim");
        before[i] = memory[i];
      }
  }

  bool turn()
  {
    const bool more = simulation.turn();
    check_memory();
    require(simulation.now < 5'000'000, "operations end");
    return more && broken == nullptr;
  }

  void run()
  {
    while (turn())
    {
      if (!closing && seen.appended >= appends_max && !simulation.is_busy(0)
        && !simulation.is_busy(1) && !simulation.is_busy(2))
        closing = true;
      if (closing)
      {
        simulation.cancel(reader);
        simulation.cancel(reader + 1);
        continue;
      }
      const std::size_t process = simulation.below(processes);
      const std::uint64_t fate = simulation.below(1000);
      if (fate < 3)
      {
        simulation.kill(process);
        next(process); // another process in its place
      }
      else if (fate < 13)
        simulation.stop(process, 300 + simulation.below(3000)); // the lease has 800 turns
      else if (fate < 15)
        simulation.cancel(process);
    }
    check_end();
  }

  // A single reader comes to the end within one lease for each read, whatever the others left.
  void check_end()
  {
    std::uint64_t position = std::ranges::max(positions);
    std::uint64_t trimmed = 0;
    while (broken == nullptr && position < control().tail)
    {
      const std::uint64_t since = simulation.now;
      // Holes without room, which appends left that waited for it, need a trim.
      trim_begun = std::max(trim_begun, position);
      simulation.start<objects::log_trim>(trimmer, objects::log_trim(position),
        [&](const rdma::error_code& ec, objects::log_trim&) { require(!ec, "the last trims"); });
      while (turn())
        ;
      trim_ended = trimmed = std::max(trim_ended, position);
      // The last index may be a hole.
      const std::uint64_t from = position;
      bool ended = false;
      simulation.start<read_of>(reader, {shape, from, read_of::count_max},
        [&](const rdma::error_code& ec, const read_of& r)
        {
          this->ended(ec, r, from, trimmed);
          position = r.next_index();
          ended = true;
        });
      bool came_to_the_end = false;
      while (!ended && turn())
        if (!came_to_the_end && simulation.now - since > 3000) // 800 to 1600 turns, and looks
        {
          came_to_the_end = true;
          simulation.cancel(reader); // nothing is behind the last hole
        }
      require(position > from, "a reader gets on within a lease");
    }
    for (const auto& [index, number] : succeeded)
      require(!failed.contains(number), "an append ends once");
    for (const std::uint32_t number : failed)
      require(!index_of.contains(number), "an append that failed leaves no entry");
    seen.laps = (control().tail - start) >> shape.order;
  }

  const rdma::error_code asio_aborted = boost::asio::error::operation_aborted;
  static constexpr std::uint32_t appends_max = 90;

  objects::log_shape shape;
  object_simulation simulation;
  std::uint64_t start = 0; // the first index
  std::vector<std::uint64_t> before;
  std::uint32_t begun = 0; // appends
  std::map<std::uint64_t, std::uint32_t> entries, succeeded;
  std::map<std::uint32_t, std::uint64_t> index_of;
  std::set<std::uint64_t> holes;
  std::set<std::uint32_t> failed;
  std::optional<std::uint64_t> newest_appended;
  std::array<std::uint64_t, 2> positions{};
  std::uint64_t trim_begun = 0; // the highest index
  std::uint64_t trim_ended = 0;
  std::uint64_t full_at = 0;
  bool closing = false;
  const char* broken = nullptr;
  events seen;
};

} // namespace

TEST_CASE("entries of a log are lost, changed and repeated by no process that stops or dies")
{
  events all;
  for (std::uint64_t seed = 0; seed != seeds_of(1600); ++seed)
  {
    log_history history(seed);
    history.run();
    INFO("seed " << seed);
    INFO((history.broken != nullptr ? history.broken : ""));
    REQUIRE(history.broken == nullptr);
    all.appended += history.seen.appended;
    all.given_up += history.seen.given_up;
    all.waits += history.seen.waits;
    all.full += history.seen.full;
    all.torn += history.seen.torn;
    all.seals += history.seen.seals;
    all.holes += history.seen.holes;
    all.read += history.seen.read;
    all.out_of_range += history.seen.out_of_range;
    all.trimmed_first += history.seen.trimmed_first;
    all.aborted += history.seen.aborted;
    all.laps += history.seen.laps;
  }
  CHECK(all.appended >= least(100000));
  CHECK(all.given_up >= least(300));
  CHECK(all.waits >= least(5000));
  CHECK(all.full >= least(10000));
  CHECK(all.torn >= least(1000));
  CHECK(all.seals >= least(500));
  CHECK(all.holes >= least(1000));
  CHECK(all.read >= least(200000));
  CHECK(all.out_of_range >= least(10000));
  CHECK(all.trimmed_first >= least(80));
  CHECK(all.aborted >= least(1000));
  CHECK(all.laps >= least(30000));
}

} // namespace test::log_simulation_test
