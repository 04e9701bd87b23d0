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
#include <fstream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>

namespace test {

/// The open descriptors and running threads of this process.
struct inventory
{
  /// Counts threads except those that are ending: a joined thread stays listed for a moment.
  static std::size_t count_threads()
  {
    // PF_EXITING (include/linux/sched.h), set before the joining thread wakes up.
    constexpr unsigned long ending = 0x4;
    std::size_t found = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/task"))
    {
      // proc(5): pid (name) state ppid pgrp session tty_nr tpgid flags ...
      std::ifstream file(each.path() / "stat");
      std::string line;
      if (!std::getline(file, line))
        continue; // the thread has ended meanwhile
      std::istringstream fields(line.substr(line.rfind(')') + 1));
      std::string skipped;
      for (int i = 0; i < 6; ++i)
        fields >> skipped;
      unsigned long flags = 0;
      fields >> flags;
      if ((flags & ending) == 0)
        ++found;
    }
    return found;
  }

  static std::size_t count(const char* directory)
  {
    return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), {}));
  }

  std::size_t descriptors = count("/proc/self/fd");
  std::size_t threads = count_threads();

  /// Returns true if there is nothing that `other` does not have.
  bool operator<=(const inventory& other) const
  {
    return descriptors <= other.descriptors && threads <= other.threads;
  }

  friend std::ostream& operator<<(std::ostream& out, const inventory& what)
  {
    return out << what.descriptors << " descriptors, " << what.threads << " threads";
  }
};

/// The same and the mappings of memory that this process shares with its peers.
struct holdings : inventory
{
  static std::size_t count_shared_mappings()
  {
    std::size_t found = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      found += line.find("memfd:boost_rdma") != std::string::npos ? 1 : 0;
    return found;
  }

  std::size_t shared_mappings = count_shared_mappings();

  bool operator<=(const holdings& other) const
  {
    return inventory::operator<=(other) && shared_mappings <= other.shared_mappings;
  }

  friend std::ostream& operator<<(std::ostream& out, const holdings& what)
  {
    return out << static_cast<const inventory&>(what) << ", " << what.shared_mappings
               << " shared mappings";
  }
};

/// Waits until there is no more than before or the time limit expires; returns what there is. It
/// may be less: a thread that releases its last object ends later, and so do links without queue
/// pairs.
template <class Inventory>
[[nodiscard]] Inventory settled(const Inventory& before)
{
  Inventory now;
  static_cast<void>(until([&] { return (now = Inventory()) <= before; }));
  return now;
}

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_INVENTORY_HPP
