//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_PUBLISHED_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_PUBLISHED_HPP

#include <boost_rdma/buffer.hpp>
#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// A large value that its owner replaces as a whole, and the state machines of its readers.
// doc/objects_published.md gives the proof.
//
// The value is in one of several buffers; the word `current` names the buffer. A reader that keeps
// a snapshot pins a buffer by a word in a slot (a hazard pointer: Michael, IEEE TPDS 15(6), 2004).
// Slots are changed by compare-and-swap only, and have no content twice. All other words are
// written by the owner's processor only.

namespace rdma::detail::objects {

using time_point = std::chrono::steady_clock::time_point;
using clock_function = time_point (*)() noexcept;

// Memory of an object: a header, `current`, the slots, and the buffers. Each buffer begins with the
// generation of its value.
struct published_layout
{
  static constexpr std::uint64_t buffers_max = 255;
  static constexpr std::uint64_t slots_max = 4096;
  static constexpr std::chrono::milliseconds lease_max = std::chrono::hours(24);

  std::uint64_t value_size = 0; // in bytes
  std::uint64_t buffers = 0;
  std::uint64_t slots = 0;
  std::chrono::milliseconds lease{};

  // Sizes of requests. They affect no other process.
  std::size_t part = std::size_t{1} << 20;
  std::size_t parts_in_flight = 32;

  // Offsets in the memory. `current` is followed by the slots.
  static constexpr std::uint64_t current = sizeof(header);
  static constexpr std::uint64_t slot(std::uint64_t i) noexcept { return current + 8 + 8 * i; }
  [[nodiscard]] constexpr std::uint64_t generation(std::uint64_t buffer) const noexcept
  {
    return aligned(slot(slots)) + buffer * (alignment + aligned(value_size));
  }
  [[nodiscard]] constexpr std::uint64_t value(std::uint64_t buffer) const noexcept
  {
    return generation(buffer) + alignment;
  }
  [[nodiscard]] constexpr std::uint64_t size() const noexcept { return generation(buffers); }

  [[nodiscard]] constexpr bool is_valid() const noexcept
  {
    return buffers >= 2 && buffers <= buffers_max && slots >= 1 && slots <= slots_max
      && lease.count() >= 1 && lease <= lease_max;
  }

  // Values begin on a cache line, so that the owner's accesses to a buffer touch no other.
  static constexpr std::uint64_t alignment = 64;

private:
  static constexpr std::uint64_t aligned(std::uint64_t size) noexcept
  {
    return (size + alignment - 1) / alignment * alignment;
  }
};

// The word `current`.
struct published_version
{
  std::uint64_t generation; // 56 bits
  std::uint8_t buffer;

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept
  {
    return (generation << 8) | buffer;
  }
  [[nodiscard]] static constexpr published_version of(std::uint64_t word) noexcept
  {
    return {word >> 8, static_cast<std::uint8_t>(word)};
  }
};

// Generation of a buffer whose value is not complete.
inline constexpr std::uint64_t no_generation = UINT64_MAX;

// The word of a slot. A free slot has `pinned` = false, and 0 in `beat` and `buffer`. A word
// returns only after 2^24 changes of one claim, or after 2^31 claims of the slot.
struct pin_word
{
  static constexpr std::uint32_t beat_mask = 0xff'ffff;

  std::uint64_t claim; // number of the claim of this slot, 31 bits
  std::uint32_t beat;  // counts changes by the claim's holder, 24 bits
  std::uint8_t buffer;
  bool pinned;

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept
  {
    return (claim << 33) | (std::uint64_t{beat} << 9) | (std::uint64_t{buffer} << 1) | pinned;
  }
  [[nodiscard]] static constexpr pin_word of(std::uint64_t word) noexcept
  {
    return {word >> 33, static_cast<std::uint32_t>(word >> 9) & beat_mask,
      static_cast<std::uint8_t>(word >> 1), (word & 1) != 0};
  }

