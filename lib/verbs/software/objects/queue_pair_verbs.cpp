//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/datagram_queue_pair.hpp"
#include "verbs/software/objects/memory.hpp"
#include "verbs/software/objects/queue_pair.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

// Creating and destroying queue pairs, and the verbs on their states.

namespace rdma::software {
namespace {

template <class Made>
ibv_qp* create(ibv_pd* pd, const ibv_qp_init_attr& with)
{
  device_context& owner = device_context::of(pd->context);
  object_place place(owner.queue_pairs);
  if (!place)
    return fail(ENOMEM);
  auto made = std::make_unique<Made>(*static_cast<protection_domain*>(pd), with);
  made->context = pd->context;
  made->qp_context = with.qp_context;
  made->pd = pd;
  made->send_cq = with.send_cq;
  made->recv_cq = with.recv_cq;
  made->srq = with.srq;
  made->qp_type = with.qp_type;
  made->ibv_qp::state = IBV_QPS_RESET;
  if (const int error = owner.engine.add(*made, made->qp_num); error != 0)
    return fail(error);
  place.keep();
  static_cast<protection_domain*>(pd)->users.fetch_add(1, std::memory_order_relaxed);
  static_cast<completion_queue*>(with.send_cq)->users.fetch_add(1, std::memory_order_relaxed);
  static_cast<completion_queue*>(with.recv_cq)->users.fetch_add(1, std::memory_order_relaxed);
  if (made->shared != nullptr)
    made->shared->users.fetch_add(1, std::memory_order_relaxed);
  return made.release();
}

} // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* with)
{
  device_context& owner = device_context::of(pd->context);
  const device_settings& limits = owner.settings;
  ibv_qp_cap& cap = with->cap;
  int error = 0;
  if (owner.removed)
    error = EIO;
  else if (with->qp_type != IBV_QPT_RC && with->qp_type != IBV_QPT_UC
    && with->qp_type != IBV_QPT_UD)
    error = EOPNOTSUPP;
  else if (with->send_cq == nullptr || with->recv_cq == nullptr
    || with->send_cq->context != pd->context || with->recv_cq->context != pd->context
    || (with->srq != nullptr && with->srq->context != pd->context)
    || cap.max_send_wr > limits.max_work_requests || cap.max_recv_wr > limits.max_work_requests
    || cap.max_send_sge > limits.max_sge || cap.max_recv_sge > limits.max_sge
    || cap.max_inline_data > limits.max_inline_data)
    error = EINVAL;
  if (error != 0)
    return fail(error);
  if (with->srq != nullptr)
    cap.max_recv_wr = cap.max_recv_sge = 0;
  // A request has this room in any case. Programs rely on such a gift (rdma_xclient).
  cap.max_inline_data = std::max(cap.max_inline_data,
    std::min<std::uint32_t>(cap.max_send_sge * sizeof(ibv_sge), limits.max_inline_data));
  try
  {
    return with->qp_type == IBV_QPT_UD ? create<datagram_queue_pair>(pd, *with)
                                       : create<queue_pair>(pd, *with);
  }
  catch (const std::bad_alloc&)
  {
    return fail(ENOMEM);
  }
}

int destroy_qp(ibv_qp* qp)
{
  auto* const base = static_cast<queue_pair_base*>(qp);
  shared_receive_queue* const shared = base->shared;
  auto* const domain = static_cast<protection_domain*>(qp->pd);
  auto* const sent = static_cast<completion_queue*>(qp->send_cq);
  auto* const received = static_cast<completion_queue*>(qp->recv_cq);
  base->end();
  delete base;
  device_context::of(domain->context).queue_pairs.give_back();
  if (shared != nullptr)
    shared->users.fetch_sub(1, std::memory_order_release);
  sent->users.fetch_sub(1, std::memory_order_release);
  received->users.fetch_sub(1, std::memory_order_release);
  domain->users.fetch_sub(1, std::memory_order_release);
  return 0;
}

int modify_qp(ibv_qp* qp, ibv_qp_attr* to, int mask)
{
  return device_context::of(qp->context).removed
    ? EIO
    : static_cast<queue_pair_base*>(qp)->modify(*to, mask);
}

int query_qp(ibv_qp* qp, ibv_qp_attr* to, int, ibv_qp_init_attr* init)
{
  static_cast<queue_pair_base*>(qp)->query(*to, *init);
  return 0;
}

} // namespace rdma::software
