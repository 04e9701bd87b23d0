//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_REMOTE_PUBLISHED_HPP
#define BOOST_RDMA_OBJECTS_REMOTE_PUBLISHED_HPP

#include <boost_rdma/detail/objects/published.hpp>
#include <boost_rdma/detail/objects/remote_object.hpp>
#include <boost_rdma/objects/published_snapshot.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma {

/// A large value in the peer's memory that the peer replaces as a whole; see rdma::published.
/**
 * There are two ways to read it:
 * @li async_load() reads the whole value, in three round trips. It needs access::remote_read only.
 *     It starts again if the owner reuses the memory meanwhile, which needs as many publications
 *     as there are buffers.
 * @li async_snapshot() keeps the current value as it is until the handle is released or its lease
 *     ends. The value can be read in parts. It needs access::remote_atomic, too.
 *
 * Both return the value that is current at one moment between the initiating call and the
 * completion (linearizability). This holds on every device that conforms to verbs: it is assumed
 * that aligned words of 8 bytes are read at once, in any order, and that atomics are atomic among
 * those of the device. doc/objects_published.md has the reasons.
 *
 * The handle may be copied. It does not keep the memory or the queue pair.
 *
 * @tparam T A trivially copyable type with an alignment of at most 64, usually large.
 *
 * @par Errors
 * Every operation can complete with the errors of basic_queue_pair::async_read(), and with
 * error::object_mismatch if the memory is not that of an object any more. async_snapshot() can
 * complete with the errors of async_compare_exchange(), too, such as operation_not_supported if the
 * device has no atomics.
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the operation with operation_aborted after the requests that are
 * in flight. No snapshot is left then.
 *
 * @par Thread safety
 * Distinct objects: safe, if their operations are not started concurrently through one queue pair.
 * Shared objects: unsafe.
 */
template <class T, class Executor = boost::asio::any_io_executor>
class remote_published : public detail::objects::remote_object<Executor>
{
  using base = detail::objects::remote_object<Executor>;

  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(alignof(T) <= detail::objects::published_layout::alignment);
  static_assert(sizeof(T) <= std::numeric_limits<std::uint32_t>::max());

public:
  /// The type of the value.
  using value_type = T;

  /// The type of snapshots.
  using snapshot_type = published_snapshot<T, Executor>;

  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = remote_published<T, OtherExecutor>;
  };

  /// Creates a handle without an object: operations complete with error::closed.
  remote_published()
    requires std::is_default_constructible_v<Executor>
    : base(Executor(), {})
  {
  }

  /// Opens an object in the peer's memory. Compares kind, size and layout of the value.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory of the object: published::remote().
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_published<T, Executor>) @endcode
   *
   * @par Errors
   * @li error::object_mismatch: the memory contains no such object.
   * @li error::remote_range_too_small: the memory is too small.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_read().
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_published)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_open(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    const detail::objects::place where{peer.core(), memory};
    return base::template run<void(error_code, remote_published), CompletionToken>(
      peer.get_executor(), where, token,
      [executor = peer.get_executor(), where] { return opening(executor, where); });
  }

  /// Returns the number of buffers that the owner chose.
  [[nodiscard]] std::size_t buffers() const noexcept { return layout_.buffers; }

  /// Returns the lease of snapshots that the owner chose.
  [[nodiscard]] std::chrono::milliseconds lease() const noexcept { return layout_.lease; }

  /// Loads the value.
  /**
   * @param to Memory for the value. It belongs to the operation until the handler is called. After
   * an error its content is unspecified.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   * The number of the value: 0 for the first, and one more for each that was published.
   *
   * @par Errors
   * @li error::contended: the owner reused the memory during each of 100 loads.
   *
   * @par Per-operation cancellation
   * See the description of the class; at most 32 MiB are in flight.
   */
  template <boost::asio::completion_token_for<void(error_code, std::uint64_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_load(
    T& to, CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return async_load(mutable_buffer(std::span(&to, 1)), std::forward<CompletionToken>(token));
  }

  /// Loads the value into a buffer, which may be registered memory.
  /**
   * Otherwise the same as the other overload.
   *
   * @param to Memory of the size of the value. It belongs to the operation until the handler is
   * called.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   *
   * @par Errors
   * @li error::wrong_size: the buffer does not have the size of the value.
   *
   * @par Per-operation cancellation
   * See the description of the class; at most 32 MiB are in flight.
   */
  template <boost::asio::completion_token_for<void(error_code, std::uint64_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_load(const mutable_buffer& to,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return base::template initiate<void(error_code, std::uint64_t), CompletionToken>(token,
      [layout = layout_, to] {
        return loading{{layout, to}};
      });
  }

  /// Takes a snapshot of the current value.
  /**
   * Takes three round trips: a read, an atomic, and another read, all of a few words. More are
   * needed if the owner publishes meanwhile, or others take snapshots. If no slot is free, the
   * operation waits for one, at most for a lease.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::published_snapshot<T, Executor>) @endcode
   *
   * @par Errors
   * @li error::object_full: published_options::snapshots others have been held, and renewed, for a
   *     lease. Slots of processes that died are free again after a lease.
   * @li error::contended: the owner published, or others took snapshots, during each of 1000
   *     attempts.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, snapshot_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_snapshot(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return base::template initiate<void(error_code, snapshot_type), CompletionToken>(token,
      [executor = this->executor_, where = this->where_, layout = layout_]
      { return taking(executor, where, layout); });
  }

  /// @cond
  static constexpr detail::objects::header expected_header(std::uint64_t buffers) noexcept
  {
    return detail::objects::header_of<T>(detail::objects::kind::published, buffers);
  }
  /// @endcond

private:
  struct opening : detail::objects::open_published
  {
    opening(const Executor& executor, const detail::objects::place& where)
      : open_published(expected_header(0), where.memory())
      , made(executor, where)
    {
    }
    auto results()
    {
      if (this->layout().is_valid())
        made.layout_ = this->layout();
      return std::make_tuple(std::move(made));
    }

    remote_published made;
  };

  struct loading : detail::objects::load_published
  {
    auto results() const { return std::make_tuple(this->generation()); }
  };

  struct taking : detail::objects::take_snapshot
  {
    taking(const Executor& by, const detail::objects::place& object,
      const detail::objects::published_layout& layout)
      : take_snapshot(layout)
      , executor(by)
      , where(object)
      , of(layout)
    {
    }

    // The pin is kept as soon as there is one, because results() does not know about errors.
    detail::objects::step next(bool cancelled)
    {
      const detail::objects::step result = take_snapshot::next(cancelled);
      if (result.what == detail::objects::step::action::finish && !result.ec)
        held = std::make_shared<detail::objects::held_pin<Executor>>(executor, where, of, *this);
      return result;
    }
    auto results() { return std::make_tuple(snapshot_type(executor, where, std::move(held))); }

    Executor executor;
    detail::objects::place where;
    detail::objects::published_layout of;
    std::shared_ptr<detail::objects::held_pin<Executor>> held;
  };

  remote_published(const Executor& executor, detail::objects::place where)
    : base(executor, std::move(where))
  {
  }

  detail::objects::published_layout layout_{.value_size = sizeof(T)};
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_REMOTE_PUBLISHED_HPP
