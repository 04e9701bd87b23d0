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

enum class gid_kind : std::uint8_t
{
  infiniband, // stands for no IP address
  roce_v1,    // reaches its own link only
  roce_v2,
};

wire wire_of(gid_kind kind) noexcept;

// A place of a port's GID table that is taken.
struct gid_entry
{
  std::uint8_t port = 1;
  bool active = true; // the port is
  std::uint8_t index = 0;
  gid_kind kind = gid_kind::roce_v2;
  ::ibv_gid gid{};
  std::uint32_t interface_index = 0; // of the network interface; 0 where that is not known
  std::optional<boost::asio::ip::address> address; // none for InfiniBand
};

// The IP address that a RoCE GID stands for (IBTA Annex A17.4.5.2); none for an empty GID.
std::optional<boost::asio::ip::address> address_of(const ::ibv_gid& gid);

// The GID, and with it the port, by which a peer reaches this side that reaches `local`.
//
// One of that very address, if there is one. Else, where the address can say nothing about networks
// (there is none, or it is loopback, or GIDs are no addresses, as on InfiniBand) the GID that most
// others reach. Else none, and `ec` is error::no_local_gid: another network's GID would carry
// traffic where nobody looks for it, or nowhere. `any_route` says that the device sends by the
// host's routes, whatever the GID, as the software device does.
std::optional<gid_entry> choose_gid(const std::vector<gid_entry>& table,
  const std::optional<boost::asio::ip::address>& local, bool any_route, error_code& ec);

// Bytes of the largest RoCE packet's payload on a network interface with this MTU: a path MTU of
// IBA, or 0 when not even the smallest fits.
std::uint32_t roce_path_mtu(std::uint32_t interface_mtu) noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_GID_CHOICE_HPP
