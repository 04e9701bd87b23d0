//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_GRANT_TABLE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_GRANT_TABLE_HPP

#include "verbs/software/wire/segment.hpp"

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace rdma::software {

struct key_slot;

namespace wire {

/// Who of the peers on this host has been let into which region or window, to take it back.
/**
 * A grant is a word in the memory of a link, which the peer looks at after it has said what it
 * touches (segment_side:: touching); who takes a grant back clears the word and then waits until
 * the peer touches something else. Both are sequentially consistent, so that one of the two sees
 * the other, as with the pins of key_table. A peer that is gone touches nothing: its socket tells.
 * Any thread.
 */
class grant_table
{
public:
  /// The grants of one link.
  struct page
  {
    segment_side* mine = nullptr;         ///< the words
    const segment_side* theirs = nullptr; ///< what is touched
    int socket = -1;
    std::array<std::uint32_t, segment_side::grants_max>
      generations{}; ///< of the words, ever; zero: none yet
    std::array<bool, segment_side::grants_max> used{};
  };

  struct grant
  {
    std::uint32_t index;
    std::uint32_t generation;
  };

  grant_table() { entries_.reserve(entries_usual); }

  /// Lets the peer into what the slot covers. The slot is pinned. Nothing, when there is no room.
  std::optional<grant> give(page& to, key_slot& what) noexcept;

  /// Takes it back from all peers. Nobody touches it any more when this returns.
  void revoke(const key_slot& what) noexcept;

  /// Takes back all that the link's peer has.
  void close(page& of) noexcept;

private:
  struct entry
  {
    const key_slot* what;
    page* where;
    std::uint32_t index;
  };

  static constexpr std::size_t entries_usual = 16;

  static void wait(const page& of, std::uint32_t index) noexcept;

  std::mutex mutex_;
  std::vector<entry>
    entries_; // few: what is granted is what peers on this host have written to or read
};

} // namespace wire

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_GRANT_TABLE_HPP
