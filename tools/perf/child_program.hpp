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

/// Returns the path of a program in PATH, or an empty string.
std::string find_program(const std::string& name);

/// Returns a TCP port on which no program listens at the moment.
unsigned free_port();

/// A running program. The destructor kills it.
class child_program
{
public:
  using variable = std::pair<std::string, std::string>;

  /// Captures its output and errors. Throws std::system_error.
  /** @param processor The processor to bind it to; none: inherited from this thread. */
  child_program(const std::vector<std::string>& arguments, const std::vector<variable>& environment,
    std::optional<unsigned> processor);
  child_program(const child_program&) = delete;
  child_program& operator=(const child_program&) = delete;
  ~child_program();

  /// Waits until the output contains the text. Returns false if the program ends first, or after
  /// the limit.
  bool wait_for_text(const std::string& text, std::chrono::milliseconds limit);

  /// Waits for the end of the program. Returns true if its status is 0 and the limit was not
  /// exceeded.
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
