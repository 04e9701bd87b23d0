//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_GRANT_TABLE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_GRANT_TABLE_HPP

#include "verbs/software/memory/late_writers.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace rdma::software {

struct key_slot;

/// The regions and windows that peers on this host may use by themselves, so that they can be taken
/// back.
/**
 * A grant is a word in memory that the peer can read. Before a peer writes, it stores in its mark
 * which grant it uses, and then reads the word. revoke() first clears the word and then reads the
 * marks. Both are sequentially consistent, so that one of the two sees the other, as with the pins
 * of key_table. A peer that reads sets no mark: it reads the word again after the copy.
 *
 * No call waits for a peer. Peers whose mark is set become late_writers. Any thread.
 */
class grant_table
{
public:
  static constexpr std::uint32_t grants_max = 256; ///< of one peer

  /// The grants of one peer.
  struct page
  {
    std::atomic<std::uint32_t>* words = nullptr; ///< grants_max of them, which the peer reads
    std::shared_ptr<memory_peer> peer;           ///< null: it gets no grants
    int socket = -1;                             ///< leads to the peer's process
    std::array<std::uint32_t, grants_max> generations{}; ///< of the words, ever; zero: none yet
    std::array<bool, grants_max> used{};
  };

  struct grant
  {
    std::uint32_t index;
    std::uint32_t generation;
  };

  grant_table() { entries_.reserve(entries_usual); }

  /// Lets the peer use what the slot covers. The slot is pinned. Nothing, when there is no room.
  std::optional<grant> give(page& to, key_slot& what) noexcept;

  /// Takes it back from all peers.
  void revoke(const key_slot& what) noexcept;

  /// Takes back all that the page's peer has.
  void close(page& of) noexcept;

private:
  struct entry
  {
    const key_slot* what;
    page* where;
    std::uint32_t index;
  };
  static constexpr std::size_t entries_usual = 16;

  static void clear(const entry& which) noexcept;

  std::mutex mutex_;
  std::vector<entry>
    entries_; // few: only what peers on this host have written to or read is granted
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_GRANT_TABLE_HPP
