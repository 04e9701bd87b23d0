//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_COPY_IN_ORDER_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_COPY_IN_ORDER_HPP

#include "verbs/software/atomics.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rdma::software::wire {

/// The accesses of copy_in_order() to the peer's memory.
struct peer_bytes : atomics
{
  static void copy(std::byte* to, const std::byte* from, std::size_t size) noexcept
  {
    std::memcpy(to, from, size);
  }
};

/// Carries out a write, or a part of one. The last eight bytes are written last, and after all
/// earlier writes of this thread.
/** Programs that poll them assume that the bytes before have arrived. NICs write in this order by
 * convention only. Writes take effect in order (IBA 9.5), so a small one may be a flag behind the
 * data of an earlier write. */
template <class Memory>
void copy_in_order(std::byte* to, const std::byte* from, std::size_t size) noexcept
{
  constexpr std::size_t last = sizeof(std::uint64_t);
  const std::size_t before = size > last ? size - last : 0;
  if (before != 0)
    Memory::copy(to, from, before);
  Memory::fence(std::memory_order_release);
  if (before != 0)
    Memory::copy(to + before, from + before, last);
  else
    Memory::copy(to, from, size);
}

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_COPY_IN_ORDER_HPP
