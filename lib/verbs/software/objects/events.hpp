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

/// Counts of an object's events that were given out and acknowledged. Guarded by the queue's mutex.
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

  /// The descriptor for ibv_context::async_fd, readable while events wait.
  int fd() const noexcept { return fd_.get(); }

  void raise(const ibv_async_event& event) noexcept;

  /// Waits for an event, unless the descriptor is non-blocking. Returns 0, or -1 with errno set.
  int get(ibv_async_event& to);
  void acknowledge(const ibv_async_event& event);

  /// Removes a destroyed object's waiting events, and waits until those that were given out are
  /// acknowledged.
  void forget(const void* object, event_count& count);

private:
  wire::descriptor fd_;
  std::mutex mutex_;
  std::condition_variable acknowledged_;
  std::deque<ibv_async_event> waiting_;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_EVENTS_HPP
