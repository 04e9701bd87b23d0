//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/foreign/exports.hpp"

#include "verbs/software/objects/context.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

// Queries of the device and its port, and functions that this device does not support.

namespace rdma::software {
namespace {

template <class T>
T* not_supported() noexcept
{
  errno = EOPNOTSUPP;
  return nullptr;
}

} // namespace

int get_device_index(ibv_device*)
{
  return -1; // the kernel does not know this device
}

int get_pkey_index(ibv_context*, std::uint8_t port, __be16 pkey)
{
  return port == port_number && pkey == 0xffff ? 0 : -1; // the default partition is all there is
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* to, std::size_t most,
  std::uint32_t flags, std::size_t entry_size)
{
  if (flags != 0 || entry_size < sizeof(ibv_gid_entry))
    return flags != 0 ? -EOPNOTSUPP : -EINVAL;
  const std::size_t count = std::min(most, device_context::of(context).gids.size());
  for (std::size_t i = 0; i < count; ++i)
  {
    // The caller's entries may be larger than ibv_gid_entry here.
    auto* const at = reinterpret_cast<std::byte*>(to) + i * entry_size;
    ibv_gid_entry entry;
    if (const int error = query_gid_ex(
          context, port_number, static_cast<std::uint32_t>(i), &entry, 0, sizeof entry);
        error != 0)
      return -error;
    std::memset(at, 0, entry_size);
    std::memcpy(at, &entry, sizeof entry);
  }
  return static_cast<ssize_t>(count);
}

int query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type)
{
  ibv_gid_entry entry;
  if (query_gid_ex(context, port, index, &entry, 0, sizeof entry) != 0)
  {
    errno = EINVAL;
    return -1;
  }
  *type = 1;
  return 0;
}

// The addresses are those of sockets, without Ethernet addresses.
int resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t*, std::uint16_t*)
{
  return EOPNOTSUPP;
}

const char* node_type_str(ibv_node_type type)
{
  static constexpr std::array texts{"unknown", "InfiniBand channel adapter", "InfiniBand switch",
    "InfiniBand router", "iWARP NIC", "usNIC", "usNIC UDP", "unspecified"};
  const auto index = static_cast<std::size_t>(type);
  return index < texts.size() ? texts[index] : texts[0];
}

const char* port_state_str(ibv_port_state state)
{
  static constexpr std::array texts{"no state change (NOP)", "PORT_DOWN", "PORT_INIT", "PORT_ARMED",
    "PORT_ACTIVE", "PORT_ACTIVE_DEFER"};
  const auto index = static_cast<std::size_t>(state);
  return index < texts.size() ? texts[index] : "unknown";
}

// Nothing is pinned: registered memory may be copied on write like any other.
int fork_init()
{
  return 0;
}
ibv_fork_status is_fork_initialized()
{
  return IBV_FORK_UNNEEDED;
}

ibv_mr* reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int)
{
  return not_supported<ibv_mr>();
}

// One thread copies a message's bytes in order, but memcpy() may write them in any order.
int query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t)
{
  return 0;
}

int attach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t)
{
  return EOPNOTSUPP;
}
int detach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t)
{
  return EOPNOTSUPP;
}
int set_ece(ibv_qp*, ibv_ece*)
{
  return EOPNOTSUPP;
}
int query_ece(ibv_qp*, ibv_ece*)
{
  return EOPNOTSUPP;
}

ibv_context* import_device(int)
{
  return not_supported<ibv_context>();
}
ibv_pd* import_pd(ibv_context*, std::uint32_t)
{
  return not_supported<ibv_pd>();
}
void unimport_pd(ibv_pd*) {} // there are no imported ones
ibv_mr* import_mr(ibv_pd*, std::uint32_t)
{
  return not_supported<ibv_mr>();
}
void unimport_mr(ibv_mr*) {}
ibv_dm* import_dm(ibv_context*, std::uint32_t)
{
  return not_supported<ibv_dm>();
}
void unimport_dm(ibv_dm*) {}

} // namespace rdma::software
