//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "soft/exports.hpp"

#include "verbs/software/foreign/exports.hpp"

#include <fstream>
#include <new>
#include <string>

// Functions that programs call and the library does not: see verbs/software/foreign/exports.hpp.
// The functions of libibverbs for drivers and for librdmacm are missing: they take no objects.

using namespace rdma::soft;
namespace software = rdma::software;

namespace {

struct rate
{
  ibv_rate name;
  int multiple; ///< of 2.5 Gbit/s, rounded down as in libibverbs; -1: not defined there
  int mbps;
};

// IBTA vol. 1, 9.11 (static rate) and the lanes' signalling rates.
constexpr rate rates[] = {
  {IBV_RATE_2_5_GBPS, 1, 2500},
  {IBV_RATE_5_GBPS, 2, 5000},
  {IBV_RATE_10_GBPS, 4, 10000},
  {IBV_RATE_14_GBPS, -1, 14062},
  {IBV_RATE_20_GBPS, 8, 20000},
  {IBV_RATE_25_GBPS, -1, 25781},
  {IBV_RATE_28_GBPS, 11, 28125},
  {IBV_RATE_30_GBPS, 12, 30000},
  {IBV_RATE_40_GBPS, 16, 40000},
  {IBV_RATE_50_GBPS, 20, 53125},
  {IBV_RATE_56_GBPS, -1, 56250},
  {IBV_RATE_60_GBPS, 24, 60000},
  {IBV_RATE_80_GBPS, 32, 80000},
  {IBV_RATE_100_GBPS, -1, 103125},
  {IBV_RATE_112_GBPS, -1, 112500},
  {IBV_RATE_120_GBPS, 48, 120000},
  {IBV_RATE_168_GBPS, -1, 168750},
  {IBV_RATE_200_GBPS, -1, 206250},
  {IBV_RATE_300_GBPS, -1, 309375},
  {IBV_RATE_400_GBPS, 160, 425000},
  {IBV_RATE_600_GBPS, 240, 637500},
  {IBV_RATE_800_GBPS, 320, 850000},
  {IBV_RATE_1200_GBPS, 480, 1275000},
};

ibv_rate rate_of(int rate::*member, int wanted)
{
  for (const rate& each : rates)
    if (each.*member == wanted && wanted > 0)
      return each.name;
  return IBV_RATE_MAX;
}

int value_of(int rate::*member, ibv_rate wanted)
{
  for (const rate& each : rates)
    if (each.name == wanted)
      return each.*member;
  return -1;
}

} // namespace

extern "C" {

// --- devices and ports ---

int ibv_get_device_index(ibv_device*)
{
  return -1; // the kernel does not know this device
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey)
{
  return ours(context) ? software::get_pkey_index(context, port, pkey) : refuse(EINVAL);
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* to, std::size_t most,
  std::uint32_t flags, std::size_t entry_size)
{
  return ours(context) ? software::query_gid_table(context, to, most, flags, entry_size) : -EINVAL;
}

// The addresses are those of sockets, without Ethernet addresses.
int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr*, std::uint8_t*, std::uint16_t*)
{
  return ours(context) ? EOPNOTSUPP : EINVAL;
}

// Nothing is pinned: registered memory may be copied on write like any other.
int ibv_fork_init()
{
  return 0;
}

ibv_fork_status ibv_is_fork_initialized()
{
  return IBV_FORK_UNNEEDED;
}

const char* ibv_node_type_str(ibv_node_type type)
{
  return software::node_type_str(type);
}

const char* ibv_port_state_str(ibv_port_state state)
{
  return software::port_state_str(state);
}

// Programs of rdma-core read files of /sys with these (infiniband/driver.h).

const char* ibv_get_sysfs_path()
{
  return "/sys";
}

int ibv_read_sysfs_file(const char* directory, const char* file, char* to, std::size_t size)
try
{
  std::ifstream from(std::string(directory) + '/' + file);
  from.read(to, static_cast<std::streamsize>(size));
  auto length = static_cast<std::size_t>(from.gcount());
  if (length == 0)
    return -1;
  if (to[length - 1] == '\n')
    to[--length] = '\0';
  else if (length < size)
    to[length] = '\0';
  return static_cast<int>(length);
}
catch (const std::bad_alloc&)
{
  return refuse(ENOMEM);
}

