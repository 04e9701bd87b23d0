//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_RING_HPP
#define BOOST_RDMA_OBJECTS_RING_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/objects/operation.hpp>
#include <boost_rdma/detail/objects/ring.hpp>
#include <boost_rdma/memory_region.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma {

/// A ring of records in memory of this process, into which one peer pushes; see remote_ring.
/**
 * Only the processor accesses the memory: no queue pair is needed here, and a push takes no receive
 * of the connection. The peer needs access::remote_read and access::remote_write.
 *
 * Bytes from the peer are used only as those of records. Whatever a peer writes to the memory,
 * functions of this class return records that it could have pushed.
 *
 * The ring does not detect that the producer has ended: basic_queue_pair::async_wait_close() does.
 * Records that arrived before remain.
 *
 * @tparam T A trivially copyable type of at most 1024 bytes. Check its value if the peer is not
 * trusted.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe. async_pop() uses the ring on its handler's
 * executor while it waits. If another thread runs that, call all functions, and the destructor, in
 * a strand with which the handler is associated.
 */
template <class T, class Executor = boost::asio::any_io_executor>
class ring
{
  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);
  static_assert(sizeof(T) <= 1024, "write larger records to memory of their own");

public:
  /// The type of the records.
  using value_type = T;

  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = ring<T, OtherExecutor>;
  };

  /// Creates an empty ring in memory of its own.
  /**
   * @param executor Executor for handlers without an associated executor.
   * @param context Context with which the memory is registered.
   * @param capacity Number of records, 1 to 2^32; rounded up to a power of two. A record of n bytes
   * takes n bytes plus one in 63, rounded up to a multiple of 8.
   *
   * @throws system_error With the error of registering memory. invalid_argument: the capacity is
   * out of range.
   */
  ring(const executor_type& executor, const rdma::context& context, std::size_t capacity)
    : core_(std::make_shared<core>(executor, context, checked(capacity)))
  {
  }

  /// Creates an empty ring with the executor of an execution context.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  ring(ExecutionContext& owner, const rdma::context& context, std::size_t capacity)
    : ring(executor_type(owner.get_executor()), context, capacity)
  {
  }

  /// Moves a ring with its outstanding operation. `other` may then only be destroyed or assigned
  /// to.
  ring(ring&&) noexcept = default;

  /// Ends this object's ring, as the destructor does, and moves `other` into it.
  ring& operator=(ring&& other) noexcept
  {
    if (this != &other)
    {
      close();
      core_ = std::move(other.core_);
    }
    return *this;
  }

  /// Ends the ring. An operation that waits completes with operation_aborted.
  ~ring() { close(); }

  /// Returns the executor for handlers without an associated executor.
  [[nodiscard]] executor_type get_executor() const noexcept { return core_->executor; }

  /// Returns the number of records that the ring has room for.
  [[nodiscard]] std::size_t capacity() const noexcept
  {
    return static_cast<std::size_t>(core_->layout.capacity);
  }

  /// Returns the handle for the producer.
  [[nodiscard]] remote_buffer remote() const { return core_->memory.remote(); }

  /// Returns the memory, for basic_agent::async_lend().
  [[nodiscard]] mutable_buffer region() const noexcept { return core_->memory; }

  /// Takes the oldest record. Returns false if none has arrived.
  [[nodiscard]] bool try_pop(T& record) noexcept { return core_->reader.pop(&record); }

  /// Takes the oldest records that have arrived, at most as many as there is room for. Returns
  /// their number.
  [[nodiscard]] std::size_t pop_some(std::span<T> records) noexcept
  {
    std::size_t count = 0;
    while (count != records.size() && core_->reader.pop(&records[count]))
      ++count;
    return count;
  }

  /// Takes the oldest record, after waiting for it.
  /**
   * One call may wait at a time. It polls the memory, because nothing else tells that the peer has
   * written: for about 50 microseconds with the executor's other handlers in between, then with
   * pauses. A pause is an eighth of the time without a record, at least 25 microseconds and at most
   * 4 milliseconds, so a record is found late by that time and that of a timer. A thread that needs
   * records sooner calls try_pop() in a loop.
   *
   * After the first record, pop_some() takes the others fastest.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, T) @endcode
   *
   * @par Errors
   * @li boost::asio::error::already_started: another call waits.
   * @li operation_aborted: the wait was cancelled, or the object was destroyed.
   * @li not_enough_memory: there was no memory for a step of the wait.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait. No record is lost.
   */
  template <boost::asio::completion_token_for<void(error_code, T)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_pop(CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, T)>(
      detail::initiation(core_->executor,
        [ring = core_](const auto& executor, auto&& handler)
        {
          const auto make = [&] { return waiting_pop(ring); };
          detail::objects::operation<waiting_pop, std::decay_t<decltype(handler)>, Executor>::start(
            {}, executor, make, std::forward<decltype(handler)>(handler));
        }),
      token);
  }

