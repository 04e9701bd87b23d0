//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/watchdog.hpp"

#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "common/sanitizers.hpp"

#include <chrono>
#include <csignal>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

// The tests with [!shouldfail] pass only if the watchdog makes them fail.

namespace test::watchdog_tests {

using namespace std::chrono_literals;

// The replaced functions are missing there, see system_calls.cpp.
#if !BOOST_RDMA_TEST_THREAD_SANITIZER && defined(__GLIBC__)

/// Uses processor time in a turn of a thread like the library's, which blocks all signals.
void take_a_turn(std::chrono::nanoseconds time)
{
  sigset_t every;
  sigset_t before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  std::thread busy(
    [time]
    {
      const int set = ::epoll_create1(EPOLL_CLOEXEC);
      const int other = ::epoll_create1(EPOLL_CLOEXEC);
      epoll_event event{};
      ::epoll_wait(set, &event, 1, 1);
      const auto now = []
      {
        timespec t{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
      };
      for (const auto end = now() + time; now() < end;)
        ::epoll_wait(other, &event, 1, 0); // as a turn that looks at sockets
      ::epoll_wait(set, &event, 1, 1);
      ::close(other);
      ::close(set);
    });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  busy.join();
}

TEST_CASE(
  "the watchdog fails a test case when turns of a library's thread take too long", "[!shouldfail]")
{
  const auto stolen_before = watchdog::stolen_time();
  const int slowness = emulated() ? 20 : BOOST_RDMA_TEST_ADDRESS_SANITIZER != 0 ? 10 : 1;
  take_a_turn(400ms * slowness);
  if (watchdog::stolen_time() - stolen_before > 100ms) // all of it is forgiven
    FAIL_CHECK("left out: the hypervisor takes processors away");
}

TEST_CASE("the watchdog counts a turn with all its looks at other sets")
{
  take_a_turn(20ms);
  const watchdog::long_turns found = watchdog::take_turns();
  CHECK(found.count == 1);
  CHECK(found.longest >= 20ms);
  CHECK(found.thread.starts_with("the library's thread"));
  CHECK(watchdog::turns_failure(found, found.excess).empty()); // the hypervisor's
}

#endif

TEST_CASE("the watchdog fails a turn that the hypervisor does not explain")
{
  CHECK(watchdog::turns_failure({1, 100h, 100h, "a thread"}, 101h).empty());
  CHECK_FALSE(watchdog::turns_failure({1, 100h, 100h, "a thread"}, 1h).empty());
}

TEST_CASE("the watchdog fails a test case that leaves descriptors open")
{
  const watchdog::holding before = watchdog::holding::now();
  std::vector<int> left;
  for (int i = 0; i != 100; ++i)
    left.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(watchdog::growth_failure(before, watchdog::holding::now()).find("descriptors")
    != std::string::npos);
  for (const int each : left)
    ::close(each);
  CHECK(watchdog::growth_failure(before, watchdog::holding::now()).empty());
}

TEST_CASE("the watchdog sees memory that a test case leaves")
{
  const watchdog::holding before = watchdog::holding::now();
  const std::vector<char> left(64 << 20);
  const watchdog::holding after = watchdog::holding::now();
  if (before.heap_bytes != 0) // no sanitizer
    CHECK(watchdog::growth_failure(before, after).find("heap") != std::string::npos);
}

} // namespace test::watchdog_tests
