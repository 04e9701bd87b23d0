//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_EPOLL_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_EPOLL_HPP

#include "sockets/socket.hpp"
#include "sockets/system.hpp"
#include "sockets/table.hpp"
#include "sockets/waiting.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <sys/epoll.h>

namespace rdma::sockets {

struct description;

/// The members of an epoll(7) set that the kernel's set does not have: connections of the library,
/// and other sets with such connections.
/**
 * Members that may be ready are in a list, so that a wait costs as much as there are events. Locks
 * are taken in this order: a set's mutex_, a socket's, a set's ready_mutex_, the table's.
 */
class epoll_set
{
public:
  /// `self` owns this object.
  explicit epoll_set(std::weak_ptr<description> self) noexcept;
  epoll_set(const epoll_set&) = delete;
  epoll_set& operator=(const epoll_set&) = delete;
  ~epoll_set();

  /// epoll_ctl(2). `target` is the description of fd, or null; fd_of_set is a descriptor of the
  /// set.
  int control(int fd_of_set, int operation, int fd, epoll_event* event,
    const std::shared_ptr<description>& target);

  /// epoll_pwait(2). mask may be null.
  int wait(int fd_of_set, epoll_event* to, int max, std::optional<time_point> deadline,
    const sigset_t* mask);

  /// Calls epoll_wait() of the kernel while the set has never had a member. Returns nothing if it
  /// has, or gets one.
  template <class Call>
  std::optional<int> wait_in_kernel(int fd_of_set, epoll_event* to, Call call)
  {
    const kernel_wait here(*this, fd_of_set);
    if (is_used_)
      return std::nullopt;
    const int count = without_wake_up(to, call());
    return count == 0 && is_used_ ? std::nullopt : std::optional(count);
  }

  /// A socket that was not connected when it was added has got a connection.
  void replace(
    int fd_of_set, const description& before, const std::shared_ptr<description>& now) noexcept;

  /// The program has closed the last descriptor of it, `fd`, which the kernel still has.
  void forget(int fd_of_set, const description& what, int fd) noexcept;

  /// POLLIN if a member is ready.
  short events() noexcept;

  /// Reports members that may be ready, with a mutex of the set held.
  void watch(watcher& by);
  void unwatch(watcher& by) noexcept;

  /// In a child of fork(2), whose other threads may have held the mutexes.
  void after_fork() noexcept;

private:
  class member;
  class sleep;
  enum class wakes
  {
    nobody,
    watchers,
  };
  class kernel_wait
  {
  public:
    kernel_wait(epoll_set& set, int fd_of_set) noexcept
      : set_(set)
      , fd_(fd_of_set)
    {
      ++set_.in_kernel_;
    }
    kernel_wait(const kernel_wait&) = delete;
    kernel_wait& operator=(const kernel_wait&) = delete;
    ~kernel_wait()
    {
      --set_.in_kernel_;
      set_.remove_wake_up(fd_);
    }

  private:
    epoll_set& set_;
    const int fd_;
  };

  member* find(int fd, const description* target) noexcept;
  int add(int fd_of_set, int fd, const epoll_event& event, std::shared_ptr<description> target);
  int modify(int fd_of_set, member& which, epoll_event& event);
  int remove(int fd_of_set, member& which);
  bool settle(int fd_of_set, member& which) noexcept;
  void erase(member& which) noexcept;

  int take(int fd_of_set, epoll_event* to, int max);
  int take_ours(int fd_of_set, epoll_event* to, int max);

  void queue(member& which, wakes whom) noexcept;
  void unqueue(member& which) noexcept;
  member* next_ready() noexcept;
  std::size_t ready_count() noexcept;

  void begin_use(int fd_of_set) noexcept;
  static int without_wake_up(epoll_event* events, int count) noexcept;
  void remove_wake_up(int fd_of_set) noexcept;

  const std::weak_ptr<description> self_;
  const unsigned made_in_ = table::generation();
  std::atomic<bool> is_used_{false};
  std::atomic<int> in_kernel_{0};        // threads in wait_in_kernel()
  std::atomic<bool> has_wake_up_{false}; // the kernel's set has the descriptor that wakes them
  std::atomic<unsigned> turns_{0};

  std::mutex mutex_;
  std::unordered_map<int, std::unique_ptr<member>> members_;

  std::mutex ready_mutex_;
  member* first_ = nullptr; // the ready list
  member* last_ = nullptr;
  std::size_t count_ = 0;
  std::vector<watcher*> watchers_;
};

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_EPOLL_HPP
