//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_SLEEPING_THREADS_HPP
#define BOOST_RDMA_TEST_COMMON_SLEEPING_THREADS_HPP

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <unistd.h>

namespace test {

/// Returns the number of context switches of each other thread; nothing if one is awake.
inline std::optional<std::map<std::string, std::string>> sleeping_threads()
{
  std::map<std::string, std::string> result;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
  {
    const std::string tid = task.path().filename();
    if (tid == std::to_string(::gettid()))
      continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);)
    {
      if (line.starts_with("State:") && line.find("S (sleeping)") == std::string::npos)
        return std::nullopt;
      if (line.starts_with("voluntary_ctxt_switches:"))
        result[tid] = line;
    }
  }
  return result;
}

/// Waits until every other thread of this process sleeps. Threads that sleep in two samples and did
/// not wake up in between slept at the same time.
inline void wait_for_sleeping_threads()
{
  for (auto before = sleeping_threads();; std::this_thread::yield())
  {
    auto after = sleeping_threads();
    if (before && before == after)
      return;
    before = std::move(after);
  }
}

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_SLEEPING_THREADS_HPP
