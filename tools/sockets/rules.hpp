//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_RULES_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_RULES_HPP

#include <sys/socket.h>

namespace rdma::sockets::rules {

/// Returns false if the connection must remain the kernel's. The rules are in the file that
/// BOOST_RDMA_SOCKETS_RULES names; without it, everything is allowed.
/**
 * Each line is "allow" or "deny", then conditions, which all must hold:
 * - program=GLOB: the file name of the program
 * - side=client or side=server
 * - address=ADDRESS or address=ADDRESS/BITS: of `address`
 * - port=N or port=N-M: of `address`
 *
 * The first line that matches decides; without one, the connection is allowed. Text from # on is a
 * comment. If the file is invalid, nothing is allowed, and standard error has the reason.
 */
bool allow(bool is_server, const sockaddr* address) noexcept;

} // namespace rdma::sockets::rules

#endif // BOOST_RDMA_TOOLS_SOCKETS_RULES_HPP
