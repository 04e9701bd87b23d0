//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#ifndef BOOST_RDMA_OBJECTS_REMOTE_SEMAPHORE_HPP
#define BOOST_RDMA_OBJECTS_REMOTE_SEMAPHORE_HPP

#include <boost_rdma/detail/objects/lease.hpp>
#include <boost_rdma/detail/objects/remote_object.hpp>
#include <boost_rdma/detail/objects/semaphore.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma {

/// A permit of a remote_semaphore. It remains acquired when this object is destroyed.
class semaphore_permit : public detail::objects::held_lease
{
public:
  /// Creates the handle of a permit that is not held.
  semaphore_permit() = default;

  /// @cond
  explicit semaphore_permit(const held_lease& held)
    : held_lease(held)
  {
  }
  /// @endcond

  /// Returns the number of the permit, from 0 on. No two holders at a time have the same.
  [[nodiscard]] std::size_t index() const noexcept { return held_lease::index(); }
};

/// A number of permits in the peer's memory, of which each is held by one process at a time.
/**
 * A process holds a permit until it releases it, or until its lease ends. The holder renews its
 * lease in time, for instance after each third of it. If it dies or is stopped, another process
 * gets the permit after the time of the lease. The former holder is told by error::lease_ended, but
 * only when it asks: before each use of what the semaphore protects, compare
 * semaphore_permit::expires_at() with the time.
 *
 * The order in which waiting processes get permits is random, not that of their requests: a process
 * may wait while others get permits again and again. For an order, use remote_mutex.
 *
 * Acquiring takes two round trips if a permit is free, releasing and renewing one. A process that
 * waits reads 576 bytes after each pause, which grows to one millisecond. Needs access::remote_read
 * and access::remote_atomic.
 *
 * The lease is a property of the object. It should be far longer than any time for which a running
 * process may be delayed, for instance by the scheduler or by a long handler: hundreds of
 * milliseconds to seconds. A longer lease delays others longer after a death. The clock of a host
 * must not be stopped while its processes run on: do not suspend a host or a virtual machine that
 * holds a lock, or use fencing tokens.
 *
 * The object is in a rdma::owned<remote_semaphore<>> of the peer, or in memory leased from the peer
 * (basic_agent::async_allocate(), async_create()). The handle may be copied. It does not keep the
 * memory or the queue pair. A lock can be renewed and released through any handle of the object,
 * for instance through another connection after the first one has failed.
 *
 * @par Errors
 * Every operation can complete with the errors of basic_queue_pair::async_read() and
 * async_compare_exchange(), such as operation_not_supported if the device has no atomics.
 *
 * @par Per-operation cancellation
 * terminal, partial and total end a wait with operation_aborted after at most two round trips.
 * async_release() cannot be cancelled.
 *
 * @par Thread safety
 * Distinct objects: safe, if their operations are not started concurrently through one queue pair.
 * Shared objects: unsafe.
 */
