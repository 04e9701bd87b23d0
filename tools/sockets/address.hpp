//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_ADDRESS_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_ADDRESS_HPP

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace rdma::sockets {

/// An IPv6 address; those of IPv4 are mapped (RFC 4291, 2.5.5.2).
using ip_address = std::array<std::uint8_t, 16>;

inline ip_address mapped(in_addr from) noexcept
{
  ip_address to{};
  to[10] = to[11] = 0xff;
  std::memcpy(&to[12], &from, sizeof from);
  return to;
}

inline ip_address ip_of(const sockaddr& from) noexcept
{
  ip_address to{};
  if (from.sa_family == AF_INET)
    return mapped(reinterpret_cast<const sockaddr_in&>(from).sin_addr);
  if (from.sa_family == AF_INET6)
    std::memcpy(to.data(), &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr, to.size());
  return to;
}

inline std::uint16_t port_of(const sockaddr& from) noexcept
{
  // sin_port and sin6_port are at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in&>(from).sin_port);
}

/// Returns "127.0.0.1:80" or "[::1]:80", or "-" without an address.
inline std::string text_of(const sockaddr& from)
{
  if (from.sa_family != AF_INET && from.sa_family != AF_INET6)
    return "-";
  const ip_address ip = ip_of(from);
  in6_addr v6;
  std::memcpy(&v6, ip.data(), sizeof v6);
  char text[INET6_ADDRSTRLEN] = "";
  const bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6);
  if (is_v4)
    ::inet_ntop(AF_INET, &ip[12], text, sizeof text);
  else
    ::inet_ntop(AF_INET6, &v6, text, sizeof text);
  return (is_v4 ? std::string(text) : '[' + std::string(text) + ']') + ':'
    + std::to_string(port_of(from));
}

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_ADDRESS_HPP
