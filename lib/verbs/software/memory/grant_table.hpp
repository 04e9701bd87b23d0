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

/// The regions and windows that peers on this host may access directly, for withdrawing this
/// permission.
/**
 * A grant is a word in memory that the peer can read. Before a peer writes, it stores in its mark
 * which grant it uses, and then reads the word. revoke() first clears the word and then reads the
 * marks. Both are sequentially consistent, so that one of the two sees the other, as with the pins
 * of key_table. A peer that reads sets no mark: it reads the word again after the copy.
 *
 * No call waits for a peer. Peers whose mark is set become late_writers. Thread-safe.
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
    int socket = -1;                             ///< a connection to the peer's process
    std::array<std::uint32_t, grants_max> generations{}; ///< of the words; zero: not used yet
    std::array<bool, grants_max> used{};
  };

  struct grant
  {
    std::uint32_t index;
    std::uint32_t generation;
  };

  grant_table() { entries_.reserve(entries_usual); }

  /// Grants the peer access to the memory of a pinned slot. Returns nothing if there is no room.
  std::optional<grant> give(page& to, key_slot& what) noexcept;

  /// Withdraws the grants of a slot from all peers.
  void revoke(const key_slot& what) noexcept;

  /// Withdraws all grants of the page's peer.
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
  std::vector<entry> entries_; // few: only memory that peers on this host have accessed is granted
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_GRANT_TABLE_HPP
