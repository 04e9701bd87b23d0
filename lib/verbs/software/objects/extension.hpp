//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_EXTENSION_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_EXTENSION_HPP

#include <infiniband/verbs.h>

#include <cstddef>

namespace rdma::software {

/// A verbs object with room behind it for what the extended one has, at the same address.
/**
 * verbs.h makes ibv_cq_ex and ibv_qp_ex larger objects that begin like ibv_cq and ibv_qp: programs
 * hold either pointer, and cast between them. What is behind the beginning is only ever touched as
 * a part of the extended type.
 */
template <class Plain, class Extended>
struct extensible : Plain
{
  extensible() noexcept
    : Plain{}
  {
  }

  Extended& extension() noexcept { return *reinterpret_cast<Extended*>(static_cast<Plain*>(this)); }

private:
  static_assert(alignof(Plain) == alignof(Extended) && sizeof(Plain) % alignof(Extended) == 0);
  std::byte behind_[sizeof(Extended) - sizeof(Plain)]{};
};

static_assert(offsetof(ibv_cq_ex, comp_mask) == sizeof(ibv_cq));
static_assert(offsetof(ibv_qp_ex, comp_mask) == sizeof(ibv_qp));

using extensible_queue_pair = extensible<ibv_qp, ibv_qp_ex>;
using extensible_completion_queue = extensible<ibv_cq, ibv_cq_ex>;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_EXTENSION_HPP
