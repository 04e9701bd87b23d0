//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_REMOTE_MAP_HPP
#define BOOST_RDMA_OBJECTS_REMOTE_MAP_HPP

#include <boost_rdma/detail/objects/map_layout.hpp>
#include <boost_rdma/detail/objects/map_open.hpp>
#include <boost_rdma/detail/objects/map_operations.hpp>
#include <boost_rdma/detail/objects/remote_object.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdma {

/// Options of a new remote_map.
struct map_options
{
  /// Number of entries for which the map is made, at most 2^31. With this number, 12 % of the
  /// lookups of present keys need a second read. There is room for about 1.4 times this number; see
  /// remote_map::async_insert().
  std::uint64_t capacity = 1024;
};

/// A hash table in the peer's memory that any number of processes read and change.
/**
 * Every operation takes effect at one moment between its initiating call and its completion
 * (linearizability), as those of remote_versioned, under the same assumptions about the device.
 * doc/objects.md has the reasons.
 *
 * A lookup is one read of 80 bytes and twice the size of four entries, and further reads of four
 * entries each if the key's bucket has more than four and the key is not among the first. It needs
 * access::remote_read, and waits for no other process. A change is about seven round trips, and one
 * compare-and-swap for each two bytes of four entries. It needs access::remote_write and
 * access::remote_atomic, too. Peers cannot block each other: if a process dies or is stopped during
 * a change, others complete or replace the change after about one millisecond. Only the owner can:
 * while it moves the entries of a bucket to a larger table (map::async_grow()), changes of keys in
 * this bucket wait, without a limit of time. A process that dies during a change of a bucket with
 * more than four entries may leave a block of four entries that is not used again.
 *
 * Keys are compared and hashed as bytes. The hash is MurmurHash3's mixer with a random seed that
 * everyone who opens the map can read. Somebody who knows the seed can choose keys of one bucket,
 * which has room for 20.
 *
 * The map is in an rdma::map of the peer, which can grow, or in memory leased from the peer
 * (basic_agent::async_allocate(), async_create()), where it cannot. The handle may be copied. It
 * does not keep the memory or the queue pair.
 *
 * @tparam Key A trivially copyable type without padding in which equal values have equal bytes
 * (std::has_unique_object_representations_v), such as integers and arrays of them.
 * @tparam Value A trivially copyable type. Key and Value have at most 256 bytes together.
 *
 * @par Errors
 * Every operation can complete with the errors of basic_queue_pair::async_read(). Changes also with
 * those of async_write() and async_compare_exchange(), such as operation_not_supported if the
 * device has no atomics. error::contended: other processes changed the bucket during each of 1000
 * attempts. error::object_mismatch: the memory has been damaged. error::closed: the handle is
 * without an object.
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the operation with operation_aborted after the requests that are
 * in flight, which takes one or two round trips. The map remains consistent. A change that has
 * taken effect completes with success.
 *
 * @par Thread safety
 * Distinct objects: safe, if their operations are not started concurrently through one queue pair.
 * Shared objects: unsafe.
 */
template <class Key, class Value, class Executor = boost::asio::any_io_executor>
class remote_map : public detail::objects::remote_object<Executor>
{
  using base = detail::objects::remote_object<Executor>;
  using shape_type = detail::objects::map_shape;
  using action = detail::objects::map_action;
  friend base;

  static_assert(std::is_trivially_copyable_v<Key> && std::is_default_constructible_v<Key>);
  static_assert(std::has_unique_object_representations_v<Key>,
    "keys are compared as bytes: they must not have padding or floating-point members");
  static_assert(std::is_trivially_copyable_v<Value> && std::is_default_constructible_v<Value>);
  static_assert(sizeof(Key) + sizeof(Value) <= 256,
    "store larger values elsewhere, and their place in the map");

public:
  /// The type of the keys.
  using key_type = Key;

  /// The type of the values.
  using mapped_type = Value;

