//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/queue_pair.hpp"

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/datagram_queue_pair.hpp"
#include "verbs/software/objects/memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

// A queue pair's queues: posting, creating and destroying. How it moves is in
// queue_pair_progress.cpp, its states are in queue_pair_states.cpp.

namespace rdma::software {
namespace {

bool may_be_inline(ibv_wr_opcode opcode)
{
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_SEND_WITH_INV
    || opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

} // namespace

queue_pair::queue_pair(device_context& owner, const ibv_qp_init_attr& with)
  : queue_pair_base(owner, with)
  , requester(sends, with_, *this)
  , responder(with_, *this, shared != nullptr ? shared->elements_max : with.cap.max_recv_sge)
  , link(owner.engine, with_, requester, responder, owner.grants)
{
  flushing.storage = std::make_unique<ibv_sge[]>(std::max(with.cap.max_recv_sge, 1u));
  with_.kind = with.qp_type == IBV_QPT_UC ? protocol::service_uc : protocol::service_rc;
}

int queue_pair::check(const ibv_send_wr& wr) const noexcept
{
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > cap.max_send_sge)
    return EINVAL;
  switch (wr.opcode)
  {
  case IBV_WR_SEND:
  case IBV_WR_SEND_WITH_IMM:
  case IBV_WR_RDMA_WRITE:
  case IBV_WR_RDMA_WRITE_WITH_IMM:
  case IBV_WR_LOCAL_INV:
    break;
  case IBV_WR_SEND_WITH_INV:
  case IBV_WR_RDMA_READ:
  case IBV_WR_ATOMIC_CMP_AND_SWP:
  case IBV_WR_ATOMIC_FETCH_AND_ADD:
    if (with_.kind != protocol::service_rc)
      return EINVAL; // the others have no opcode for it (IBA 9.2.1)
    break;
  case IBV_WR_BIND_MW:
    if (wr.bind_mw.mw == nullptr)
      return EINVAL;
    break;
  default:
    return EINVAL;
  }
  if ((wr.send_flags & IBV_SEND_INLINE) == 0)
    return 0;
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i)
    bytes += wr.sg_list[i].length;
  return may_be_inline(wr.opcode) && bytes <= cap.max_inline_data ? 0 : EINVAL;
}

void queue_pair::store(protocol::send_request& to, const ibv_send_wr& wr) noexcept
{
  to.id = wr.wr_id;
  to.opcode = wr.opcode;
  to.flags = wr.send_flags;
  to.immediate = wr.imm_data; // or invalidate_rkey: a union
  to.length = 0;
  to.elements = 0;
  to.received = 0;
  to.done = false;
  if (wr.opcode == IBV_WR_BIND_MW)
  {
    const ibv_mw_bind_info& info = wr.bind_mw.bind_info;
    to.rkey = wr.bind_mw.rkey;
    to.bind = {static_cast<const memory_window*>(wr.bind_mw.mw)->first_key,
      info.mr != nullptr ? info.mr->lkey : 0, info.mw_access_flags, info.addr, info.length};
    return;
  }
  if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
  {
    to.remote = wr.wr.atomic.remote_addr;
    to.rkey = wr.wr.atomic.rkey;
    to.compare_add = wr.wr.atomic.compare_add;
    to.swap = wr.wr.atomic.swap;
  }
  else
  {
    to.remote = wr.wr.rdma.remote_addr;
    to.rkey = wr.wr.rdma.rkey;
  }
  for (int i = 0; i < wr.num_sge; ++i)
  {
    const ibv_sge& e = wr.sg_list[i];
    if ((wr.send_flags & IBV_SEND_INLINE) != 0)
    {
      if (e.length != 0)
        std::memcpy(to.inline_bytes() + to.length, reinterpret_cast<const void*>(e.addr), e.length);
    }
    else
    {
      to.elements_begin()[to.elements++] = e;
    }
    to.length += e.length;
  }
}

int queue_pair::post(ibv_send_wr* wr, ibv_send_wr** bad, bool whole)
{
  const ibv_qp_state now = current();
  int error = 0;
  std::uint64_t bytes = 0;
  std::uint64_t posted = 0;
  if (now == IBV_QPS_RESET || now == IBV_QPS_INIT || now == IBV_QPS_RTR) // IBA 10.3.1
  {
    *bad = wr;
    return EINVAL;
  }
  {
    const std::lock_guard lock(sends.mutex);
    posted = sends.posted.load(std::memory_order_relaxed);
    const std::uint64_t before = posted;
    // acquire: the slot's last use ended before it was retired
    const std::uint64_t retired = sends.retired.load(std::memory_order_acquire);
    sends.take_back(retired);
    for (; wr != nullptr; wr = wr->next)
    {
      error = check(*wr);
      if (error == 0 && posted - retired >= cap.max_send_wr)
        error = ENOMEM; // ibv_post_send(3): full, or completions that were never polled
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
      bytes += place->length;
      ++posted;
    }
    sends.posted.store(posted, std::memory_order_release);
  }
  if (error == 0 && gathers(posted, bytes))
    owe();
  else
    serve(wire::mover::poster);
  return error;
}

