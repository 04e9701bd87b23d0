//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The accesses of a device with device_settings::hostile_seed to the memory of one-sided requests.

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_HOSTILE_MEMORY_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_HOSTILE_MEMORY_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace rdma::software {

/// Numbers that depend only on the seed: splitmix64 (Steele, Lea, Flood 2014).
class random_sequence
{
public:
  explicit random_sequence(std::uint64_t seed) noexcept
    : state_(seed)
  {
  }

  std::uint64_t next() noexcept
  {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Returns a number below `end`, which is not 0.
  std::uint32_t below(std::uint32_t end) noexcept
  {
    return static_cast<std::uint32_t>(((next() >> 32) * end) >> 32);
  }

private:
  std::uint64_t state_;
};

/// Calls access(offset, size) for each word of [begin, begin + size), in random order.
/**
 * `offset` is relative to `begin`. `size` is 8, or less for a word that is only partly in the
 * range. Blocks of words are visited in ascending or descending order from a random one, and each
 * block's words in random order. pause() is called between a few words.
 */
template <class Access, class Pause>
void visit_words(random_sequence& random, std::uintptr_t begin, std::size_t size, Access access,
  Pause pause) noexcept
{
  constexpr std::size_t word = sizeof(std::uint64_t);
  constexpr std::size_t block_max = 256; // of words, for the small numbers below
  constexpr unsigned pauses_max = 4;
  if (size == 0)
    return;
  const std::size_t before = begin % word;
  const std::size_t words = (before + size + word - 1) / word;
  const std::size_t blocks = (words + block_max - 1) / block_max;
  const std::size_t step = random.below(2) == 0 ? 1 : blocks - 1;
  std::size_t block = random.below(static_cast<std::uint32_t>(blocks));
  unsigned pauses = 0;
  std::uint64_t pause_in = random.below(static_cast<std::uint32_t>(2 * words));
  for (std::size_t i = 0; i != blocks; ++i, block = (block + step) % blocks)
  {
    const std::size_t first = block * block_max;
    const std::size_t count = std::min(block_max, words - first);
    std::array<std::uint8_t, block_max> order;
    for (std::size_t k = 0; k != count; ++k) // Fisher and Yates, inside out
    {
      const std::uint32_t other = random.below(static_cast<std::uint32_t>(k + 1));
      order[k] = order[other];
      order[other] = static_cast<std::uint8_t>(k);
    }
    for (std::size_t k = 0; k != count; ++k)
    {
      const std::size_t at = (first + order[k]) * word;
      const std::size_t from = std::max(at, before);
      access(from - before, std::min(at + word, before + size) - from);
      if (pause_in-- == 0 && pauses++ != pauses_max)
      {
        pause();
        pause_in = random.below(static_cast<std::uint32_t>(words));
      }
    }
  }
}

/// The accesses of one queue pair in hostile mode, and its buffer for the payload of a frame.
/** Not thread-safe. */
class hostile_memory
{
public:
  hostile_memory(std::uint64_t seed, std::uint32_t queue_pair) noexcept
    : random_(random_sequence(seed).next() ^ queue_pair)
  {
  }

  /// Copies to the target of a write. Bytes around it are not accessed.
  void write(std::byte* to, const std::byte* from, std::size_t size) noexcept;

  /// Copies from the source of a read.
  void read(std::byte* to, const std::byte* from, std::size_t size) noexcept;

  /// Sets the word to next(previous value). Returns the previous value.
  /** Atomic only with respect to other calls in this process (IBV_ATOMIC_HCA). */
  template <class Next>
  std::uint64_t change(std::uint64_t* word, Next next) noexcept
  {
    const std::lock_guard lock(atomics_);
    const std::uint64_t before = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    pause();
    if (const std::uint64_t after = next(before); after != before)
      __atomic_store_n(word, after, __ATOMIC_SEQ_CST);
    return before;
  }

  /// Delays some completions.
  void delay_completion() noexcept;

  /// Returns the buffer for the payload of an arriving frame, with at least this size. A larger
  /// size keeps the bytes. Returns null if memory is short.
  std::byte* arriving(std::size_t size) noexcept { return enlarge(arriving_, size); }

  /// As arriving(), for the payload of a frame that is sent in parts.
  std::byte* leaving(std::size_t size) noexcept { return enlarge(leaving_, size); }

private:
  static std::byte* enlarge(std::vector<std::byte>& what, std::size_t size) noexcept;
  void pause() noexcept;

  static std::mutex atomics_; // of all contexts of the process

  random_sequence random_;
  std::vector<std::byte> arriving_;
  std::vector<std::byte> leaving_;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_HOSTILE_MEMORY_HPP
