//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_IN_FLIGHT_HPP
#define BOOST_RDMA_IN_FLIGHT_HPP

#include <boost_rdma/error.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace rdma {

/// Limits the number of operations in flight, for a loop that starts many of them.
/**
 * async_acquire() completes with a slot when fewer than `limit` operations are in flight. The slot
 * is the completion handler of the next operation. async_wait_all() completes when all operations
 * have completed.
 *
 * @code
 * rdma::in_flight writes(co_await asio::this_coro::executor, 16);
 * for (const block& each : blocks)
 * {
 *   auto slot = co_await writes.async_acquire(asio::use_awaitable);
 *   peer.async_write(each.local, each.remote, std::move(slot));
 * }
 * co_await writes.async_wait_all(asio::use_awaitable);
 * @endcode
 *
 * Slots accept every completion signature that begins with an error_code. They discard the other
 * arguments and store the first error. Once an error is stored, both functions complete with it:
 * async_acquire() at once, async_wait_all() when no operation is in flight.
 *
 * The object may be destroyed while operations are in flight.
 *
 * @tparam Executor Type of the executor that the slots run on.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe. Slots run on get_executor(), so use a strand if
 * several threads run it.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_in_flight
{
  struct state;

  template <bool Acquires>
  struct wait;

public:
  /// The executor that slots run on.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_in_flight<OtherExecutor>;
  };

  /// A completion handler that counts one operation as in flight until it is called or destroyed.
  /** Move-only. It does not keep the basic_in_flight, which may be destroyed earlier. */
  class slot
  {
  public:
    /// The executor that the handler runs on.
    using executor_type = Executor;

    /// Makes a slot that counts nothing and is not a handler yet.
    slot() = default;
    /// Moves a slot. The source then counts nothing and is not a handler.
    slot(slot&&) noexcept = default;
    /// Releases this slot without an error, as the destructor does, and moves `other` into it.
    slot& operator=(slot&& other) noexcept
    {
      release({});
      state_ = std::move(other.state_);
      return *this;
    }
    /// Ends the operation without an error if the handler was not called.
    ~slot() { release({}); }

    /// Returns the executor of the basic_in_flight.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
      return state_->changed.get_executor();
    }

    /// Ends the operation: stores the first error and lets the next operation start.
    template <class... Results>
    void operator()(const error_code& ec, Results&&...)
    {
      release(ec);
    }

  private:
    template <bool Acquires>
    friend struct wait;

    explicit slot(std::shared_ptr<state> counted)
      : state_(std::move(counted))
    {
      ++state_->count;
    }

    void release(const error_code& ec) noexcept
    {
      const auto counted = std::exchange(state_, nullptr);
      if (!counted)
        return;
      --counted->count;
      if (!counted->error)
        counted->error = ec;
      counted->changed.cancel(); // all waits check the count again
    }

    std::shared_ptr<state> state_;
  };

  /// Limits operations to `limit` in flight, 1 at least. Slots run on `executor`.
  basic_in_flight(const Executor& executor, std::size_t limit)
    : state_(std::make_shared<state>(executor, limit != 0 ? limit : 1))
  {
  }

  /// Limits operations to `limit` in flight, 1 at least. Slots run on the executor of `context`.
  template <class ExecutionContext>
    requires std::is_convertible_v<ExecutionContext&, boost::asio::execution_context&>
  basic_in_flight(ExecutionContext& context, std::size_t limit)
    : basic_in_flight(Executor(context.get_executor()), limit)
  {
  }

  /// Moves the limit and its operations. Only destruction and assignment are valid for the source.
  basic_in_flight(basic_in_flight&&) noexcept = default;
  /// Moves the limit and its operations. Operations of this object continue without a limit.
  basic_in_flight& operator=(basic_in_flight&&) noexcept = default;

  /// Returns the executor that slots run on.
  [[nodiscard]] executor_type get_executor() const noexcept
  {
    return state_->changed.get_executor();
  }

  /// Returns the number of operations in flight, including slots that are not used yet.
  [[nodiscard]] std::size_t size() const noexcept { return state_->count; }

  /// Waits until fewer than `limit` operations are in flight, and completes with a slot.
  /**
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::basic_in_flight<Executor>::slot) @endcode
   * If there is an error, the slot is empty and is not a handler.
   *
   * @par Errors
   * @li the first error of an operation that had a slot.
   * @li boost::asio::error::operation_aborted: the wait was cancelled.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait. They do not affect the operations.
   */
  template <boost::asio::completion_token_for<void(error_code, slot)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_acquire(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_compose<CompletionToken, void(error_code, slot)>(
      wait<true>{state_}, token, state_->changed);
  }

  /// Waits until no operation is in flight.
  /**
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li the first error of an operation that had a slot.
   * @li boost::asio::error::operation_aborted: the wait was cancelled.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait. They do not affect the operations.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_wait_all(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_compose<CompletionToken, void(error_code)>(
      wait<false>{state_}, token, state_->changed);
  }

private:
  using timer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
    boost::asio::wait_traits<std::chrono::steady_clock>, Executor>;

  struct state
  {
    state(const Executor& executor, std::size_t most)
      : changed(executor, timer::time_point::max())
      , limit(most)
    {
    }

    timer changed; // does not expire; cancelling it wakes the waits
    const std::size_t limit;
    std::size_t count = 0;
    error_code error;
  };

  template <bool Acquires>
  struct wait
  {
    std::shared_ptr<state> shared;
    bool initiating = true;

    template <class Self>
    void operator()(Self& self, const error_code& = {})
    {
      const bool first = std::exchange(initiating, false);
      if (first)
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
      const bool cancelled = self.cancelled() != boost::asio::cancellation_type::none;
      const bool ready =
        Acquires ? shared->error || shared->count < shared->limit : shared->count == 0;
      timer& changed = shared->changed;
      if (!ready && !cancelled)
        changed.async_wait(std::move(self));
      else if (first) // the handler is not called inside the initiating function
        boost::asio::post(changed.get_executor(), std::move(self));
      else
        finish(self, ready ? shared->error : boost::asio::error::operation_aborted);
    }

    template <class Self>
    void finish(Self& self, const error_code& ec)
    {
      if constexpr (!Acquires)
        self.complete(ec);
      else if (ec)
        self.complete(ec, slot());
      else
        self.complete(ec, slot(std::move(shared)));
    }
  };

  std::shared_ptr<state> state_;
};

/// Limiter with the default executor type.
using in_flight = basic_in_flight<>;

} // namespace rdma

#endif // BOOST_RDMA_IN_FLIGHT_HPP
