//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_CHECKED_COPY_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_CHECKED_COPY_HPP

#include "verbs/software/memory/pinned_buffers.hpp"

#include <cstddef>

namespace rdma::software::wire {

/// The side of a copy whose memory the program has registered, and may have unmapped or protected
/// since.
enum class program_side
{
  source,
  target,
};

/// Copies from or to memory of the program. Returns false if it cannot be accessed any more.
/**
 * The kernel is asked before the copy, with one system call. Copies of up to
 * checked_copy_by_hand_max are made without that, because it would cost more than the copy: memory
 * that is gone is then a fault of the program, as is memory that another thread unmaps during a
 * copy.
 */
bool checked_copy(void* to, const void* from, std::size_t size, program_side which) noexcept;

/// Returns true if checked_copy() would copy by hand: after its check, or because of the size.
bool is_accessible(const void* at, std::size_t size, program_side which) noexcept;

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_CHECKED_COPY_HPP
