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

// The verbs that programs call and this library does not. The manual page of ibv_NAME describes
// each. Those for memory regions and address handles are declared with their objects.

namespace rdma::software {

// --- reached through verbs_context ---

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* with);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* with);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* with);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* with);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* with);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
  ibv_device_attr_ex* to, std::size_t size);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

// --- functions of libibverbs ---

int get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey);

/// _ibv_query_gid_table(): the number of entries, or a negative errno.
ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* to, std::size_t most,
  std::uint32_t flags, std::size_t entry_size);

/// A private function of libibverbs, which ibv_devinfo calls. `type`: 0 is IB or RoCE v1, 1 is RoCE
/// v2.
int query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type);

const char* node_type_str(ibv_node_type type);
const char* port_state_str(ibv_port_state state);

/// Returns null, unless the queue pair was created by ibv_create_qp_ex() with
/// IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
ibv_qp_ex* qp_to_qp_ex(ibv_qp* qp);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_EXPORTS_HPP
