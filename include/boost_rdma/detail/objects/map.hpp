//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_MAP_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_MAP_HPP

#include <boost_rdma/detail/objects/cell.hpp>
#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

// A hash table that any number of processes read and change, and the state machines of its
// operations. doc/objects.md gives the proof.
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

  friend bool operator==(const map_link&, const map_link&) = default;
};

// The beginning of a bucket's value. The entries of the cell and of the blocks are its slots.
struct map_head
{
  std::uint32_t used = 0;                  // one bit for each slot
  std::array<map_link, map_links> links{}; // valid if a slot of the block is used

  static constexpr std::uint32_t group = (1U << map_entries) - 1;

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

[[nodiscard]] std::uint64_t hash_of(std::span<const std::byte> key, std::uint64_t seed) noexcept;

// Sizes and offsets in bytes: header, cells of buckets, states of blocks, blocks. Zeros behind the
// header are an empty map.
struct map_shape
{
  static constexpr std::uint64_t buckets_max = std::uint64_t{1} << 31;
  static constexpr std::uint64_t cells_offset = sizeof(header);

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

  [[nodiscard]] std::uint64_t bucket_of(std::span<const std::byte> key) const noexcept
  {
    return ((hash_of(key, seed) >> 32) * buckets) >> 32;
  }
};

// Memory of an operation.
struct map_room
{
  std::span<std::uint64_t> cell;
  std::span<std::uint64_t> words; // of all blocks of a bucket
  std::span<std::byte> slots;     // the value of the cell, and the entries of the blocks
};

// Reads a bucket, and looks for a key. Needs the right to read, and waits for no other process.
class map_read
{
public:
  // Reads without success until the operation fails with error::contended.
  static constexpr unsigned reads_max = 1000;

  // Reads the blocks, too, if the key is not in the cell or `all_slots` is true. The key may be
  // empty.
  step begin(const map_shape& shape, std::uint64_t bucket, std::span<const std::byte> key,
    bool all_slots, const map_room& room);
  access_request request(std::size_t i) const noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled);

  // The slot of the key.
  [[nodiscard]] std::optional<std::size_t> found() const noexcept { return found_; }
  [[nodiscard]] std::span<std::byte> entry(std::size_t slot) const noexcept
  {
    const std::size_t size = shape_.entry_size();
    return room_.slots.subspan(sizeof(map_head) + slot * size, size);
  }
  [[nodiscard]] map_head head() const noexcept;
  [[nodiscard]] tag version() const noexcept { return load_.version(); }

  // Number of times that blocks were read, and that they were other ones than the version named.
  [[nodiscard]] unsigned block_reads() const noexcept { return block_reads_; }
  [[nodiscard]] unsigned stale() const noexcept { return stale_; }

private:
  step load();
  step loaded() noexcept;
  bool take_block(std::size_t link, const map_head& head) const noexcept;
  bool find(std::size_t begin, std::size_t end, const map_head& head) noexcept;

  map_shape shape_;
  std::uint64_t bucket_ = 0;
  std::span<const std::byte> key_;
  bool all_slots_ = false;
  map_room room_;
  cell_load load_;
  bool loading_ = true;
  std::array<std::size_t, map_links> wanted_{}; // links whose blocks are read
  std::size_t wanted_count_ = 0;
  std::optional<std::size_t> found_;
  unsigned block_reads_ = 0;
  unsigned stale_ = 0;
};

enum class map_action : std::uint8_t
{
  insert,           // if the key is absent
  update,           // if the key is present
  insert_or_assign, // always
  erase,            // if the key is present
};

// Changes an entry. Needs the rights to read, to write and to do atomics.
class map_change
{
public:
  // Looks for a free block until the operation fails with error::object_full.
  static constexpr unsigned looks_max = 16;
  // Stores that others forestalled until the operation fails with error::contended.
  static constexpr unsigned stores_max = 1000;

