//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_GID_CHOICE_HPP
#define BOOST_RDMA_LIB_RESOURCE_GID_CHOICE_HPP

#include "boost_rdma/device.hpp"
#include "boost_rdma/error.hpp"

#include <boost/asio/ip/address.hpp>

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace rdma::detail {

// A used entry of a port's GID table.
struct gid_entry
{
  std::uint8_t port = 1;
  bool active = true; // state of the port
  std::uint8_t index = 0;
  rdma::wire wire = rdma::wire::roce_v2; // or roce_v1 or infiniband
  ::ibv_gid gid{};
  std::uint32_t interface_index = 0;               // of the network interface; 0 if unknown
  std::optional<boost::asio::ip::address> address; // none for InfiniBand
};

// Returns the IP address of a RoCE GID (IBTA Annex A17.4.5.2), or nullopt for an empty GID.
std::optional<boost::asio::ip::address> address_of(const ::ibv_gid& gid);

// Chooses the GID, and with it the port, for a peer that this side reaches from address `local`:
// 1. A GID of exactly that address.
// 2. Otherwise the GID that most peers reach, if the address does not identify a network: there is
//    none, it is loopback, or GIDs are not addresses (InfiniBand).
// 3. Otherwise none, and `ec` is error::no_local_gid. A GID of another network would send the
//    traffic to a network where the peer is not.
// `any_route` is true for devices that send by the host's routes whatever the GID is, such as the
// software device; rule 2 then always applies.
std::optional<gid_entry> choose_gid(const std::vector<gid_entry>& table,
  const std::optional<boost::asio::ip::address>& local, bool any_route, error_code& ec);

// Returns the largest path MTU (IBA) for RoCE packets on a network interface with this MTU, or 0 if
// even the smallest does not fit.
std::uint32_t roce_path_mtu(std::uint32_t interface_mtu) noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_GID_CHOICE_HPP
