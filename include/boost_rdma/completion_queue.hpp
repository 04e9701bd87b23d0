//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_COMPLETION_QUEUE_HPP
#define BOOST_RDMA_COMPLETION_QUEUE_HPP

#include <boost_rdma/completion_mode.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/inner_executor.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>

namespace rdma {

namespace detail {
class completion_queue_impl;
}

/// Options of a completion_queue.
struct completion_queue_options
{
  /// Method by which the queue detects completions.
  completion_mode mode = completion_mode::adaptive;

  /// adaptive: polling time after the last activity, before the queue waits for the completion
  /// channel.
  std::chrono::microseconds spin_time{50};

  /// All modes except manual and external: polling time before other handlers of the io_context
  /// run. While there are none it grows to four times this. Handlers that the library itself posts
  /// run sooner.
  std::chrono::microseconds spin_slice{8};

  /// Initial number of completions that the queue can hold. It grows with the queue pairs that use
  /// the queue (ibv_resize_cq(3)).
  std::uint32_t depth = 256;
};

/// Receives the completions of queue pairs. Contains one queue for each device of a context
/// (ibv_create_cq(3)).
/**
 * By default a queue pair uses the completion queue of its io_context and device, which is
 * adaptive. Create a completion_queue to select another mode, or to poll it in the program. A copy
 * is a handle to the same queues.
 *
 * The queue belongs to the execution context of its executor: it polls and waits there. Do not use
 * it after that context is destroyed. If the executor is a strand, its inner executor is used.
 * Handlers run on their own executors. If queue pairs of another execution context use the queue,
 * close them and let their handlers run before the queue's execution context is destroyed.
 *
 * One thread at a time takes completions and calls or dispatches their handlers, in the order of
 * the completions. A handler that runs for a long time or blocks delays the handlers behind it,
 * regardless of the number of threads in run(). Post such work, or distribute the queue pairs over
 * several queues.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class completion_queue
{
public:
  /// An executor of any type.
  using executor_type = boost::asio::any_io_executor;

  /// Creates a queue for each of the context's devices (ibv_create_cq(3)).
  /**
   * @param executor Executor on which the queue polls and waits. If it is a strand, its inner
   * executor is used.
   * @param context Context of the queue pairs that use this queue. Queue pairs of other contexts
   * fail with error::wrong_context.
   * @param options Mode, polling times and depth.
   *
   * @throws system_error With the error of creating the queues.
   */
  template <class Executor>
    requires(!std::convertible_to<Executor&, boost::asio::execution_context&>)
  completion_queue(const Executor& executor, const context& context,
    const completion_queue_options& options = completion_queue_options())
    : completion_queue(make_tag{}, detail::inner_executor(executor), context, options)
  {
  }

  /// Creates a queue for each of the context's devices, with the executor of an io_context or
  /// thread_pool.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  completion_queue(ExecutionContext& owner, const context& context,
    const completion_queue_options& options = completion_queue_options())
    : completion_queue(make_tag{}, owner.get_executor(), context, options)
  {
  }

  /// Returns the executor on which the queue polls and waits. It is not a strand.
  [[nodiscard]] executor_type get_executor() const;

  /// Returns the current mode.
  [[nodiscard]] completion_mode mode() const noexcept;

  /// Changes the mode between event, busy_poll and adaptive. The modes manual and external cannot
  /// be entered or left.
  void mode(completion_mode mode) noexcept;

  /// Takes the completions of all devices and dispatches the handlers to their executors.
  /**
   * Required for manual and external queues. Other queues may be polled, too, to check for
   * completions immediately. Never blocks (ibv_poll_cq(3)).
   * @returns The number of operations that completed.
   */
  std::size_t poll();

  /// Prepares for sleeping, in the mode external (ibv_req_notify_cq(3)).
  /**
   * After it has returned true, native_handle() becomes readable when poll() may find something.
   * Call it again after each sleep: it also takes the event that ended the sleep.
   * @code
   * while (!stopped)
   *   if (queue.poll() == 0 && queue.arm())
   *     ::poll(descriptors, count, -1); // one of them is queue.native_handle()
   * @endcode
   * One thread at a time may call it.
   * @returns false if there may be completions already: poll again.
   */
  bool arm();

  /// Returns a descriptor to sleep on, in the mode external; otherwise -1. It belongs to the queue.
  [[nodiscard]] int native_handle() const noexcept { return sleep_set_ ? sleep_set_->fd : -1; }

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::completion_queue_impl>& impl(
    std::size_t device_index) const
  {
    return impls_[device_index];
  }

private:
  struct make_tag
  {
  };
  completion_queue(make_tag, executor_type executor, const context& context,
    const completion_queue_options& options);

  // An epoll set with the descriptors of all devices.
  struct sleep_set
  {
    explicit sleep_set(int made) noexcept
      : fd(made)
    {
    }
    sleep_set(const sleep_set&) = delete;
    sleep_set& operator=(const sleep_set&) = delete;
    ~sleep_set();

    const int fd;
  };

  std::array<std::shared_ptr<detail::completion_queue_impl>, detail::device_count_max> impls_;
  std::shared_ptr<sleep_set> sleep_set_; // of the mode external
};

} // namespace rdma

#endif // BOOST_RDMA_COMPLETION_QUEUE_HPP
