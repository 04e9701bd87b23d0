//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair_base.hpp"
#include "verbs/software/objects/transitions.hpp"

#include <cerrno>
#include <mutex>

// The states of a queue pair of any service: IBA 10.3.1 and 11.2.5.2, ibv_modify_qp(3).

namespace rdma::software {

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
  static_cast<completion_queue*>(send_cq)->clean(*this);
  static_cast<completion_queue*>(recv_cq)->clean(*this);
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
