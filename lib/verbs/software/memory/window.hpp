//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_WINDOW_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_WINDOW_HPP

#include "verbs/software/memory/key_table.hpp"

#include <infiniband/verbs.h>

#include <cstdint>

namespace rdma::software {

/// The parameters of a bind. Keys, not pointers: the window and the region may have been freed when
/// it is carried out.
struct window_binding
{
  std::uint32_t window = 0; ///< the key that the window was allocated with
  std::uint32_t region = 0; ///< the region's local key
  unsigned access = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

/// Binds a window for queue pair `qp` of `pd`, under the key `rkey` (IBA 10.6.6.2, 11.4.1.10),
/// which differs from `what.window` in the low 8 bits only.
/** A type 2 window then belongs to the queue pair, a type 1 window to its domain. */
bool bind_window(key_table& keys, const window_binding& what, std::uint32_t rkey, const ibv_pd* pd,
  std::uint32_t qp) noexcept;

/// Ends the binding of a type 2 window, for LOCAL_INV and SEND_WITH_INV (IBA 10.6.6.3.2).
/** Returns false if no window that this queue pair bound has the key. */
bool invalidate_window(
  key_table& keys, std::uint32_t rkey, const ibv_pd* pd, std::uint32_t qp) noexcept;

/// Ends a window's binding and frees its slot, for ibv_dealloc_mw().
void free_window(key_table& keys, key_slot& window) noexcept;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_WINDOW_HPP
