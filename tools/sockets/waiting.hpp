//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_WAITING_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_WAITING_HPP

#include "sockets/socket.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <time.h>

namespace rdma::sockets {

class epoll_set;

using time_point = std::chrono::steady_clock::time_point;

/// A time limit of a call. Empty: none.
std::optional<time_point> deadline_after(const timespec* timeout) noexcept;
std::optional<time_point> deadline_after(int milliseconds) noexcept;

/// The time that is left, at least 0.
timespec time_until(time_point deadline) noexcept;

/// Something in this process that reports changes.
struct source
{
  socket* connection = nullptr;
  epoll_set* set = nullptr;

  void watch(watcher& by) const;
  void unwatch(watcher& by) const noexcept;
};

/// A wait of a thread: for changes in this process, and for descriptors of the kernel.
class wait
{
public:
  enum class outcome
  {
    ready,
    timed_out,
    interrupted, ///< by a signal handler
  };

  wait(const wait&) = delete;
  wait& operator=(const wait&) = delete;

  /// As poll(2): every signal handler interrupts it. mask may be null.
  outcome run(std::optional<time_point> deadline, const sigset_t* mask);

  /// As recv(2): a handler with SA_RESTART does not interrupt it (signal(7)).
  outcome run_restarting(std::optional<time_point> deadline);

protected:
  wait() = default;
  ~wait() = default;

  /// Returns true if the wait is over. Makes no system call in general.
  virtual bool ready() = 0;

  /// Returns the sources, for the sleep.
  virtual std::span<const source> sources() = 0;

  /// Descriptors of the kernel. Their revents are those of the last sleep.
  std::vector<pollfd> kernel_;

private:
  enum class signals
  {
    interrupt,
    restart,
  };
  outcome run(std::optional<time_point> deadline, const sigset_t* mask, signals how);
  int sleep(std::optional<time_point> deadline, const sigset_t* mask, signals how);
};

/// Takes completions if this process may have some.
void make_progress() noexcept;

/// poll(2) of any descriptors. The entries of the kernel's descriptors are the kernel's.
int poll_all(pollfd* fds, nfds_t count, std::optional<time_point> deadline, const sigset_t* mask);

/// Adds what poll(2) reports together with POLLIN and POLLOUT.
short with_normal_band(short events) noexcept;

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_WAITING_HPP
