//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_LOG_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_LOG_HPP

#include <boost_rdma/detail/objects/cell.hpp>
#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// A bounded log, to which any number of processes append, and the state machines of its operations.
// doc/objects_log.md gives the proof.
//
// An append takes an index from the counter `tail`. The entry of that index is written by this
// append only, except that others may mark it as skipped. Indexes that differ by the capacity share
// a place in memory: the entries of one place are numbered by laps. Each word of a place holds 32
// bits of a value and the lap. All changes of a word are compare-and-swaps to a later lap, so no
// content occurs twice, and a request of a stopped process that arrives late has no effect. Nobody
// has to clear a place before the next lap.

namespace rdma::detail::objects {

// Number of the entry in its place, beginning with 1; memory of zeros has no entries. Serial number
// arithmetic (RFC 1982) on 30 bits.
using lap = std::uint32_t;
inline constexpr lap lap_mask = 0x3fff'ffff;

// A word of an entry. The first one commits the entry.
struct log_word
{
  enum class mark : std::uint8_t
  {
    none = 0,
    written = 1,
    skipped = 2, // of a first word: the index has no entry
  };

  std::uint32_t data;
  objects::lap lap;
  enum mark mark;

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept
  {
    return cell_word{data, (lap << 2) | static_cast<std::uint32_t>(mark)}.packed();
  }
  [[nodiscard]] static constexpr log_word of(std::uint64_t word) noexcept
  {
    const cell_word parts = cell_word::of(word);
    return {parts.data, parts.tag >> 2, static_cast<enum mark>(parts.tag & 3)};
  }
};

// Returns a negative number if the word is of an earlier lap, a positive one if it is of a later.
[[nodiscard]] constexpr int compare_lap(std::uint64_t word, lap with) noexcept
{
  const lap ahead = (log_word::of(word).lap - with) & lap_mask;
  return ahead == 0 ? 0 : ahead <= lap_mask / 2 ? 1 : -1;
}

// What all processes that use a log have to agree on, beside the type of its values.
struct log_shape
{
  static constexpr std::chrono::microseconds lease_min{1000};
  static constexpr std::chrono::microseconds lease_max = std::chrono::hours(1);

  static constexpr std::uint64_t capacity_max = std::uint64_t{1} << 40;

  unsigned order = 0; // the capacity is 2 to this power
  std::chrono::microseconds lease = lease_min;

  [[nodiscard]] constexpr std::uint64_t capacity() const noexcept
  {
    return std::uint64_t{1} << order;
  }
  [[nodiscard]] constexpr std::uint64_t place_of(std::uint64_t index) const noexcept
  {
    return index & (capacity() - 1);
  }
  [[nodiscard]] constexpr objects::lap lap_of(std::uint64_t index) const noexcept
  {
    return static_cast<objects::lap>((index >> order) + 1) & lap_mask;
  }
};

// The words after the header. Both only grow.
struct log_control
{
  std::uint64_t tail = 0;  // the next index
  std::uint64_t first = 0; // the first index that is not trimmed

  // Returns true if the entry that had the place before the one of this index is trimmed. The words
  // may have been read at different times.
  [[nodiscard]] constexpr bool has_room(std::uint64_t index, const log_shape& shape) const noexcept
  {
    return static_cast<std::int64_t>(index - first) < static_cast<std::int64_t>(shape.capacity());
  }
};

inline constexpr std::uint64_t log_tail_offset = sizeof(header);
inline constexpr std::uint64_t log_first_offset = log_tail_offset + 8;
inline constexpr std::uint64_t log_entries_offset = 2 * sizeof(header);

[[nodiscard]] constexpr std::uint64_t log_size(std::uint64_t capacity, std::size_t value) noexcept
{
  return log_entries_offset + capacity * 8 * copy_words(value);
}

enum class entry_state : std::uint8_t
{
  unfinished,
  committed,
  skipped,
  changing, // the words are of different times
};

[[nodiscard]] entry_state state_of(std::span<const std::uint64_t> entry, lap expected) noexcept;

// Takes the value from the words of a committed entry.
void decode_entry(std::span<const std::uint64_t> entry, std::span<std::byte> value) noexcept;

// Appends a value. Needs the rights to read and to do atomics.
class log_append
{
public:
  // Indexes that other processes skipped until the operation fails with error::contended.
  static constexpr unsigned attempts_max = 64;

  // The image has the words of an entry.
  step begin(const log_shape& shape, std::span<std::uint64_t> image,
    std::span<const std::byte> value) noexcept;
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t i, std::uint64_t was) noexcept;
  step next(bool cancelled) noexcept;

  [[nodiscard]] std::uint64_t index() const noexcept { return index_; }
  [[nodiscard]] unsigned attempts() const noexcept { return attempts_; } // that were given up
  [[nodiscard]] unsigned waits() const noexcept { return waits_; }       // for room

private:
  enum class stage : std::uint8_t
  {
    look,     // for room
    reserve,  // take an index
    inspect,  // read the place, and look for room
    pause,    // before the next inspection
    fill,     // write all words but the first
    commit,   // write the first word
    withdraw, // mark the index as skipped
  };