  // The next words of a slot.
  [[nodiscard]] constexpr pin_word pinning(std::uint8_t first) const noexcept
  {
    return {claim, 0, first, true};
  }
  [[nodiscard]] constexpr pin_word moved_to(std::uint8_t other) const noexcept
  {
    return {claim, (beat + 1) & beat_mask, other, true};
  }
  [[nodiscard]] constexpr pin_word freed() const noexcept { return {claim + 1, 0, 0, false}; }

  [[nodiscard]] constexpr bool is_of_claim(std::uint64_t number) const noexcept
  {
    return pinned && claim == number;
  }
};

// Recognizes pins whose word has not changed for a lease, by this process's clock and from its
// first look. Words do not return, so equal words are of an unchanged slot.
class lease_watch
{
public:
  lease_watch(std::size_t slots, std::chrono::milliseconds lease)
    : lease_(lease)
    , seen_(slots)
  {
  }

  [[nodiscard]] bool has_ended(std::size_t slot, std::uint64_t word, time_point now) noexcept
  {
    seen& last = seen_[slot];
    if (last.word != word)
      last = {word, now};
    return now - last.since >= lease_;
  }

private:
  struct seen
  {
    std::uint64_t word = 0; // no pin has this word
    time_point since;
  };

  std::chrono::milliseconds lease_;
  std::vector<seen> seen_;
};

// Reads a range in steps of several requests.
class parts_reader
{
public:
  parts_reader(const published_layout& layout, const mutable_buffer& to) noexcept
    : part_(layout.part)
    , in_flight_(layout.parts_in_flight)
    , to_(to)
  {
  }

  step begin(std::uint64_t offset) noexcept;
  access_request request(std::size_t i) const noexcept;
  [[nodiscard]] bool is_complete() const noexcept { return done_ + in_step_ >= to_.size(); }
  step next() noexcept;

private:
  std::size_t part_;
  std::size_t in_flight_;
  mutable_buffer to_;
  std::uint64_t offset_ = 0;
  std::size_t done_ = 0;    // bytes of earlier steps
  std::size_t in_step_ = 0; // bytes
};

// Compares the header in the object's memory with the expected one, and takes the parameters.
class open_published
{
public:
  open_published(const header& expected, const remote_buffer& memory) noexcept;

  step begin() noexcept { return ec_ ? step::finish(ec_) : step::access(1); }
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  [[nodiscard]] const published_layout& layout() const noexcept { return layout_; }

private:
  header expected_;
  header found_{.kind = {}};
  std::uint64_t memory_size_;
  error_code ec_;
  published_layout layout_;
};

// Reads the whole value without a pin: `current`, the value, and then the generation of its buffer.
class load_published
{
public:
  // Loads without success until the operation fails with error::contended.
  static constexpr unsigned loads_max = 100;

  load_published(const published_layout& layout, const mutable_buffer& to) noexcept
    : layout_(layout)
    , value_(layout, to)
    , size_(to.size())
  {
  }

  step begin() noexcept;
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  [[nodiscard]] std::uint64_t generation() const noexcept { return version_.generation; }
  // Number of loads during which the owner reused the buffer.
  [[nodiscard]] unsigned torn() const noexcept { return torn_; }

private:
  enum class stage : std::uint8_t
  {
    look,  // read `current`
    value, // read the value
    check, // read the generation
    pause,
  };

  step look() noexcept;

  published_layout layout_;
  parts_reader value_;
  std::size_t size_;
  stage stage_ = stage::look;
  std::uint64_t word_ = 0;
  published_version version_{};
  unsigned torn_ = 0;
  back_off pause_{std::chrono::microseconds(400)};
};

// Pins the current value.
class take_snapshot
{
public:
  // Changes by other processes until the operation fails with error::contended.
  static constexpr unsigned attempts_max = 1000;

  explicit take_snapshot(
    const published_layout& layout, clock_function clock = &std::chrono::steady_clock::now);

  step begin() noexcept { return look(); }
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t i, std::uint64_t was) noexcept;
  step next(bool cancelled) noexcept;