  /// A key and its value.
  using value_type = std::pair<Key, Value>;

  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = remote_map<Key, Value, OtherExecutor>;
  };

  /// Returns the size in bytes of the memory of a map.
  [[nodiscard]] static constexpr std::uint64_t size_for(const map_options& options = {}) noexcept
  {
    return shape_of(options).size();
  }

  /// Creates a handle without an object, to which another handle can be assigned.
  remote_map()
    requires std::is_default_constructible_v<Executor>
    : base(Executor(), {})
  {
  }

  /// Returns the number of parts of the map, for async_entries(). It does not change.
  [[nodiscard]] std::uint64_t part_count() const noexcept
  {
    return tables_ ? tables_->get().first.shape.buckets : 0;
  }

  /// Opens a map in the peer's memory. Compares kind, sizes and layouts of key and value.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory of the map.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_map<Key, Value, Executor>) @endcode
   *
   * @par Errors
   * @li error::object_mismatch: the memory contains no such object.
   * @li error::remote_range_too_small: the memory is smaller than the map.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_read().
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_map)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_open(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template make<remote_map, detail::objects::open_map>(peer, memory, memory.size(),
      token,
      [memory]
      {
        return detail::objects::open_map(expected_header(), buffers_type::shape,
          detail::objects::check_memory(memory, shape_type::cells_offset), memory);
      });
  }

  /// Creates an empty map in memory that no other process accesses yet, such as a new lease.
  /**
   * @param peer The connection to the owner of the memory.
   * @param memory The memory for the map, at least size_for(options) bytes at an address that is a
   * multiple of 8. Needs access::remote_write.
   * @param options The capacity.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_map<Key, Value, Executor>) @endcode
   *
   * @par Errors
   * @li error::remote_range_too_small: the memory is too small.
   * @li error::misaligned: the address is not a multiple of 8.
   * @li the errors of basic_queue_pair::async_write().
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_map)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  static auto async_create(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    const map_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template make<remote_map, detail::objects::create_map>(peer, memory, memory.size(),
      token,
      [memory, options]
      {
        return detail::objects::create_map(expected_header(), new_shape(options),
          detail::objects::check_memory(memory, size_for(options)), memory);
      });
  }

  /// Looks a key up.
  /**
   * @param key The key.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::optional<Value>) @endcode
   * The value, if the key is present.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, std::optional<Value>)>
              CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_find(const Key& key,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return base::template initiate<void(error_code, std::optional<Value>), CompletionToken>(token,
      [tables = tables_, key]() mutable
      { return typename operations::find(std::move(tables), key); });
  }

  /// Inserts an entry if the key is absent.
  /**
   * Waits for the owner while it moves the key's bucket to a larger table.
   *
   * @param key The key.
   * @param value The value.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, bool) @endcode
   * True if the entry was inserted; false if the key was present.
   *
   * @par Errors
   * @li error::object_full: the key's bucket has 20 entries; or it needs one of the blocks that the
   * buckets share, and none was free among many that were tried.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_insert(const Key& key, const Value& value,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return start<CompletionToken>(token, action::insert, key, value);
  }

  /// Changes the value of a key that is present.
  /**
   * Waits for the owner while it moves the key's bucket to a larger table.
   *
   * @param key The key.
   * @param value The value.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, bool) @endcode
   * True if the value was changed; false if the key was absent.
   *
   * @par Errors
   * @li error::object_full: as for async_insert(): the new value needs a free block, too, if the
   * entry is one of those in blocks. The entry has its former value.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_update(const Key& key, const Value& value,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return start<CompletionToken>(token, action::update, key, value);
  }

  /// Inserts an entry, or changes the value if the key is present.
  /**
   * Waits for the owner while it moves the key's bucket to a larger table.
   *
   * @param key The key.
   * @param value The value.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, bool) @endcode
   * True if the entry was inserted; false if the key was present, and has the new value.
   *
   * @par Errors
   * @li error::object_full: as for async_insert(). Nothing has changed.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_insert_or_assign(const Key& key, const Value& value,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return start<CompletionToken>(token, action::insert_or_assign, key, value);
  }

  /// Erases an entry.
  /**
   * Waits for the owner while it moves the key's bucket to a larger table.
   *
   * @param key The key.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, bool) @endcode
   * True if the entry was erased; false if the key was absent.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_erase(const Key& key,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return start<CompletionToken>(token, action::erase, key, Value());
  }

  /// Reads the entries of some parts of the map, or of all.
  /**
   * A part is a bucket, or the buckets to which it has grown. The entries of one bucket are those
   * of one moment. Different buckets are read at different moments: an entry that is present all
   * the time is found, and once. A bucket takes a round trip or two. Several calls for different
   * parts can read at the same time.
   *
   * @param first The first part.
   * @param count Number of parts; fewer are read if the map ends before.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::vector<std::pair<Key, Value>>) @endcode
   * The entries, in no order.
   *
   * @par Per-operation cancellation
   * See the description of the class.
   */
  template <boost::asio::completion_token_for<void(error_code, std::vector<std::pair<Key, Value>>)>
              CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_entries(std::uint64_t first, std::uint64_t count,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return base::template initiate<void(error_code, std::vector<value_type>), CompletionToken>(
      token,
      [tables = tables_, first, count] { return typename operations::scan(tables, first, count); });
  }

protected:
  /// @cond
  static constexpr access more_rights = access::remote_write; // of blocks

  remote_map(const Executor& executor, detail::objects::place where)
    : base(executor, std::move(where))
    , tables_(std::make_shared<detail::objects::shared_tables>())
  {
  }

  // Writes the memory of a new map, and makes this its handle.
  void encode(std::span<std::uint64_t> image, const map_options& options = {})
  {
    const shape_type shape = new_shape(options);
    const auto header = detail::objects::with_shape(expected_header(), shape);
    std::ranges::fill(image, 0);
    std::memcpy(image.data(), &header, sizeof header);
    const detail::objects::map_table table{shape, base::memory()};
    tables_ = std::make_shared<detail::objects::shared_tables>(
      detail::objects::map_tables{table, table, {}});
  }

  static constexpr shape_type shape_of(const map_options& options) noexcept
  {
    return shape_type::with_capacity(sizeof(Key), sizeof(Value), options.capacity);
  }

  using operations = detail::objects::map_operations<Key, Value>;
  using buffers_type = typename operations::buffers_type;
  using shared_tables = std::shared_ptr<detail::objects::shared_tables>;

  [[nodiscard]] const shared_tables& tables() const noexcept { return tables_; }
  /// @endcond

private:
  static constexpr std::size_t entry_size = sizeof(Key) + sizeof(Value);

  static shape_type new_shape(const map_options& options)
  {
    shape_type result = shape_of(options);
    result.seed = detail::objects::random_seed();
    return result;
  }

  static constexpr detail::objects::header expected_header() noexcept
  {
    return {.kind = detail::objects::kind::map,
      .size = entry_size,
      .layout = std::rotl(object_layout<Key>, 7) ^ object_layout<Value>};
  }

  template <class Machine>
  void take(const Machine& machine)
  {
    tables_->set(machine.tables());
  }

  template <class CompletionToken>
  auto start(std::remove_reference_t<CompletionToken>& token, action what, const Key& key,
    const Value& value)
  {
    return base::template initiate<void(error_code, bool), CompletionToken>(token,
      [tables = tables_, what, key, value]
      { return typename operations::change(tables, what, key, value); });
  }

  shared_tables tables_;
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_REMOTE_MAP_HPP
