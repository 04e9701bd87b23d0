//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_LATE_TASKS_HPP
#define BOOST_RDMA_LIB_COMPLETION_LATE_TASKS_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "completion/handler_slot.hpp"
#include "completion/inbox.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/execution_context.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace rdma::detail {

// A task that needs memory. If there is none, it is run later.
class late_task : public std::enable_shared_from_this<late_task>
{
public:
  virtual ~late_task() = default;
  virtual void run() = 0; // any thread; or throws std::bad_alloc, and is called again

private:
  friend class late_tasks;
  std::shared_ptr<late_task> next_;
  bool waits_ = false;
};

// A function of an object, if it still exists, that has to wait for memory.
template <class Object>
struct late_call final : late_task
{
  explicit late_call(void (Object::*what)())
    : function(what)
  {
  }
  void run() override
  {
    if (const auto found = of.lock())
      (found.get()->*function)();
  }

  void (Object::*const function)();
  std::weak_ptr<Object> of;     // set before the task is first added
  std::shared_ptr<Object> kept; // until the task is destroyed, if the object does not own the task
};

// The tasks that could not be done for lack of memory, and functions of the thread that runs both.
class late_tasks
{
public:
  // `to_thread` wakes the thread that runs them.
  explicit late_tasks(std::shared_ptr<inbox> to_thread) noexcept
    : to_thread_(std::move(to_thread))
  {
  }
  late_tasks(const late_tasks&) = delete;
  late_tasks& operator=(const late_tasks&) = delete;
  ~late_tasks() { end(); }

  // Returns the object whose tasks this thread runs, or null.
  [[nodiscard]] static late_tasks* of_this_thread() noexcept { return of_thread_; }
  void run_by_this_thread() noexcept { of_thread_ = this; }

  // Destroys what waits: on the thread when it ends, and afterwards by the last user.
  void end() noexcept
  {
    if (of_thread_ == this)
      of_thread_ = nullptr;
    for (auto rest = take_all(); rest;)
      rest = std::exchange(rest->next_, nullptr);
    for (kept_function& each : kept_)
      each.end(false);
  }

  // Runs a task on this thread, which has late_tasks, now or when there is memory.
  static void start(const std::shared_ptr<late_task>& what)
  try
  {
    what->run();
  }
  catch (const std::bad_alloc&)
  {
    of_thread_->add(what);
  }

  // Any thread. Needs no memory.
  void add(const std::shared_ptr<late_task>& what) noexcept
  {
    if (process_.foreign())
      return; // the thread is the parent's, and another one there may have held the mutex
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(what->waits_, true))
        return;
      what->next_ = std::exchange(first_, what);
    }
    // acquire: pairs with the release below, so that the slot is seen to be free
    if (of_thread_ != this && !wakes_.exchange(true, std::memory_order_acquire))
      to_thread_->post(boost::asio::bind_allocator(
        slot_allocator<void>(slot_), [this] { wakes_.store(false, std::memory_order_release); }));
  }

  [[nodiscard]] bool empty() const noexcept
  {
    const std::lock_guard lock(mutex_);
    return !first_;
  }

  void run()
  {
    for (auto rest = take_all(); rest;)
    {
      const auto next = rest;
      {
        const std::lock_guard lock(mutex_);
        rest = std::exchange(next->next_, nullptr);
        next->waits_ = false;
      }
      start(next);
    }
  }

  // Moves a function to memory that is reserved for a few of them. Returns false, and leaves the
  // function alone, if there is no room.
  template <class Function>
  bool keep(Function& function) noexcept
  {
    if constexpr (sizeof(Function) <= sizeof kept_function::storage)
      for (kept_function& each : kept_)
        if (each.end_with == nullptr)
        {
          ::new (static_cast<void*>(each.storage)) Function(std::move(function));
          each.end_with = [](void* stored, bool call)
          {
            Function own(std::move(*static_cast<Function*>(stored)));
            static_cast<Function*>(stored)->~Function();
            if (call)
              std::move(own)();
          };
          return true;
        }
    return false;
  }

  void call_kept()
  {
    for (kept_function& each : kept_)
      each.end(true);
  }

private:
  struct kept_function
  {
    void end(bool call)
    {
      if (end_with != nullptr)
        std::exchange(end_with, nullptr)(storage, call);
    }

    alignas(std::max_align_t) std::byte storage[128];
    void (*end_with)(void* stored, bool call) = nullptr; // null if there is no function
  };

  std::shared_ptr<late_task> take_all() noexcept
  {
    const std::lock_guard lock(mutex_);
    return std::exchange(first_, nullptr);
  }

  static inline thread_local constinit late_tasks* of_thread_ = nullptr;

  const process_mark process_;
  const std::shared_ptr<inbox> to_thread_;
  mutable std::mutex mutex_;
  std::shared_ptr<late_task> first_;
  std::atomic<bool> wakes_{false};
  handler_slot slot_; // of the function that wakes
  std::array<kept_function, 8> kept_;
};

// Lets run_later() find the tasks of an execution context. With null, only makes the place for
// them.
void run_late_by(boost::asio::execution_context& context, std::shared_ptr<late_tasks> tasks);

// Runs a task later on the thread of connections. Any thread; needs no memory. Returns false if the
// executor's context has no such thread.
[[nodiscard]] bool run_later(
  const boost::asio::any_io_executor& executor, const std::shared_ptr<late_task>& what) noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_LATE_TASKS_HPP
