//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair.hpp"
#include "verbs/software/objects/transitions.hpp"

#include <cerrno>
#include <cstring>

// The states of a queue pair: IBA 10.3.1 and 11.2.5.2, ibv_modify_qp(3).

namespace rdma::software {

void queue_pair::set_state(ibv_qp_state to) noexcept
{
  state_now.store(to, std::memory_order_release);
}

int queue_pair::modify(const ibv_qp_attr& to, int mask)
{
  const std::lock_guard one(modifying);
  progress.lock();
  const ibv_qp_state before = current();
  const int error = change(to, mask);
  if (error == 0)
  {
    ibv_qp::state = current();
    // What has just begun to connect has nothing to read, or the socket says so.
    const bool connecting =
      before != current() && (before == IBV_QPS_INIT || before == IBV_QPS_RTR);
    move(connecting ? wire::mover::poster : wire::mover::engine, false, false);
  }
  let_go();
  return error;
}

void queue_pair::leave()
{
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  modify(to, IBV_QP_STATE); // which is always possible
}

int queue_pair::change(const ibv_qp_attr& to, int mask)
{
  const ibv_qp_state from = current();
  const ibv_qp_state next = (mask & IBV_QP_STATE) != 0 ? to.qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && to.cur_qp_state != from)
    return EINVAL;
  if (next == IBV_QPS_RESET)
  {
    enter_reset();
    return 0;
  }
  if (next == IBV_QPS_ERR)
  {
    if (from == IBV_QPS_RESET || (mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE)) != 0)
      return EINVAL;
    enter_error();
    return 0;
  }
  if (!may_change(qp_type, from, next, mask) || !are_values(to, mask, context_of))
    return EINVAL;
  const ibv_qp_attr before = attributes;
  take_over(attributes, to, mask);
  if (next == IBV_QPS_RTR && from == IBV_QPS_INIT)
  {
    if (const int error = enter_ready_to_receive(); error != 0)
    {
      attributes = before;
      return error;
    }
  }
  else if (from == IBV_QPS_RTR && next == IBV_QPS_RTS)
  {
    enter_ready_to_send();
  }
  else if (from == IBV_QPS_SQE && next == IBV_QPS_RTS)
  {
    requester.recover();
  }
  requester.drain(next == IBV_QPS_SQD);
  draining = next == IBV_QPS_SQD && (draining || from == IBV_QPS_RTS);
  with_.access = attributes.qp_access_flags;
  with_.min_rnr_timer = attributes.min_rnr_timer;
  with_.max_read_atomic = attributes.max_rd_atomic;
  with_.rnr_retry = attributes.rnr_retry;
  with_.retry_count = attributes.retry_cnt;
  with_.timeout = attributes.timeout;
  set_state(next);
  return 0;
}

void queue_pair::enter_reset()
{
  set_state(IBV_QPS_RESET);
  link.close();
  requester.reset();
  responder.reset();
  tell_how_far();
  // First the completions, then the slots: a completion that is polled frees a slot.
  static_cast<completion_queue*>(send_cq)->clean(*this);
  static_cast<completion_queue*>(recv_cq)->clean(*this);
  {
    const std::lock_guard lock(sends.mutex);
    sends.reset();
  }
  {
    const std::lock_guard lock(receives.mutex);
    receives.reset();
  }
  broken = owing = draining = false;
  resume_at = waiting_since = lost_until = give_up_at = 0;
  attributes = {};
}

int queue_pair::enter_ready_to_receive()
{
  const ibv_gid& mine = context_of.gids[attributes.ah_attr.grh.sgid_index];
  protocol::hello hello;
  std::memcpy(hello.from.gid.data(), mine.raw, sizeof mine.raw);
  hello.from.lid = context_of.engine.port();
  hello.from.qp = qp_num;
  std::memcpy(hello.to.gid.data(), attributes.ah_attr.grh.dgid.raw, sizeof mine.raw);
  hello.to.lid = attributes.ah_attr.dlid;
  hello.to.qp = attributes.dest_qp_num;
  if (hello.from == hello.to)
    return EINVAL; // to itself
  hello.expected_psn = attributes.rq_psn;
  hello.secret = secret;
  with_.keys = &context_of.keys;
  with_.pd = pd;
  with_.qp = qp_num;
  with_.peer_qp = attributes.dest_qp_num;
  with_.rq_psn = attributes.rq_psn;
  with_.max_peer_read_atomic = attributes.max_dest_rd_atomic;
  with_.signal_all = signal_all;
  if (const int error = context_of.engine.listen(mine, attributes.ah_attr.grh.sgid_index);
      error != 0)
    return error;
  try
  {
    responder.start();
  }
  catch (const std::bad_alloc&)
  {
    return ENOMEM;
  }
  responder.announce(true);
  link.open(hello,
    end_of_wire == wire_end::connects
      || (end_of_wire == wire_end::by_name && hello.from < hello.to),
    wire::now());
  return 0;
}

void queue_pair::enter_ready_to_send()
{
  with_.sq_psn = attributes.sq_psn;
  with_.max_read_atomic = attributes.max_rd_atomic;
  with_.rnr_retry = attributes.rnr_retry;
  with_.retry_count = attributes.retry_cnt;
  with_.timeout = attributes.timeout;
  responder.announce(false);
  link.tell_first_psn(attributes.sq_psn);
  requester.start();
}

void queue_pair::query(ibv_qp_attr& to, ibv_qp_init_attr& init)
{
  const std::lock_guard one(modifying);
  progress.lock();
  to = attributes;
  to.qp_state = to.cur_qp_state = current();
  to.cap = cap;
  to.sq_draining = current() == IBV_QPS_SQD && !requester.drained() ? 1 : 0;
  ibv_qp::state = current();
  let_go();
  init = {};
  init.qp_context = qp_context;
  init.send_cq = send_cq;
  init.recv_cq = recv_cq;
  init.srq = srq;
  init.cap = cap;
  init.qp_type = qp_type;
  init.sq_sig_all = signal_all ? 1 : 0;
}

int set_connection_secret(ibv_qp* qp, const connection_secret& secret)
{
  if (qp->qp_type == IBV_QPT_UD)
    return EINVAL; // it has no peer
  auto* owner = static_cast<queue_pair*>(qp);
  if (owner->current() != IBV_QPS_RESET && owner->current() != IBV_QPS_INIT)
    return EINVAL;
  owner->secret = secret;
  return 0;
}

int set_wire_end(ibv_qp* qp, wire_end which)
{
  if (qp->qp_type == IBV_QPT_UD)
    return EINVAL; // it has no peer
  auto* owner = static_cast<queue_pair*>(qp);
  if (owner->current() != IBV_QPS_RESET && owner->current() != IBV_QPS_INIT)
    return EINVAL;
  owner->end_of_wire = which;
  return 0;
}

const char* wire_name(const ibv_qp* qp)
{
  return qp->qp_type != IBV_QPT_UD ? static_cast<const queue_pair*>(qp)->wire_name() : "";
}

const char* why_not_local(const ibv_qp* qp)
{
  return qp->qp_type != IBV_QPT_UD ? static_cast<const queue_pair*>(qp)->why_not_local()
                                   : "datagrams go by UDP";
}

bool receiver_not_ready(const ibv_qp* qp)
{
  return qp->qp_type != IBV_QPT_UD && static_cast<const queue_pair*>(qp)->receiver_not_ready();
}

} // namespace rdma::software
