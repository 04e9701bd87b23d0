//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_PUBLISHED_SNAPSHOT_HPP
#define BOOST_RDMA_OBJECTS_PUBLISHED_SNAPSHOT_HPP

#include <boost_rdma/buffer.hpp>
#include <boost_rdma/detail/objects/published.hpp>
#include <boost_rdma/detail/objects/remote_object.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma {

/// @cond
namespace detail::objects {

// The pin of a snapshot. Its end frees the slot.
template <class Executor>
class held_pin
{
public:
  held_pin(const Executor& executor, place where, const published_layout& layout,
    const take_snapshot& taken)
    : executor(executor)
    , where(std::move(where))
    , layout(layout)
    , version(taken.version())
    , slot(taken.slot())
    , word(taken.pin())
    , expires(taken.expires_at())
  {
  }
  held_pin(const held_pin&) = delete;
  held_pin& operator=(const held_pin&) = delete;

  ~held_pin()
  {
    // A queue pair whose io_context has been destroyed is closed. It would keep an operation.
    if (ended.load() || where.through() == nullptr || !is_open_core(*where.through()))
      return;
    try
    {
      struct release : change_pin
      {
        auto results() const noexcept { return std::tuple<>(); }
      };
      const auto make = [this] { return release{change_pin(layout, slot, word.load(), false)}; };
      const auto ignored = [](const error_code&) {};
      operation<release, std::decay_t<decltype(ignored)>, Executor>::start(
        where, executor, make, ignored);
    }
    catch (const std::exception&)
    {
      // The lease ends later.
    }
  }

  const Executor executor;
  const place where;
  const published_layout layout;
  const published_version version;
  const std::uint64_t slot;
  std::atomic<std::uint64_t> word;
  std::atomic<time_point> expires;
  std::atomic<bool> ended{false}; // the slot is free, or another's
};

} // namespace detail::objects
/// @endcond

/// A value of a remote_published that stays as it is while this handle exists and is renewed.
/**
 * Copies of the handle share the snapshot. The last one frees it, without waiting, after the
 * operations that use it. The owner cannot reuse the memory of the value before that, unless the
 * lease ends: renew the snapshot in time with async_renew(), for instance at half of the lease.
 *
 * A read is valid if the snapshot was still held after the data had arrived. So a process that was
 * stopped for longer than the lease gets error::lease_ended, and never a part of another value.
 *
 * @par Errors
 * Every operation can complete with:
 * @li error::lease_ended: the lease ended, or the snapshot was released.
 * @li the errors of basic_queue_pair::async_read() and async_compare_exchange().
 *
 * @par Thread safety
 * Distinct objects: safe, if their operations are not started concurrently through one queue pair.
 * Shared objects: unsafe. The last handle of a snapshot starts an operation when it is destroyed.
 */
