//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/datagram_queue_pair.hpp"

#include "verbs/software/objects/address_handle.hpp"
#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/transitions.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

// A datagram queue pair's queues and states. What it sends is in datagram_send.cpp, what it
// receives in datagram_receive.cpp.

namespace rdma::software {

datagram_queue_pair::datagram_queue_pair(device_context& owner, const ibv_qp_init_attr& with)
  : queue_pair_base(owner, with)
{
  const std::uint32_t elements = shared != nullptr ? shared->elements_max : with.cap.max_recv_sge;
  receive_.storage = std::make_unique<ibv_sge[]>(std::max(elements, 1u));
}

int datagram_queue_pair::check(const ibv_send_wr& wr) const noexcept
{
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > cap.max_send_sge
    || (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM))
    return EINVAL;
  // IBA 10.2.2.2: an address handle of the queue pair's own domain.
  if (wr.wr.ud.ah == nullptr || wr.wr.ud.ah->pd != pd || wr.wr.ud.remote_qpn > protocol::psn_mask)
    return EINVAL;
  if ((wr.send_flags & IBV_SEND_INLINE) == 0)
    return 0;
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i)
    bytes += wr.sg_list[i].length;
  return bytes <= cap.max_inline_data ? 0 : EINVAL;
}

void datagram_queue_pair::store(protocol::send_request& to, const ibv_send_wr& wr) noexcept
{
  to.id = wr.wr_id;
  to.opcode = wr.opcode;
  to.flags = wr.send_flags;
  to.immediate = wr.imm_data;
  to.remote =
    reinterpret_cast<std::uintptr_t>(wr.wr.ud.ah); // the program keeps it until the completion
  to.rkey = wr.wr.ud.remote_qpn;
  // IBA 10.2.5: with the high bit set it stands for the queue pair's own, which programs may not be
  // free to choose.
  to.swap = (wr.wr.ud.remote_qkey & 0x8000'0000) != 0 ? queue_key.load(std::memory_order_relaxed)
                                                      : wr.wr.ud.remote_qkey;
  to.length = 0;
  to.elements = 0;
  for (int i = 0; i < wr.num_sge; ++i)
  {
    const ibv_sge& e = wr.sg_list[i];
    if ((wr.send_flags & IBV_SEND_INLINE) == 0)
      to.elements_begin()[to.elements++] = e;
    else if (e.length != 0)
      std::memcpy(to.inline_bytes() + to.length, reinterpret_cast<const void*>(e.addr), e.length);
    to.length += e.length;
  }
}

int datagram_queue_pair::post(ibv_send_wr* wr, ibv_send_wr** bad, bool whole)
{
  const ibv_qp_state now = current();
  int error = 0;
  if (now == IBV_QPS_RESET || now == IBV_QPS_INIT || now == IBV_QPS_RTR) // IBA 10.3.1
  {
    *bad = wr;
    return EINVAL;
  }
  {
    const std::lock_guard lock(sends.mutex);
    std::uint64_t posted = sends.posted.load(std::memory_order_relaxed);
    const std::uint64_t before = posted;
    // acquire: the slot's last use ended before it was retired
    const std::uint64_t retired = sends.retired.load(std::memory_order_acquire);
    sends.take_back(retired);
    for (; wr != nullptr; wr = wr->next)
    {
      error = check(*wr);
      if (error == 0 && posted - retired >= cap.max_send_wr)
        error = ENOMEM;
      protocol::send_request* const place = error == 0 ? sends.enter(posted) : nullptr;
      if (error == 0 && place == nullptr)
        error = ENOMEM;
      if (error != 0)
      {
        *bad = wr;
        while (whole && posted != before)
          sends.leave(--posted);
        break;
      }
      store(*place, *wr);
      ++posted;
    }
    sends.posted.store(posted, std::memory_order_release);
  }
  serve(wire::mover::poster);
  return error;
}

int datagram_queue_pair::post_receives(ibv_recv_wr* wr, ibv_recv_wr** bad)
{
  if (shared != nullptr || current() == IBV_QPS_RESET || cap.max_recv_wr == 0)
  {
    *bad = wr;
    return shared == nullptr && cap.max_recv_wr == 0 ? ENOMEM : EINVAL;
  }
  const int error = software::fill(receives, cap.max_recv_sge, wr, bad);
  if (current() == IBV_QPS_ERR)
    serve(wire::mover::poster); // flushes it
  return error;
}

void datagram_queue_pair::serve(wire::mover by, std::uint32_t)
{
  // The engine is called here for what is to be sent; what arrives it finds at the port.
  if (by == wire::mover::poller)
    context_of.datagrams.receive_at(last_port.load(std::memory_order_relaxed));
  do
  {
    // The note is left first: either the holder sees it, or it has let go and we get the lock.
    called.store(true, std::memory_order_seq_cst);
    if (!progress.try_lock())
      return;
    called.store(false, std::memory_order_seq_cst);
    transmit();
    progress.unlock();
  } while (called.load(std::memory_order_seq_cst));
}

int datagram_queue_pair::modify(const ibv_qp_attr& to, int mask)
{
  const std::lock_guard one(modifying);
  if ((mask & IBV_QP_STATE) != 0 && to.qp_state == IBV_QPS_RTR && current() == IBV_QPS_INIT)
  {
    // Whom a datagram is for is known by its number alone, whichever of the port's addresses it
    // comes to.
    if (const int error = context_of.datagrams.open(context_of.engine, context_of.gids); error != 0)
      return error;
    try
    {
      context_of.datagrams.join(qp_num, *this);
    }
    catch (const std::bad_alloc&)
    {
      return ENOMEM;
    }
  }
  progress.lock();
  int error = 0;
  {
    const std::lock_guard no_arrivals(receiving);
    error = change(to, mask);
  }
  if (error == 0)
    ibv_qp::state = current();
  progress.unlock();
  serve(wire::mover::poster);
  return error;
}

// With `progress` and `receiving` held.
void datagram_queue_pair::leave()
{
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  modify(to, IBV_QP_STATE); // which is always possible
}

int datagram_queue_pair::change(const ibv_qp_attr& to, int mask)
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
    if (state_now.exchange(IBV_QPS_ERR, std::memory_order_acq_rel) != IBV_QPS_ERR
      && shared != nullptr)
      raise(IBV_EVENT_QP_LAST_WQE_REACHED);
    return 0; // transmit() flushes
  }
  if (!may_change(IBV_QPT_UD, from, next, mask) || !are_values(to, mask, context_of))
    return EINVAL;
  take_over(attributes, to, mask);
  queue_key.store(attributes.qkey, std::memory_order_relaxed);
  if (from == IBV_QPS_RTR && next == IBV_QPS_RTS)
    psn_ = attributes.sq_psn;
  state_now.store(next, std::memory_order_release);
  // Nothing is ever under way: what has begun has left.
  if (next == IBV_QPS_SQD && from == IBV_QPS_RTS && attributes.en_sqd_async_notify != 0)
    raise(IBV_EVENT_SQ_DRAINED);
  return 0;
}

