//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/late_writers.hpp"

#include "verbs/software/memory/grant_word.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD // Linux 6.5
#define SO_PEERPIDFD 77
#endif

namespace rdma::software {

struct late_writer
{
  const std::byte* at;
  std::size_t size;
  std::shared_ptr<memory_peer> by;
  std::uint32_t mark;

  bool concerns(const void* other, std::size_t other_size) const noexcept
  {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    const auto from = reinterpret_cast<std::uintptr_t>(other);
    return begin < from + other_size && from < begin + size;
  }

  bool is_over() const noexcept
  {
    if (!grant_is_marked(*by->mark, mark))
    {
      by->overdue = false;
      return true;
    }
    pollfd p{by->process.get(), POLLIN, 0}; // pidfd_open(2): readable when the process is gone
    return by->process && ::poll(&p, 1, 0) == 1;
  }
};

struct late_writer_list
{
  std::mutex mutex;
  std::vector<late_writer> all;
  bool incomplete = false; // memory was short: any memory may be written to
  waiting_budget budget;

  static late_writer_list& of_process() noexcept;

  void count() const noexcept
  {
    late_writers::count_.store(all.size() + (incomplete ? 1 : 0), std::memory_order_relaxed);
  }

  void forget_those_that_ended() noexcept
  {
    std::erase_if(all, [](const late_writer& each) { return each.is_over(); });
    count();
  }
};

namespace {

// Never destroyed: threads that outlive main() use it.
union list_of_process
{
  late_writer_list list{};
  ~list_of_process() {}
};
constinit list_of_process of_this_process;

// The peers of a child of fork() are the parent's, and the mutex may stay locked there.
[[maybe_unused]] const int late_writers_fork_handler = ::pthread_atfork(
  nullptr, nullptr, [] { (new (&of_this_process.list) late_writer_list)->count(); });

// Returns a descriptor of the process at the other end of a socket. Without one, the peer is late
// until it moves its mark.
rdma::detail::descriptor process_of(int socket) noexcept
{
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
    return rdma::detail::descriptor(fd);
  ucred peer{};
  size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0)
    return {};
  rdma::detail::descriptor opened(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
  // While the connection exists, the process id is not reused.
  pollfd p{socket, POLLRDHUP, 0};
  return ::poll(&p, 1, 0) == 0 ? std::move(opened) : rdma::detail::descriptor();
}

} // namespace

late_writer_list& late_writer_list::of_process() noexcept
{
  return of_this_process.list;
}

void late_writers::add(const void* at, std::size_t size, std::shared_ptr<memory_peer> by,
  std::uint32_t mark, int socket) noexcept
{
  late_writer_list& list = late_writer_list::of_process();
  const std::lock_guard lock(list.mutex);
  // Each one keeps a descriptor and a mapping. A program that deregisters nothing asks for none.
  list.forget_those_that_ended();
  if (!by->process)
    by->process = process_of(socket);
  try
  {
    list.all.push_back({static_cast<const std::byte*>(at), size, std::move(by), mark});
  }
  catch (const std::bad_alloc&)
  {
    list.incomplete = true;
  }
  list.count();
}

bool late_writers::find(const void* at, std::size_t size) noexcept
{
  late_writer_list& list = late_writer_list::of_process();
  const std::lock_guard lock(list.mutex);
  list.forget_those_that_ended();
  return list.incomplete
    || std::any_of(list.all.begin(), list.all.end(),
      [at, size](const late_writer& each) { return each.concerns(at, size); });
}

void late_writers::wait_for_those(const void* at, std::size_t size) noexcept
{
  using clock = waiting_budget::clock;
  constexpr std::chrono::microseconds step{100};
  const clock::time_point begin = clock::now();
  clock::time_point before = begin;
  late_writer_list& list = late_writer_list::of_process();
  for (;;)
  {
    const clock::time_point now = clock::now();
    bool waits = false;
    {
      const std::lock_guard lock(list.mutex);
      list.forget_those_that_ended();
      const bool is_patient = list.budget.take(now, now - before) || now - begin < copy_time;
      for (const late_writer& each : list.all)
        if (each.concerns(at, size))
        {
          each.by->overdue = each.by->overdue || !is_patient;
          waits = waits || !each.by->overdue;
        }
    }
    if (!waits)
      return;
    before = now;
    if (now - begin < copy_time)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(step); // the peer does not know that anybody waits
  }
}

} // namespace rdma::software