// Whoever has so many small messages under way awaits their answers, and so polls: what is posted
// between two polls leaves with one system call. The engine comes if nobody polls after all; where
// it would have to be woken for that, nothing waits.
bool queue_pair::gathers(std::uint64_t posted, std::uint64_t bytes) const noexcept
{
  constexpr std::int64_t under_way_min = 8;
  constexpr std::uint64_t messages_max = 16;
  constexpr std::uint64_t bytes_max = 1024;
  // Neither needs to be exact.
  const std::uint64_t begun = begun_below.load(std::memory_order_relaxed);
  const std::uint64_t through = through_below.load(std::memory_order_relaxed);
  return bytes <= bytes_max && static_cast<std::int64_t>(begun - through) >= under_way_min
    && posted - begun <= messages_max && !link.is_local() && context_of.engine.is_awake();
}

int queue_pair::post_receives(ibv_recv_wr* wr, ibv_recv_wr** bad)
{
  if (shared != nullptr || current() == IBV_QPS_RESET)
  {
    *bad = wr;
    return EINVAL;
  }
  if (cap.max_recv_wr == 0)
  {
    *bad = wr;
    return ENOMEM;
  }
  const int error = fill(receives, cap.max_recv_sge, wr, bad);
  // seq_cst, here and in move(): either the message's holder sees the receive or we see that it
  // holds.
  if (held.load(std::memory_order_seq_cst) || current() == IBV_QPS_ERR)
    serve(wire::mover::poller); // delivers the message, or flushes the receive
  return error;
}

bool queue_pair::take_receive(protocol::receive_work& to)
{
  if (shared != nullptr)
    return shared->take(to);
  const std::lock_guard lock(receives.mutex);
  return take_oldest(receives, to);
}

void queue_pair::send_completed(const ibv_wc& wc, std::uint64_t next)
{
  if (!static_cast<completion_queue*>(send_cq)->push(wc, this, true, next, false))
    broken = true;
}

void queue_pair::receive_completed(const ibv_wc& wc, bool solicited)
{
  if (!static_cast<completion_queue*>(recv_cq)->push(wc, this, false, 0, solicited))
    broken = true;
}

void queue_pair::raise(ibv_event_type type)
{
  ibv_async_event event{};
  event.element.qp = this;
  event.event_type = type;
  context_of.events.raise(event);
}

void queue_pair::end()
{
  context_of.engine.remove(*this);
  {
    const std::lock_guard lock(progress);
    link.close();
  }
  static_cast<completion_queue*>(send_cq)->clean(*this);
  static_cast<completion_queue*>(recv_cq)->clean(*this);
  context_of.events.forget(static_cast<ibv_qp*>(this), events);
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad)
{
  if (qp->qp_type == IBV_QPT_UD) [[unlikely]]
    return static_cast<datagram_queue_pair*>(qp)->post(wr, bad, false);
  return static_cast<queue_pair*>(qp)->post(wr, bad);
}

int post_whole(ibv_qp* qp, ibv_send_wr* wr)
{
  ibv_send_wr* bad = nullptr;
  if (qp->qp_type == IBV_QPT_UD) [[unlikely]]
    return static_cast<datagram_queue_pair*>(qp)->post(wr, &bad, true);
  return static_cast<queue_pair*>(qp)->post(wr, &bad, true);
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad)
{
  if (qp->qp_type == IBV_QPT_UD) [[unlikely]]
    return static_cast<datagram_queue_pair*>(qp)->post_receives(wr, bad);
  return static_cast<queue_pair*>(qp)->post_receives(wr, bad);
}

// Type 1 windows have a verb of their own, which chooses the key (ibv_bind_mw(3)).
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* with)
{
  if (mw->type != IBV_MW_TYPE_1)
    return EINVAL;
  ibv_send_wr wr{};
  wr.wr_id = with->wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = with->send_flags;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = with->bind_info;
  ibv_send_wr* bad = nullptr;
  const int error = post_send(qp, &wr, &bad);
  if (error == 0)
    mw->rkey = wr.bind_mw.rkey;
  return error;
}

} // namespace rdma::software
