//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_GRANT_WORD_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_GRANT_WORD_HPP

#include <atomic>
#include <cstdint>

namespace rdma::software {

// The accesses to a grant's word and to the mark of the peer that uses it, see grant_table.
// `Word` is an atomic std::uint32_t.

/// Peer: returns true if the grant has not ended.
template <class Word>
bool grant_holds(const Word& word, std::uint32_t generation, std::memory_order order) noexcept
{
  return word.load(order) == generation;
}

/// Peer: called between two copies of the owner's memory, and before the second check of the grant.
template <class Atomics>
void end_granted_read() noexcept
{
  // Reads of one queue pair take effect in order (IBA 9.5): ARM could load the bytes of the next
  // one first, e.g. data before the flag that announces it.
  Atomics::fence(std::memory_order_acquire);
}

/// Peer: the mark of this end.
class grant_mark
{
public:
  /// Returns true if the grant holds. The owner sees the access until leave().
  template <class Word>
  bool enter(Word& mark, std::uint32_t value, const Word& word, std::uint32_t generation) noexcept
  {
    if (value_ != value)
    {
      value_ = value;
      mark.store(value, std::memory_order_seq_cst); // before the word is read: see withdraw_grant()
    }
    return grant_holds(word, generation, std::memory_order_seq_cst);
  }

  template <class Word>
  void leave(Word& mark) noexcept
  {
    if (value_ != 0)
      mark.store(value_ = 0, std::memory_order_release); // release: the copies come before
  }

private:
  std::uint32_t value_ = 0;
};

/// Owner: returns true if the peer may be in the middle of a write.
template <class Word>
bool grant_is_marked(const Word& mark, std::uint32_t value) noexcept
{
  return mark.load(std::memory_order_seq_cst) == value;
}

/// Owner: ends a grant. Returns as grant_is_marked().
template <class Atomics, class Word>
bool withdraw_grant(Word& word, const Word& mark, std::uint32_t value) noexcept
{
  // seq_cst: the peer sees the word cleared, or this end sees its mark.
  word.store(0, std::memory_order_seq_cst);
  // A peer that reads bytes which this end writes to the memory later finds the word cleared, see
  // end_granted_read().
  Atomics::fence(std::memory_order_release);
  return grant_is_marked(mark, value);
}

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_GRANT_WORD_HPP
