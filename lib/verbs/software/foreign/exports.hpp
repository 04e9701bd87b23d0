//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_EXPORTS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_EXPORTS_HPP

#include "verbs/api.hpp" // verbs.h, without the macros that would rewrite these names
#include "verbs/software/objects/address_handle.hpp"
#include "verbs/software/objects/memory.hpp"

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

// The functions of libibverbs that programs call and this library does not, so that verbs::api does
// not contain them. The manual page of ibv_NAME describes each. Those for memory regions and
// address handles are declared with their objects.

namespace rdma::software {

// --- devices and ports ---

int get_device_index(ibv_device* device);
int get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey);
/// _ibv_query_gid_table(): the number of entries, or a negative errno.
ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* to, std::size_t most,
  std::uint32_t flags, std::size_t entry_size);
/// A private function of libibverbs, which ibv_devinfo calls. `type`: 0 is IB or RoCE v1, 1 is RoCE
/// v2.
int query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type);
int resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attributes,
  std::uint8_t mac[ETHERNET_LL_SIZE], std::uint16_t* vlan);
const char* node_type_str(ibv_node_type type);
const char* port_state_str(ibv_port_state state);
int fork_init();
ibv_fork_status is_fork_initialized();

// --- memory ---

/// EOPNOTSUPP: a DMA buffer's bytes need not be reachable by the processor.
ibv_mr* reg_dmabuf_mr(
  ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd, int access);
// --- queue pairs ---

/// Returns null, unless the queue pair was created by ibv_create_qp_ex() with
/// IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
ibv_qp_ex* qp_to_qp_ex(ibv_qp* qp);
int query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode op, std::uint32_t flags);
// All four return EOPNOTSUPP: no multicast, no options to negotiate.
int attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
int detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
int set_ece(ibv_qp* qp, ibv_ece* ece);
int query_ece(ibv_qp* qp, ibv_ece* ece);

// --- objects of other processes: EOPNOTSUPP, as they live in a kernel driver's file ---

ibv_context* import_device(int fd);
ibv_pd* import_pd(ibv_context* context, std::uint32_t handle);
void unimport_pd(ibv_pd* pd);
ibv_mr* import_mr(ibv_pd* pd, std::uint32_t handle);
void unimport_mr(ibv_mr* mr);
ibv_dm* import_dm(ibv_context* context, std::uint32_t handle);
void unimport_dm(ibv_dm* dm);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_EXPORTS_HPP
