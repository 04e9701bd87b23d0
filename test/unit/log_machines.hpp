//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_LOG_MACHINES_HPP
#define BOOST_RDMA_TEST_UNIT_LOG_MACHINES_HPP

#include "unit/object_simulation.hpp"

#include <boost_rdma/detail/objects/log.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

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

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_LOG_MACHINES_HPP
