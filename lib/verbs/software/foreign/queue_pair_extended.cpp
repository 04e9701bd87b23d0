//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/foreign/exports.hpp"
#include "verbs/software/foreign/extended_verbs.hpp"
#include "verbs/software/foreign/work_request_builder.hpp"
#include "verbs/software/objects/queue_pair_base.hpp"

#include <cerrno>
#include <memory>
#include <new>

namespace rdma::software {

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* with)
{
  constexpr std::uint32_t known =
    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const auto given = [&](std::uint32_t flag) { return (with->comp_mask & flag) != 0; };
  const std::uint64_t operations =
    given(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ? with->send_ops_flags : 0;
  int error = 0;
  // No shared receive domains, segmentation, hashing or raw packets.
  if ((with->comp_mask & ~known) != 0
    || (given(IBV_QP_INIT_ATTR_CREATE_FLAGS) && with->create_flags != 0))
    error = EOPNOTSUPP;
  else if (!given(IBV_QP_INIT_ATTR_PD) || with->pd == nullptr || with->pd->context != context)
    error = EINVAL;
  else if ((operations & ~operations_of(with->qp_type)) != 0)
    error = EOPNOTSUPP;
  std::unique_ptr<work_request_builder> builder;
  if (error == 0 && operations != 0)
  {
    builder.reset(new (std::nothrow) work_request_builder(with->qp_type, operations));
    error = builder != nullptr ? 0 : ENOMEM;
  }
  if (error != 0)
  {
    errno = error;
    return nullptr;
  }
  ibv_qp_init_attr plain{with->qp_context, with->send_cq, with->recv_cq, with->srq, with->cap,
    with->qp_type, with->sq_sig_all};
  ibv_qp* const made = create_qp(with->pd, &plain);
  if (made == nullptr)
    return nullptr;
  with->cap = plain.cap;
  if (builder != nullptr)
  {
    auto* const base = static_cast<queue_pair_base*>(made);
    base->extended = std::move(builder);
    set_builder_functions(base->extension());
  }
  return made;
}

ibv_qp_ex* qp_to_qp_ex(ibv_qp* qp)
{
  auto* const base = static_cast<queue_pair_base*>(qp);
  return base->extended != nullptr ? &base->extension() : nullptr;
}

} // namespace rdma::software