  step look() noexcept;
  step looked(bool cancelled) noexcept;
  step inspect() noexcept;
  step advance(bool cancelled) noexcept;
  step give_up_index() noexcept;
  step enter(stage entered, std::size_t requests) noexcept;
  [[nodiscard]] access_request read_place(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t desired(std::size_t word) const noexcept;
  [[nodiscard]] std::uint64_t entry_offset(std::uint64_t index) const noexcept;

  log_shape shape_;
  std::span<std::uint64_t> image_;
  std::span<const std::byte> value_;
  stage stage_ = stage::look;
  log_control control_;
  std::optional<std::uint64_t> tail_before_; // of a look that found no room
  std::uint64_t guess_ = 0;                  // of the index
  std::uint64_t index_ = 0;
  bool exchanged_ = false; // the first word
  unsigned attempts_ = 0;
  unsigned waits_ = 0;
  back_off pause_{std::chrono::microseconds(400)};
};

// Reads entries in the order of their indexes. Needs the right to read; needs the right to do
// atomics for skipping indexes whose process has died.
class log_read
{
public:
  // Reads without success until the operation fails with error::contended. With processes that
  // keep to the rules, the second read succeeds.
  static constexpr unsigned torn_max = 1000;
  // Indexes that are marked as skipped in one step.
  static constexpr std::size_t seals_max = 16;

  // The image has the words of one or more entries, and bounds the number of entries of a read.
  step begin(const log_shape& shape, bool may_seal, std::uint64_t index,
    std::span<std::uint64_t> image, std::span<std::byte> values, std::size_t value_size) noexcept;
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  // The values are those before next_index().
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t next_index() const noexcept { return index_; }
  [[nodiscard]] unsigned torn() const noexcept { return torn_; }
  [[nodiscard]] unsigned seals() const noexcept { return seals_; }

private:
  enum class stage : std::uint8_t
  {
    look,
    pause,
    seal, // mark unfinished indexes as skipped
  };

  step look(std::uint64_t entries) noexcept;
  step looked(bool cancelled) noexcept;
  step wait() noexcept;
  [[nodiscard]] std::span<std::uint64_t> entry(std::size_t i) const noexcept;
  [[nodiscard]] std::size_t expired(std::size_t n) const noexcept;

  log_shape shape_;
  bool may_seal_ = false;
  std::span<std::uint64_t> image_;
  std::span<std::byte> values_;
  std::size_t value_size_ = 0;
  stage stage_ = stage::look;
  log_control control_;
  std::uint64_t index_ = 0;   // the first that is not read
  std::uint64_t begin_ = 0;   // of the image
  std::size_t entries_ = 0;   // in the image
  std::size_t count_ = 0;     // of values
  std::uint64_t overdue_ = 0; // indexes below this have been reserved, with room, for waited_
  std::chrono::microseconds waited_{};
  unsigned torn_ = 0;
  unsigned seals_ = 0;
  back_off pause_{std::chrono::microseconds(1000)};
};

// Removes the entries before an index. Needs the rights to read and to do atomics.
class log_trim
{
public:
  explicit log_trim(std::uint64_t index) noexcept
    : index_(index)
  {
  }

  step begin() noexcept { return step::access(1); }
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t was) noexcept;
  step next(bool cancelled) noexcept;

private:
  std::uint64_t index_;
  log_control control_;
  bool looked_ = false;
  bool exchanged_ = false;
};

// Reads the header of a log, and compares it with the one that this side expects.
class open_log
{
public:
  // `memory`: an error of the memory, and its size.
  open_log(const header& expected, const error_code& memory, std::uint64_t size) noexcept
    : expected_(expected)
    , memory_(memory)
    , size_(size)
  {
  }

  step begin() noexcept { return memory_ ? step::finish(memory_) : step::access(1); }
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  // After success.
  [[nodiscard]] log_shape shape() const noexcept { return shape_; }

private:
  header expected_;
  header found_{.kind = {}};
  error_code memory_;
  std::uint64_t size_;
  log_shape shape_;
};

// The header of a log with this shape.
[[nodiscard]] header with_shape(header of_type, const log_shape& shape) noexcept;

// Writes an empty log.
class create_log
{
public:
  create_log(const header& of_type, const log_shape& shape, const error_code& memory) noexcept
    : shape_(shape)
    , header_(with_shape(of_type, shape))
    , memory_(memory)
    , size_(log_size(shape.capacity(), of_type.size))
  {
  }

  step begin();
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  [[nodiscard]] log_shape shape() const noexcept { return shape_; }

private:
  static constexpr std::uint64_t chunk_max = 256 * 1024;

  log_shape shape_;
  header header_;
  error_code memory_;
  std::uint64_t size_;
  std::uint64_t written_ = sizeof(header); // the header is written at the end
  std::vector<std::byte> zeros_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_LOG_HPP
