//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/object_simulation.hpp"

#include <boost_rdma/detail/objects/cell.hpp>

#include <boost/asio/error.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>

namespace test::cell_test {

// Tests the state machines of cells on simulated memory.

using objects::cell_head;

namespace {

constexpr std::size_t value_size = 12;
constexpr std::size_t words = objects::cell_words(value_size);
using value_bytes = std::array<std::uint32_t, value_size / 4>;

value_bytes value_of(std::uint32_t number)
{
  value_bytes result;
  for (std::size_t i = 0; i != result.size(); ++i)
    result[i] = number * 16 + static_cast<std::uint32_t>(i);
  return result;
}

struct load : objects::cell_load
{
  objects::step begin()
  {
    return cell_load::begin(0, image, std::as_writable_bytes(std::span(value)));
  }
  std::array<std::uint64_t, words> image{};
  value_bytes value{};
};

struct store : objects::cell_store
{
  explicit store(std::uint32_t number, std::optional<objects::tag> version = {})
    : value(value_of(number))
    , expected(version)
  {
  }
  objects::step begin()
  {
    return cell_store::begin(0, image, std::as_bytes(std::span(value)), expected);
  }
  std::array<std::uint64_t, words> image{};
  value_bytes value;
  std::optional<objects::tag> expected;
};

} // namespace

TEST_CASE("tags are compared across the end of their range")
{
  CHECK(objects::is_newer(1, 0));
  CHECK_FALSE(objects::is_newer(0, 0));
  CHECK_FALSE(objects::is_newer(0, 1));
  CHECK(objects::is_newer(0, objects::tag_mask));
  CHECK(objects::next_of(objects::tag_mask) == 0);
  CHECK_FALSE(objects::is_newer(objects::tag_mask, 0));
}

TEST_CASE("the head of a cell keeps its parts")
{
  const auto phase =
    GENERATE(cell_head::phase::idle, cell_head::phase::claimed, cell_head::phase::copying);
  const cell_head head{objects::tag_mask, objects::tag_mask - 5, phase};
  const cell_head read = cell_head::of(head.packed());
  CHECK(read.committed == head.committed);
  CHECK(read.newest == head.newest);
  CHECK(read.phase == head.phase);
}

namespace {

// Loads and stores of random processes, which are stopped and killed. The order of the versions is
// the order of the stores, so a history is right if no operation has an older version than one that
// ended before it began, and a version has one value.
struct random_history
{
  explicit random_history(std::uint64_t seed)
    : simulation(seed, words)
  {
    objects::encode_cell(simulation.memory, std::as_bytes(std::span(stored[0])));
    values.emplace(0, stored[0]);
    for (std::size_t i = 0; i != processes; ++i)
      next(i);
  }

  void next(std::size_t process)
  {
    if (++begun > operations_max)
      return;
    const objects::tag floor = newest_ended;
    if (simulation.below(2) == 0)
      simulation.start<load>(process, {},
        [this, process, floor](const rdma::error_code& ec, load& l)
        {
          torn += l.torn();
          right = right && ec != rdma::error::contended;
          if (!ec)
            ended(l.version(), l.value, floor, false);
          next(process);
        });
    else
    {
      const auto number = static_cast<std::uint32_t>(begun);
      const bool compares = simulation.below(4) != 0;
      const objects::tag expected = newest_ended;
      simulation.start<store>(process,
        store(number, compares ? std::optional(expected) : std::nullopt),
        [this, process, floor](const rdma::error_code& ec, store& s)
        {
          if (!ec && s.stored())
          {
            ended(s.version(), s.value, floor, true);
            if (s.expected)
              right = right && replaced.insert(*s.expected).second;
          }
          next(process);
        });
    }
  }

  void ended(objects::tag version, const value_bytes& value, objects::tag floor, bool stores)
  {
    right = right && (stores ? version > floor : version >= floor);
    const auto [found, added] = values.emplace(version, value);
    right = right && found->second == value;
    newest_ended = std::max(newest_ended, version);
    ++completed;
  }

  // The value can be read when all processes have ended, whatever they left.
  void check_end()
  {
    simulation.start<load>(0, {},
      [this](const rdma::error_code& ec, load& l)
      {
        right = right && !ec;
        ended(l.version(), l.value, newest_ended, false);
      });
    while (simulation.turn())
      ;
  }

  void run()
  {
    while (simulation.turn())
    {
      right = right && simulation.now < 5'000'000;
      if (!right)
        return;
      const std::size_t process = simulation.below(processes);
      const std::uint64_t fate = simulation.below(1000);
      if (fate == 0)
      {
        simulation.kill(process);
        next(process); // another process in its place
      }
      else if (fate < 8)
        simulation.stop(process, 2000 + simulation.below(5000)); // others take over after 2,400
      else if (fate < 10)
        simulation.cancel(process);
    }
    check_end();
  }

  static constexpr std::size_t processes = 4;
  static constexpr std::size_t operations_max = 200;

  object_simulation simulation;
  std::array<value_bytes, 1> stored{value_of(0)};
  std::map<objects::tag, value_bytes> values;
  std::set<objects::tag> replaced; // by a store that compared
  objects::tag newest_ended = 0;
  std::size_t begun = 0;
  std::size_t completed = 0;
  unsigned torn = 0;
  bool right = true;
};

} // namespace

TEST_CASE("a store that is cancelled at any point leaves no claim")
{
  std::size_t aborted = 0;
  for (std::size_t turns = 0; turns != 40; ++turns)
  {
    object_simulation simulation(turns, words);
    const value_bytes initial = value_of(0);
    objects::encode_cell(simulation.memory, std::as_bytes(std::span(initial)));
    simulation.start<store>(0, store(1),
      [&aborted](const rdma::error_code& ec, store& s)
      {
        aborted += ec ? 1 : 0;
        CHECK((ec == boost::asio::error::operation_aborted) != s.stored());
      });
    for (std::size_t i = 0; i != turns && simulation.turn(); ++i)
      ;
    simulation.cancel(0);
    while (simulation.turn())
      ;
    CHECK(cell_head::of(simulation.memory[0]).phase == cell_head::phase::idle);
  }
  CHECK(aborted > 10);
  CHECK(aborted < 40);
}

TEST_CASE("a store copies a word again that a late process has changed")
{
  object_simulation simulation(1, words);
  value_bytes value = value_of(0);
  objects::encode_cell(simulation.memory, std::as_bytes(std::span(value)));
  bool stored = false;
  simulation.start<store>(
    0, store(1), [&stored](const rdma::error_code& ec, store& s) { stored = !ec && s.stored(); });
  while (cell_head::of(simulation.memory[0]).phase != cell_head::phase::copying)
    REQUIRE(simulation.turn());
  simulation.memory[1] = objects::cell_word{9, objects::tag_mask}.packed();
  while (simulation.turn())
    ;
  CHECK(stored);
  objects::tag version = 0;
  // The head and the current copy
  REQUIRE(objects::decode_cell(std::span(simulation.memory).first(1 + words / 2),
    std::as_writable_bytes(std::span(value)), version));
  CHECK(value == value_of(1));
}

TEST_CASE("loads and stores of a cell are linearizable with processes that stop and die")
{
  std::size_t completed = 0;
  unsigned torn = 0;
  for (std::uint64_t seed = 0; seed != seeds_of(4000); ++seed)
  {
    random_history history(seed);
    history.run();
    INFO("seed " << seed);
    REQUIRE(history.right);
    completed += history.completed;
    torn += history.torn;
  }
  CHECK(completed >= least(100'000));
  CHECK(torn >= least(1000));
}

} // namespace test::cell_test