void datagram_queue_pair::enter_reset()
{
  state_now.store(IBV_QPS_RESET, std::memory_order_release);
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
  next_ = 0;
  has_receive_ = false;
  attributes = {};
}

void datagram_queue_pair::query(ibv_qp_attr& to, ibv_qp_init_attr& init)
{
  const std::lock_guard one(modifying);
  to = attributes;
  to.qp_state = to.cur_qp_state = current();
  to.cap = cap;
  ibv_qp::state = current();
  init = {};
  init.qp_context = qp_context;
  init.send_cq = send_cq;
  init.recv_cq = recv_cq;
  init.srq = srq;
  init.cap = cap;
  init.qp_type = qp_type;
  init.sq_sig_all = signal_all ? 1 : 0;
}

void datagram_queue_pair::end()
{
  context_of.datagrams.leave(qp_num);
  context_of.engine.remove(*this);
  static_cast<completion_queue*>(send_cq)->clean(*this);
  static_cast<completion_queue*>(recv_cq)->clean(*this);
  context_of.events.forget(static_cast<ibv_qp*>(this), events);
}

void datagram_queue_pair::break_down(bool fatal) noexcept
{
  if (state_now.exchange(IBV_QPS_ERR, std::memory_order_acq_rel) != IBV_QPS_ERR)
  {
    // From now on: who hears of it finds the queue pair in this state (ibv_get_async_event(3)).
    if (fatal)
      raise(IBV_EVENT_QP_FATAL);
    if (shared != nullptr)
      raise(IBV_EVENT_QP_LAST_WQE_REACHED);
  }
  context_of.engine.owe(*this);
}

void datagram_queue_pair::raise(ibv_event_type type) noexcept
{
  ibv_async_event event{};
  event.element.qp = this;
  event.event_type = type;
  context_of.events.raise(event);
}

} // namespace rdma::software
