//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_STEPPED_PEER_HPP
#define BOOST_RDMA_TEST_SOFTWARE_STEPPED_PEER_HPP

#include "common/device_traits.hpp"
#include "common/patience.hpp"
#include "common/sanitizers.hpp"
#include "software/traced_peer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>

// Tests of peers that are single-stepped, and stopped or killed at an instruction that a seed
// selects, share these. BOOST_RDMA_TEST_SEED repeats a run's choices.

// Single-stepped exclusive loads and stores of other processors never succeed.
#if !defined(__x86_64__)
#define BOOST_RDMA_TEST_TRACES()                                                                   \
  do                                                                                               \
  {                                                                                                \
    WARN("skipped: single steps need x86-64");                                                     \
    return;                                                                                        \
  } while (false)
#elif BOOST_RDMA_TEST_ADDRESS_SANITIZER || BOOST_RDMA_TEST_THREAD_SANITIZER
#define BOOST_RDMA_TEST_TRACES()                                                                   \
  do                                                                                               \
  {                                                                                                \
    WARN("skipped: with a sanitizer, most instructions are not the library's");                    \
    return;                                                                                        \
  } while (false)
#else
#define BOOST_RDMA_TEST_TRACES()                                                                   \
  do                                                                                               \
  {                                                                                                \
    BOOST_RDMA_TEST_NEEDS(software_device);                                                        \
    if (!may_trace())                                                                              \
    {                                                                                              \
      WARN("skipped: ptrace(2) is not permitted");                                                 \
      return;                                                                                      \
    }                                                                                              \
  } while (false)
#endif

namespace test {

inline std::minstd_rand::result_type seed_of_steps()
{
  const char* const given = std::getenv("BOOST_RDMA_TEST_SEED");
  return given != nullptr ? static_cast<std::minstd_rand::result_type>(std::stoul(given))
                          : std::random_device{}();
}

/// Calls round(steps) for random numbers of steps up to `most`: for some, or with exhaustive() for
/// one in each of a thousand equal parts.
template <class Round>
void for_steps(unsigned most, unsigned samples, std::minstd_rand& random, Round round)
{
  const auto up_to = [&](unsigned last)
  { return std::uniform_int_distribution<unsigned>(0, last)(random); };
  const unsigned distance = std::max(1u, most / 1000);
  for (unsigned i = 0; i != (exhaustive() ? most / distance + 1 : samples); ++i)
    round(exhaustive() ? std::min(most, i * distance + up_to(distance - 1)) : up_to(most));
}

/// The time that calls take in the test's thread.
struct measured_pauses
{
  template <class Call>
  void measure(Call call)
  {
    const auto processor = []
    {
      timespec now{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
    };
    const auto begin = std::chrono::steady_clock::now();
    const auto processor_begin = processor();
    call();
    using namespace std::chrono;
    slow += processor() - processor_begin > milliseconds(10) ? 1 : 0;
    longest =
      std::max(longest, duration_cast<microseconds>(std::chrono::steady_clock::now() - begin));
    ++count;
  }

  std::chrono::microseconds longest{};
  /// Writes the longest one to stdout.
  void print(const char* while_what) const
  {
    std::printf("%s: longest turn while %s %lld us\n",
      Catch::getResultCapture().getCurrentTestName().c_str(), while_what,
      static_cast<long long>(longest.count()));
  }

  unsigned slow = 0; ///< more than 10 ms of the thread's processor time
  unsigned count = 0;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_STEPPED_PEER_HPP
