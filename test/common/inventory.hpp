//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_INVENTORY_HPP
#define BOOST_RDMA_TEST_COMMON_INVENTORY_HPP

#include "common/rdma_fixture.hpp"

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <ostream>
#include <thread>

namespace test {

/// What this process has open and running.
struct inventory
{
  static std::size_t count(const char* directory)
  {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
  }

  std::size_t descriptors = count("/proc/self/fd");
  std::size_t threads = count("/proc/self/task");

  bool operator==(const inventory&) const = default;

  friend std::ostream& operator<<(std::ostream& out, const inventory& what)
  {
    return out << what.descriptors << " descriptors, " << what.threads << " threads";
  }
};

/// The inventory when it is as it was before, or when patience ends: a thread that was joined is listed for a moment longer.
[[nodiscard]] inline inventory settled_inventory(const inventory& before)
{
  const auto limit = std::chrono::steady_clock::now() + patience;
  inventory now;
  while (now != before && std::chrono::steady_clock::now() < limit)
  {
    std::this_thread::yield();
    now = inventory();
  }
  return now;
}

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_INVENTORY_HPP
