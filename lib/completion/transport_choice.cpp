//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/transport_choice.hpp"

#include "resource/gid_choice.hpp"

#include <algorithm>
#include <iterator>

namespace rdma {
namespace {

// The address that a GID stands for, or the GID as IPv6 writes it.
std::string gid_text(const std::array<std::uint8_t, 16>& bytes)
{
  ibv_gid gid{};
  std::copy(bytes.begin(), bytes.end(), std::begin(gid.raw));
  const auto address = detail::address_of(gid);
  return address ? address->to_string() : boost::asio::ip::address_v6(bytes).to_string();
}

} // namespace

std::string transport_choice::text() const
{
  std::string result(name_of(wire));
  if (wire != rdma::wire::socket)
    result += ", " + device + " to " + (peer_device.empty() ? "unnamed device" : peer_device) + ", "
      + gid_text(gid) + " to " + gid_text(peer_gid) + ", MTU " + std::to_string(path_mtu);
  for (const declined_transport& each : declined)
    result += "; not " + each.transport + ": " + each.reason;
  if (wire == rdma::wire::shared_memory)
    result += "; memory of pools and regions is accessed directly, other memory is copied";
  return result;
}

} // namespace rdma
