//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/gid_choice.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace rdma::detail {

namespace ip = boost::asio::ip;

namespace {

// Returns the address in the form that GIDs have: IPv4 instead of IPv4-mapped IPv6, and without a
// scope.
ip::address plain(const ip::address& address)
{
  if (!address.is_v6())
    return address;
  const ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped())
    return ip::make_address_v4(ip::v4_mapped, v6);
  return ip::address_v6(v6.to_bytes());
}

bool belongs(const gid_entry& entry, const ip::address& local)
{
  if (!entry.address || *entry.address != plain(local))
    return false;
  // Link-local addresses are unique per interface only.
  const unsigned long scope = local.is_v6() ? local.to_v6().scope_id() : 0;
  return scope == 0 || entry.interface_index == 0 || scope == entry.interface_index;
}

bool is_link_local(const gid_entry& entry)
{
  return entry.address && entry.address->is_v6() && entry.address->to_v6().is_link_local();
}

// A larger tuple is better. A port that is down carries no traffic. RoCE v1 does not leave its
// link. Link-local and loopback addresses reach few peers. IPv4 comes before IPv6 so that both
// sides choose alike, unless the address in use is IPv6.
auto rank(const gid_entry& entry, bool prefer_v6)
{
  return std::make_tuple(entry.active, entry.wire != wire::roce_v1, !is_link_local(entry),
    !(entry.address && entry.address->is_loopback()),
    entry.address && entry.address->is_v6() == prefer_v6, -static_cast<int>(entry.port),
    -static_cast<int>(entry.index));
}

} // namespace

std::optional<ip::address> address_of(const ::ibv_gid& gid)
{
  ip::address_v6::bytes_type bytes;
  std::copy(std::begin(gid.raw), std::end(gid.raw), bytes.begin());
  const ip::address_v6 v6(bytes);
  if (v6.is_unspecified())
    return std::nullopt;
  return plain(v6);
}

std::optional<gid_entry> choose_gid(const std::vector<gid_entry>& table,
  const std::optional<ip::address>& local, bool any_route, error_code& ec)
{
  ec = {};
  const bool known = local && !plain(*local).is_unspecified();
  const bool prefer_v6 = known && plain(*local).is_v6();
  const gid_entry* exact = nullptr;
  const gid_entry* best = nullptr;
  bool addressed = false;
  for (const gid_entry& entry : table)
  {
    // Ports that are down are ignored: they may be the other port of an adapter for both InfiniBand
    // and Ethernet.
    addressed = addressed || (entry.active && entry.wire != wire::infiniband);
    if (best == nullptr || rank(entry, prefer_v6) > rank(*best, prefer_v6))
      best = &entry;
    if (known && belongs(entry, *local)
      && (exact == nullptr || rank(entry, prefer_v6) > rank(*exact, prefer_v6)))
      exact = &entry;
  }
  if (exact != nullptr)
    return *exact;
  // The peer of a loopback address is on this host and reaches any address of the device.
  const bool indifferent = !known || plain(*local).is_loopback() || !addressed || any_route;
  if (best != nullptr && indifferent)
    return *best;
  ec = error::no_local_gid;
  return std::nullopt;
}

std::uint32_t roce_path_mtu(std::uint32_t interface_mtu) noexcept
{
  // GRH or IPv6 40, UDP 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4, as in the kernel's iboe_get_mtu.
  constexpr std::uint32_t headers = 40 + 8 + 12 + 4 + 28 + 4;
  std::uint32_t result = 0;
  for (const std::uint32_t mtu : {256u, 512u, 1024u, 2048u, 4096u})
    if (interface_mtu >= mtu + headers)
      result = mtu;
  return result;
}

} // namespace rdma::detail
