//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_REMOTE_LOG_HPP
#define BOOST_RDMA_OBJECTS_REMOTE_LOG_HPP

#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/log.hpp>
#include <boost_rdma/detail/objects/remote_object.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma {

/// Size of a log, and the time after which a reader gives up waiting for a process that has died.
struct log_options
{
  /// Largest number of entries. Rounded up to a power of two.
  std::uint64_t capacity = 1024;

  /// If an append has taken an index and has not written the entry for this time, readers skip the
  /// index, and the append takes a new one. Clamped to 1 ms to 1 hour.
  /** Readers count the pauses between their looks, so skipping takes up to about twice as long. It
   * has to be longer than some round trips of the slowest producer. */
  std::chrono::microseconds lease = std::chrono::milliseconds(10);
};

/// A log in the peer's memory, to which any number of processes append.
/**
 * An append takes the next index, which no other one gets. Readers read entries by index, any
 * number of them, each at its own speed. Entries remain until async_trim() removes them. An append
 * that completed before another one began has the smaller index, and an entry is in the log for all
 * readers from one moment on (linearizability). Each entry that a read returns was in the log at a
 * moment of that read. This holds on every device that conforms to verbs; doc/objects_log.md has
 * the assumptions and the reasons.
 *
 * Some indexes have no entry: those of appends that were cancelled, or whose process died or was
 * stopped for longer than log_options::lease. Readers skip these indexes.
 *
 * An append takes four round trips and one compare-and-swap for each four bytes of the value. A
 * read is one round trip for up to 8 KiB of entries, and two reads. All need access::remote_read;
 * appends and trims need access::remote_atomic, too. A reader that has it skips the indexes of dead
 * processes; one that has not waits until another reader does.
 *
 * The log is in an rdma::owned<remote_log> of the peer, or in memory leased from the peer
 * (basic_agent::async_allocate(), async_create()). The handle may be copied. It does not keep the
 * memory or the queue pair.
 *
 * @tparam T A trivially copyable type of at most 1024 bytes.
 *
 * @par Errors
 * Every operation can complete with the errors of basic_queue_pair::async_read(). Appends and trims
 * also with those of async_compare_exchange(), such as operation_not_supported if the device has no
 * atomics.
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the operation with operation_aborted after the requests that are
 * in flight, which takes one or two round trips. The log remains consistent. An append or a trim
 * that has taken effect completes with success.
 *
 * @par Thread safety
 * Distinct objects: safe, if their operations are not started concurrently through one queue pair.
 * Shared objects: unsafe.
 */
template <class T, class Executor = boost::asio::any_io_executor>
class remote_log : public detail::objects::remote_object<Executor>
{
  using base = detail::objects::remote_object<Executor>;

  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);
  static_assert(sizeof(T) <= 1024, "use rdma::published for larger values");

