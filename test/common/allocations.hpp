//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_ALLOCATIONS_HPP
#define BOOST_RDMA_TEST_COMMON_ALLOCATIONS_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace test {

/// Counts what the whole process takes from the heap: every thread, malloc as well as new.
/** Under the sanitizers, which have a malloc of their own, only what goes through new. */
class allocation_count
{
public:
  /// Starts at zero.
  allocation_count() noexcept;
  ~allocation_count();
  allocation_count(const allocation_count&) = delete;
  allocation_count& operator=(const allocation_count&) = delete;

  /// Allocations since the start, or until stop().
  [[nodiscard]] std::size_t value() const noexcept;
  void stop() noexcept;

  /// Whether malloc and its relatives are counted in this build; new always is.
  [[nodiscard]] static bool sees_malloc() noexcept;

  /// Where the first one came from, for the message of a test that fails.
  [[nodiscard]] static std::string first();
};

/// What `round` takes from the heap each time it is called: the least of a few calls.
/** A thread of the library's that is just starting takes something once, and in any of them. */
template <class Round>
[[nodiscard]] std::size_t allocations_of_each(Round&& round)
{
  std::size_t least = SIZE_MAX;
  for (int i = 0; i < 5 && least != 0; ++i)
  {
    allocation_count count;
    round();
    count.stop();
    least = std::min(least, count.value());
  }
  return least;
}

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_ALLOCATIONS_HPP
