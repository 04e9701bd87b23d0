//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_IN_CHILD_HPP
#define BOOST_RDMA_TEST_COMMON_IN_CHILD_HPP

#include "common/catch.hpp"
#include "common/sanitizers.hpp"
#include "common/sleeping_threads.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <string>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// The thread sanitizer's runtime ends a child process that starts a thread.
#if BOOST_RDMA_TEST_THREAD_SANITIZER
#define BOOST_RDMA_TEST_FORKS()                                                                    \
  do                                                                                               \
  {                                                                                                \
    WARN("skipped: the thread sanitizer allows no threads in children of fork()");                 \
    return;                                                                                        \
  } while (false)
#else
#define BOOST_RDMA_TEST_FORKS() static_cast<void>(0)
#endif

namespace test {

/// The address sanitizer does not hold its allocator's locks over fork(), so a child whose parent
/// had a thread in malloc() finds them locked forever (github.com/google/sanitizers/issues/774).
inline void prepare_to_fork()
{
#if BOOST_RDMA_TEST_ADDRESS_SANITIZER
  wait_for_sleeping_threads();
#endif
}

/// Runs `body` in a child process. Returns its error text, or how it died; empty on success.
[[nodiscard]] inline std::string in_child(const std::function<std::string()>& body)
{
  prepare_to_fork();
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0)
  {
    ::alarm(100); // a child that hangs fails the test by SIGALRM
    std::string wrong;
    try
    {
      wrong = body();
    }
    catch (const std::exception& e)
    {
      wrong = std::string("exception: ") + e.what();
    }
    const ssize_t n = ::write(pipe_ends[1], wrong.data(), wrong.size());
    ::_exit(n == static_cast<ssize_t>(wrong.size()) ? 0 : 1);
  }
  ::close(pipe_ends[1]);
  std::string result;
  char part[256];
  for (ssize_t n = 0; (n = ::read(pipe_ends[0], part, sizeof part)) > 0;)
    result.append(part, static_cast<std::size_t>(n));
  ::close(pipe_ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (status != 0)
    result += " (wait status " + std::to_string(status) + ")";
  return result;
}

/// Makes a system call fail with EPERM in this process, as a container does. Returns an error text.
[[nodiscard]] inline std::string refuse_system_call(unsigned number)
{
  sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
    || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return std::string("prctl: ") + std::strerror(errno);
  return {};
}

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_IN_CHILD_HPP
