//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/timer_heap.hpp"

#include "common/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

using rdma::software::wire::timer_heap;

TEST_CASE("timer_heap returns every entry whose timer has expired or that is on the ready list")
{
  constexpr std::uint32_t entries = 200;
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  timer_heap all;
  std::vector<timer_heap::entry> each(entries);
  std::set<std::uint32_t> here;
  std::map<std::uint32_t, std::int64_t> alarms;
  std::set<std::uint32_t> owed;
  std::int64_t now = 100;
  for (int step = 0; step < 20'000; ++step)
  {
    const auto which = static_cast<std::uint32_t>(random() % entries);
    if (!here.contains(which))
    {
      each[which] = {};
      all.add(each[which], which);
      here.insert(which);
    }
    switch (random() % 8)
    {
    case 0:
      all.remove(each[which]);
      here.erase(which);
      alarms.erase(which);
      owed.erase(which);
      break;
    case 1:
      all.owe(each[which]);
      owed.insert(which);
      break;
    case 2:
    {
      now += static_cast<std::int64_t>(random() % 100);
      std::multiset<std::uint32_t> expected(owed.begin(), owed.end());
      for (const auto& [name, at] : alarms)
        if (at <= now)
          expected.insert(name);
      std::multiset<std::uint32_t> taken;
      std::array<std::uint32_t, 7> names{};
      std::size_t count = 0;
      do
      {
        count = all.take(now, names);
        taken.insert(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count));
      } while (count == names.size());
      REQUIRE(taken == expected);
      owed.clear();
      std::erase_if(alarms, [now](const auto& alarm) { return alarm.second <= now; });
      break;
    }
    default:
      alarms[which] = now + static_cast<std::int64_t>(random() % 500);
      all.set(each[which], alarms[which]);
      break;
    }
    const auto first = std::min_element(alarms.begin(), alarms.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
    REQUIRE(all.next() == (!owed.empty() ? 1 : first == alarms.end() ? 0 : first->second));
  }
}
