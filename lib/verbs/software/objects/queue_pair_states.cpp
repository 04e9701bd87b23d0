//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair_base.hpp"
#include "verbs/software/protocol/packet.hpp"

#include <cerrno>
#include <mutex>
#include <span>

// The states of a queue pair of any service: IBA 10.3.1 and 11.2.5.2, ibv_modify_qp(3).

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

// The optional attributes contain no alternate path: this device has none.
constexpr transition of_rc[] = {
  {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
  {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_INIT, IBV_QPS_RTR,
    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC
      | IBV_QP_MIN_RNR_TIMER,
    IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
  {IBV_QPS_RTR, IBV_QPS_RTS,
    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
    IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
  {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
  {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
  {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
  {IBV_QPS_SQD, IBV_QPS_SQD, 0,
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
      | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PKEY_INDEX},
};

constexpr transition of_uc[] = {
  {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
  {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
    IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
  {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
  {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
  {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS},
};

constexpr transition of_ud[] = {
  {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
  {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
  {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
  {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY},
  {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_QKEY},
  {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
  {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_QKEY},
  {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_QKEY | IBV_QP_PKEY_INDEX},
  {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_QKEY},
};

std::span<const transition> transitions_of(ibv_qp_type service) noexcept
{
  switch (service)
  {
  case IBV_QPT_UC:
    return of_uc;
  case IBV_QPT_UD:
    return of_ud;
  default:
    return of_rc;
  }
}

// The attributes of RC that belong to the half that an XRC queue pair does not have. They are
// accepted (perftest sets them) but not required.
constexpr int of_other_half(ibv_qp_type service) noexcept
{
  return service == IBV_QPT_XRC_SEND ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
    : service == IBV_QPT_XRC_RECV    ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
                                     : 0;
}

// Returns true if a queue pair of this service may go from one state to the other with exactly
// these attributes.
bool may_change(ibv_qp_type service, ibv_qp_state from, ibv_qp_state to, int mask) noexcept
{
  for (const transition& t : transitions_of(service))
    if (t.from == from && t.to == to)
      return (t.required & ~mask & ~of_other_half(service)) == 0
        && (mask & ~(common | t.required | t.optional)) == 0;
  return false;
}

// Returns true if this device accepts the values of the attributes, in some state.
bool are_values(const ibv_qp_attr& a, int mask, const device_context& owner) noexcept
{
  const auto wrong = [&](int flag, bool condition) { return (mask & flag) != 0 && condition; };
  const auto most = owner.settings.max_read_atomic;
  constexpr int known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_RELAXED_ORDERING;
  const bool bad = wrong(IBV_QP_PKEY_INDEX, a.pkey_index != 0)
    || wrong(IBV_QP_PORT, a.port_num != 1)
    || wrong(IBV_QP_ACCESS_FLAGS, (a.qp_access_flags & ~static_cast<unsigned>(known_access)) != 0)
    || wrong(IBV_QP_PATH_MTU, a.path_mtu < IBV_MTU_256 || a.path_mtu > IBV_MTU_4096)
    || wrong(IBV_QP_DEST_QPN, a.dest_qp_num > protocol::psn_mask)
    || wrong(IBV_QP_RQ_PSN, a.rq_psn > protocol::psn_mask)
    || wrong(IBV_QP_SQ_PSN, a.sq_psn > protocol::psn_mask)
    || wrong(IBV_QP_MAX_DEST_RD_ATOMIC, a.max_dest_rd_atomic > most)
    || wrong(IBV_QP_MAX_QP_RD_ATOMIC, a.max_rd_atomic > most)
    || wrong(IBV_QP_MIN_RNR_TIMER, a.min_rnr_timer > 31) || wrong(IBV_QP_TIMEOUT, a.timeout > 31)
    || wrong(IBV_QP_RETRY_CNT, a.retry_cnt > 7)
    || wrong(IBV_QP_RNR_RETRY, a.rnr_retry > 7)
    // Addressed by GID, as RoCE is (IBTA Annex A17): there must be a global route header.
    || wrong(IBV_QP_AV,
      a.ah_attr.is_global == 0 || a.ah_attr.port_num != 1
        || a.ah_attr.grh.sgid_index >= owner.gids.size());
  return !bad;
}

// Copies the attributes that the mask names.
void take_over(ibv_qp_attr& mine, const ibv_qp_attr& theirs, int mask) noexcept
{
  const auto take = [&](int flag, auto member)
  {
    if ((mask & flag) != 0)
      mine.*member = theirs.*member;
  };
  take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
  take(IBV_QP_EN_SQD_ASYNC_NOTIFY, &ibv_qp_attr::en_sqd_async_notify);
}

} // namespace

int queue_pair_base::modify(const ibv_qp_attr& to, int mask)
{
  const std::lock_guard one(modifying);
  if ((mask & IBV_QP_STATE) != 0 && to.qp_state == IBV_QPS_RTR && current() == IBV_QPS_INIT)
    if (const int error = prepare_to_receive(); error != 0)
      return error;
  progress.lock();
  const ibv_qp_state before = current();
  int error = 0;
  {
    const auto no_arrivals = hold_arrivals();
    error = change(to, mask);
  }
  if (error == 0)
  {
    ibv_qp::state = current();
    changed_from(before);
  }
  let_go();
  return error;
}

int queue_pair_base::change(const ibv_qp_attr& to, int mask)
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
    enter_error(false);
    return 0;
  }
  if (!may_change(qp_type, from, next, mask) || !are_values(to, mask, context_of))
    return EINVAL;
  const ibv_qp_attr before = attributes;
  take_over(attributes, to, mask);
  if (const int error = enter(from, next); error != 0)
  {
    attributes = before;
    return error;
  }
  set_state(next);
  return 0;
}

void queue_pair_base::enter_reset()
{
  set_state(IBV_QPS_RESET);
  stop();
  // First the completions, then the slots: a completion that is polled frees a slot.
  forget_completions();
  {
    const std::lock_guard lock(sends.mutex);
    sends.reset();
  }
  {
    const std::lock_guard lock(receives.mutex);
    receives.reset();
  }
  attributes = {};
}

void queue_pair_base::leave()
{
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  modify(to, IBV_QP_STATE); // which is always possible
}

void queue_pair_base::query(ibv_qp_attr& to, ibv_qp_init_attr& init)
{
  const std::lock_guard one(modifying);
  progress.lock();
  to = attributes;
  to.qp_state = to.cur_qp_state = ibv_qp::state = current();
  to.cap = cap;
  to.sq_draining = is_draining() ? 1 : 0;
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

void queue_pair_base::end()
{
  withdraw();
  forget_completions();
  context_of.events.forget(static_cast<ibv_qp*>(this), events);
}

void queue_pair_base::forget_completions() noexcept
{
  for (ibv_cq* const queue : {send_cq, recv_cq})
    if (queue != nullptr) // XRC has one of them or none
      static_cast<completion_queue*>(queue)->clean(*this);
}

bool queue_pair_base::open() noexcept
{
  std::uint32_t before = opened.load(std::memory_order_relaxed);
  while (before != 0 && !opened.compare_exchange_weak(before, before + 1))
  {
  }
  return before != 0;
}

void queue_pair_base::let_go()
{
  progress.unlock();
  if (called.load(std::memory_order_seq_cst))
    serve(wire::mover::engine);
}

void queue_pair_base::raise(ibv_event_type type) noexcept
{
  ibv_async_event event{};
  event.element.qp = this;
  event.event_type = type;
  context_of.events.raise(event);
}

} // namespace rdma::software
