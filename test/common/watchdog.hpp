//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_WATCHDOG_HPP
#define BOOST_RDMA_TEST_COMMON_WATCHDOG_HPP

#include <chrono>
#include <cstddef>
#include <string>

// Watches every test case: the processor time of turns, and what the test case leaves behind. A
// listener in main.cpp makes a test case fail that exceeds a bound.

namespace test::watchdog {

using std::chrono::nanoseconds;

/// The longest turn that the project permits, in processor time. Those of a test's own thread may
/// take a second in the ordinary run.
/**
 * BOOST_RDMA_TEST_TURN_MS replaces both. A test case then fails at the first longer turn, whose
 * stack is written to stderr: for quiet machines. Without it, see turns_failure().
 */
nanoseconds turn_limit() noexcept;

/// Encloses one call of epoll_wait(), epoll_pwait2() or poll(): system_calls.cpp makes one for
/// each.
/**
 * A turn is what a thread does between two of them. Measured are the library's threads, and those
 * of a test within an event_loop. Not measured are lease_worker and the threads that end
 * registrations, which wait by condition variables and exist for calls that take long, and handlers
 * under a loop of a test without event_loop.
 */
class wait
{
public:
  /// `set`: the epoll descriptor, or -1. `looks_only`: the call cannot wait.
  wait(int set, bool looks_only) noexcept;
  ~wait();
  wait(const wait&) = delete;
  wait& operator=(const wait&) = delete;

private:
  bool counts_ = false;
};

/// Encloses calls of run() and the like by a thread of a test, whose turns count only there:
/// elsewhere the thread does the test's work.
class event_loop
{
public:
  event_loop() noexcept;
  ~event_loop();
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;
};

/// The turns beyond the limit.
struct long_turns
{
  unsigned count = 0;
  nanoseconds excess{}; ///< the sum of their times beyond the limit
  nanoseconds longest{};
  std::string thread; ///< of the longest one
};

/// Returns the long turns since the last call.
[[nodiscard]] long_turns take_turns();

/// Returns the reason why these turns fail a test case that took `stolen` from this machine's
/// processors; empty if they do not.
/**
 * A single long turn may be the machine's: a hypervisor that takes the processor away, a page fault
 * that waits for memory to be compacted. The ordinary run therefore bounds the sum of the excess in
 * a test case, at 25 times the limit. One turn of a quarter of a second fails, and so do fifty of
 * 15 ms.
 */
[[nodiscard]] std::string turns_failure(const long_turns& of, nanoseconds stolen);

/// Returns the time that the hypervisor has taken from this machine (proc_stat(5), steal).
[[nodiscard]] nanoseconds stolen_time();

/// Descriptors, mappings and memory of this process.
struct holding
{
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t mappings = 0;
  std::ptrdiff_t heap_bytes = 0; ///< 0 with sanitizers, which report leaks themselves

  [[nodiscard]] static holding now();
};

/// Returns the reason why a test case that began with `before` and ended with `after` fails; empty
/// if it does not.
/**
 * The bounds are far above what a process makes once: caches, pools that stay, objects of the first
 * use. A leak in a loop exceeds them.
 */
[[nodiscard]] std::string growth_failure(const holding& before, const holding& after);

} // namespace test::watchdog

#endif // BOOST_RDMA_TEST_COMMON_WATCHDOG_HPP
