//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_USAGE_HPP
#define BOOST_RDMA_BENCH_USAGE_HPP

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/resource.h>

namespace bench {

/// Resources that this process has used so far and holds now.
struct usage
{
  double cpu_seconds = 0;
  double private_kib = 0; ///< memory that would be free without this process (Private_Dirty)
  int descriptors = 0;
  int threads = 0;

  static usage now()
  {
    usage result;
    rusage spent{};
    ::getrusage(RUSAGE_SELF, &spent);
    const auto seconds = [](const timeval& t)
    { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
    result.cpu_seconds = seconds(spent.ru_utime) + seconds(spent.ru_stime);
    std::ifstream maps("/proc/self/smaps_rollup");
    for (std::string line; std::getline(maps, line);)
      if (line.starts_with("Private_Dirty:"))
        result.private_kib += std::stod(line.substr(line.find(':') + 1));
    result.descriptors = entries("/proc/self/fd");
    result.threads = entries("/proc/self/task");
    return result;
  }

private:
  static int entries(const char* directory)
  {
    return static_cast<int>(std::distance(
      std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator()));
  }
};

/// Raises the soft limit of descriptors to the hard limit and returns it.
inline std::uint64_t raise_descriptor_limit()
{
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

} // namespace bench

#endif // BOOST_RDMA_BENCH_USAGE_HPP
