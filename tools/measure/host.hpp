//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_MEASURE_HOST_HPP
#define BOOST_RDMA_TOOLS_MEASURE_HOST_HPP

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include <sys/utsname.h>

// Describes the machine that a benchmark runs on.

namespace bench {

inline std::string first_line(const char* path)
{
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.empty() ? "unknown" : line;
}

inline std::string processor()
{
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown processor";
}

inline std::string processors_online()
{
  return processor() + ", " + std::to_string(std::thread::hardware_concurrency()) + " online";
}

inline std::string kernel()
{
  utsname names{};
  ::uname(&names);
  return std::string(names.sysname) + ' ' + names.release + ' ' + names.machine;
}

} // namespace bench

#endif // BOOST_RDMA_TOOLS_MEASURE_HOST_HPP
