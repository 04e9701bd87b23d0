//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_ALLOCATIONS_HPP
#define BOOST_RDMA_TEST_COMMON_ALLOCATIONS_HPP

#include "common/fault_counter.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace test {

/// Returns the call stack of the first allocation that was counted or failed, for the message of a
/// failing test.
[[nodiscard]] std::string first_stack();

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
};

/// Returns the number of allocations of each call of `round`: the median of five calls.
/** A library thread that is just starting allocates once, during any of the calls. */
template <class Round>
[[nodiscard]] std::size_t allocations_of_each(Round&& round)
{
  std::array<std::size_t, 5> counts{};
  for (std::size_t& each : counts)
  {
    allocation_count count;
    round();
    count.stop();
    each = count.value();
  }
  std::sort(counts.begin(), counts.end());
  return counts[counts.size() / 2];
}

/// Makes allocations of all threads fail: the n-th from its construction on (0 is the next one),
/// and all later ones if `lasting`.
/** new throws std::bad_alloc, malloc returns null. At most one object at a time. */
class failing_allocations : public injected_faults
{
public:
  failing_allocations(std::size_t n, bool lasting) noexcept;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_ALLOCATIONS_HPP
