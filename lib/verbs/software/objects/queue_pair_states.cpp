//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair.hpp"

#include <cerrno>
#include <cstring>

// The states of a queue pair: IBA 10.3.1 and 11.2.5.2, ibv_modify_qp(3).

namespace rdma::software {
namespace {

struct transition
{
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

constexpr int common = IBV_QP_STATE | IBV_QP_CUR_STATE;

// Alternate paths are not among the optional ones: this device has none.
constexpr transition transitions[] = {
  {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
  {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_INIT, IBV_QPS_RTR,
    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC
      | IBV_QP_MIN_RNR_TIMER,
    IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
  {IBV_QPS_RTR, IBV_QPS_RTS,
    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
    IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
  {IBV_QPS_RTS, IBV_QPS_RTS, 0,
    IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
  {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
  {IBV_QPS_SQD, IBV_QPS_RTS, 0,
    IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
  {IBV_QPS_SQD, IBV_QPS_SQD, 0,
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
      | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PKEY_INDEX},
};

const transition* find(ibv_qp_state from, ibv_qp_state to)
{
  for (const transition& t : transitions)
    if (t.from == from && t.to == to)
      return &t;
  return nullptr;
}

// Values that no device takes, whatever the state.
int check_values(const ibv_qp_attr& a, int mask, const device_context& owner)
{
  const auto wrong = [&](int flag, bool condition) { return (mask & flag) != 0 && condition; };
  const auto most = owner.settings.max_read_atomic;
  constexpr int known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
  const bool bad = wrong(IBV_QP_PKEY_INDEX, a.pkey_index != 0) || wrong(IBV_QP_PORT, a.port_num != 1)
    || wrong(IBV_QP_ACCESS_FLAGS, (a.qp_access_flags & ~static_cast<unsigned>(known_access)) != 0)
    || wrong(IBV_QP_PATH_MTU, a.path_mtu < IBV_MTU_256 || a.path_mtu > IBV_MTU_4096)
    || wrong(IBV_QP_DEST_QPN, a.dest_qp_num > protocol::psn_mask)
    || wrong(IBV_QP_RQ_PSN, a.rq_psn > protocol::psn_mask)
    || wrong(IBV_QP_SQ_PSN, a.sq_psn > protocol::psn_mask)
    || wrong(IBV_QP_MAX_DEST_RD_ATOMIC, a.max_dest_rd_atomic > most)
    || wrong(IBV_QP_MAX_QP_RD_ATOMIC, a.max_rd_atomic > most)
    || wrong(IBV_QP_MIN_RNR_TIMER, a.min_rnr_timer > 31) || wrong(IBV_QP_TIMEOUT, a.timeout > 31)
    || wrong(IBV_QP_RETRY_CNT, a.retry_cnt > 7) || wrong(IBV_QP_RNR_RETRY, a.rnr_retry > 7)
    // Addressed by GID, as RoCE is (IBTA Annex A17): there must be a global route header.
    || wrong(IBV_QP_AV,
      a.ah_attr.is_global == 0 || a.ah_attr.port_num != 1 || a.ah_attr.dlid == 0
        || a.ah_attr.grh.sgid_index >= owner.gids.size());
  return bad ? EINVAL : 0;
}

void take_over(ibv_qp_attr& mine, const ibv_qp_attr& theirs, int mask)
{
  const auto given = [&](int flag) { return (mask & flag) != 0; };
  if (given(IBV_QP_PKEY_INDEX))
    mine.pkey_index = theirs.pkey_index;
  if (given(IBV_QP_PORT))
    mine.port_num = theirs.port_num;
  if (given(IBV_QP_ACCESS_FLAGS))
    mine.qp_access_flags = theirs.qp_access_flags;
  if (given(IBV_QP_AV))
    mine.ah_attr = theirs.ah_attr;
  if (given(IBV_QP_PATH_MTU))
    mine.path_mtu = theirs.path_mtu;
  if (given(IBV_QP_DEST_QPN))
    mine.dest_qp_num = theirs.dest_qp_num;
  if (given(IBV_QP_RQ_PSN))
    mine.rq_psn = theirs.rq_psn;
  if (given(IBV_QP_SQ_PSN))
    mine.sq_psn = theirs.sq_psn;
  if (given(IBV_QP_MAX_DEST_RD_ATOMIC))
    mine.max_dest_rd_atomic = theirs.max_dest_rd_atomic;
  if (given(IBV_QP_MAX_QP_RD_ATOMIC))
    mine.max_rd_atomic = theirs.max_rd_atomic;
  if (given(IBV_QP_MIN_RNR_TIMER))
    mine.min_rnr_timer = theirs.min_rnr_timer;
  if (given(IBV_QP_TIMEOUT))
    mine.timeout = theirs.timeout;
  if (given(IBV_QP_RETRY_CNT))
    mine.retry_cnt = theirs.retry_cnt;
  if (given(IBV_QP_RNR_RETRY))
    mine.rnr_retry = theirs.rnr_retry;
  if (given(IBV_QP_EN_SQD_ASYNC_NOTIFY))
    mine.en_sqd_async_notify = theirs.en_sqd_async_notify;
}

} // namespace

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
    const bool connecting = before != current() && (before == IBV_QPS_INIT || before == IBV_QPS_RTR);
    move(connecting ? wire::mover::poster : wire::mover::engine, false);
  }
  let_go();
  return error;
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
    if (from == IBV_QPS_RESET || (mask & ~common) != 0)
      return EINVAL;
    enter_error();
    return 0;
  }
  const transition* t = find(from, next);
  if (t == nullptr || (t->required & ~mask) != 0 || (mask & ~(common | t->required | t->optional)) != 0)
    return EINVAL;
  if (const int error = check_values(to, mask, context_of); error != 0)
    return error;
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
  resume_at = waiting_since = 0;
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
  if (const int error = context_of.engine.listen(attributes.ah_attr.grh.sgid_index); error != 0)
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
    end_of_wire == wire_end::connects || (end_of_wire == wire_end::by_name && hello.from < hello.to), wire::now());
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
  auto* owner = static_cast<queue_pair*>(qp);
  if (owner->current() != IBV_QPS_RESET && owner->current() != IBV_QPS_INIT)
    return EINVAL;
  owner->secret = secret;
  return 0;
}

int set_wire_end(ibv_qp* qp, wire_end which)
{
  auto* owner = static_cast<queue_pair*>(qp);
  if (owner->current() != IBV_QPS_RESET && owner->current() != IBV_QPS_INIT)
    return EINVAL;
  owner->end_of_wire = which;
  return 0;
}

const char* wire_name(const ibv_qp* qp)
{
  const ibv_qp_state state = static_cast<const queue_pair*>(qp)->current();
  return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ? "tcp" : "";
}

} // namespace rdma::software
