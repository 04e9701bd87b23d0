//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_EVENTS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_EVENTS_HPP

#include "verbs/software/wire/socket.hpp"

#include <infiniband/verbs.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

namespace rdma::software {

/// How many of an object's events were handed out and how many acknowledged. Guarded by the queue's
/// mutex.
struct event_count
{
  std::uint32_t given = 0;
  std::uint32_t acknowledged = 0;
};

/// The asynchronous events of a context (ibv_get_async_event).
class event_queue
{
public:
  event_queue();

  /// What ibv_context::async_fd is: readable while events wait.
  int fd() const noexcept { return fd_.get(); }

  void raise(const ibv_async_event& event) noexcept;

  /// Waits, unless the descriptor is non-blocking. 0, or -1 with errno.
  int get(ibv_async_event& to);
  void acknowledge(const ibv_async_event& event);

  /// An object goes: its waiting events vanish, and those that were handed out are waited for.
  void forget(const void* object, event_count& count);

private:
  wire::descriptor fd_;
  std::mutex mutex_;
  std::condition_variable acknowledged_;
  std::deque<ibv_async_event> waiting_;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_EVENTS_HPP
