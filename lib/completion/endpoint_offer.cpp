//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "completion/endpoint_offer.hpp"

#include "resource/device_impl.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <iterator>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace rdma::detail {
namespace {

ibv_mtu mtu_of(std::uint32_t bytes)
{
  ibv_mtu result = IBV_MTU_256;
  while (result < IBV_MTU_4096 && bytes_of(static_cast<ibv_mtu>(result + 1)) <= bytes)
    result = static_cast<ibv_mtu>(result + 1);
  return result;
}

// Returns the path MTU of a GID's network interface: a VLAN's may be less than its port's.
std::uint32_t interface_path_mtu(std::uint32_t interface_index)
{
  constexpr std::uint32_t unknown = 4096;
  ifreq request{};
  if (interface_index == 0 || ::if_indextoname(interface_index, request.ifr_name) == nullptr)
    return unknown;
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool answered = fd >= 0 && ::ioctl(fd, SIOCGIFMTU, &request) == 0;
  if (fd >= 0)
    ::close(fd);
  const std::uint32_t mtu =
    answered && request.ifr_mtu > 0 ? static_cast<std::uint32_t>(request.ifr_mtu) : 0;
  return mtu != 0 ? std::max(roce_path_mtu(mtu), 256u) : unknown;
}

bool is_ipv4(const std::array<std::uint8_t, 16>& gid)
{
  return boost::asio::ip::address_v6(gid).is_v4_mapped();
}

std::string reason_of_no_gid(
  const std::optional<boost::asio::ip::address>& local, const std::vector<gid_entry>& table)
{
  std::string addresses;
  for (const gid_entry& entry : table)
    if (entry.address)
      addresses += (addresses.empty() ? "" : ", ") + entry.address->to_string() + " by "
        + std::string(name_of(entry.wire));
  return "the local address is " + (local ? local->to_string() : "not given")
    + (addresses.empty() ? "; the device has no addresses" : "; the device has " + addresses);
}

// Returns the name of an option that does not fit into its field of a packet or of a queue pair's
// context; null if there is none.
const char* option_out_of_range(const queue_pair_options& options)
{
  constexpr std::uint8_t counts_max = 7; // 3 bits (IBA 12.7.38, 12.7.39)
  constexpr std::uint8_t times_max = 31; // 5 bits (IBA 9.7.5.2.8, 12.7.34)
  return options.retry_count > counts_max  ? "retry_count"
    : options.rnr_retry_count > counts_max ? "rnr_retry_count"
    : options.min_rnr_timer > times_max    ? "min_rnr_timer"
    : options.timeout > times_max          ? "timeout"
                                           : nullptr;
}

} // namespace

endpoint_identity make_identity(std::uint32_t queue_pair_number, error_code& ec)
{
  endpoint_identity result;
  result.queue_pair_number = queue_pair_number;
  // getrandom(2) returns up to 256 bytes at once.
  if (::getrandom(&result.packet_sequence_number, sizeof result.packet_sequence_number, 0) < 0
    || ::getrandom(result.nonce.data(), result.nonce.size(), 0) < 0)
    ec = last_verbs_error();
  result.packet_sequence_number &= 0xffffff;
  return result;
}

