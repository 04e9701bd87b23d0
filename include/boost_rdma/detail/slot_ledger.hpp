//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_SLOT_LEDGER_HPP
#define BOOST_RDMA_DETAIL_SLOT_LEDGER_HPP

#include <atomic>
#include <cstdint>

namespace rdma::detail {

// The vacant slots of a work source, the number of claimed ones, and their mode, in one word.
// Claiming and releasing a slot therefore cost one atomic operation each, and no mutex.
//
// Vacant slots form a stack, linked through operation::next_vacant.
class slot_ledger
{
public:
  class entry
  {
  public:
    // Index of the topmost vacant slot plus one; 0 if there is none.
    [[nodiscard]] std::uint16_t top() const noexcept { return static_cast<std::uint16_t>(bits_); }
    [[nodiscard]] std::uint32_t claimed() const noexcept
    {
      return static_cast<std::uint16_t>(bits_ >> claimed_shift);
    }

    // Slots are claimed and released with the source's mutex held.
    [[nodiscard]] bool guarded() const noexcept { return (bits_ & guarded_bit) != 0; }

    // Claimed slots count as work of the completion queue: see work_source::count_as_work().
    [[nodiscard]] bool counts() const noexcept { return (bits_ & counts_bit) != 0; }
    [[nodiscard]] bool is_work() const noexcept { return counts() && claimed() != 0; }

    [[nodiscard]] entry with_claimed(std::uint16_t below) const noexcept
    {
      return entry((bits_ & ~top_mask) + (std::uint64_t{1} << claimed_shift) + tag_step + below);
    }
    [[nodiscard]] entry with_released(std::uint16_t top) const noexcept
    {
      return entry((bits_ & ~top_mask) - (std::uint64_t{1} << claimed_shift) + tag_step + top);
    }
    [[nodiscard]] entry with_more(std::uint16_t top) const noexcept
    {
      return entry((bits_ & ~top_mask) + tag_step + top);
    }
    [[nodiscard]] entry with_guarded(bool yes) const noexcept
    {
      return entry(yes ? bits_ | guarded_bit : bits_ & ~guarded_bit);
    }
    [[nodiscard]] entry with_counts(bool yes) const noexcept
    {
      return entry(yes ? bits_ | counts_bit : bits_ & ~counts_bit);
    }

  private:
    friend class slot_ledger;

    explicit entry(std::uint64_t bits) noexcept
      : bits_(bits)
    {
    }

    std::uint64_t bits_;
  };

  [[nodiscard]] entry read() const noexcept { return entry(word_.load(std::memory_order_acquire)); }

  // acquire-release: the thread that claims a slot sees all writes of the thread that released it.
  // A thread that finds the ledger not guarded sees the state of the source at that time.
  bool replace(entry& expected, entry next) noexcept
  {
    return word_.compare_exchange_weak(
      expected.bits_, next.bits_, std::memory_order_acq_rel, std::memory_order_acquire);
  }

private:
  static constexpr unsigned claimed_shift = 16;
  static constexpr std::uint64_t top_mask = 0xffff;
  static constexpr std::uint64_t guarded_bit = std::uint64_t{1} << 32;
  static constexpr std::uint64_t counts_bit = std::uint64_t{1} << 33;
  // Changes with each change of the stack (ABA): a slot that was claimed and released in the
  // meantime is detected. 30 bits repeat only after 10^9 changes within one compare_exchange.
  static constexpr std::uint64_t tag_step = std::uint64_t{1} << 34;

  std::atomic<std::uint64_t> word_{guarded_bit | counts_bit};
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_SLOT_LEDGER_HPP
