//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_ADDRESS_HANDLE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_ADDRESS_HANDLE_HPP

#include "verbs/software/wire/socket.hpp"
#include "verbs/software/wire/udp_port.hpp"

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace rdma::software {

/// The destination of datagrams, and the address of this device that they come from.
struct address_handle : ibv_ah
{
  wire::address to; ///< its port is each request's
  wire::route_options route;
  std::uint8_t gid_index = 0;
};

/// Bytes in front of a datagram in its receive buffer (IBA 11.4.1.2).
inline constexpr std::size_t route_header_size = 40;

/// Returns true for an IPv4 address mapped to IPv6 (RFC 4291, 2.5.5.2).
bool is_ipv4(const ibv_gid& gid) noexcept;

/// Writes the header in front of a datagram's payload in its receive buffer (IBA 11.4.1.2, RoCEv2:
/// Annex A17.4.5.2).
/** The global route header, or for IPv4 20 zero bytes and an IPv4 header. `payload`: bytes behind
 * it. */
void write_route_header(const ibv_gid& from, const ibv_gid& to, const wire::route& by,
  std::uint16_t payload, std::byte (&header)[route_header_size]) noexcept;

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes);
int destroy_ah(ibv_ah* ah);
int init_ah_from_wc(
  ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* to);
ibv_ah* create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_ADDRESS_HANDLE_HPP
