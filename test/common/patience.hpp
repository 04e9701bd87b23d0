//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_PATIENCE_HPP
#define BOOST_RDMA_TEST_COMMON_PATIENCE_HPP

#include <chrono>
#include <thread>

namespace test {

#ifndef BOOST_RDMA_TEST_PATIENCE // in seconds; test/mutations/run sets it
#define BOOST_RDMA_TEST_PATIENCE 60
#endif

/// Time limit of a wait for an expected event: longer than anything takes on any machine. The
/// absence of an event is tested by another event that happens instead.
inline constexpr std::chrono::seconds patience{BOOST_RDMA_TEST_PATIENCE};

/// Repeats the call until it returns true, without sleeping: polling makes progress. Returns false
/// if the time limit expires.
template <class Condition>
[[nodiscard]] bool until(Condition condition)
{
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!condition())
  {
    if (std::chrono::steady_clock::now() > limit)
      return false;
    std::this_thread::yield();
  }
  return true;
}

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_PATIENCE_HPP
