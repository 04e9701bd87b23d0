//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_PUBLISHED_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_PUBLISHED_SIMULATION_HPP

#include "unit/object_simulation.hpp"

#include <boost_rdma/detail/objects/publication.hpp>
#include <boost_rdma/detail/objects/published.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

// A small published value on simulated memory.

namespace test {

using objects::pin_word;
using objects::publication;
using objects::published_layout;
using objects::published_version;

inline constexpr std::size_t value_words = 6;
using published_words = std::array<std::uint64_t, value_words>;

inline published_words words_of(std::uint64_t generation)
{
  published_words result;
  for (std::size_t i = 0; i != result.size(); ++i)
    result[i] = generation * 100 + i;
  return result;
}

// A read takes several steps of several requests.
inline published_layout small_layout(std::uint64_t buffers, std::uint64_t slots)
{
  return {.value_size = sizeof(published_words),
    .buffers = buffers,
    .slots = slots,
    .lease = std::chrono::milliseconds(5),
    .part = 16,
    .parts_in_flight = 2};
}

inline constexpr std::uint64_t lease_turns = 10'000; // a microsecond is two turns

inline thread_local const object_simulation* simulated = nullptr;

inline objects::time_point simulated_now() noexcept
{
  return objects::time_point(std::chrono::microseconds(simulated->now / 2));
}

inline std::span<std::byte> bytes_of(published_words& value)
{
  return std::as_writable_bytes(std::span(value));
}

inline rdma::mutable_buffer buffer_of(std::span<std::byte> bytes)
{
  return std::span<std::byte>(bytes);
}

struct load_words : objects::load_published
{
  load_words(const published_layout& layout, published_words& to)
    : load_published(layout, buffer_of(bytes_of(to)))
  {
  }
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_PUBLISHED_SIMULATION_HPP
