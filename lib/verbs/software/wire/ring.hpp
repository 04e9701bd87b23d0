//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_RING_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_RING_HPP

#include "verbs/software/atomics.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

namespace rdma::software::wire {

/// Passes records from one writer to one reader, in memory that two processes share.
/**
 * A record begins on a cache line with a word. The word is zero until the record is complete, so
 * that the record arrives with the line that the reader polls. The writer clears the word behind a
 * record before it publishes the record: the reader never mistakes old bytes for a record.
 *
 * There is no lock. If one side is killed, the ring still works for the other side. Neither side
 * trusts the other one: the reader checks a record's size against the ring, and the writer checks
 * the position that the reader publishes.
 */
namespace ring {

inline constexpr std::size_t line = 64;

/// The size of a record's word and its piggybacked acknowledgement.
inline constexpr std::size_t head_size = 8;

/// The word contains the record's size in bytes, a multiple of `line`. With this bit, it skips the
/// rest of the ring instead.
inline constexpr std::uint32_t skip_bit = 1;

constexpr std::size_t record_size(std::size_t body) noexcept
{
  return (head_size + body + line - 1) / line * line;
}

inline std::atomic<std::uint32_t>& word_at(std::byte* at) noexcept
{
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  return *std::launder(reinterpret_cast<std::atomic<std::uint32_t>*>(at));
}

/// The accesses of a ring's two ends to the memory that they share.
struct shared_bytes : atomics
{
  static auto& word_at(std::byte* at) noexcept { return ring::word_at(at); }

  static void put(std::byte* at, std::uint32_t value) noexcept
  {
    std::memcpy(at, &value, sizeof value);
  }
  static std::uint32_t get(const std::byte* at) noexcept
  {
    std::uint32_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

  /// Returns a word's value while the writer may be writing there. ThreadSanitizer must not report
  /// this race.
  [[gnu::no_sanitize_thread]] static std::uint32_t glance(const std::byte* at) noexcept
  {
    return *reinterpret_cast<const volatile std::uint32_t*>(at);
  }
};

/// The reader's position. Only the reader writes it.
template <class Memory>
using basic_progress = typename Memory::template atomic<std::uint64_t>;

template <class Memory>
class basic_writer
{
public:
  using progress = basic_progress<Memory>;

  basic_writer() = default;

  /// `size` is a power of two. Only urgent records may use the last `reserve` bytes of free room.
  basic_writer(
    std::byte* memory, std::size_t size, const progress& consumed, std::size_t reserve) noexcept
    : memory_(memory)
    , size_(size)
    , consumed_(&consumed)
    , reserve_(reserve)
  {
  }

  /// Returns the place for a record's body of that size, or null if there is no room.
  std::byte* begin(std::size_t body, bool urgent) noexcept
  {
    const std::size_t record = record_size(body);
    const std::size_t offset = place();
    const std::size_t skipped = record > size_ - offset ? size_ - offset : 0;
    // Includes the line behind the record: its word is cleared before the record is published.
    if (!room(skipped + record + line + (urgent ? 0 : reserve_)))
      return nullptr;
    if (skipped != 0)
    {
      Memory::word_at(memory_).store(0, std::memory_order_relaxed);
      // release: the reader sees the ring's first word cleared
      Memory::word_at(memory_ + offset)
        .store(static_cast<std::uint32_t>(skipped) | skip_bit, std::memory_order_release);
      at_ += skipped;
    }
    return memory_ + place() + head_size;
  }

  /// Publishes the record that was begun, with a piggybacked acknowledgement; 0: none.
  void end(std::size_t body, std::uint32_t piggybacked_ack = 0) noexcept
  {
    const std::size_t record = record_size(body);
    std::byte* const at = memory_ + place();
    at_ += record;
    Memory::put(at + sizeof(std::uint32_t), piggybacked_ack);
    Memory::word_at(memory_ + place()).store(0, std::memory_order_relaxed);
    // release: the body, and the cleared word behind it
    Memory::word_at(at).store(static_cast<std::uint32_t>(record), std::memory_order_release);
    // The next record's lines except the first one, which the reader polls.
    __builtin_prefetch(memory_ + ((at_ + line) & (size_ - 1)), 1);
    __builtin_prefetch(memory_ + ((at_ + 2 * line) & (size_ - 1)), 1);
  }

