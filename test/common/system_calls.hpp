//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_SYSTEM_CALLS_HPP
#define BOOST_RDMA_TEST_COMMON_SYSTEM_CALLS_HPP

#include "common/fault_counter.hpp"

#include <cstddef>
#include <string>

namespace test {

/// Makes a system call of any thread fail: the n-th from its construction on (0 is the next one).
/**
 * Of the errors that this call can return, `choice` selects one, modulo their number. A transfer
 * can also be shorter than asked for: its size depends on choice / multiple_of_errors. Calls that
 * cannot fail at that moment are not counted.
 *
 * If `lasting`, no more descriptors can be opened from the n-th on: only calls that open one are
 * counted, and they fail with EMFILE.
 */
class failing_calls : public injected_faults
{
public:
  static constexpr unsigned multiple_of_errors = 60; ///< a multiple of their number, for each call
  static constexpr unsigned choices = 3 * multiple_of_errors;

  failing_calls(std::size_t n, bool lasting, unsigned choice) noexcept;

  /// Returns false if this build does not replace system calls: sanitizers replace the same ones.
  [[nodiscard]] static bool are_supported() noexcept;
};

/// Makes the n-th addition to an epoll set from now on fail with ENOSPC (0 is the next one), as
/// when fs.epoll.max_user_watches is reached; none if n is negative. Not with the thread sanitizer.
void fail_epoll_addition(int n) noexcept;

/// Returns false if this build replaces no system calls: the thread sanitizer replaces the same
/// ones.
[[nodiscard]] bool replaces_system_calls() noexcept;

/// Makes the next n messages of one byte through local sockets fail with ENOBUFS, as when the
/// kernel has no memory for them. Not with the thread sanitizer.
void refuse_wake_ups(int n) noexcept;

/// Returns how many are still to fail.
[[nodiscard]] int wake_ups_to_refuse() noexcept;

/// Pauses of this thread, if replaces_system_calls().
struct pauses
{
  unsigned yields = 0; ///< sched_yield(2)
  unsigned sleeps = 0; ///< nanosleep(2), clock_nanosleep(2)
};
[[nodiscard]] pauses pauses_of_thread() noexcept;

/// Returns the first call that failed, its error and its call stack.
[[nodiscard]] std::string failed_call();

/// Returns the number of errors of which one was selected for that call.
[[nodiscard]] unsigned errors_of_failed_call() noexcept;

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_SYSTEM_CALLS_HPP