private:
  using step = detail::objects::step;
  using layout = detail::objects::ring_layout;

  struct core
  {
    core(const Executor& executor, const rdma::context& context, std::uint64_t capacity)
      : layout{capacity, detail::objects::ring_entry_words(sizeof(T))}
      , memory(context, layout.size(),
          access::local_write | access::remote_read | access::remote_write | access::window_bind)
      , reader(memory.as_span<std::uint64_t>().data(), capacity)
      , executor(executor)
    {
      const auto header = detail::objects::header_of<T>(detail::objects::kind::ring, capacity);
      std::memcpy(memory.data(), &header, sizeof header);
    }

    const detail::objects::ring_layout layout;
    const memory_region memory; // filled with zeros
    detail::objects::ring_reader<sizeof(T)> reader;
    const Executor executor;
    bool pops = false; // an async_pop() waits
    bool closed = false;
  };

  // The state machine of async_pop().
  class waiting_pop
  {
  public:
    explicit waiting_pop(const std::shared_ptr<core>& of)
      : owner_(of)
      , refused_(std::exchange(of->pops, true))
    {
    }
    waiting_pop(const waiting_pop&) = delete;
    waiting_pop& operator=(const waiting_pop&) = delete;
    ~waiting_pop()
    {
      if (!refused_)
        owner_->pops = false;
    }

    // A record is not taken here, because the operation may fail to begin.
    step begin()
    {
      return refused_ ? step::finish(boost::asio::error::already_started) : step::wait({});
    }
    detail::objects::access_request request(std::size_t) { return {}; }
    void answered(std::size_t, std::uint64_t) {}
    step next(bool cancelled)
    {
      core& c = *owner_;
      if (!c.closed && c.reader.pop(&record_))
        return step::finish();
      if (c.closed || cancelled)
        return step::finish(boost::asio::error::operation_aborted);
      if (turns_ != turns_max)
      {
        ++turns_;
        detail::objects::look_for_parity(c.reader.entry(), c.reader.parity());
        return step::wait({});
      }
      const auto pause = std::clamp(idle_ / 8, shortest, longest);
      idle_ += pause;
      return step::wait(pause);
    }
    auto results() const { return std::make_tuple(record_); }

  private:
    static constexpr unsigned turns_max = 32; // each of about one or two microseconds
    static constexpr std::chrono::microseconds shortest{25};
    static constexpr std::chrono::microseconds longest{4000};

    std::shared_ptr<core> owner_;
    bool refused_;
    unsigned turns_ = 0;
    std::chrono::microseconds idle_{};
    T record_{};
  };

  static std::uint64_t checked(std::size_t capacity)
  {
    if (capacity == 0 || capacity > layout::capacity_max)
      throw boost::system::system_error(
        make_error_code(boost::system::errc::invalid_argument), "rdma::ring: capacity");
    return std::bit_ceil(std::uint64_t{capacity});
  }

  void close() noexcept
  {
    if (core_ != nullptr)
      core_->closed = true;
  }

  std::shared_ptr<core> core_;
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_RING_HPP
