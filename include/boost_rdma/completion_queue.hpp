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

/// How a completion_queue works.
struct completion_queue_options
{
  /// How it learns of completions.
  completion_mode mode = completion_mode::adaptive;

  /// adaptive: how long it polls after the last sign of activity before it waits.
  std::chrono::microseconds spin_time{50};

  /// busy_poll and adaptive: how long it polls before other handlers of the io_context get a turn.
  std::chrono::microseconds spin_slice{8};

  /// Completions that it holds at first; it grows with the queue pairs that use it
  /// (ibv_resize_cq(3)).
  std::uint32_t depth = 256;
};

/// Where completions of queue pairs arrive, one queue for each device of a context (ibv_create_cq).
/**
 * A queue pair that is not given one uses the queue of its io_context and device, which is
 * adaptive; make one of your own to choose another mode or to poll it yourself. A copy is a handle
 * to the same queues.
 *
 * The queue belongs to the execution context of its executor: it polls and waits there, and must
 * not be used after that context is gone. Strands are looked through; the handlers run on their own
 * executors. Where queue pairs of another execution context use it, they are to be closed, and
 * their handlers called, before that context goes.
 *
 * One thread at a time takes completions and calls or dispatches their handlers, in the order in
 * which they completed. A handler that runs for long, or waits, holds up those behind it, whatever
 * the number of threads in run(): post such work, or spread queue pairs over several queues.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class completion_queue
{
public:
  /// Holds an executor of any type.
  using executor_type = boost::asio::any_io_executor;

  /// Makes a queue for each of the context's devices (ibv_create_cq(3)).
  /**
   * @param executor Where it polls and waits; strands are looked through.
   * @param context Whose queue pairs are to use it; error::wrong_context for others.
   * @param options How it works.
   *
   * Throws system_error with what creating the queues said.
   */
  template <class Executor>
    requires(!std::convertible_to<Executor&, boost::asio::execution_context&>)
  completion_queue(const Executor& executor, const context& context,
    const completion_queue_options& options = completion_queue_options())
    : completion_queue(make_tag{}, detail::inner_executor(executor), context, options)
  {
  }

  /// As above, with the executor of an io_context or thread_pool.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  completion_queue(ExecutionContext& owner, const context& context,
    const completion_queue_options& options = completion_queue_options())
    : completion_queue(make_tag{}, owner.get_executor(), context, options)
  {
  }

  /// Where it polls and waits: what it was made with, inside strands.
  [[nodiscard]] executor_type get_executor() const;

  /// How it learns of completions at present.
  [[nodiscard]] completion_mode mode() const noexcept;

  /// Changes between event, busy_poll and adaptive; a manual queue stays manual, and others do not
  /// become so.
  void mode(completion_mode mode) noexcept;

  /// Takes what has completed from all devices; the handlers are dispatched to their executors.
  /**
   * For manual queues, and for others where a thread wants to look now. Never blocks
   * (ibv_poll_cq(3)).
   * @returns The number of operations that completed.
   */
  std::size_t poll();

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

  std::array<std::shared_ptr<detail::completion_queue_impl>, detail::device_count_max> impls_;
};

} // namespace rdma

#endif // BOOST_RDMA_COMPLETION_QUEUE_HPP
