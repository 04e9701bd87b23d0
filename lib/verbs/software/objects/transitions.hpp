//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_TRANSITIONS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_TRANSITIONS_HPP

#include <infiniband/verbs.h>

// The rules of ibv_modify_qp(): IBA 10.3.1 and 11.2.5.2, ibv_modify_qp(3).

namespace rdma::software {

struct device_context;

/// Returns true if a queue pair of this service may go from one state to the other with exactly
/// these attributes.
bool may_change(ibv_qp_type service, ibv_qp_state from, ibv_qp_state to, int mask) noexcept;

/// Returns true if this device accepts the values of the attributes, in some state.
bool are_values(const ibv_qp_attr& a, int mask, const device_context& owner) noexcept;

/// Copies the attributes that the mask names.
void take_over(ibv_qp_attr& mine, const ibv_qp_attr& theirs, int mask) noexcept;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_TRANSITIONS_HPP
