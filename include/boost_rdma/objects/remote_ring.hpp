//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_REMOTE_RING_HPP
#define BOOST_RDMA_OBJECTS_REMOTE_RING_HPP

#include <boost_rdma/detail/objects/remote_object.hpp>
#include <boost_rdma/detail/objects/ring_producer.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma {

/// The producer of a ring of records in the peer's memory, an rdma::ring.
/**
 * Records arrive in the order of their pushes, each once. The ring is the fastest way for small
 * records: try_push() copies the record to registered memory and returns. A record is written at
 * once if no write is in flight. Otherwise it is written together with others, when the write
 * before has completed or many records wait. The peer's processor finds them in its memory.
 *
 * The producer stages as many records as the ring has room for, in addition to those in the ring.
 * If the consumer is slow, try_push() then returns false and async_push() waits.
 *
 * A ring has one producer, and is opened once. Another producer would be damaged by late writes of
 * the first, even if that one's process has ended: the owner creates another ring instead. To find
 * mistakes, async_open() fails if it sees a record. It cannot see those whose write is on its way.
 *
 * The object may be destroyed at any time, also while operations wait, which complete with
 * operation_aborted. Records that were not written yet are lost: see async_flush(). It does not
 * keep the queue pair open. The queue pair's send queue needs room for 5 requests.
 *
 * @tparam T A trivially copyable type of at most 1024 bytes.
 *
 * @par Errors
 * If a write or a read fails, the ring ends: try_push() returns false, and operations complete with
 * the error of basic_queue_pair::async_write() or async_read(). Records that were pushed may have
 * arrived or not. error::object_mismatch: the peer's memory contains an impossible number of
 * consumed records.
 *
 * @par Thread safety
 * Distinct objects: safe, if they use different queue pairs. Shared objects: unsafe. The object
 * also works in handlers on the queue pair's executor. If several threads run it, create the queue
 * pair with a strand, and call all functions in the strand.
 */
template <class T, class Executor = boost::asio::any_io_executor>
class remote_ring : public detail::objects::remote_object<Executor>
{
  using base = detail::objects::remote_object<Executor>;
  using core = detail::objects::ring_producer;

