//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_EVENT_READER_HPP
#define BOOST_RDMA_LIB_RESOURCE_EVENT_READER_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "resource/device_listener.hpp"
#include "verbs/api.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace rdma::detail {

class event_reader;

// The asynchronous events of one opened device. A device has a single event stream, so one place
// reads it and distributes the events: an object's events to its listener, and all events to
// subscribers.
//
// Every event is acknowledged before it is delivered. ibv_destroy_qp and similar calls wait for the
// acknowledgement, often with a mutex held that the listener takes.
class event_hub : public std::enable_shared_from_this<event_hub>
{
public:
  event_hub(const verbs::api& api, ibv_context* context) noexcept
    : api_(api)
    , context_(context)
  {
  }

  // Delivers events of this ibv_qp, ibv_cq or ibv_srq to `listener` from now on, and the loss of
  // the device. The first call starts the reading thread. Throws system_error if the thread cannot
  // be started.
  void watch(const void* native, std::weak_ptr<device_listener> listener);

  // Must be called before the object is destroyed.
  void unwatch(const void* native) noexcept;

  // Delivers all events to `listener` as well. Throws like watch().
  void subscribe(std::weak_ptr<device_listener> listener);

  // Returns true if the device failed or was removed.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }

  // Must be called before the device is closed. No event is delivered afterwards.
  void close() noexcept;

  // Reads the available events. Returns false at the end of the stream. Runs on the reader's
  // thread.
  bool drain() noexcept;

private:
  void start();
  void collect(const ibv_async_event& event, bool fatal) noexcept;
  void notify(const async_event& news) noexcept;
  void notify_lost() noexcept;

  const verbs::api& api_;
  ibv_context* const context_;
  const process_mark process_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> closed_{false};
  std::mutex mutex_; // innermost; not held while a listener is called
  std::shared_ptr<event_reader> reader_;
  std::unordered_map<const void*, std::weak_ptr<device_listener>> watched_;
  std::vector<std::weak_ptr<device_listener>> subscribers_;
  std::vector<std::weak_ptr<device_listener>> targets_; // of one event; for the reader's thread
};

// Returns when all listener calls that were in progress have ended and their owning references are
// released. Must not be called by a listener.
void wait_for_listeners() noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_EVENT_READER_HPP