// Private functions of libibverbs, which no public header declares. ibv_devinfo calls the first
// one. Providers' libraries call the second one to open their own device by name
// (mlx5dv_open_device).

int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type)
{
  return ours(context) ? software::query_gid_type(context, port, index, type) : refuse(EINVAL);
}

ibv_context* verbs_open_device(ibv_device*, void*)
{
  return refuse<ibv_context>(EOPNOTSUPP);
}

// --- rates ---

int ibv_rate_to_mult(ibv_rate which)
{
  return value_of(&rate::multiple, which);
}

ibv_rate mult_to_ibv_rate(int multiple)
{
  return rate_of(&rate::multiple, multiple);
}

int ibv_rate_to_mbps(ibv_rate which)
{
  return value_of(&rate::mbps, which);
}

ibv_rate mbps_to_ibv_rate(int mbps)
{
  return rate_of(&rate::mbps, mbps);
}

// --- memory ---

ibv_mr* ibv_reg_mr_iova(
  ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access)
{
  return ours(pd) ? software::reg_mr_iova(pd, address, length, iova, access)
                  : refuse<ibv_mr>(EINVAL);
}

ibv_mr* ibv_reg_mr_iova2(
  ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access)
{
  return ours(pd) ? software::reg_mr_iova2(pd, address, length, iova, access)
                  : refuse<ibv_mr>(EINVAL);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
  int descriptor, int access)
{
  return ours(pd) ? software::reg_dmabuf_mr(pd, offset, length, iova, descriptor, access)
                  : refuse<ibv_mr>(EINVAL);
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access)
{
  if (ours(mr) && ((flags & IBV_REREG_MR_CHANGE_PD) == 0 || ours(pd)))
    return software::rereg_mr(mr, flags, pd, address, length, access);
  errno = EINVAL;
  return IBV_REREG_MR_ERR_INPUT;
}

// --- address handles ---

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes)
{
  return ours(pd) ? software::create_ah(pd, attributes) : refuse<ibv_ah>(EINVAL);
}

int ibv_destroy_ah(ibv_ah* ah)
{
  return ours(ah) ? software::destroy_ah(ah) : EINVAL;
}

int ibv_init_ah_from_wc(
  ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* to)
{
  return ours(context) ? software::init_ah_from_wc(context, port, wc, grh, to) : refuse(EINVAL);
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port)
{
  return ours(pd) ? software::create_ah_from_wc(pd, wc, grh, port) : refuse<ibv_ah>(EINVAL);
}

// --- queue pairs ---

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp)
{
  return ours(qp) ? software::qp_to_qp_ex(qp) : nullptr;
}

// One thread copies a message's bytes in order, but memcpy() may write them in any order.
int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t)
{
  return 0;
}

// No multicast, no options to negotiate.

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid*, std::uint16_t)
{
  return ours(qp) ? EOPNOTSUPP : EINVAL;
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid*, std::uint16_t)
{
  return ours(qp) ? EOPNOTSUPP : EINVAL;
}

int ibv_set_ece(ibv_qp* qp, ibv_ece*)
{
  return ours(qp) ? EOPNOTSUPP : EINVAL;
}

int ibv_query_ece(ibv_qp* qp, ibv_ece*)
{
  return ours(qp) ? EOPNOTSUPP : EINVAL;
}

// --- objects imported from other processes, which live in a kernel driver's file ---

ibv_context* ibv_import_device(int)
{
  return refuse<ibv_context>(EOPNOTSUPP);
}
ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t)
{
  return refuse<ibv_pd>(EOPNOTSUPP);
}
void ibv_unimport_pd(ibv_pd*) {}
ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t)
{
  return refuse<ibv_mr>(EOPNOTSUPP);
}
void ibv_unimport_mr(ibv_mr*) {}
ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t)
{
  return refuse<ibv_dm>(EOPNOTSUPP);
}
void ibv_unimport_dm(ibv_dm*) {}

} // extern "C"
