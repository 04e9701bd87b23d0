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

/// Records in memory that two processes share, from one writer to one reader.
/**
 * A record begins on a cache line with a word that is zero until the record is complete, so that
 * the record arrives with the line that the reader polls. The writer clears the word behind a
 * record before it publishes the record, so the reader never takes old bytes for a record. There
 * are no locks: if one side is killed at any instruction, the ring still works for the other. Each
 * side checks the other one's values against the ring: the size of a record, and the reader's
 * progress.
 */
namespace ring {

inline constexpr std::size_t line = 64;
inline constexpr std::size_t head_size =
  8; ///< of a record: the word, and the piggybacked acknowledgement

/// The word: the record's bytes, a multiple of `line`; with this bit, nothing follows up to the
/// ring's end.
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

  /// Returns a word's value while the other side may write there. Excluded from ThreadSanitizer.
  [[gnu::no_sanitize_thread]] static std::uint32_t glance(const std::byte* at) noexcept
  {
    return *reinterpret_cast<const volatile std::uint32_t*>(at);
  }
};

/// The bytes that the reader has taken. Written by the reader alone.
template <class Memory>
using basic_progress = typename Memory::template atomic<std::uint64_t>;

template <class Memory>
class basic_writer
{
public:
  using progress = basic_progress<Memory>;

  basic_writer() = default;

  /// `size` is a power of two; `reserve` bytes are kept free for urgent records.
  basic_writer(
    std::byte* memory, std::size_t size, const progress& consumed, std::size_t reserve) noexcept
    : memory_(memory)
    , size_(size)
    , consumed_(&consumed)
    , reserve_(reserve)
  {
  }

  /// Returns the place for a record's body of that size; null if there is no room for it.
  std::byte* begin(std::size_t body, bool urgent) noexcept
  {
    const std::size_t record = record_size(body);
    const std::size_t offset = place();
    const std::size_t skipped = record > size_ - offset ? size_ - offset : 0;
    // Includes the line behind it: its word is cleared before the record is published.
    if (!room(skipped + record + line + (urgent ? 0 : reserve_)))
      return nullptr;
    if (skipped != 0)
    {
      Memory::word_at(memory_).store(0, std::memory_order_relaxed);
      // release: the reader finds the ring's first word cleared
      Memory::word_at(memory_ + offset)
        .store(static_cast<std::uint32_t>(skipped) | skip_bit, std::memory_order_release);
      at_ += skipped;
    }
    return memory_ + place() + head_size;
  }

  /// Publishes the record that was begun, with a piggybacked acknowledgement.
  void end(std::size_t body, std::uint32_t piggybacked_ack = 0) noexcept
  {
    const std::size_t record = record_size(body);
    std::byte* const at = memory_ + place();
    at_ += record;
    Memory::put(at + sizeof(std::uint32_t), piggybacked_ack);
    Memory::word_at(memory_ + place()).store(0, std::memory_order_relaxed);
    // release: the body, and the cleared word behind it
    Memory::word_at(at).store(static_cast<std::uint32_t>(record), std::memory_order_release);
    // Requests the next record's lines for writing, except for the first one: the reader polls it.
    __builtin_prefetch(memory_ + ((at_ + line) & (size_ - 1)), 1);
    __builtin_prefetch(memory_ + ((at_ + 2 * line) & (size_ - 1)), 1);
  }

  /// Returns true if the reader's progress is impossible: beyond the writer's, or backwards.
  bool broken() const noexcept { return broken_; }

private:
  std::size_t place() const noexcept { return at_ & (size_ - 1); }

  bool room(std::size_t wanted) noexcept
  {
    if (at_ - seen_ + wanted <= size_)
      return true;
    // acquire: the reader has finished with the bytes that it has taken
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

  /// Returns true if a record is there. Only a hint while another thread reads; the writer may be
  /// writing there then.
  [[gnu::no_sanitize_thread]] bool ready() const noexcept
  {
    return Memory::glance(next_.load(std::memory_order_relaxed)) != 0;
  }

  /// Returns the oldest record's body, and up to a line behind it; empty if there is none.
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
      if (record != size_ - offset
        || offset == 0) // a writer skips the rest of a ring, never all of it
      {
        broken_ = true;
        return {};
      }
      advance(record);
    }
  }

  /// Returns the acknowledgement piggybacked on the record that front() has returned.
  std::uint32_t piggybacked_ack() const noexcept
  {
    return Memory::get(memory_ + place() + sizeof(std::uint32_t));
  }

  /// Frees the place of the record that front() has returned.
  void pop() noexcept { advance(record_); }

  /// Returns the bytes that have been taken so far.
  std::uint64_t taken() const noexcept { return at_; }

  /// Returns true if the writer's bytes are no valid ring.
  bool broken() const noexcept { return broken_; }

private:
  std::size_t place() const noexcept { return at_ & (size_ - 1); }

  void advance(std::size_t record) noexcept
  {
    at_ += record;
    next_.store(memory_ + place(), std::memory_order_relaxed);
    consumed_->store(at_, std::memory_order_release); // the record has been read
  }

  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  progress* consumed_ = nullptr;
  std::uint64_t at_ = 0;
  std::uint32_t record_ = 0;
  bool broken_ = false;
  typename Memory::template atomic<std::byte*> next_{nullptr}; // where the next record's word is
};

using progress = basic_progress<shared_bytes>;
using writer = basic_writer<shared_bytes>;
using reader = basic_reader<shared_bytes>;

} // namespace ring

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_RING_HPP
