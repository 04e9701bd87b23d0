//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_VERBS_PROCESSES_HPP
#define BOOST_RDMA_TEST_SOFTWARE_VERBS_PROCESSES_HPP

#include "software/verbs_fixture.hpp"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <utility>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// Two processes that represent two hosts.

namespace test {

/// Exchanges names over a socket pair, like programs that exchange them out of band.
class out_of_band
{
public:
  explicit out_of_band(int fd)
    : fd_(fd)
  {
  }
  ~out_of_band() { ::close(fd_); }
  out_of_band(const out_of_band&) = delete;
  out_of_band& operator=(const out_of_band&) = delete;

  end_name exchange(const end_name& mine) const
  {
    end_name theirs;
    must(::send(fd_, &mine, sizeof mine, MSG_NOSIGNAL) == sizeof mine, "send a name");
    must(::recv(fd_, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs, "receive a name");
    return theirs;
  }
  void meet() const
  {
    char c = 0;
    must(::send(fd_, &c, 1, MSG_NOSIGNAL) == 1, "meet");
    must(::recv(fd_, &c, 1, MSG_WAITALL) == 1, "meet");
  }

private:
  int fd_;
};

/// Runs `body` in a child that is forked before this process opens a device.
template <class Body>
class child
{
public:
  explicit child(Body body)
  {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0)
    {
      ::close(fds[0]);
      int result = EXIT_FAILURE;
      try
      {
        const out_of_band line(fds[1]);
        result = body(line) ? EXIT_SUCCESS : EXIT_FAILURE;
      }
      catch (const std::exception& e)
      {
        std::cerr << "child: " << e.what() << '\n';
      }
      ::_exit(result);
    }
    ::close(fds[1]);
    line_ = std::make_unique<out_of_band>(fds[0]);
  }
  ~child() { kill(); }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  const out_of_band& line() const noexcept { return *line_; }
  /// The child may have been killed before.
  void kill()
  {
    if (pid_ <= 0)
      return; // kill(2) would signal the processes of this group
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  /// Stops the child and waits until it has stopped.
  void stop()
  {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  /// Waits until the child has stopped itself. Returns false if it has ended.
  [[nodiscard]] bool stopped_itself()
  {
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
    if (!WIFSTOPPED(status))
      pid_ = 0;
    return WIFSTOPPED(status);
  }
  void resume() { ::kill(pid_, SIGCONT); }
  bool succeeded()
  {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
  }

private:
  pid_t pid_ = 0;
  std::unique_ptr<out_of_band> line_;
};

inline void connect_to(const endpoint& e, const end_name& peer)
{
  must(e.to_init() == 0, "to_init");
  must(e.to_ready_to_receive(peer) == 0, "to_ready_to_receive");
  must(e.to_ready_to_send() == 0, "to_ready_to_send");
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_VERBS_PROCESSES_HPP
