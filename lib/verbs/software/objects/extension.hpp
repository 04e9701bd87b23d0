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
#include <memory>

namespace rdma::software {

/// State that foreign/ keeps with an extended object.
struct extension_state
{
  virtual ~extension_state() = default;
};

/// A verbs object with room for the members of the extended one, at the same address.
/**
 * verbs.h makes ibv_cq_ex and ibv_qp_ex larger objects that begin like ibv_cq and ibv_qp: programs
 * hold either pointer, and cast between them. The room is accessed only as part of the extended
 * type.
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
  std::byte room_[sizeof(Extended) - sizeof(Plain)]{}; // the first member: directly behind Plain

public:
  std::unique_ptr<extension_state> extended; ///< null for a plain object
};

static_assert(offsetof(ibv_cq_ex, comp_mask) == sizeof(ibv_cq));
static_assert(offsetof(ibv_qp_ex, comp_mask) == sizeof(ibv_qp));

using extensible_queue_pair = extensible<ibv_qp, ibv_qp_ex>;
using extensible_completion_queue = extensible<ibv_cq, ibv_cq_ex>;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_EXTENSION_HPP