  static_assert(std::is_trivially_copyable_v<T>);
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
    using other = remote_ring<T, OtherExecutor>;
  };

  /// Creates an object without a ring, to assign one to: try_push() returns false. There is no
  /// executor for operations.
  remote_ring()
    requires std::is_default_constructible_v<Executor>
    : base(Executor(), {})
  {
  }

  /// Moves a ring with its outstanding operations. Operations on `other` complete with
  /// error::closed.
  remote_ring(remote_ring&& other) noexcept
    : base(other.executor_, std::move(other.where_))
    , core_(std::move(other.core_))
  {
  }

  /// Ends this object's ring, as the destructor does, and moves `other` into it.
  remote_ring& operator=(remote_ring&& other) noexcept
  {
    if (this != &other)
    {
      close();
      this->executor_ = other.executor_;
      this->where_ = std::move(other.where_);
      core_ = std::move(other.core_);
    }
    return *this;
  }

  /// Ends the ring. Operations that wait complete with operation_aborted.
  ~remote_ring() { close(); }

  /// Opens a ring in the peer's memory. Compares size and layout of the records, and allocates and
  /// registers memory of the same size.
  /**
   * The consumer chooses the size of the ring, up to `memory.size()`. If it is not trusted, compare
   * that with a limit first.
   *
   * @param peer The connection to the consumer.
   * @param memory The memory of the ring: rdma::ring::remote() or a loan of rdma::ring::region().
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_ring<T, Executor>) @endcode
   *
   * @par Errors
   * @li error::object_mismatch: the memory contains no such ring, or records were written to it.
   * @li error::remote_range_too_small: the memory is too small for any ring.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_read() and of the constructor of memory_region.
   * @li resource_unavailable_try_again: the thread of connections cannot be started. It completes
   * operations that have to wait for memory.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation with operation_aborted after the read in flight.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_ring)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_open(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    const detail::objects::place where{peer.core(), memory};
    return base::template run<void(error_code, remote_ring), CompletionToken>(peer.get_executor(),
      where, token,
      [executor = peer.get_executor(), where,
        checked = detail::objects::check_memory(memory, layout_of(1).size())]
      { return opening(checked, remote_ring(executor, where)); });
  }

  /// Pushes a record if there is room. Makes no system call and waits for nothing.
  /**
   * The record leaves when the queue pair's executor runs; a thread that only calls try_push()
   * until it returns false sends a part of the records.
   *
   * @returns False if there is no room, if a call of async_push() waits, or if the ring has ended.
   * async_push() then waits or reports the reason.
   */
  [[nodiscard]] bool try_push(const T& record)
  {
    return core_ != nullptr && core_->template push<sizeof(T)>(&record);
  }

  /// Pushes a record, after waiting for room. Calls that wait push in the order of their start.
  /**
   * The record is pushed when the handler is called, and may arrive later: see async_flush().
   *
   * @param record The record.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * See the description of the class. operation_aborted: the object was destroyed. error::closed:
   * it has no ring.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait; the record is then not pushed.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_push(const T& record,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken>(token,
      [record](core& ring, const executor_type& executor, auto&& handler)
      {
        using code = detail::objects::ring_code<sizeof(T)>;
        if (ring.accepts())
        {
          // First, because it may throw. The handler runs after this call.
          core::complete(executor, std::forward<decltype(handler)>(handler), {});
          static_cast<void>(ring.push<sizeof(T)>(&record));
          return;
        }
        core::words words(code::words);
        code::encode(&record, 0, words.data());
        ring.wait_push(executor, std::move(words), std::forward<decltype(handler)>(handler));
      });
  }

  /// Waits until all records that are pushed now are in the consumer's memory. They may not have
  /// been consumed. Calls of async_push() that wait are not covered.
  /**
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * As async_push().
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait. The records are written as without the call.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_flush(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken>(token,
      [](core& ring, const executor_type& executor, auto&& handler)
      { ring.wait_flush(executor, std::forward<decltype(handler)>(handler)); });
  }

private:
  static constexpr detail::objects::ring_layout layout_of(std::uint64_t capacity) noexcept
  {
    return {capacity, detail::objects::ring_entry_words(sizeof(T))};
  }

  struct opening : detail::objects::open_ring
  {
    opening(const error_code& checked, remote_ring object)
      : open_ring(detail::objects::header_of<T>(detail::objects::kind::ring), checked,
        object.where_.memory().size())
      , made(std::move(object))
    {
    }

    detail::objects::step next(bool cancelled)
    try
    {
      const auto end = open_ring::next(cancelled);
      if (!end.ec)
        made.core_ = std::make_shared<core>(made.executor_, made.where_, this->layout());
      return end;
    }
    catch (const boost::system::system_error& e)
    {
      return detail::objects::step::finish(e.code());
    }

    auto results() { return std::make_tuple(std::move(made)); }

    remote_ring made;
  };

  remote_ring(const Executor& executor, detail::objects::place where)
    : base(executor, std::move(where))
  {
  }

  void close() noexcept
  {
    if (core_ != nullptr)
      core_->close();
  }

  template <class CompletionToken, class Start>
  auto initiate(std::remove_reference_t<CompletionToken>& token, Start start)
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      detail::initiation(this->executor_,
        [ring = core_, start = std::move(start)](const auto& executor, auto&& handler)
        {
          if (ring != nullptr)
            start(*ring, executor, std::forward<decltype(handler)>(handler));
          else
            core::complete(executor, std::forward<decltype(handler)>(handler), error::closed);
        }),
      token);
  }

  std::shared_ptr<core> core_;
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_REMOTE_RING_HPP
