//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_PROGRESS_HPP
#define BOOST_RDMA_TOOLS_PERF_PROGRESS_HPP

#include <cstdio>
#include <string>

#include <unistd.h>

namespace perf {

/// Shows the progress on stderr: on a terminal in one line that is updated, otherwise one line for
/// each part.
class progress
{
public:
  explicit progress(std::size_t steps)
    : steps_(steps)
    , terminal_(::isatty(STDERR_FILENO) == 1)
  {
  }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress()
  {
    if (terminal_)
      std::fputs("\r\033[K", stderr);
  }

  void begin(const std::string& part, const std::string& detail)
  {
    const int percent = static_cast<int>(100 * done_ / (steps_ == 0 ? 1 : steps_));
    if (terminal_)
      std::fprintf(stderr, "\r\033[K[%3d %%] %.110s", percent, (part + ": " + detail).c_str());
    else if (part != part_)
      std::fprintf(stderr, "[%3d %%] %s\n", percent, part.c_str());
    part_ = part;
  }

  void step(std::size_t count = 1) { done_ += count; }

private:
  std::size_t steps_;
  std::size_t done_ = 0;
  bool terminal_;
  std::string part_;
};

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_PROGRESS_HPP
