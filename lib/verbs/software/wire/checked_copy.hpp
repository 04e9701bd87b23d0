//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_CHECKED_COPY_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_CHECKED_COPY_HPP

#include <cstddef>

namespace rdma::software::wire {

/// The largest size that is copied with memcpy().
inline constexpr std::size_t checked_copy_by_hand_max = 8 * 1024;

/// Copies from or to memory that the program has registered and may have unmapped since. Returns
/// false if it has.
/**
 * The kernel detects unmapped memory: the copy is a process_vm_readv(2) call on this process. Small
 * copies use memcpy(), because the system call would cost more than the copy. Unmapped memory is
 * then a fault of the program.
 */
bool checked_copy(void* to, const void* from, std::size_t size) noexcept;

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_CHECKED_COPY_HPP
