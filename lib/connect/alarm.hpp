//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_ALARM_HPP
#define BOOST_RDMA_LIB_CONNECT_ALARM_HPP

#include "completion/handler_slot.hpp"
#include "completion/late_tasks.hpp"
#include "connect/connection_service.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

namespace rdma::detail {

// Waits on the thread of connections, so that a deadline does not keep the program's execution
// context running, and a call does not set a timer of the kernel. A copy is another alarm.
class alarm
{
public:
  explicit alarm(connection_service& by)
    : alarm(by.io(), by.service_inbox())
  {
  }
  alarm(boost::asio::io_context& io, std::shared_ptr<inbox> of)
    : state_(std::make_shared<state>(io, std::move(of)))
  {
  }
  alarm(const alarm& of)
    : alarm(of.state_->io, of.state_->to_thread)
  {
  }
  alarm& operator=(const alarm&) = delete;

  // Calls object->on_alarm() at this time instead of the last one, if the object exists. Needs no
  // memory.
  template <class Object>
  void set(std::chrono::steady_clock::time_point time, std::weak_ptr<Object> object) noexcept
  {
    {
      const std::lock_guard lock(state_->mutex);
      state_->time = time;
      state_->object = std::move(object);
      state_->ring = [](void* found) { static_cast<Object*>(found)->on_alarm(); };
      if (std::exchange(state_->is_posted, true))
        return;
    }
    state_->to_thread->post(boost::asio::bind_allocator(
      slot_allocator<void>(state_->slot), [state = state_] { late_tasks::start(state); }));
  }

private:
  using timer_type = boost::asio::steady_timer;

  struct state final : late_task
  {
    state(boost::asio::io_context& by, std::shared_ptr<inbox> of)
      : io(by)
      , to_thread(std::move(of))
    {
    }

    // On the thread.
    void run() override
    {
      std::unique_lock lock(mutex);
      is_posted = false;
      const auto at = time;
      lock.unlock();
      if (const auto last = current.lock())
        last->cancel();
      // The handler owns the timer, so that it ends on this thread.
      const auto timer = std::make_shared<timer_type>(io, at);
      current = timer;
      timer->async_wait(
        [timer, self = std::static_pointer_cast<state>(shared_from_this())](const error_code& ec)
        {
          if (!ec)
            self->call();
        });
    }

    void call()
    {
      std::unique_lock lock(mutex);
      const auto found = object.lock();
      const auto with = ring;
      lock.unlock();
      if (found)
        with(found.get());
    }

    boost::asio::io_context& io; // used on its thread
    const std::shared_ptr<inbox> to_thread;
    handler_slot slot; // of the function that starts the timer
    std::mutex mutex;  // of the next members
    std::chrono::steady_clock::time_point time;
    std::weak_ptr<void> object;
    void (*ring)(void* object) = nullptr;
    bool is_posted = false;
    std::weak_ptr<timer_type> current; // used on the thread
  };

  const std::shared_ptr<state> state_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_ALARM_HPP