endpoint_offer make_offer(const device_impl& device, const queue_pair_options& options,
  const endpoint_identity& identity, const std::optional<boost::asio::ip::address>& address,
  wire by, error_code& ec, std::string& lacking)
{
  if (device.traits().connection_manager_only)
  {
    ec = boost::asio::error::operation_not_supported;
    lacking = "an iWARP device connects by RDMA-CM only (rdma::cm::async_connect)";
    return {};
  }
  if (const char* name = option_out_of_range(options))
  {
    ec = boost::asio::error::invalid_argument;
    lacking = "queue_pair_options::" + std::string(name) + " is out of range";
    return {};
  }
  endpoint_offer result;
  result.address = options.local_address ? options.local_address : address;
  const auto gid = device.find_gid(result.address, by, ec);
  const auto port = gid ? device.query_port(gid->port) : std::nullopt;
  if (!gid || !port)
  {
    if (!ec)
      ec = device.why(error::no_device);
    lacking = reason_of_no_gid(result.address, device.gids());
    return {};
  }
  result.gid_index = gid->index;
  result.port = gid->port;
  result.by_ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
  endpoint_description& own = result.description;
  own.kind = device.kind();
  std::copy(std::begin(gid->gid.raw), std::end(gid->gid.raw), own.gid.begin());
  own.lid = port->lid;
  own.queue_pair_number = identity.queue_pair_number;
  own.packet_sequence_number = identity.packet_sequence_number;
  own.nonce = identity.nonce;
  own.path_mtu = std::min(bytes_of(port->active_mtu), bytes_of(mtu_of(options.path_mtu_max)));
  // The software device cuts no frames by it.
  if (own.kind == device_kind::nic)
    own.path_mtu = std::min(own.path_mtu, interface_path_mtu(gid->interface_index));
  own.read_atomic_depth = options.read_atomic_depth;
  own.wire = device.wire_by(*gid);
  own.timeout = options.timeout;
  own.receive_depth = options.receives ? 0 : options.receive_depth;
  own.send_depth = options.send_depth;
  own.retry_count = options.retry_count;
  own.rnr_retry_count = options.rnr_retry_count;
  own.min_rnr_timer = options.min_rnr_timer;
  own.features = features_of(device);
  own.device = device.name();
  return result;
}

error_code check_peer(const endpoint_offer& own, const endpoint_description& remote)
{
  const endpoint_description& local = own.description;
  if (own.port == 0)
    return error::not_connected; // the peer needs the result of local_endpoint()
  if (remote.kind != local.kind)
    return error::no_common_transport;
  // RoCE v2 uses IPv4 or IPv6, by both GIDs (IBTA Annex A17). The kernel would report EINVAL.
  if (local.kind == device_kind::nic && own.by_ethernet
    && is_ipv4(remote.gid) != is_ipv4(local.gid))
    return error::other_address_family;
  if (remote.wire != wire::unknown && local.wire != wire::unknown && remote.wire != local.wire)
    return error::no_common_transport;
  return {};
}

ibv_qp_attr ready_attributes(const endpoint_offer& own, const endpoint_description& remote)
{
  ibv_qp_attr result{};
  result.qp_state = IBV_QPS_RTR;
  result.path_mtu = mtu_of(std::min(own.description.path_mtu, remote.path_mtu));
  result.dest_qp_num = remote.queue_pair_number;
  result.rq_psn = remote.packet_sequence_number;
  result.max_dest_rd_atomic = own.description.read_atomic_depth;
  result.min_rnr_timer = own.description.min_rnr_timer;
  result.ah_attr.port_num = own.port;
  result.ah_attr.dlid = remote.lid;
  // RoCE addresses by GID; on InfiniBand a LID is enough within the subnet (IBA 8.3).
  result.ah_attr.is_global = own.by_ethernet ? 1 : 0;
  std::copy(remote.gid.begin(), remote.gid.end(), std::begin(result.ah_attr.grh.dgid.raw));
  result.ah_attr.grh.sgid_index = own.gid_index;
  result.ah_attr.grh.hop_limit = 64;
  return result;
}

ibv_qp_attr send_attributes(const endpoint_offer& own, const endpoint_description& remote)
{
  const endpoint_description& local = own.description;
  ibv_qp_attr result{};
  result.qp_state = IBV_QPS_RTS;
  result.sq_psn = local.packet_sequence_number;
  result.timeout = longer_timeout(local.timeout, remote.timeout);
  result.retry_cnt = local.retry_count;
  result.rnr_retry = local.rnr_retry_count;
  result.max_rd_atomic = std::min(local.read_atomic_depth, remote.read_atomic_depth);
  return result;
}

std::uint64_t features_of(const device_impl& device)
{
  std::uint64_t result = 0;
  if (device.attributes().atomic_cap != IBV_ATOMIC_NONE)
    result |= device_features::atomics;
  if (device.has_windows())
    result |= device_features::memory_windows;
  if (!device.traits().no_immediate_data)
    result |= device_features::immediate_data;
  return result;
}

std::uint8_t longer_timeout(std::uint8_t a, std::uint8_t b)
{
  return a == 0 || b == 0 ? 0 : std::max(a, b);
}

std::uint32_t bytes_of(ibv_mtu mtu)
{
  return 128u << static_cast<unsigned>(mtu);
}

} // namespace rdma::detail
