//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_CELL_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_CELL_HPP

#include <boost_rdma/detail/objects/step.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>

// A value of several words that any number of processes read and store, and the state machines of
// these operations. doc/objects.md gives the proof.
//
// A cell is a head and two copies of the value, the current one and the next one. Each word of a
// copy holds 32 bits of the value and the tag of the store that wrote them, so a reader recognizes
// the words of one store in whatever order they were read. All changes are compare-and-swaps of
// whole words, and no word has the same content twice, so a request of a stopped process that
// arrives late has no effect.

namespace rdma::detail::objects {

// Numbers the attempts to store. Serial number arithmetic (RFC 1982) on 31 bits.
using tag = std::uint32_t;
inline constexpr tag tag_mask = 0x7fff'ffff;

[[nodiscard]] constexpr tag next_of(tag t) noexcept
{
  return (t + 1) & tag_mask;
}

[[nodiscard]] constexpr bool is_newer(tag a, tag b) noexcept
{
  const tag ahead = (a - b) & tag_mask;
  return ahead != 0 && ahead <= tag_mask / 2;
}

// A word of a copy.
struct cell_word
{
  std::uint32_t data;
  objects::tag tag;

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept
  {
    return (std::uint64_t{tag} << 32) | data;
  }
  [[nodiscard]] static constexpr cell_word of(std::uint64_t word) noexcept
  {
    return {static_cast<std::uint32_t>(word), static_cast<objects::tag>(word >> 32)};
  }
};

// The first word of a cell.
struct cell_head
{
  enum class phase : std::uint8_t
  {
    idle = 0,    // the current copy has the tag `committed`
    claimed = 1, // attempt `newest` writes the next copy
    copying = 2, // the next copy has the tag `committed` and is being copied to the current one
  };

  tag committed; // of the value
  tag newest;    // attempt
  enum phase phase;

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept
  {
    return (std::uint64_t{committed} << 33) | (std::uint64_t{newest} << 2)
      | static_cast<std::uint64_t>(phase);
  }
  // The remaining value of the phase is read as idle. Only another program writes it.
  [[nodiscard]] static constexpr cell_head of(std::uint64_t word) noexcept
  {
    const auto phase = static_cast<std::uint8_t>(word & 3);
    return {static_cast<tag>(word >> 33), static_cast<tag>(word >> 2) & tag_mask,
      phase <= 2 ? static_cast<enum phase>(phase) : phase::idle};
  }
};

// Number of words of a copy, and of a cell.
[[nodiscard]] constexpr std::size_t copy_words(std::size_t bytes) noexcept
{
  return (bytes + 3) / 4;
}
[[nodiscard]] constexpr std::size_t cell_words(std::size_t bytes) noexcept
{
  return 1 + 2 * copy_words(bytes);
}

// Takes the committed value from the words of a cell, which may have been read at different times.
// `image` is a whole cell, or a cell without its next copy. Returns false if a word of the value is
// missing.
[[nodiscard]] bool decode_cell(
  std::span<const std::uint64_t> image, std::span<std::byte> value, tag& version) noexcept;

// Writes the words of a new cell.
void encode_cell(std::span<std::uint64_t> image, std::span<const std::byte> value) noexcept;

// Reads the value. Needs the right to read, and waits for no other process.
class cell_load
{
public:
  // Reads without success until the operation fails with error::contended.
  static constexpr unsigned reads_max = 1000;

  // Offset of the cell in the object's memory; room for a cell and for the value.
  step begin(std::uint64_t offset, std::span<std::uint64_t> image, std::span<std::byte> value);
  access_request request(std::size_t i) const noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  [[nodiscard]] tag version() const noexcept { return version_; }
  // Number of reads whose words were of different stores.
  [[nodiscard]] unsigned torn() const noexcept { return torn_; }

private:
  std::uint64_t offset_ = 0;
  std::span<std::uint64_t> image_;
  std::span<std::byte> value_;
  std::size_t read_words_ = 0;
  tag version_ = 0;
  unsigned torn_ = 0;
  bool pausing_ = false;
  back_off pause_{std::chrono::microseconds(400)};
};

// Stores a value. Needs the rights to read and to do atomics. A process that stops or dies on the
// way delays others by the time of `patience_min` looks and pauses (about 1 ms).
class cell_store
{
public:
  // If a claim has not moved after this number of looks, another process takes the cell over. The
  // number doubles for an operation that was itself taken over, up to the maximum.
  static constexpr unsigned patience_min = 6;
  static constexpr unsigned patience_max = 1024;

  // If `expected` is given, the store takes place only if it is the version.
  step begin(std::uint64_t offset, std::span<std::uint64_t> image, std::span<const std::byte> value,
    std::optional<tag> expected);
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t i, std::uint64_t was) noexcept;
  step next(bool cancelled) noexcept;

  [[nodiscard]] bool stored() const noexcept { return stored_; }
  // Of the stored value; the version that was found if the value was not stored.
  [[nodiscard]] tag version() const noexcept { return version_; }

private:
  enum class stage : std::uint8_t
  {
    look,     // read the cell
    pause,    // before the next look
    claim,    // make an attempt the newest one
    fill,     // write the next copy
    commit,   // make its value the current one
    copy,     // write the current copy
    release,  // let others claim
    withdraw, // give a claim up
  };

  step look() noexcept;
  step looked(bool cancelled) noexcept;
  step exchange_head(stage entered, const cell_head& desired) noexcept;
  step write_copy(stage entered, std::size_t first, tag written) noexcept;
  bool superseded() const noexcept;
  step look_again() noexcept;
  step copy() noexcept;
  step finish_copy() noexcept;
  [[nodiscard]] std::uint32_t data_for(std::size_t word) const noexcept;
  [[nodiscard]] std::size_t width() const noexcept { return image_.size() / 2; }

  std::uint64_t offset_ = 0;
  std::span<std::uint64_t> image_;
  std::span<const std::byte> value_;
  std::optional<tag> expected_;
  stage stage_ = stage::look;
  std::uint64_t desired_head_ = 0;
  bool exchanged_ = false; // this operation, and no other, has written desired_head_
  std::size_t first_ = 0;  // word of the copy that is written
  tag written_ = 0;        // its tag
  std::uint64_t seen_ = 0;
  unsigned looks_ = 0; // with this content of the head
  unsigned patience_ = patience_min;
  back_off pause_{std::chrono::microseconds(400)};
  bool stored_ = false;
  tag version_ = 0;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_CELL_HPP
