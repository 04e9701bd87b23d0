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

constexpr bool is_xrc(ibv_qp_type type) noexcept
{
  return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

// Counts a user of the completion queue, if there is one.
void count_user(ibv_cq* queue) noexcept
{
  if (queue != nullptr)
    static_cast<completion_queue*>(queue)->users.fetch_add(1, std::memory_order_relaxed);
}

void discount_user(ibv_cq* queue) noexcept
{
  if (queue != nullptr)
    static_cast<completion_queue*>(queue)->users.fetch_sub(1, std::memory_order_release);
}

template <class Made>
ibv_qp* create(protection_domain& in, const ibv_qp_init_attr& with)
{
  device_context& owner = device_context::of(in.context);
  object_place place(owner.queue_pairs);
  if (!place)
    return fail(ENOMEM);
  auto made = std::make_unique<Made>(in, with);
  made->context = in.context;
  made->qp_context = with.qp_context;
  made->pd = with.qp_type != IBV_QPT_XRC_RECV ? &in : nullptr;
  made->send_cq = with.send_cq;
  made->recv_cq = with.recv_cq;
  made->srq = with.srq;
  made->qp_type = with.qp_type;
  made->ibv_qp::state = IBV_QPS_RESET;
  if (const int error = owner.engine.add(*made, made->qp_num); error != 0)
    return fail(error);
  place.keep();
  in.users.fetch_add(1, std::memory_order_relaxed);
  count_user(with.send_cq);
  count_user(with.recv_cq);
  if (made->shared != nullptr)
    made->shared->users.fetch_add(1, std::memory_order_relaxed);
  return made.release();
}

} // namespace

ibv_qp* create_queue_pair(protection_domain& in, ibv_qp_init_attr& with)
{
  device_context& owner = device_context::of(in.context);
  const device_settings& limits = owner.settings;
  ibv_qp_cap& cap = with.cap;
  int error = 0;
  // As the kernel, which ignores the attributes of the half that a queue pair does not have.
  ibv_qp_init_attr used = with;
  if (is_xrc(with.qp_type))
  {
    used.recv_cq = nullptr;
    used.srq = nullptr;
    cap.max_recv_wr = cap.max_recv_sge = 0;
  }
  if (with.qp_type == IBV_QPT_XRC_RECV)
  {
    used.send_cq = nullptr;
    cap = {};
  }
  const auto wrong = [&](const ibv_cq* queue, bool needed)
  { return queue != nullptr ? queue->context != in.context : needed; };
  if (owner.removed)
    error = EIO;
  else if (with.qp_type != IBV_QPT_RC && with.qp_type != IBV_QPT_UC && with.qp_type != IBV_QPT_UD
    && !is_xrc(with.qp_type))
    error = EOPNOTSUPP;
  else if (wrong(used.send_cq, with.qp_type != IBV_QPT_XRC_RECV)
    || wrong(used.recv_cq, !is_xrc(with.qp_type))
    || (used.srq != nullptr
      && (used.srq->context != in.context
        || static_cast<shared_receive_queue*>(used.srq)->xrcd != nullptr))
    || cap.max_send_wr > limits.max_work_requests || cap.max_recv_wr > limits.max_work_requests
    || cap.max_send_sge > limits.max_sge || cap.max_recv_sge > limits.max_sge
    || cap.max_inline_data > limits.max_inline_data)
    error = EINVAL;
  if (error != 0)
    return fail(error);
  if (used.srq != nullptr)
    cap.max_recv_wr = cap.max_recv_sge = 0;
  // A request has this room in any case. Programs rely on such a gift (rdma_xclient).
  cap.max_inline_data = std::max(cap.max_inline_data,
    std::min<std::uint32_t>(cap.max_send_sge * sizeof(ibv_sge), limits.max_inline_data));
  used.cap = cap;
  try
  {
    return with.qp_type == IBV_QPT_UD ? create<datagram_queue_pair>(in, used)
                                      : create<queue_pair>(in, used);
  }
  catch (const std::bad_alloc&)
  {
    return fail(ENOMEM);
  }
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* with)
{
  if (with->qp_type == IBV_QPT_XRC_RECV)
    return fail(EINVAL); // it needs an XRC domain
  return create_queue_pair(*static_cast<protection_domain*>(pd), *with);
}

int destroy_qp(ibv_qp* qp)
{
  auto* const base = static_cast<queue_pair_base*>(qp);
  if (!base->close())
    return 0;
  auto* const shared = static_cast<shared_receive_queue*>(qp->srq);
  protection_domain& domain = base->domain;
  ibv_cq* const sent = qp->send_cq;
  ibv_cq* const received = qp->recv_cq;
  base->end();
  delete base;
  device_context::of(domain.context).queue_pairs.give_back();
  if (shared != nullptr)
    shared->users.fetch_sub(1, std::memory_order_release);
  discount_user(sent);
  discount_user(received);
  domain.users.fetch_sub(1, std::memory_order_release);
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
