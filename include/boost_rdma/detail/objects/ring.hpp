//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_RING_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_RING_HPP

#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

// The two ends of a ring of records, without I/O. doc/objects_ring.md gives the proof.
//
// Each word of an entry holds 63 bits of the record and the parity of the lap that wrote it. An
// entry is written for a lap only after its record of the lap before was consumed, so the parity
// tells the words of this lap from those of the one before, in whatever order they arrive.

namespace rdma::detail::objects {

inline constexpr std::uint64_t ring_parity = std::uint64_t{1} << 63;

// Number of words of an entry.
[[nodiscard]] constexpr std::size_t ring_entry_words(std::size_t bytes) noexcept
{
  return (8 * bytes + 62) / 63;
}

// The memory of a ring: a header, the number of consumed records, the entries. The producer's copy
// has the same layout.
struct ring_layout
{
  static constexpr std::uint64_t consumed_offset = sizeof(header);
  static constexpr std::uint64_t entries_offset = consumed_offset + 64; // another cache line
  static constexpr std::uint64_t capacity_max = std::uint64_t{1} << 32;

  std::uint64_t capacity; // a power of two
  std::size_t entry_words;

  [[nodiscard]] constexpr std::uint64_t size() const noexcept { return offset_of(capacity); }

  // Of an entry, by its index.
  [[nodiscard]] constexpr std::uint64_t offset_of(std::uint64_t index) const noexcept
  {
    return entries_offset + index * 8 * entry_words;
  }

  [[nodiscard]] constexpr std::uint64_t index_of(std::uint64_t record) const noexcept
  {
    return record & (capacity - 1);
  }

  // The parity of the words of a record. New memory has zeros, so the first lap's is one.
  [[nodiscard]] constexpr std::uint64_t parity_of(std::uint64_t record) const noexcept
  {
    return (record & capacity) == 0 ? ring_parity : 0;
  }
};

// The words of a record of `Size` bytes.
template <std::size_t Size>
struct ring_code
{
  static constexpr std::size_t words = ring_entry_words(Size);

  static void encode(const void* record, std::uint64_t parity, std::uint64_t* to) noexcept
  {
    std::array<std::uint64_t, (Size + 7) / 8 + 1> bits{};
    std::memcpy(bits.data(), record, Size);
    for (std::size_t i = 0; i != words; ++i)
    {
      const std::size_t at = 63 * i;
      std::uint64_t word = bits[at / 64] >> (at % 64);
      if (at % 64 != 0)
        word |= bits[at / 64 + 1] << (64 - at % 64);
      to[i] = (word & ~ring_parity) | parity;
    }
  }

  // Returns false if the entry does not have all words of the record. `from` changes meanwhile.
  [[nodiscard]] static bool decode(
    const std::uint64_t* from, std::uint64_t parity, void* record) noexcept
  {
    std::array<std::uint64_t, words + 1> entry{};
    std::uint64_t other = 0;
    for (std::size_t i = 0; i != words; ++i)
    {
      // acquire: what the producer wrote before, and completed, is visible with the record
      entry[i] =
        std::atomic_ref(const_cast<std::uint64_t&>(from[i])).load(std::memory_order_acquire)
        ^ parity;
      other |= entry[i];
      if (i == 0 && other >= ring_parity)
        return false;
    }
    if (other >= ring_parity)
      return false;
    std::array<std::uint64_t, (Size + 7) / 8> bits;
    for (std::size_t i = 0; i != bits.size(); ++i)
    {
      const std::size_t at = 64 * i;
      bits[i] = (entry[at / 63] >> (at % 63)) | (entry[at / 63 + 1] << (63 - at % 63));
    }
    std::memcpy(record, bits.data(), Size);
    return true;
  }
};

// The consumer's end. It reads nothing from the memory that the producer could use to mislead it:
// its position is its own, and the words of an entry are only bits of a record.
template <std::size_t Size>
class ring_reader
{
public:
  // The words of the whole ring.
  ring_reader(std::uint64_t* memory, std::uint64_t capacity) noexcept
    : memory_(memory)
    , layout_{capacity, ring_code<Size>::words}
    , publish_every_(std::max<std::uint64_t>(capacity / 8, 1))
  {
  }

  [[nodiscard]] bool pop(void* record) noexcept
  {
    if (!ring_code<Size>::decode(entry(), layout_.parity_of(next_), record))
    {
      publish();
      return false;
    }
    if (++next_ - published_ >= publish_every_)
      publish();
    return true;
  }

