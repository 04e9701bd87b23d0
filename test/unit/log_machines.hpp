//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_LOG_MACHINES_HPP
#define BOOST_RDMA_TEST_UNIT_LOG_MACHINES_HPP

#include "common/catch.hpp"
#include "unit/object_simulation.hpp"

#include <boost_rdma/detail/objects/log.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace test {

/// A value of three words, which are all different.
using log_value = std::array<std::uint32_t, 3>;

inline constexpr std::size_t log_value_words = 3;

inline log_value log_value_of(std::uint32_t number)
{
  return {number * 4, number * 4 + 1, number * 4 + 2};
}

/// The machines of a log with their memory.
struct append_of : objects::log_append
{
  append_of(const objects::log_shape& of, std::uint32_t number)
    : shape(of)
    , value(log_value_of(number))
  {
  }
  objects::step begin() { return log_append::begin(shape, image, std::as_bytes(std::span(value))); }

  objects::log_shape shape;
  log_value value;
  std::array<std::uint64_t, log_value_words> image{};
};

struct read_of : objects::log_read
{
  static constexpr std::size_t count_max = 6;

  read_of(const objects::log_shape& of, std::uint64_t from, std::size_t count, bool seals = true)
    : shape(of)
    , index(from)
    , limit(count)
    , may_seal(seals)
  {
  }
  objects::step begin()
  {
    return log_read::begin(shape, may_seal, index, image,
      std::as_writable_bytes(std::span(values).first(limit)), sizeof(log_value));
  }

  objects::log_shape shape;
  std::uint64_t index;
  std::size_t limit;
  bool may_seal;
  std::array<log_value, count_max> values{};
  std::array<std::uint64_t, 4 * log_value_words> image{}; // less than count_max entries
};

/// A process without an operation.
struct idle
{
  objects::step begin() const { return objects::step::wait(time); }
  static objects::access_request request(std::size_t) { return {}; }
  static void answered(std::size_t, std::uint64_t) {}
  static objects::step next(bool) { return objects::step::finish(); }

  std::chrono::microseconds time;
};

/// Index of a word of an entry in the memory of a log.
inline std::size_t log_word_at(
  const objects::log_shape& shape, std::uint64_t index, std::size_t word = 0)
{
  return objects::log_entries_offset / 8 + shape.place_of(index) * log_value_words + word;
}

inline std::size_t log_words(const objects::log_shape& shape)
{
  return objects::log_size(shape.capacity(), sizeof(log_value)) / 8;
}

inline constexpr objects::log_shape small_log{.order = 2, .lease = std::chrono::microseconds(1000)};

/// A small log, and operations that are carried out to their ends.
struct log_memory
{
  explicit log_memory(std::uint64_t seed = 1)
    : simulation(seed, log_words(small_log))
  {
  }

  // Runs an operation to its end, while other processes run, too.
  template <class Machine>
  Machine end(std::size_t process, Machine machine)
  {
    std::optional<Machine> result;
    simulation.start<Machine>(process, std::move(machine),
      [&](const rdma::error_code& error, Machine& ended)
      {
        ec = error;
        result = ended;
      });
    const std::uint64_t limit = simulation.now + 100'000;
    while (!result)
    {
      REQUIRE(simulation.turn());
      REQUIRE(simulation.now < limit);
    }
    return *result;
  }

  std::uint64_t append(std::uint32_t number)
  {
    return end(9, append_of(small_log, number)).index();
  }
  void append(std::uint32_t from, std::uint32_t to)
  {
    for (std::uint32_t i = from; i != to; ++i)
    {
      CHECK(append(i) == i);
      CHECK_FALSE(ec);
    }
  }
  read_of read(std::uint64_t index, std::size_t count = read_of::count_max, bool seals = true)
  {
    return end(9, read_of(small_log, index, count, seals));
  }
  void trim(std::uint64_t index) { (void)end(9, objects::log_trim(index)); }

  // Takes an index for a process that does not go on.
  void leave_hole() { ++simulation.memory[objects::log_tail_offset / 8]; }

  objects::log_word first_word(std::uint64_t index) const
  {
    return objects::log_word::of(simulation.memory[log_word_at(small_log, index)]);
  }

  object_simulation simulation;
  rdma::error_code ec;
};

/// Carries out the requests of a machine one after the other.
template <class Machine>
struct by_hand
{
  explicit by_hand(Machine started, log_memory& on)
    : machine(std::move(started))
    , memory(on.simulation.memory)
    , next(machine.begin())
  {
  }

  std::vector<objects::access_request> posted()
  {
    std::vector<objects::access_request> result;
    for (std::size_t i = 0; i != next.requests; ++i)
      result.push_back(machine.request(i));
    return result;
  }

  std::uint64_t carry_out(const objects::access_request& what)
  {
    const std::uint64_t was = memory[what.offset / 8];
    if (what.kind == rdma::detail::request_kind::read)
      std::memcpy(what.bytes.data(), &memory[what.offset / 8], what.bytes.size());
    else if (what.kind == rdma::detail::request_kind::fetch_add)
      memory[what.offset / 8] += what.compare_or_add;
    else if (was == what.compare_or_add)
      memory[what.offset / 8] = what.swap;
    return was;
  }

  // Ends the step.
  void advance(bool cancelled = false)
  {
    const auto requests = posted();
    for (std::size_t i = 0; i != requests.size(); ++i)
      machine.answered(i, carry_out(requests[i]));
    next = machine.next(cancelled);
  }

  void advance(int steps)
  {
    for (int i = 0; i != steps; ++i)
      advance();
  }

  void run()
  {
    for (int steps = 0; !ended(); ++steps)
    {
      REQUIRE(steps != 1000);
      advance();
    }
  }

  [[nodiscard]] bool ended() const { return next.what == objects::step::action::finish; }

  Machine machine;
  std::vector<std::uint64_t>& memory;
  objects::step next;
};

/// Number of steps of an append without others until the step that fills or commits its entry.
inline constexpr int to_fill = 2;   // look, reserve
inline constexpr int to_commit = 3; // and fill

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_LOG_MACHINES_HPP