template <class T, class Executor = boost::asio::any_io_executor>
class published_snapshot : public detail::objects::remote_object<Executor>
{
  using base = detail::objects::remote_object<Executor>;
  using held = detail::objects::held_pin<Executor>;

public:
  /// The type of the value.
  using value_type = T;

  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = published_snapshot<T, OtherExecutor>;
  };

  /// Clock of the lease.
  using clock_type = std::chrono::steady_clock;

  /// Creates a handle without a snapshot. It can only be assigned to.
  published_snapshot()
    requires std::is_default_constructible_v<Executor>
    : base(Executor(), {})
  {
  }

  /// For the library itself.
  published_snapshot(
    const Executor& executor, detail::objects::place where, std::shared_ptr<held> pin) noexcept
    : base(executor, std::move(where))
    , held_(std::move(pin))
  {
  }

  /// Returns true if the handle has a snapshot, which may have ended.
  explicit operator bool() const noexcept { return held_ != nullptr; }

  /// Returns the number of the value: 0 for the first, and one more for each that was published.
  /** Precondition: the handle has a snapshot. */
  [[nodiscard]] std::uint64_t generation() const noexcept { return held_->version.generation; }

  /// Returns the time before which the lease does not end.
  /** Precondition: the handle has a snapshot. */
  [[nodiscard]] clock_type::time_point expires_at() const noexcept { return held_->expires; }

  /// Reads a part of the value.
  /**
   * @param offset Offset of the part in bytes, for instance offsetof(T, member).
   * @param to Memory for the part. It belongs to the operation until the handler is called. After
   * an error its content is unspecified.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li error::lease_ended: the snapshot ended before the data had arrived.
   * @li error::out_of_range: the part is not inside the value.
   * @li error::empty_buffer: `to` has no bytes.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation with operation_aborted after the requests that
   * are in flight, at most 32 MiB.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_read(std::uint64_t offset, const mutable_buffer& to,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return start<CompletionToken>(token,
      [offset, to](const std::shared_ptr<held>& pin) {
        return reading{{pin->layout, pin->version, pin->slot, pin->word, offset, to}, pin};
      });
  }

  /// Reads the whole value.
  /**
   * @param to Memory for the value. It belongs to the operation until the handler is called. After
   * an error its content is unspecified.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Per-operation cancellation
   * As that of a part.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_read(
    T& to, CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return async_read(0, std::span(&to, 1), std::forward<CompletionToken>(token));
  }

  /// Renews the lease. It ends one lease after the call, unless it is renewed again.
  /**
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li error::contended: the slot has changed before each of 1000 attempts. Only other renewals of
   *     the same snapshot, or a faulty owner, change it.
   *
   * @par Per-operation cancellation
   * None: the operation takes a round trip, unless the slot changes.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_renew(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return start<CompletionToken>(token,
      [](const std::shared_ptr<held>& pin) {
        return changing{{pin->layout, pin->slot, pin->word, true}, pin, true};
      });
  }

  /// Frees the snapshot, and completes when the owner can reuse the memory of the value.
  /**
   * The destructor frees it, too, without waiting.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li error::contended: the slot has changed before each of 1000 attempts. Only other renewals of
   *     the same snapshot, or a faulty owner, change it.
   *
   * @par Per-operation cancellation
   * None: the operation takes a round trip, unless the slot changes.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_release(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return start<CompletionToken>(token,
      [](const std::shared_ptr<held>& pin) {
        return changing{{pin->layout, pin->slot, pin->word, false}, pin, false};
      });
  }

private:
  template <class CompletionToken, class Make>
  auto start(std::remove_reference_t<CompletionToken>& token, Make make) const
  {
    return base::template initiate<void(error_code), CompletionToken>(
      token, [pin = held_, make] { return make(pin); });
  }

  // Machines that share the pin.
  struct reading : detail::objects::read_snapshot
  {
    reading(const detail::objects::read_snapshot& machine, std::shared_ptr<held> pin)
      : read_snapshot(machine)
      , used(std::move(pin))
    {
    }
    auto results() const noexcept { return std::tuple<>(); }

    std::shared_ptr<held> used;
  };

  struct changing : detail::objects::change_pin
  {
    changing(const detail::objects::change_pin& machine, std::shared_ptr<held> pin, bool renewing)
      : change_pin(machine)
      , used(std::move(pin))
      , renews(renewing)
    {
    }

    detail::objects::step next(bool cancelled) noexcept
    {
      const detail::objects::step result = change_pin::next(cancelled);
      if (result.what != detail::objects::step::action::finish)
        return result;
      if (result.ec || !renews)
        used->ended = true;
      else
      {
        used->word = this->pin();
        used->expires = std::max<detail::objects::time_point>(used->expires, this->expires_at());
      }
      return result;
    }
    auto results() const noexcept { return std::tuple<>(); }

    std::shared_ptr<held> used;
    bool renews;
  };

  std::shared_ptr<held> held_;
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_PUBLISHED_SNAPSHOT_HPP
