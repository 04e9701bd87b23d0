//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_EVENT_READER_HPP
#define BOOST_RDMA_LIB_RESOURCE_EVENT_READER_HPP

#include "boost_rdma/detail/device_listener.hpp"
#include "boost_rdma/detail/process_mark.hpp"
#include "verbs/api.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace rdma::detail {

class event_reader;

// The asynchronous events of one opened device. A device has one stream of them, so they are read
// in one place and handed on to who asked: an object's events to the object, all of them to
// subscribers.
//
// Every event is acknowledged before anybody hears of it: ibv_destroy_qp and its like wait for
// that, often with a mutex held which the listener wants.
class event_hub : public std::enable_shared_from_this<event_hub>
{
public:
  event_hub(const verbs::api& api, ibv_context* context) noexcept
    : api_(api)
    , context_(context)
  {
  }

  // Events of this ibv_qp, ibv_cq or ibv_srq go to `listener` from here on, and the device's end.
  // Reading starts with the first of all. Throws system_error when there is no thread to be had.
  void watch(const void* native, std::weak_ptr<device_listener> listener);

  // Before the object is destroyed.
  void unwatch(const void* native) noexcept;

  // All events go to `listener`, too. Throws likewise.
  void subscribe(std::weak_ptr<device_listener> listener);

  // The device failed or was removed.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }

  // Before the device is closed; afterwards nobody hears of anything any more.
  void close() noexcept;

  // The descriptor is readable. False when there is nothing more to come. On the reader's thread.
  bool drain() noexcept;

private:
  void start();
  void collect(const ibv_async_event& event, bool fatal);
  void tell(const async_event& news) noexcept;
  void tell_lost() noexcept;

  const verbs::api& api_;
  ibv_context* const context_;
  const process_mark process_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> closed_{false};
  std::mutex mutex_; // innermost; never held while a listener is called
  std::shared_ptr<event_reader> reader_;
  std::unordered_map<const void*, std::weak_ptr<device_listener>> watched_;
  std::vector<std::weak_ptr<device_listener>> subscribers_;
  std::vector<std::weak_ptr<device_listener>> targets_; // of the event in hand; the reader's own
};

// Returns when no listener is being called, or owned for that, any more that was before. Not by a
// listener.
void wait_for_listeners() noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_EVENT_READER_HPP