  /// Returns true if the reader has published a position beyond the writer's, or an earlier one
  /// than before.
  bool broken() const noexcept { return broken_; }

private:
  std::size_t place() const noexcept { return at_ & (size_ - 1); }

  bool room(std::size_t wanted) noexcept
  {
    if (at_ - seen_ + wanted <= size_)
      return true;
    // acquire: the reader has finished its reads before that position
    const std::uint64_t now = consumed_->load(std::memory_order_acquire);
    if (now < seen_ || now > at_)
    {
      broken_ = true;
      return false;
    }
    seen_ = now;
    return at_ - seen_ + wanted <= size_;
  }

  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  const progress* consumed_ = nullptr;
  std::size_t reserve_ = 0;
  std::uint64_t at_ = 0;
  std::uint64_t seen_ = 0;
  bool broken_ = false;
};

template <class Memory>
class basic_reader
{
public:
  using progress = basic_progress<Memory>;

  basic_reader() = default;
  basic_reader(std::byte* memory, std::size_t size, progress& consumed) noexcept
    : memory_(memory)
    , size_(size)
    , consumed_(&consumed)
    , next_(memory)
  {
  }
  basic_reader& operator=(const basic_reader& other) noexcept
  {
    memory_ = other.memory_;
    size_ = other.size_;
    consumed_ = other.consumed_;
    at_ = other.at_;
    broken_ = other.broken_;
    next_.store(other.next_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }

  /// Returns true if there is a record. If another thread reads meanwhile, the result is a hint: it
  /// is about an earlier position, where the writer may be writing again.
  [[gnu::no_sanitize_thread]] bool ready() const noexcept
  {
    return Memory::glance(next_.load(std::memory_order_relaxed)) != 0;
  }

  /// Returns the oldest record's body, with padding of less than a line; empty: there is none.
  std::span<const std::byte> front() noexcept
  {
    for (;;)
    {
      const std::size_t offset = place();
      const std::uint32_t word = Memory::word_at(memory_ + offset).load(std::memory_order_acquire);
      if (word == 0)
        return {};
      const std::uint32_t record = word & ~skip_bit;
      if (record == 0 || record % line != 0 || record > size_ - offset)
      {
        broken_ = true;
        return {};
      }
      if ((word & skip_bit) == 0)
      {
        record_ = record;
        if (record > line)
          __builtin_prefetch(memory_ + offset + line);
        return {memory_ + offset + head_size, record - head_size};
      }
      // A writer skips the rest of the ring, never the whole ring.
      if (record != size_ - offset || offset == 0)
      {
        broken_ = true;
        return {};
      }
      advance(record);
    }
  }

  /// Returns the piggybacked acknowledgement of the record that front() has returned.
  std::uint32_t piggybacked_ack() const noexcept
  {
    return Memory::get(memory_ + place() + sizeof(std::uint32_t));
  }

  /// Frees the record that front() has returned.
  void pop() noexcept { advance(record_); }

  /// Returns the number of bytes that have been taken.
  std::uint64_t taken() const noexcept { return at_; }

  /// Returns true if the writer has stored an invalid word.
  bool broken() const noexcept { return broken_; }

private:
  std::size_t place() const noexcept { return at_ & (size_ - 1); }

  void advance(std::size_t record) noexcept
  {
    at_ += record;
    next_.store(memory_ + place(), std::memory_order_relaxed);
    consumed_->store(at_, std::memory_order_release); // release: the reads come before
  }

  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  progress* consumed_ = nullptr;
  std::uint64_t at_ = 0;
  std::uint32_t record_ = 0;
  bool broken_ = false;
  typename Memory::template atomic<std::byte*> next_{nullptr}; // at the next record's word
};

using progress = basic_progress<shared_bytes>;
using writer = basic_writer<shared_bytes>;
using reader = basic_reader<shared_bytes>;

} // namespace ring

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_RING_HPP
