//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_MEASURE_TWO_PROCESSES_HPP
#define BOOST_RDMA_TOOLS_MEASURE_TWO_PROCESSES_HPP

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace bench {

/// This process and a child, connected by a socket pair. Asio's and this library's objects do not
/// survive a fork, so construct it before any of them.
class two_processes
{
public:
  two_processes()
  {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ < 0)
      throw std::system_error(errno, std::generic_category(), "fork");
    ::close(ends[in_child() ? 0 : 1]);
    descriptor_ = ends[in_child() ? 1 : 0];
    if (!in_child())
      return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
      throw std::runtime_error("the other process has ended");
  }

  [[nodiscard]] bool in_child() const { return child_ == 0; }

  /// In the parent: the child's process number.
  [[nodiscard]] pid_t child() const { return child_; }

  /// This process's end; the caller closes it.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  /// In the parent: waits for the child, and returns true if its exit status was 0.
  [[nodiscard]] bool wait() const
  {
    int status = 0;
    return ::waitpid(child_, &status, 0) == child_ && status == 0;
  }

private:
  pid_t child_ = -1;
  int descriptor_ = -1;
};

} // namespace bench

#endif // BOOST_RDMA_TOOLS_MEASURE_TWO_PROCESSES_HPP
