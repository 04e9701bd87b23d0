//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_MAP_LAYOUT_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_MAP_LAYOUT_HPP

#include <boost_rdma/detail/objects/cell.hpp>
#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/remote_buffer.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <forward_list>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

// The memory of a hash table that any number of processes read and change. doc/objects.md gives the
// proof.
//
// A bucket is a cell. Its value has the first entries, and names blocks with the other ones. All
// changes of the keys of a bucket are stores of its cell, so they are ordered by its versions.
// A block does not change while a bucket names it. Each of its words has the number of the
// allocation, so a reader recognizes the words that the bucket's version named.

namespace rdma::detail::objects {

inline constexpr std::size_t map_entries = 4; // of a bucket's cell, and of a block
inline constexpr std::size_t map_links = 4;   // of a bucket to blocks
inline constexpr std::size_t map_slots = map_entries * (1 + map_links);

// Names one allocation of a block.
struct map_link
{
  std::uint32_t block;
  std::uint32_t number;
};

enum class bucket_state : std::uint8_t
{
  open = 0,
  pending = 1, // the entries are in the table before
  frozen = 2,  // does not change any more; the entries are, or will be, in a later table
};

// The beginning of a bucket's value. The entries of the cell and of the blocks are its slots.
struct map_head
{
  std::uint32_t used = 0;                  // one bit for each slot; the state
  std::array<map_link, map_links> links{}; // valid if a slot of the block is used

  static constexpr std::uint32_t group = (1U << map_entries) - 1;
  static constexpr unsigned state_shift = 30;

  [[nodiscard]] constexpr bucket_state state() const noexcept
  {
    return static_cast<bucket_state>(used >> state_shift);
  }
  constexpr void set_state(bucket_state value) noexcept
  {
    used = slots() | static_cast<std::uint32_t>(value) << state_shift;
  }

  [[nodiscard]] constexpr std::uint32_t slots() const noexcept
  {
    return used & ((1U << map_slots) - 1);
  }
  [[nodiscard]] constexpr bool is_used(std::size_t slot) const noexcept
  {
    return (used >> slot & 1) != 0;
  }
  constexpr void set_used(std::size_t slot, bool value) noexcept
  {
    used = value ? used | 1U << slot : used & ~(1U << slot);
  }
  [[nodiscard]] constexpr bool has_block(std::size_t link) const noexcept
  {
    return (used >> (map_entries * (1 + link)) & group) != 0;
  }
};
static_assert(sizeof(map_head) == 4 + 8 * map_links);
static_assert(map_slots <= map_head::state_shift);

// The state of a block.
struct block_state
{
  bool taken;
  std::uint32_t number; // of the last allocation

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept
  {
    return (std::uint64_t{number} << 32) | static_cast<std::uint64_t>(taken);
  }
  [[nodiscard]] static constexpr block_state of(std::uint64_t word) noexcept
  {
    return {(word & 1) != 0, static_cast<std::uint32_t>(word >> 32)};
  }
};

// Finalizer of MurmurHash3 (Appleby).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) noexcept
{
  x = (x ^ (x >> 33)) * 0xff51'afd7'ed55'8ccd;
  x = (x ^ (x >> 33)) * 0xc4ce'b9fe'1a85'ec53;
  return x ^ (x >> 33);
}

[[nodiscard]] std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t seed) noexcept;

// The tables of a map, as its owner describes them in the memory of the first one. Before the first
// growth, all words are 0.
struct map_directory
{
  struct table
  {
    std::uint64_t address = 0;
    std::uint64_t buckets = 0; // 0: the table is the first one
    std::uint64_t blocks = 0;
    std::uint32_t key = 0;
    std::uint32_t kind = 0; // of the device
  };

  table current;
  table previous; // has the entries of pending buckets
};
static_assert(sizeof(map_directory) == 64);
inline constexpr std::size_t map_directory_words = cell_words(sizeof(map_directory));
inline constexpr std::uint64_t map_directory_offset = sizeof(header);

// Position of a key among the buckets of a table of any size.
using map_position = std::uint32_t;

// Sizes and offsets in bytes: header, directory, cells of buckets, states of blocks, blocks. Header
// and directory are those of the first table. Zeros behind its header are an empty map.
struct map_shape
{
  static constexpr std::uint64_t buckets_max = std::uint64_t{1} << 31;
  static constexpr std::uint64_t cells_offset = map_directory_offset + 8 * map_directory_words;

  std::size_t key_size = 0;
  std::size_t value_size = 0;
  std::uint64_t buckets = 0;
  std::uint64_t blocks = 0;
  std::uint64_t seed = 0; // of the hash

  // For a number of entries that fill 80 % of the cells' slots.
  [[nodiscard]] static constexpr map_shape with_capacity(
    std::size_t key_size, std::size_t value_size, std::uint64_t entries) noexcept
  {
    const std::uint64_t wanted = std::min(entries, buckets_max) * 5 / (4 * map_entries) + 1;
    return {key_size, value_size, wanted, wanted / 2 + 8};
  }

  [[nodiscard]] constexpr std::size_t entry_size() const noexcept { return key_size + value_size; }
  [[nodiscard]] constexpr std::size_t bucket_size() const noexcept
  {
    return sizeof(map_head) + map_entries * entry_size();
  }
  [[nodiscard]] constexpr std::size_t slots_size() const noexcept
  {
    return sizeof(map_head) + map_slots * entry_size();
  }
  [[nodiscard]] constexpr std::size_t cell_size() const noexcept
  {
    return 8 * cell_words(bucket_size());
  }
  [[nodiscard]] constexpr std::size_t block_words() const noexcept
  {
    return copy_words(map_entries * entry_size());
  }

