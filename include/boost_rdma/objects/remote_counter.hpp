//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#ifndef BOOST_RDMA_OBJECTS_REMOTE_COUNTER_HPP
#define BOOST_RDMA_OBJECTS_REMOTE_COUNTER_HPP

#include <boost_rdma/detail/objects/remote_object.hpp>
#include <boost_rdma/detail/objects/single_word.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma {

/// A number in the peer's memory that any number of processes change.
/**
 * An operation is one request of the device and takes one round trip. Operations take effect in one
 * order at one moment each (linearizability). If a process dies, its last addition takes place or
 * not.
 *
 * async_add() needs access::remote_atomic, async_load() access::remote_read. The owner of the
 * memory has a rdma::owned<remote_counter<>>. The handle may be copied. It does not keep the memory
 * or the queue pair.
 *
 * @par Errors
 * Every operation can complete with the errors of basic_queue_pair::async_read() or
 * async_fetch_add(), such as operation_not_supported if the device has no atomics.
 *
 * @par Per-operation cancellation
 * None: an operation ends after a round trip.
 *
 * @par Thread safety
 * Distinct objects: safe, if their operations are not started concurrently through one queue pair.
 * Shared objects: unsafe.
 */
template <class Executor = boost::asio::any_io_executor>
class remote_counter : public detail::objects::remote_object<Executor>
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
    using other = remote_counter<OtherExecutor>;
  };

  /// Size in bytes of the memory of an object.
  static constexpr std::size_t memory_size = sizeof(detail::objects::word_memory);

  /// Creates a handle without an object, to which another handle can be assigned.
  /** Precondition of all operations: the handle has an object. It has no executor either. */
  remote_counter()
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
   * @code void(rdma::error_code, rdma::remote_counter<Executor>) @endcode
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
  template <boost::asio::completion_token_for<void(error_code, remote_counter)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_open(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    using machine = detail::objects::open_object;
    return base::template make<remote_counter, machine>(peer, memory, memory_size, token,
      [checked = detail::objects::check_memory(memory, memory_size)]
      { return machine(expected_header(), checked, false); });
  }

  /// Creates an object in memory that no other process accesses yet, such as a new lease.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory for the object, at least memory_size bytes at an address that is a
   * multiple of 8. Needs access::remote_write.
   * @param initial The first value.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_counter<Executor>) @endcode
   *
   * @par Errors
   * @li error::remote_range_too_small: the memory is too small.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_write().
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_counter)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_create(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    std::uint64_t initial,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    using machine = detail::objects::create_object<memory_size>;
    return base::template make<remote_counter, machine>(peer, memory, memory_size, token,
      [initial, checked = detail::objects::check_memory(memory, memory_size)]
      {
        machine result(checked);
        encode(result.image(), initial);
        return result;
      });
  }

  /// Adds a number, modulo 2^64.
  /**
   * @param addend The number. To subtract n, add 0 - n.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   * The value before.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, std::uint64_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_add(std::uint64_t addend,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code, std::uint64_t), CompletionToken>(token,
      [addend] { return detail::objects::word_request(detail::request_kind::fetch_add, addend); });
  }

  /// Loads the value.
  /**
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   * The value.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, std::uint64_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_load(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return base::template initiate<void(error_code, std::uint64_t), CompletionToken>(
      token, [] { return detail::objects::word_request(detail::request_kind::read); });
  }

protected:
  /// @cond
  remote_counter(const Executor& executor, detail::objects::place where)
    : base(executor, std::move(where))
  {
  }

  static constexpr detail::objects::header expected_header() noexcept
  {
    return detail::objects::header_of<std::uint64_t>(detail::objects::kind::counter);
  }

  static constexpr std::size_t size_for(std::uint64_t = 0) noexcept { return memory_size; }

  // Writes the memory of a new object.
  static void encode(std::span<std::uint64_t> image, std::uint64_t initial = 0) noexcept
  {
    const detail::objects::word_memory memory{expected_header(), initial};
    std::memcpy(image.data(), &memory, sizeof memory);
  }
  /// @endcond
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_REMOTE_COUNTER_HPP