  [[nodiscard]] const published_version& version() const noexcept { return version_; }
  [[nodiscard]] std::uint64_t slot() const noexcept { return slot_; }
  [[nodiscard]] std::uint64_t pin() const noexcept { return desired_; }
  // The lease has not ended before this time.
  [[nodiscard]] time_point expires_at() const noexcept { return changed_ + layout_.lease; }
  // Slots of others whose lease had ended.
  [[nodiscard]] unsigned freed() const noexcept { return freed_; }
  [[nodiscard]] unsigned moves() const noexcept { return moves_; }

private:
  enum class stage : std::uint8_t
  {
    look,    // read `current` and the slots
    pause,   // no slot is free
    expire,  // free the slots whose lease has ended
    claim,   // change a free slot to a pin of the current buffer
    verify,  // read `current` again
    move,    // change the pin to the buffer that is current now
    give_up, // free the slot
  };

  step look() noexcept;
  step looked(bool cancelled) noexcept;
  step without_slot() noexcept;
  step verified(bool cancelled) noexcept;
  step exchange(stage entered, const pin_word& desired) noexcept;
  step give_up(const error_code& ec) noexcept;
  [[nodiscard]] bool find_free() noexcept;

  published_layout layout_;
  clock_function clock_;
  stage stage_ = stage::look;
  std::vector<std::uint64_t> image_; // `current` and the slots
  lease_watch watch_;
  std::vector<std::size_t> ended_; // slots whose lease has ended
  published_version version_{};
  std::uint64_t slot_ = 0;
  std::uint64_t expected_ = 0; // word of the slot
  std::uint64_t desired_ = 0;
  bool exchanged_ = false;
  std::optional<time_point> full_since_; // no slot was free since then
  time_point changed_;                   // before the slot was changed
  unsigned attempts_ = 0;
  unsigned moves_ = 0;
  unsigned freed_ = 0;
  error_code ec_;
  back_off pause_{std::chrono::microseconds(1000)};
};

// Reads a part of a pinned value. The data is valid if the pin was still there afterwards.
class read_snapshot
{
public:
  read_snapshot(const published_layout& layout, const published_version& version,
    std::uint64_t slot, std::uint64_t pin, std::uint64_t offset, const mutable_buffer& to) noexcept
    : layout_(layout)
    , value_(layout, to)
    , from_(layout.value(version.buffer) + offset)
    , slot_(slot)
    , claim_(pin_word::of(pin).claim)
    , ec_(check(layout, offset, to.size()))
  {
  }

  step begin() noexcept { return ec_ ? step::finish(ec_) : value_.begin(from_); }
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

private:
  static error_code check(
    const published_layout& layout, std::uint64_t offset, std::size_t size) noexcept;

  published_layout layout_;
  parts_reader value_;
  std::uint64_t from_;
  std::uint64_t slot_;
  std::uint64_t claim_;
  error_code ec_;
  bool checking_ = false;
  std::uint64_t word_ = 0;
};

// Renews or removes a pin.
class change_pin
{
public:
  // Changes by others until the operation fails with error::contended.
  static constexpr unsigned attempts_max = 1000;

  // `pin` is a word of the claim; renewals since then do not matter.
  change_pin(const published_layout& layout, std::uint64_t slot, std::uint64_t pin, bool renews,
    clock_function clock = &std::chrono::steady_clock::now) noexcept
    : layout_(layout)
    , clock_(clock)
    , slot_(slot)
    , expected_(pin)
    , renews_(renews)
  {
  }

  step begin() noexcept { return exchange(); }
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t was) noexcept { was_ = was; }
  step next(bool cancelled) noexcept;

  // After a renewal.
  [[nodiscard]] std::uint64_t pin() const noexcept { return desired().packed(); }
  [[nodiscard]] time_point expires_at() const noexcept { return changed_ + layout_.lease; }

private:
  step exchange() noexcept;
  [[nodiscard]] pin_word desired() const noexcept;

  published_layout layout_;
  clock_function clock_;
  std::uint64_t slot_;
  std::uint64_t expected_;
  std::uint64_t was_ = 0;
  unsigned attempts_ = 0;
  bool renews_;
  time_point changed_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_PUBLISHED_HPP
