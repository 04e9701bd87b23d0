//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_SOCKET_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_SOCKET_HPP

#include "verbs/software/wire/socket.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rdma::software::wire {

/// Whether an address is one of this host's (of this network namespace's, to be exact).
bool is_of_this_host(const ibv_gid& gid) noexcept;

/// The abstract name (unix(7)) "boost_rdma/" with this text, of at most 64 characters, behind it.
address to_abstract_address(std::string_view text) noexcept;

/// Where the device of this address and port takes connections from its own host.
/** An abstract name (unix(7)): it belongs to the network namespace, as the port does, and leaves no
 * file behind. */
address to_local_address(const ibv_gid& gid, std::uint16_t port) noexcept;

/// A unix socket that keeps messages apart, does not block and is closed by exec; or none, with
/// errno set.
descriptor make_local_socket() noexcept;

/// Whether the other end is a process of the same user: anyone may connect to an abstract name, or
/// take it first.
bool is_same_user(int socket) noexcept;

/// As send(2), with a descriptor.
ssize_t send_with_descriptor(int socket, std::span<const std::byte> bytes, int with) noexcept;

/// The descriptors that came with a message.
enum class attached
{
  none,
  one,
  several, ///< all are closed
  lost,    ///< this process has no room for them
};

/// As recv(2), with the descriptor of the message.
ssize_t receive_with_descriptor(
  int socket, std::span<std::byte> bytes, descriptor& with, attached& count) noexcept;

/// Returns true if the memory behind the descriptor has all of these seals (F_SEAL_*).
/** False for a file that can have none, for which F_GET_SEALS fails. */
bool has_seals(const descriptor& fd, int wanted) noexcept;

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_SOCKET_HPP