  [[nodiscard]] constexpr std::uint64_t cell_offset(std::uint64_t bucket) const noexcept
  {
    return cells_offset + bucket * cell_size();
  }
  [[nodiscard]] constexpr std::uint64_t state_offset(std::uint64_t block) const noexcept
  {
    return cell_offset(buckets) + 8 * block;
  }
  [[nodiscard]] constexpr std::uint64_t block_offset(std::uint64_t block) const noexcept
  {
    return state_offset(blocks) + block * 8 * block_words();
  }
  [[nodiscard]] constexpr std::uint64_t size() const noexcept { return block_offset(blocks); }

  // The size of the table is possible.
  [[nodiscard]] constexpr bool is_valid() const noexcept
  {
    return buckets != 0 && buckets <= buckets_max && blocks != 0 && blocks <= buckets_max;
  }

  [[nodiscard]] map_position position_of(std::span<const std::byte> key) const noexcept
  {
    return static_cast<map_position>(hash_of(key, seed) >> 32);
  }
  [[nodiscard]] constexpr std::uint64_t bucket_of(map_position position) const noexcept
  {
    return position * buckets >> 32;
  }
  // The first position behind those of a bucket; 2^32 behind the last one.
  [[nodiscard]] constexpr std::uint64_t end_of(std::uint64_t bucket) const noexcept
  {
    return (((bucket + 1) << 32) + buckets - 1) / buckets;
  }
};

struct map_table
{
  map_shape shape;
  remote_buffer memory;
};

struct map_tables
{
  map_table first;
  map_table current;
  map_table previous; // without buckets if the map has not grown

  // Takes the tables that the owner has described. Returns false, and changes nothing, if they are
  // impossible.
  [[nodiscard]] bool set(const map_directory& directory) noexcept;
};

// The tables that a handle and its copies use; without buckets if there is no map.
class shared_tables
{
public:
  shared_tables() = default;

  // The tables of the owner, who takes none from the directory, because peers can change it.
  explicit shared_tables(const map_tables& tables)
    : all_{tables}
    , is_owner_(true)
  {
  }

  [[nodiscard]] bool is_owner() const noexcept { return is_owner_; }

  // The newest tables. They remain valid, because operations use earlier ones, too.
  [[nodiscard]] const map_tables& get() const noexcept
  {
    return *newest_.load(std::memory_order_acquire);
  }
  // Takes tables that are newer. They are at least twice as large, so there are at most 31.
  void set(const map_tables& tables)
  {
    const std::scoped_lock lock(mutex_);
    if (tables.current.shape.buckets <= get().current.shape.buckets)
      return;
    if (get().current.shape.buckets == 0)
    {
      all_.front() = tables; // the first, which no operation uses yet: this needs no memory
      return;
    }
    all_.push_front(tables);
    newest_.store(&all_.front(), std::memory_order_release);
  }

private:
  std::mutex mutex_;
  std::forward_list<map_tables> all_{map_tables()};
  std::atomic<const map_tables*> newest_{&all_.front()};
  bool is_owner_ = false;
};

// Memory of an operation.
struct map_buffers
{
  std::span<std::uint64_t> cell;  // of a bucket, or the directory
  std::span<std::uint64_t> words; // of `blocks` blocks of a bucket
  std::span<std::byte> slots;     // the value of the cell, and the entries of `blocks` blocks
  std::size_t blocks = 0;         // 1 for a lookup, otherwise all

  [[nodiscard]] map_head head() const noexcept
  {
    map_head result;
    std::memcpy(&result, slots.data(), sizeof result);
    return result;
  }
  [[nodiscard]] std::span<std::uint64_t> cell_of(const map_shape& shape) const noexcept
  {
    return cell.first(cell_words(shape.bucket_size()));
  }
  [[nodiscard]] std::span<std::byte> value_of(const map_shape& shape) const noexcept
  {
    return slots.first(shape.bucket_size());
  }
  void set_head(const map_head& value) const noexcept
  {
    std::memcpy(slots.data(), &value, sizeof value);
  }
  [[nodiscard]] std::span<std::byte> entry(const map_shape& of, std::size_t slot) const noexcept
  {
    return slots.subspan(sizeof(map_head) + slot * of.entry_size(), of.entry_size());
  }
};

template <std::size_t KeySize, std::size_t ValueSize>
struct map_buffers_for
{
  static constexpr map_shape shape{KeySize, ValueSize};

  [[nodiscard]] map_buffers all() noexcept { return {cell, words, slots, map_links}; }

  std::array<std::uint64_t, std::max(cell_words(shape.bucket_size()), map_directory_words)> cell;
  std::array<std::uint64_t, map_links * shape.block_words()> words;
  std::array<std::byte, std::max(shape.slots_size(), sizeof(map_directory))> slots;
};

// The buffers of a lookup, which reads blocks one at a time, when it does not need the words of the
// cell any more.
template <std::size_t KeySize, std::size_t ValueSize>
struct map_lookup_buffers
{
  static constexpr map_shape shape{KeySize, ValueSize};

  [[nodiscard]] map_buffers all() noexcept { return {cell, cell, slots, 1}; }

  std::array<std::uint64_t, std::max(cell_words(shape.bucket_size()), map_directory_words)> cell;
  std::array<std::byte,
    std::max(shape.bucket_size() + map_entries * shape.entry_size(), sizeof(map_directory))>
    slots;
  static_assert(shape.block_words() <= cell_words(shape.bucket_size()));
};

// The header of a map of this shape.
[[nodiscard]] header with_shape(header of_type, const map_shape& shape) noexcept;

// A number for the seed of a new map.
[[nodiscard]] std::uint64_t random_seed();

// Writes the memory of a table to which a map grows: all buckets are pending.
void encode_pending(const map_shape& shape, std::span<std::uint64_t> image);

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_MAP_LAYOUT_HPP