public:
  /// The type of the value of an entry.
  using value_type = T;

  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = remote_log<T, OtherExecutor>;
  };

  /// Returns the size in bytes of the memory of a log.
  [[nodiscard]] static constexpr std::uint64_t size_for(const log_options& options = {}) noexcept
  {
    return detail::objects::log_size(shape_of(options).capacity(), sizeof(T));
  }

  /// Creates a handle without an object, to which another handle can be assigned.
  remote_log()
    requires std::is_default_constructible_v<Executor>
    : base(Executor(), {})
  {
  }

  /// Returns the number of entries for which the log has room.
  [[nodiscard]] std::uint64_t capacity() const noexcept { return shape_.capacity(); }

  /// Opens a log in the peer's memory. Compares kind, size and layout of the value.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory of the log.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_log<T, Executor>) @endcode
   *
   * @par Errors
   * @li error::object_mismatch: the memory contains no such object.
   * @li error::remote_range_too_small: the memory is smaller than the log.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_read().
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_log)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_open(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return make(peer, memory, token,
      detail::objects::open_log(expected_header(),
        detail::objects::check_memory(memory, detail::objects::log_size(1, sizeof(T))),
        memory.size()));
  }

  /// Creates a log in memory that no other process accesses yet, such as a new lease.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory for the log, at least size_for(options) bytes at an address that is a
   * multiple of 8. Needs access::remote_write.
   * @param options Capacity and lease.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_log<T, Executor>) @endcode
   *
   * @par Errors
   * @li error::remote_range_too_small: the memory is too small.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_write().
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_log)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_create(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    const log_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return make(peer, memory, token,
      detail::objects::create_log(expected_header(), shape_of(options),
        detail::objects::check_memory(memory, size_for(options))));
  }

  /// Appends an entry.
  /**
   * If other appends took the last room after this one saw it, the append waits until
   * entries are trimmed.
   *
   * @param value The value of the entry.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   * The index of the entry.
   *
   * @par Errors
   * Nothing is appended then.
   * @li error::object_full: the log has no room.
   * @li error::contended: other processes skipped 64 indexes of this append. The lease is too
   * short.
   *
   * @par Per-operation cancellation
   * See the description of the class. An append that was waiting for room leaves an index without
   * an entry, for which readers wait for the lease.
   */
  template <boost::asio::completion_token_for<void(error_code, std::uint64_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_append(const T& value,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code, std::uint64_t), CompletionToken>(
      token, [shape = shape_, value] { return append(shape, value); });
  }

  /// Reads entries from an index on, and waits for at least one.
  /**
   * The entries have consecutive indexes: the last one has the index before the one where the next
   * read begins.
   *
   * @param index Index of the first entry. Indexes without an entry are skipped.
   * @param values Room for the values; must remain until the operation completes. If it is empty,
   * the operation completes without values.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t, std::uint64_t) @endcode
   * The number of values, and the index where the next read begins. The indexes of the values are
   * those before it.
   *
   * @par Errors
   * @li error::out_of_range: the index is trimmed. The next read may begin at the returned index,
   * the first one that is not trimmed. A reader that has just started reads from 0 to learn it.
   * @li error::contended: the memory has changed during each of 1000 reads, against the rules.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, std::size_t, std::uint64_t)>
              CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_read(std::uint64_t index, std::span<T> values,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    const bool may_seal = permits(base::memory().rights(), access::remote_atomic);
    return base::template initiate<void(error_code, std::size_t, std::uint64_t), CompletionToken>(
      token,
      [shape = shape_, may_seal, index, values] { return read(shape, may_seal, index, values); });
  }

  /// Removes the entries before an index, which makes room for others.
  /**
   * Usually called by one process, which has read these entries. If several processes trim, the
   * highest index counts. An append that has taken an index before this one and has not ended may
   * still complete with it: its entry counts as trimmed, too. A process that trims only to indexes
   * where its own reads ended removes no entry that it has not read.
   *
   * @param index The first index that remains.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li error::out_of_range: no append has taken the index before this one.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_trim(std::uint64_t index,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code), CompletionToken>(
      token, [index] { return trim(index); });
  }

protected:
  /// @cond
  static constexpr std::size_t entry_words = detail::objects::copy_words(sizeof(T));
  static constexpr std::size_t read_words =
    std::max<std::size_t>(1024 / entry_words, 1) * entry_words;

  remote_log(const Executor& executor, detail::objects::place where)
    : base(executor, std::move(where))
  {
  }

  // Writes the memory of a new log, and makes this its handle.
  void encode(std::span<std::uint64_t> image, const log_options& options = {}) noexcept
  {
    shape_ = shape_of(options);
    const auto header = detail::objects::with_shape(expected_header(), shape_);
    std::ranges::fill(image, 0);
    std::memcpy(image.data(), &header, sizeof header);
  }
  /// @endcond

private:
  static constexpr detail::objects::header expected_header() noexcept
  {
    return detail::objects::header_of<T>(detail::objects::kind::log);
  }

  static constexpr detail::objects::log_shape shape_of(const log_options& options) noexcept
  {
    using shape = detail::objects::log_shape;
    const auto capacity = std::clamp<std::uint64_t>(options.capacity, 1, shape::capacity_max);
    return {.order = static_cast<unsigned>(std::bit_width(capacity - 1)),
      .lease = std::clamp(options.lease, shape::lease_min, shape::lease_max)};
  }

  // These add the memory of values and entries to a state machine.
  struct append : detail::objects::log_append
  {
    append(const detail::objects::log_shape& of, const T& appended)
      : shape(of)
      , value(appended)
    {
    }

    detail::objects::step begin()
    {
      return log_append::begin(shape, image, std::as_bytes(std::span(&value, 1)));
    }
    auto results() const { return std::make_tuple(this->index()); }

    detail::objects::log_shape shape;
    T value;
    std::array<std::uint64_t, entry_words> image; // not initialized
  };

  struct read : detail::objects::log_read
  {
    read(const detail::objects::log_shape& of, bool seals, std::uint64_t from, std::span<T> to)
      : shape(of)
      , may_seal(seals)
      , index(from)
      , values(to)
    {
    }

    detail::objects::step begin()
    {
      return log_read::begin(
        shape, may_seal, index, image, std::as_writable_bytes(values), sizeof(T));
    }
    auto results() const { return std::make_tuple(this->count(), this->next_index()); }

    detail::objects::log_shape shape;
    bool may_seal;
    std::uint64_t index;
    std::span<T> values;
    std::array<std::uint64_t, read_words> image; // not initialized
  };

  struct trim : detail::objects::log_trim
  {
    using log_trim::log_trim;
    static auto results() { return std::tuple<>(); }
  };

  // The handle gets the shape that the machine has read or written.
  template <class Machine>
  struct making : Machine
  {
    auto results()
    {
      made.shape_ = this->shape();
      return std::make_tuple(std::move(made));
    }

    remote_log made;
  };

  template <class Machine, class CompletionToken>
  static auto make(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    CompletionToken& token, const Machine& machine)
  {
    const detail::objects::place where{peer.core(), memory};
    return base::template run<void(error_code, remote_log), CompletionToken>(peer.get_executor(),
      where, token,
      [executor = peer.get_executor(), where, machine] {
        return making<Machine>{machine, remote_log(executor, where)};
      });
  }

  detail::objects::log_shape shape_;
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_REMOTE_LOG_HPP
