//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/address_handle.hpp"

#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/memory.hpp"
#include "verbs/software/protocol/bytes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

namespace rdma::software {
namespace {

constexpr std::size_t ipv4_offset = 20; // of the last 20 bytes of 40
constexpr std::uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::uint8_t next_is_udp = 17;

// RFC 1071. The result is zero for a header that contains its checksum.
std::uint16_t checksum(const std::byte* header) noexcept
{
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2)
    sum += static_cast<std::uint32_t>(header[i]) << 8 | static_cast<std::uint32_t>(header[i + 1]);
  while (sum >> 16 != 0)
    sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

ibv_gid mapped(const std::byte* address) noexcept
{
  ibv_gid gid;
  std::memcpy(gid.raw, mapped_prefix, sizeof mapped_prefix);
  std::memcpy(gid.raw + sizeof mapped_prefix, address, 4);
  return gid;
}

} // namespace

bool is_ipv4(const ibv_gid& gid) noexcept
{
  return std::memcmp(gid.raw, mapped_prefix, sizeof mapped_prefix) == 0;
}

void write_route_header(const ibv_gid& from, const ibv_gid& to, const wire::route& by,
  std::uint16_t payload, std::byte (&header)[route_header_size]) noexcept
{
  std::fill(std::begin(header), std::end(header), std::byte{0});
  if (!is_ipv4(from))
  {
    protocol::byte_writer out(header);
    out.put(6u << 28 | static_cast<std::uint32_t>(by.traffic_class) << 20, 4);
    out.put(payload, 2);
    out.put(next_is_udp, 1);
    out.put(by.hop_limit, 1);
    std::memcpy(header + 8, from.raw, 16);
    std::memcpy(header + 24, to.raw, 16);
    return;
  }
  std::byte* const at = header + ipv4_offset;
  protocol::byte_writer out(at);
  out.put(0x45, 1); // version 4, five words
  out.put(by.traffic_class, 1);
  out.put(20u + payload, 2);
  out.put(0, 2);
  out.put(0x4000, 2); // do not fragment
  out.put(by.hop_limit, 1);
  out.put(next_is_udp, 1);
  out.put(0, 2);
  std::memcpy(at + 12, from.raw + 12, 4);
  std::memcpy(at + 16, to.raw + 12, 4);
  protocol::byte_writer(at + 10).put(checksum(at), 2);
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes)
{
  device_context& owner = device_context::of(pd->context);
  // As for a queue pair that goes to RTR: by GID. The port follows from the number in each request.
  const bool good = attributes->is_global != 0 && attributes->port_num == 1
    && attributes->grh.sgid_index < owner.gids.size()
    && is_ipv4(attributes->grh.dgid) == is_ipv4(owner.gids[attributes->grh.sgid_index]);
  if (owner.removed || !good)
    return fail(owner.removed ? EIO : EINVAL);
  object_place place(owner.address_handles);
  std::unique_ptr<address_handle> made(new (std::nothrow) address_handle);
  if (!place || !made)
    return fail(ENOMEM);
  place.keep();
  made->context = pd->context;
  made->pd = pd;
  made->handle = 0;
  made->to = wire::to_address(attributes->grh.dgid, 0);
  made->route = wire::route_options(
    {attributes->grh.traffic_class, attributes->grh.hop_limit}, made->to.storage.ss_family);
  made->gid_index = attributes->grh.sgid_index;
  static_cast<protection_domain*>(pd)->users.fetch_add(1, std::memory_order_relaxed);
  return made.release();
}

int destroy_ah(ibv_ah* ah)
{
  device_context::of(ah->context).address_handles.give_back();
  static_cast<protection_domain*>(ah->pd)->users.fetch_sub(1, std::memory_order_release);
  delete static_cast<address_handle*>(ah);
  return 0;
}

int init_ah_from_wc(
  ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* to)
{
  *to = {};
  to->dlid = wc->slid;
  to->sl = wc->sl;
  to->src_path_bits = wc->dlid_path_bits;
  to->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0)
    return 0;
  // Untrusted: the bytes lie in the program's buffer.
  std::byte header[route_header_size];
  std::memcpy(header, grh, sizeof header);
  const std::byte* const v4 = header + ipv4_offset;
  ibv_gid mine;
  if ((header[0] >> 4) == std::byte{6})
  {
    std::memcpy(to->grh.dgid.raw, header + 8, 16);
    std::memcpy(mine.raw, header + 24, 16);
    to->grh.flow_label = protocol::byte_reader(header).get32() & 0xfffff;
    to->grh.traffic_class = static_cast<std::uint8_t>(protocol::byte_reader(header).get32() >> 20);
  }
  else if (v4[0] == std::byte{0x45} && checksum(v4) == 0)
  {
    to->grh.dgid = mapped(v4 + 12);
    mine = mapped(v4 + 16);
    to->grh.traffic_class = static_cast<std::uint8_t>(v4[1]);
  }
  else
    return fail_call(EPROTONOSUPPORT);
  const auto& gids = device_context::of(context).gids;
  const auto found = std::find_if(gids.begin(), gids.end(),
    [&](const ibv_gid& gid) { return std::memcmp(gid.raw, mine.raw, sizeof mine.raw) == 0; });
  if (found == gids.end())
    return fail_call(EINVAL);
  to->is_global = 1;
  to->grh.sgid_index = static_cast<std::uint8_t>(found - gids.begin());
  to->grh.hop_limit = 0xff;
  return 0;
}

ibv_ah* create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port)
{
  ibv_ah_attr attributes;
  return init_ah_from_wc(pd->context, port, wc, grh, &attributes) == 0 ? create_ah(pd, &attributes)
                                                                       : nullptr;
}

} // namespace rdma::software
