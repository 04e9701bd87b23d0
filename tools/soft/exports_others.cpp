//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "soft/exports.hpp"

#include "verbs/software/foreign/exports.hpp"

// Functions that programs call and the library does not: see verbs/software/foreign/exports.hpp.
// The other public functions of libibverbs need no replacement: they convert numbers and
// structures, read kernel files or serve drivers, and take no objects.

using namespace rdma::soft;
namespace software = rdma::software;

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

// The processor may be unable to reach a DMA buffer's bytes.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t, std::size_t, std::uint64_t, int, int)
{
  return refuse<ibv_mr>(ours(pd) ? EOPNOTSUPP : EINVAL);
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
