//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_AGENDA_HPP
#define BOOST_RDMA_TEST_UNIT_AGENDA_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>

namespace simulation {

constexpr std::int64_t us = 1000;
constexpr std::int64_t ms = 1000 * us;

/// The simulated time in ns, what happens when, and the random numbers of a seed.
struct agenda
{
  void at(std::int64_t delay, std::function<void()> action)
  {
    actions.emplace(now + delay, std::move(action));
  }

  /// Does what comes next. Returns false if there is nothing.
  bool step()
  {
    if (actions.empty())
      return false;
    auto next = actions.extract(actions.begin());
    now = next.key();
    next.mapped()();
    return true;
  }

  std::int64_t delay(std::int64_t most)
  {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  }
  bool one_in(unsigned n) { return random() % n == 0; }

  std::mt19937 random;
  std::multimap<std::int64_t, std::function<void()>> actions;
  std::int64_t now = 0;
};

} // namespace simulation

#endif // BOOST_RDMA_TEST_UNIT_AGENDA_HPP