  // A word of the next record, and its parity when it has arrived.
  [[nodiscard]] const std::uint64_t* entry() const noexcept
  {
    return memory_ + layout_.offset_of(layout_.index_of(next_)) / 8;
  }
  [[nodiscard]] std::uint64_t parity() const noexcept { return layout_.parity_of(next_); }

private:
  void publish() noexcept
  {
    if (published_ == next_)
      return;
    published_ = next_;
    // release: the loads of the records come before, because the producer reuses the entries
    std::atomic_ref(memory_[ring_layout::consumed_offset / 8])
      .store(next_, std::memory_order_release);
  }

  std::uint64_t* memory_;
  ring_layout layout_;
  std::uint64_t publish_every_;
  std::uint64_t next_ = 0;
  std::uint64_t published_ = 0;
};

// The producer's end: which records are written next, and when the number of consumed records is
// read. Records are staged in a copy of the ring, from which they are written.
class ring_writer
{
public:
  // Several writes are in flight only if each has many records: see next().
  static constexpr unsigned writes_max = 4;
  // Reads of an unchanged number, each as long as a round trip, before there are pauses.
  static constexpr unsigned reads_without_pause = 16;

  struct action
  {
    enum class kind : std::uint8_t
    {
      none,
      write, // records `first` to `first + count - 1`, which are adjacent; ends with wrote(slot)
      read,  // the number of consumed records; ends with was_consumed()
      pause, // ends with rested()
    };

    kind what = kind::none;
    unsigned slot = 0;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::chrono::microseconds pause{};
  };

  explicit ring_writer(const ring_layout& layout) noexcept;

  // A record is staged where the one of the lap before has been written. The device does not read
  // or write the entry any more, however it carries out requests.
  [[nodiscard]] bool has_room() const noexcept { return pushed_ != written_ + layout_.capacity; }

  // Number of the record that is staged next.
  [[nodiscard]] std::uint64_t next_record() const noexcept { return pushed_; }

  // The record has been staged. Returns false if next() has nothing to do.
  [[nodiscard]] bool push() noexcept
  {
    ++pushed_;
    return may_write() && (credits() != 0 || !(reading_ || pausing_));
  }

  // Starts an action. Call it until there is none.
  [[nodiscard]] action next() noexcept;

  // Ends of actions, which were successful.
  void wrote(unsigned slot) noexcept;
  // Returns false if the number is impossible.
  [[nodiscard]] bool was_consumed(std::uint64_t count) noexcept;
  void rested() noexcept;

  // Number of records that are in the consumer's memory.
  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
  [[nodiscard]] const ring_layout& layout() const noexcept { return layout_; }

private:
  struct write
  {
    std::uint64_t end = 0; // number of the first record behind
    bool ended = false;
  };

  // Records leave at once if no write is in flight, and otherwise when there are many.
  [[nodiscard]] bool may_write() const noexcept
  {
    return writes_ == 0 || (pushed_ - posted_ >= many_ && writes_ != writes_max);
  }

  // Records that may be written: the entry's last record has been consumed.
  [[nodiscard]] std::uint64_t credits() const noexcept
  {
    return consumed_ + layout_.capacity - posted_;
  }

  ring_layout layout_;
  std::uint64_t many_;
  std::uint64_t count_max_;    // of a write
  std::uint64_t pushed_ = 0;   // number of staged records
  std::uint64_t posted_ = 0;   // number of those whose write has been started
  std::uint64_t written_ = 0;  // number of those that are in the consumer's memory
  std::uint64_t consumed_ = 0; // as read last
  std::array<write, writes_max> in_flight_{};
  unsigned first_ = 0; // of in_flight_, which is circular
  unsigned writes_ = 0;
  unsigned fruitless_ = 0; // reads in succession without news
  bool reading_ = false;
  bool stale_ = false; // records were written since the last read began
  bool pausing_ = false;
  bool rested_ = false; // since the last read
  back_off pause_{std::chrono::microseconds(400)};
};

// Reads the header of a ring and compares it, except for the capacity, which it returns.
class open_ring
{
public:
  // `memory`: error and size of the ring's memory.
  open_ring(const header& expected, const error_code& memory, std::uint64_t size) noexcept
    : expected_(expected)
    , memory_(memory)
    , size_(size)
  {
  }

  step begin() noexcept { return memory_ ? step::finish(memory_) : step::access(1); }
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  [[nodiscard]] const ring_layout& layout() const noexcept { return layout_; }

private:
  // The header, the number of consumed records, and the first word of the first entry.
  static constexpr std::size_t words_read = ring_layout::entries_offset / 8 + 1;

  header expected_;
  error_code memory_;
  std::uint64_t size_;
  std::array<std::uint64_t, words_read> found_{};
  ring_layout layout_{};
};

// Looks at a word for about a microsecond, until its first bit is that of `parity`. Does not yield
// the processor: on a busy machine, a thread that yields waits longer than one that sleeps.
void look_for_parity(const std::uint64_t* word, std::uint64_t parity) noexcept;

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_RING_HPP