  // The entry is a key and, unless it is erased, a value.
  step begin(const map_shape& shape, map_action action, std::span<const std::byte> entry,
    const map_room& room);
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t i, std::uint64_t was) noexcept;
  step next(bool cancelled);

  // Valid after success.
  [[nodiscard]] bool was_present() const noexcept { return was_present_; }
  [[nodiscard]] bool changed() const noexcept { return changed_; }
  [[nodiscard]] tag version() const noexcept { return version_; }

  [[nodiscard]] std::uint64_t bucket() const noexcept { return bucket_; }
  [[nodiscard]] unsigned retries() const noexcept { return retries_; }
  [[nodiscard]] const map_read& reading() const noexcept { return read_; }

private:
  enum class stage : std::uint8_t
  {
    read,  // the bucket
    look,  // for a free block
    take,  // it
    write, // its entries
    store, // the bucket
    free,  // blocks that no bucket names
  };

  step read();
  step decide() noexcept;
  step put(std::size_t slot) noexcept;
  step put_out_of_line(std::size_t slot) noexcept;
  void clear(std::size_t slot) noexcept;
  step look() noexcept;
  step looked() noexcept;
  step write() noexcept;
  step store() noexcept;
  step stored(const step& end);
  step end(error_code ec = {}) noexcept;

  [[nodiscard]] std::span<std::uint64_t> block_image() const noexcept
  {
    return room_.words.first(shape_.block_words());
  }

  map_shape shape_;
  map_action action_ = map_action::insert;
  std::span<const std::byte> entry_;
  map_room room_;
  std::uint64_t bucket_ = 0;
  stage stage_ = stage::read;
  map_read read_;
  cell_store store_;
  map_head head_;                    // of the value that is stored
  std::size_t link_ = 0;             // to the block that is written
  std::optional<map_link> replaced_; // by the store: not named any more
  std::optional<map_link> own_;      // taken, and not named yet
  bool names_own_ = false;           // the value that is stored
  std::array<std::uint64_t, 16> states_{};
  std::uint64_t first_state_ = 0; // block of the first of them
  std::size_t chosen_ = 0;        // one of them
  bool taken_ = false;
  unsigned looks_ = 0;
  std::array<map_link, 2> unused_{}; // blocks to free
  std::size_t unused_count_ = 0;
  error_code end_;
  bool was_present_ = false;
  bool changed_ = false;
  tag version_ = 0;
  unsigned retries_ = 0;
};

// Reads the header of a map, and compares it with the one that this side expects.
class open_map
{
public:
  // `expected` has no buckets. `memory`: error and size of the map's memory.
  open_map(const header& expected, const map_shape& entry, const error_code& memory,
    std::uint64_t size) noexcept
    : expected_(expected)
    , shape_(entry)
    , memory_(memory)
    , size_(size)
  {
  }

  step begin() noexcept { return memory_ ? step::finish(memory_) : step::access(1); }
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  // After success.
  [[nodiscard]] const map_shape& shape() const noexcept { return shape_; }

private:
  header expected_;
  header found_{.kind = {}};
  map_shape shape_;
  error_code memory_;
  std::uint64_t size_;
};

// The header of a map of this shape.
[[nodiscard]] header with_shape(header of_type, const map_shape& shape) noexcept;

// A number for the seed of a new map.
[[nodiscard]] std::uint64_t random_seed();

// Writes an empty map.
class create_map
{
public:
  create_map(const header& of_type, const map_shape& shape, const error_code& memory) noexcept
    : header_(with_shape(of_type, shape))
    , shape_(shape)
    , memory_(memory)
  {
  }

  step begin();
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  [[nodiscard]] const map_shape& shape() const noexcept { return shape_; }

private:
  static constexpr std::uint64_t chunk_max = 256 * 1024;

  header header_;
  map_shape shape_;
  error_code memory_;
  std::uint64_t written_ = sizeof(header); // the header is written at the end
  std::vector<std::byte> zeros_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_MAP_HPP
