//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_BELLS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_BELLS_HPP

#include "verbs/software/atomics.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rdma::software::wire {

// Notification between the two ends of a link. It needs no system call unless the other end sleeps.
// Each end stores its own state, then loads a word of the other end, with a sequentially consistent
// fence in between or with sequentially consistent operations: at least one of the ends sees the
// other one's store.

/// Bells and sleep state of one end of a link, in memory that both ends share.
template <class Atomics, std::size_t Lanes>
struct basic_link_side
{
  using word = typename Atomics::template atomic<std::uint64_t>;
  using bell_words = std::array<word, Lanes / 64>;

  /// Odd while no thread of this end polls `bells`: one byte through the socket wakes it. Each
  /// sleep has a number of its own, so that a late wake-up does not hide the next sleep.
  alignas(64) typename Atomics::template atomic<std::uint32_t> epoch{1};

  /// One bit for each lane with new records or new room for this end. The other end sets bits, this
  /// end clears them.
  alignas(64) bell_words bells{};

  /// Sets a lane's bit; called by the other end. The caller has stored the records, then made a
  /// sequentially consistent fence. It wakes this end afterwards, see basic_wake_ups.
  void ring(unsigned lane) noexcept
  {
    const std::uint64_t bit = std::uint64_t{1} << lane % 64;
    // This end clears a set bit later, and looks at the lane after that.
    if ((bells[lane / 64].load(std::memory_order_relaxed) & bit) == 0)
      bells[lane / 64].fetch_or(bit, std::memory_order_seq_cst);
  }

  bool has_bells() const noexcept
  {
    bool found = false;
    for (const word& each : bells)
      found = found || each.load(std::memory_order_relaxed) != 0;
    return found;
  }

  /// Calls visit(lane) for each lane whose bell was rung, after clearing it.
  template <class Visit>
  void take_bells(Visit visit)
  {
    std::array<std::uint64_t, Lanes / 64> rung{};
    for (std::size_t i = 0; i != bells.size(); ++i)
      if (bells[i].load(std::memory_order_relaxed) != 0)
        rung[i] = bells[i].exchange(0, std::memory_order_seq_cst);
    // Before visit() looks at the lanes: the peer sees the bit cleared, or this end sees the peer's
    // records.
    Atomics::fence(std::memory_order_seq_cst);
    for (std::size_t i = 0; i != rung.size(); ++i)
      for (; rung[i] != 0; rung[i] &= rung[i] - 1)
        visit(static_cast<unsigned>(i * 64) + static_cast<unsigned>(__builtin_ctzll(rung[i])));
  }

  /// Publishes a new epoch. The caller looks at the bells afterwards.
  void show(std::uint32_t to) noexcept
  {
    epoch.store(to, std::memory_order_seq_cst);
    // Before the caller looks at the bells: see basic_wake_ups.
    Atomics::fence(std::memory_order_seq_cst);
  }
};

/// Counts the sleeps of this end. Not thread-safe: the caller locks.
class sleep_count
{
public:
  /// Records whether a thread polls the bells. The caller looks at the bells afterwards.
  template <class Side>
  void look(Side& mine, bool on) noexcept
  {
    if (((epoch_ & 1) == 0) != on)
      mine.show(++epoch_);
  }

  /// Begins a new sleep after a wake-up has arrived, so that the peer sends the next one.
  template <class Side>
  void rearm(Side& mine) noexcept
  {
    if ((epoch_ & 1) != 0)
      mine.show(epoch_ += 2);
  }

private:
  std::uint32_t epoch_ = 1; ///< basic_link_side::epoch, which the peer can overwrite
};

/// Remembers the sleep of the other end that this end has ended last. Thread-safe.
template <class Atomics>
class basic_wake_ups
{
public:
  /// Calls send() if the peer sleeps, once for each of its sleeps. Returns false if send() does;
  /// the next call then repeats it.
  template <class Side, class Send>
  bool wake(const Side& theirs, Send send) noexcept
  {
    // seq_cst: the peer sees the bell before it sleeps, or this end sees that the peer sleeps.
    const std::uint32_t epoch = theirs.epoch.load(std::memory_order_seq_cst);
    if ((epoch & 1) == 0 || woken_.load(std::memory_order_relaxed) == epoch
      || woken_.exchange(epoch, std::memory_order_relaxed) == epoch || send())
      return true;
    woken_.store(0, std::memory_order_relaxed);
    return false;
  }

private:
  typename Atomics::template atomic<std::uint32_t> woken_{0};
};

/// The conditions under which one end of a lane needs a bell, in memory that both ends share.
template <class Atomics>
struct basic_lane_waits
{
  using word = typename Atomics::template atomic<std::uint32_t>;

  /// No thread of this end polls the lane's rings: the other end sets its bit in
  /// basic_link_side::bells.
  word wants_bell{1};

  /// This end waits for room in one of its own rings.
  word blocked{0};

  /// Sets `wants_bell`. The caller looks at the lane once more afterwards.
  void want_bell(bool wanted) noexcept
  {
    wants_bell.store(wanted ? 1 : 0, std::memory_order_relaxed);
    // Before the caller looks for records that have arrived meanwhile: see is_to_ring().
    Atomics::fence(std::memory_order_seq_cst);
  }

  /// Calls begin() once more after it has found no room, and sets `blocked` first.
  template <class Begin>
  std::byte* begin_blocked(Begin begin) noexcept
  {
    // seq_cst, here and in is_to_ring(): either this end sees the room, or the other end sees that
    // this end waits for it.
    blocked.store(1, std::memory_order_seq_cst);
    Atomics::fence(std::memory_order_seq_cst);
    return begin();
  }

  /// Returns true if the lane's bell must be rung; called by the other end. The caller has stored a
  /// record or an acknowledgement (`news`), or has taken something from a ring.
  bool is_to_ring(bool news) const noexcept
  {
    // seq_cst, here and in want_bell(), begin_blocked() and take_bells(): either this end sees the
    // new data, or the other end sees that this end does not poll.
    Atomics::fence(std::memory_order_seq_cst);
    return (news || blocked.load(std::memory_order_relaxed) != 0)
      && wants_bell.load(std::memory_order_relaxed) != 0;
  }
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_BELLS_HPP
