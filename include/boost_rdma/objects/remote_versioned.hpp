//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_REMOTE_VERSIONED_HPP
#define BOOST_RDMA_OBJECTS_REMOTE_VERSIONED_HPP

#include <boost_rdma/detail/objects/cell.hpp>
#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/remote_object.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma {

/// A value with the number of the store that wrote it.
/** Two loads with the same version have the same value. Numbers of later stores are not always
 * greater: they have 31 bits, and some are skipped. */
template <class T>
struct versioned_value
{
  T value;               ///< the value
  std::uint32_t version; ///< for remote_versioned::async_compare_store()
};

/// A value in the peer's memory that any number of processes load and store.
/**
 * Every load returns a value that was stored as a whole, and every store takes effect at one moment
 * between its initiating call and its completion (linearizability). This holds on every device
 * that conforms to verbs: it is assumed that aligned words of 8 bytes are read at once, in any
 * order, and that atomics are atomic among those of the device. doc/objects.md has the reasons.
 *
 * A load is one read, of about twice the size of the value. It needs access::remote_read, and waits
 * for no other process. A store is about five round trips and one compare-and-swap for each two
 * bytes of the value. It needs access::remote_atomic, too. There are no locks: if a process dies or
 * is stopped during a store, others complete or replace the store after about one millisecond.
 *
 * The object is in an rdma::versioned of the peer, or in memory leased from the peer
 * (basic_agent::async_allocate(), async_create()). The handle may be copied. It does not keep the
 * memory or the queue pair.
 *
 * @tparam T A trivially copyable type of at most 1024 bytes. For larger values, see
 * rdma::published.
 *
 * @par Errors
 * Every operation can complete with the errors of basic_queue_pair::async_read(). Stores also with
 * those of async_compare_exchange(), such as operation_not_supported if the device has no atomics.
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the operation with operation_aborted after the requests that are
 * in flight, which takes a round trip. The object remains consistent. A store that has taken effect
 * completes with success.
 *
 * @par Thread safety
 * Distinct objects: safe, if their operations are not started concurrently through one queue pair.
 * Shared objects: unsafe.
 */
template <class T, class Executor = boost::asio::any_io_executor>
class remote_versioned : public detail::objects::remote_object<Executor>
{
  using base = detail::objects::remote_object<Executor>;
  friend base;

  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);
  static_assert(sizeof(T) <= 1024, "use rdma::published for larger values");

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
    using other = remote_versioned<T, OtherExecutor>;
  };

  /// Size in bytes of the memory of an object.
  static constexpr std::size_t memory_size =
    sizeof(detail::objects::header) + 8 * detail::objects::cell_words(sizeof(T));

  /// Creates a handle without an object, to which another handle can be assigned.
  /** Precondition of all operations: the handle has an object. It has no executor either. */
  remote_versioned()
    requires std::is_default_constructible_v<Executor>
    : base(Executor(), {})
  {
  }

  /// Opens an object in the peer's memory. Compares kind, size and layout of the value.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory of the object, at least memory_size bytes.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_versioned<T, Executor>) @endcode
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
  template <boost::asio::completion_token_for<void(error_code, remote_versioned)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_open(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template make<remote_versioned, detail::objects::open_object>(peer, memory,
      memory_size, token,
      [checked = detail::objects::check_memory(memory, memory_size)]
      { return detail::objects::open_object(expected_header(), checked, false); });
  }

  /// Creates an object in memory that no other process accesses yet, such as a new lease.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory for the object, at least memory_size bytes at an address that is a
   * multiple of 8. Needs access::remote_write.
   * @param initial The first value; its version is 0.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_versioned<T, Executor>) @endcode
   *
   * @par Errors
   * @li error::remote_range_too_small: the memory is too small.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_write().
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_versioned)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_create(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    const T& initial,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    using machine = detail::objects::create_object<memory_size>;
    return base::template make<remote_versioned, machine>(peer, memory, memory_size, token,
      [initial, checked = detail::objects::check_memory(memory, memory_size)]
      {
        machine result(checked);
        encode(result.image(), initial);
        return result;
      });
  }

  /// Loads the value.
  /**
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::versioned_value<T>) @endcode
   *
   * @par Errors
   * @li error::contended: stores changed the value during each of 1000 reads.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, versioned_value<T>)>
              CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_load(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return base::template initiate<void(error_code, versioned_value<T>), CompletionToken>(
      token, [] { return load(); });
  }

  /// Stores a value, whatever value is there.
  /**
   * @param value The value.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint32_t) @endcode
   * The version of the stored value.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, std::uint32_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_store(const T& value,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code, std::uint32_t), CompletionToken>(
      token, [value] { return store(value, {}); });
  }

  /// Stores a value if the current value still has a certain version.
  /**
   * @param expected Result of a load or a store.
   * @param value The value.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, bool, std::uint32_t) @endcode
   * True and the version of the stored value; or false and the version of the current value, if it
   * is not the expected one.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, bool, std::uint32_t)>
              CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_compare_store(std::uint32_t expected, const T& value,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code, bool, std::uint32_t), CompletionToken>(
      token, [expected, value] { return compare_store(value, expected); });
  }

protected:
  /// @cond
  static constexpr std::size_t cell_size = detail::objects::cell_words(sizeof(T)); // in words
  static constexpr std::uint64_t cell_offset = sizeof(detail::objects::header);

  remote_versioned(const Executor& executor, detail::objects::place where)
    : base(executor, std::move(where))
  {
  }

  static constexpr detail::objects::header expected_header() noexcept
  {
    return detail::objects::header_of<T>(detail::objects::kind::versioned);
  }

  static constexpr std::size_t size_for(const T& = T()) noexcept { return memory_size; }

  // Writes the memory of a new object.
  static void encode(std::span<std::uint64_t> image, const T& initial = T()) noexcept
  {
    constexpr auto header = expected_header();
    std::memcpy(image.data(), &header, sizeof header);
    detail::objects::encode_cell(
      image.subspan(sizeof header / 8), std::as_bytes(std::span(&initial, 1)));
  }
  /// @endcond

private:
  // Adds the memory of a cell and of the value to a state machine.
  template <class Machine>
  struct with_room : Machine
  {
    explicit with_room(const T& first)
      : value(first)
    {
    }

    std::array<std::uint64_t, cell_size> image; // not initialized
    T value;
  };

  struct load : with_room<detail::objects::cell_load>
  {
    load()
      : with_room<detail::objects::cell_load>(T())
    {
    }

    detail::objects::step begin()
    {
      return detail::objects::cell_load::begin(
        cell_offset, this->image, std::as_writable_bytes(std::span(&this->value, 1)));
    }
    auto results() const
    {
      return std::make_tuple(versioned_value<T>{this->value, this->version()});
    }
  };

  struct store : with_room<detail::objects::cell_store>
  {
    store(const T& stored, std::optional<std::uint32_t> version)
      : with_room<detail::objects::cell_store>(stored)
      , expected(version)
    {
    }

    detail::objects::step begin()
    {
      return detail::objects::cell_store::begin(
        cell_offset, this->image, std::as_bytes(std::span(&this->value, 1)), expected);
    }
    auto results() const { return std::make_tuple(this->version()); }

    std::optional<std::uint32_t> expected;
  };

  struct compare_store : store
  {
    using store::store;
    auto results() const { return std::make_tuple(this->stored(), this->version()); }
  };
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_REMOTE_VERSIONED_HPP
