//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_CHILD_PROGRAM_HPP
#define BOOST_RDMA_TOOLS_PERF_CHILD_PROGRAM_HPP

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace perf {

/// Where a program of that name is (PATH); empty: nowhere.
std::string find_program(const std::string& name);

/// A TCP port that nobody listened on just now.
unsigned free_port();

/// Another program while it runs; killed when the object goes.
class child_program
{
public:
  using variable = std::pair<std::string, std::string>;

  /// Its output and errors are kept. Throws std::system_error.
  /** @param processor To keep it on; none: where this thread may run. */
  child_program(const std::vector<std::string>& arguments, const std::vector<variable>& environment,
    std::optional<unsigned> processor);
  child_program(const child_program&) = delete;
  child_program& operator=(const child_program&) = delete;
  ~child_program();

  /// Waits until the output has the text in it. False: it has ended, or time is up.
  bool wait_for_text(const std::string& text, std::chrono::milliseconds limit);

  /// Waits until it has ended. Whether it has, with status zero, before time was up.
  bool wait(std::chrono::milliseconds limit);

  [[nodiscard]] const std::string& output() const { return output_; }

private:
  bool read_more(std::chrono::steady_clock::time_point deadline);

  pid_t id_ = -1;
  int descriptor_ = -1;
  int status_ = -1;
  std::string output_;
};

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_CHILD_PROGRAM_HPP
