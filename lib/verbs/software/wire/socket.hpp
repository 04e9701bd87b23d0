//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SOCKET_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SOCKET_HPP

#include "verbs/descriptor.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include <sys/socket.h>

namespace rdma::software::wire {

using rdma::detail::descriptor;

/// A socket address, IPv4, IPv6 or unix.
struct address
{
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Returns the address of a GID: IPv4 for an IPv4-mapped one.
address to_address(const ibv_gid& gid, std::uint16_t port) noexcept;

/// Returns the GID of an address.
ibv_gid to_gid(const address& from) noexcept;

inline ibv_gid to_gid(const std::array<std::uint8_t, 16>& from) noexcept
{
  ibv_gid gid;
  std::copy(from.begin(), from.end(), gid.raw);
  return gid;
}

/// Returns a non-blocking close-on-exec TCP socket with TCP_NODELAY; or none, with errno set.
descriptor make_socket(int family) noexcept;

void set_no_delay(int fd) noexcept;

/// Selects a congestion control without pacing or bandwidth probing, for a connection within the
/// host.
void set_no_pacing(int fd) noexcept;

/// The fields of a global route header that a program chooses (IBA 8.3); 0: the host's default.
struct route
{
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;

  bool operator==(const route&) const = default;
};

/// Sets the route of the packets that a socket sends.
void set_route(int fd, const route& to) noexcept;

/// Returns the time of the monotonic clock, in nanoseconds.
std::int64_t now() noexcept;

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SOCKET_HPP
