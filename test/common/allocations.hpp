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

/// Counts heap allocations of the whole process: of all threads, by malloc and by new.
/** Sanitizers replace malloc; under them only allocations through new are counted. */
class allocation_count
{
public:
  /// Starts at zero.
  allocation_count() noexcept;
  ~allocation_count();
  allocation_count(const allocation_count&) = delete;
  allocation_count& operator=(const allocation_count&) = delete;

  /// Returns the number of allocations since the start, or until stop().
  [[nodiscard]] std::size_t value() const noexcept;

  /// Returns the number of allocations minus that of releases since the start, or until stop().
  [[nodiscard]] std::ptrdiff_t kept() const noexcept;
  void stop() noexcept;

  /// Returns true if this build counts malloc and related functions; new is always counted.
  [[nodiscard]] static bool sees_malloc() noexcept;

  /// Returns the call stack of the first allocation, for the message of a failing test.
  [[nodiscard]] static std::string first();
};

/// Returns the number of allocations of each call of `round`: the minimum of a few calls.
/** A library thread that is just starting allocates once, during any of the calls. */
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

/// Makes one allocation fail: the n-th from its construction on (0 is the next one), counted in the
/// threads that have called apply_to_this_thread().
/** new throws std::bad_alloc, malloc returns null. At most one object at a time. */
class failing_allocation
{
public:
  static void apply_to_this_thread() noexcept;

  explicit failing_allocation(std::size_t n) noexcept;
  ~failing_allocation();
  failing_allocation(const failing_allocation&) = delete;
  failing_allocation& operator=(const failing_allocation&) = delete;

  /// Returns true if the allocation was reached, and failed.
  [[nodiscard]] bool happened() const noexcept;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_ALLOCATIONS_HPP
