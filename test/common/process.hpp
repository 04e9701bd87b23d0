//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_PROCESS_HPP
#define BOOST_RDMA_TEST_COMMON_PROCESS_HPP

#include "common/catch.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace test {

/// A process that runs `body` and ends with its result. The parent opens no device.
class process
{
public:
  explicit process(const std::function<bool()>& body)
    : pid_(::fork())
  {
    REQUIRE(pid_ >= 0);
    if (pid_ != 0)
      return;
    bool good = false;
    try
    {
      good = body();
    }
    catch (const std::exception& e)
    {
      std::fprintf(stderr, "process: %s\n", e.what());
    }
    ::_exit(good ? 0 : 1);
  }
  ~process()
  {
    if (pid_ > 0)
      static_cast<void>(kill());
  }
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  /// Returns false if the process had ended before.
  [[nodiscard]] bool kill()
  {
    ::kill(pid_, SIGKILL);
    return WIFSIGNALED(wait());
  }
  [[nodiscard]] bool succeeded() { return wait() == 0; }

  void signal(int number) { ::kill(pid_, number); }

  /// Kills the process. Returns false if it had failed before.
  [[nodiscard]] bool kill_or_succeed()
  {
    ::kill(pid_, SIGKILL);
    const int status = wait();
    return status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

private:
  int wait()
  {
    int status = -1;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

  pid_t pid_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_PROCESS_HPP
