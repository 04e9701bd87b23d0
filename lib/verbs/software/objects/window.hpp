//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_WINDOW_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_WINDOW_HPP

#include "verbs/software/objects/key_table.hpp"
#include "verbs/software/protocol/work_queue.hpp"

#include <infiniband/verbs.h>

#include <cstdint>

namespace rdma::software {

/// Binds a window for queue pair `qp` of `pd`, under the key `rkey` (IBA 10.6.6.2, 11.4.1.10).
/** A type 2 window belongs to the queue pair from then on, a type 1 window to its domain. */
bool bind_window(key_table& keys, const protocol::window_binding& what, std::uint32_t rkey,
  const ibv_pd* pd, std::uint32_t qp) noexcept;

/// Takes a type 2 window's binding away, for LOCAL_INV and SEND_WITH_INV (IBA 10.6.6.3.2).
/** False when the key is none of a window that this queue pair bound. */
bool invalidate_window(
  key_table& keys, std::uint32_t rkey, const ibv_pd* pd, std::uint32_t qp) noexcept;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_WINDOW_HPP
