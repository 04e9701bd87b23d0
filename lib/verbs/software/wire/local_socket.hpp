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

/// Returns true if an address belongs to this host (exactly: to this network namespace).
bool is_of_this_host(const ibv_gid& gid) noexcept;

/// Returns the abstract name (unix(7)) "boost_rdma/" followed by this text, of which 64 characters
/// are used.
address to_abstract_address(std::string_view text) noexcept;

/// Returns the name at which the device with this address and port accepts connections of its own
/// host.
/**
 * An abstract name (unix(7)) belongs to the network namespace, as the port does, and leaves no file
 * behind.
 */
address to_local_address(const ibv_gid& gid, std::uint16_t port) noexcept;

/// Returns a non-blocking close-on-exec SOCK_SEQPACKET socket; or none, with errno set.
descriptor make_local_socket() noexcept;

/// Returns true if the other end is a process of the same user. Required because any user can
/// connect to an abstract name, or bind it first.
bool is_same_user(int socket) noexcept;

/// Does the same as send(2), with a descriptor.
ssize_t send_with_descriptor(int socket, std::span<const std::byte> bytes, int with) noexcept;

/// The descriptors that arrived with a message.
enum class attached
{
  none,
  one,
  several, ///< all have been closed
  lost,    ///< this process has no free descriptor
};

/// Does the same as recv(2), and stores the descriptor of the message.
ssize_t receive_with_descriptor(
  int socket, std::span<std::byte> bytes, descriptor& with, attached& count) noexcept;

/// Returns true if the memory behind the descriptor has all of these seals (F_SEAL_*).
/** Returns false for a file that cannot have seals, for which F_GET_SEALS fails. */
bool has_seals(const descriptor& fd, int wanted) noexcept;

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_SOCKET_HPP