template <class Executor = boost::asio::any_io_executor>
class remote_semaphore : public detail::objects::remote_object<Executor>
{
  using base = detail::objects::remote_object<Executor>;
  friend base;

public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = remote_semaphore<OtherExecutor>;
  };

  /// Size in bytes of the memory of an object.
  static constexpr std::size_t memory_size = sizeof(detail::objects::semaphore_memory);

  /// Creates a handle without an object, to which another handle can be assigned.
  /** Precondition of all operations: the handle has an object. It has no executor either. */
  remote_semaphore()
    requires std::is_default_constructible_v<Executor>
    : base(Executor(), {})
  {
  }

  /// Opens an object in the peer's memory.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory of the object, at least memory_size bytes.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_semaphore<Executor>) @endcode
   *
   * @par Errors
   * @li error::object_mismatch: the memory contains no such object.
   * @li error::remote_range_too_small: the memory is too small.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_read() and async_compare_exchange().
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_semaphore)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_open(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    using machine = detail::objects::open_leased;
    return base::template make<remote_semaphore, machine>(peer, memory, memory_size, token,
      [checked = detail::objects::check_memory(memory, memory_size)]
      { return machine(detail::objects::semaphore_memory().header, checked, true); });
  }

  /// Creates an object in memory that no other process accesses yet, such as a new lease.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory for the object, at least memory_size bytes at an address that is a
   * multiple of 8. Needs access::remote_write.
   * @param permits Number of permits: 1 to 64. Other values are changed to the nearest of these.
   * @param lease Time of a lease: 1 ms to 1 hour. Other values are changed to the nearest of these.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_semaphore<Executor>) @endcode
   *
   * @par Errors
   * @li error::remote_range_too_small: the memory is too small.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_write().
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_semaphore)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_create(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    std::size_t permits, std::chrono::milliseconds lease,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    using machine = detail::objects::create_object<memory_size>;
    return base::template make<remote_semaphore, machine>(peer, memory, memory_size, token,
      [permits, lease, checked = detail::objects::check_memory(memory, memory_size)]
      {
        machine result(checked);
        encode(result.image(), permits, lease);
        return result;
      });
  }

  /// Waits for a permit, and acquires it.
  /**
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::semaphore_permit) @endcode
   *
   * @par Errors
   * If the connection fails during the operation, a permit may remain acquired for the time of a
   * lease.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, semaphore_permit)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_acquire(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code, semaphore_permit), CompletionToken>(token,
      []
      { return detail::objects::acquiring<detail::objects::permit_request, semaphore_permit>(); });
  }

  /// Acquires a permit if one is free.
  /**
   * Does not end the lease of a holder that has died. Fails only if all permits were held at one
   * moment, which two reads show.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::optional<rdma::semaphore_permit>) @endcode
   *
   * @par Errors
   * @li error::contended: the permits have changed between each two of 1000 reads.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, std::optional<semaphore_permit>)>
              CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_try_acquire(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code, std::optional<semaphore_permit>),
      CompletionToken>(token,
      [] {
        return detail::objects::try_acquiring<detail::objects::permit_request, semaphore_permit>();
      });
  }

  /// Begins a new lease of the time that the first one had.
  /**
   * Also succeeds after expires_at(), if no other process has ended the lease.
   *
   * @param held The permit.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::semaphore_permit) @endcode
   * The permit with a later expires_at(). The same permit without change after an error.
   *
   * @par Errors
   * @li error::lease_ended: the permit has been released, or the lease has ended and another
   * process has noticed it.
   *
   * @par Per-operation cancellation
   * terminal, partial and total, if the first request is answered only after its lease has ended.
   */
  template <boost::asio::completion_token_for<void(error_code, semaphore_permit)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_renew(const semaphore_permit& held,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code, semaphore_permit), CompletionToken>(token,
      [held] { return detail::objects::renewing<semaphore_permit>(held, lease_offset(held)); });
  }

  /// Releases a permit.
  /**
   * @param held The permit.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li error::lease_ended: the permit has been released, or another process has ended the lease.
   * The semaphore is not changed.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_release(const semaphore_permit& held,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code), CompletionToken>(
      token, [held] { return detail::objects::releasing(held, lease_offset(held)); });
  }

protected:
  /// @cond
  remote_semaphore(const Executor& executor, detail::objects::place where)
    : base(executor, std::move(where))
  {
  }

  static constexpr std::size_t size_for(std::size_t = 1, std::chrono::milliseconds = {}) noexcept
  {
    return memory_size;
  }

  // Writes the memory of a new object.
  static void encode(std::span<std::uint64_t> image, std::size_t permits,
    std::chrono::milliseconds lease = detail::objects::lease_default) noexcept
  {
    const auto memory = detail::objects::new_semaphore(permits, lease);
    std::memcpy(image.data(), &memory, sizeof memory);
  }
  /// @endcond

private:
  static constexpr std::uint64_t lease_offset(const semaphore_permit& held) noexcept
  {
    return offsetof(detail::objects::semaphore_memory, permits) + 8 * held.index();
  }
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_REMOTE_SEMAPHORE_HPP
