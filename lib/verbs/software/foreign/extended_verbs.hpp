//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_EXTENDED_VERBS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_EXTENDED_VERBS_HPP

#include <infiniband/verbs.h>

#include <cstdint>

// Verbs that programs reach through verbs_context. The library itself does not call them.

namespace rdma::software {

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* with);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* with);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* with);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
  ibv_device_attr_ex* to, std::size_t size);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_EXTENDED_VERBS_HPP
