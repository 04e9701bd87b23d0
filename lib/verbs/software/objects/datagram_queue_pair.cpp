//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/datagram_queue_pair.hpp"

#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/memory.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

// The states of a datagram queue pair. datagram_send.cpp and datagram_receive.cpp carry its
// requests out.

namespace rdma::software {

datagram_queue_pair::datagram_queue_pair(protection_domain& in, const ibv_qp_init_attr& with)
  : queue_pair_base(in, with)
{
  const std::uint32_t elements = shared != nullptr ? shared->elements_max : with.cap.max_recv_sge;
  receive_.storage = std::make_unique<ibv_sge[]>(std::max(elements, 1u));
}

int datagram_queue_pair::check_destination(const ibv_send_wr& wr) const noexcept
{
  // IBA 10.2.2.2: an address handle of the queue pair's own domain.
  return wr.wr.ud.ah != nullptr && protecting(wr.wr.ud.ah->pd) == protecting(pd)
      && wr.wr.ud.remote_qpn <= protocol::psn_mask
    ? 0
    : EINVAL;
}

void datagram_queue_pair::store_destination(
  protocol::send_request& to, const ibv_send_wr& wr) const noexcept
{
  to.remote =
    reinterpret_cast<std::uintptr_t>(wr.wr.ud.ah); // the program keeps it until the completion
  to.rkey = wr.wr.ud.remote_qpn;
  // IBA 10.2.5: with the high bit set it stands for the queue pair's own Q_Key, which may be a
  // privileged one.
  to.swap = (wr.wr.ud.remote_qkey & 0x8000'0000) != 0 ? queue_key.load(std::memory_order_relaxed)
                                                      : wr.wr.ud.remote_qkey;
}

void datagram_queue_pair::serve(wire::mover by, std::uint32_t)
{
  // The engine calls this for requests to send; it reads arriving datagrams at the port.
  if (by == wire::mover::poller)
    if (auto* const port = last_port.load(std::memory_order_acquire))
      port->receive();
  do
  {
    // Set first: either the holder sees it, or it has unlocked and this thread gets the lock.
    called.store(true, std::memory_order_seq_cst);
    if (!progress.try_lock())
      return;
    called.store(false, std::memory_order_seq_cst);
    transmit();
    progress.unlock();
  } while (called.load(std::memory_order_seq_cst));
}

int datagram_queue_pair::prepare_to_receive()
{
  // A datagram names its queue pair by number alone, so it may come to any address of the port.
  if (const int error =
        context_of.datagrams.open(context_of.engine, qp_num, context_of.gids, ports_);
      error != 0)
    return error;
  last_port.store(ports_->front().get(), std::memory_order_release);
  try
  {
    context_of.datagrams.join(qp_num, *this);
    return 0;
  }
  catch (const std::bad_alloc&)
  {
    return ENOMEM;
  }
}

int datagram_queue_pair::enter(ibv_qp_state from, ibv_qp_state to)
{
  queue_key.store(attributes.qkey, std::memory_order_relaxed);
  if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
    psn_ = attributes.sq_psn;
  return 0;
}

void datagram_queue_pair::changed_from(ibv_qp_state before)
{
  // A datagram is never under way: the system call that sends it ends it.
  if (before == IBV_QPS_RTS && current() == IBV_QPS_SQD && attributes.en_sqd_async_notify != 0)
    raise(IBV_EVENT_SQ_DRAINED);
  transmit();
}

void datagram_queue_pair::stop() noexcept
{
  next_ = 0;
  has_receive_ = false;
}

void datagram_queue_pair::enter_error(bool fatal)
{
  if (state_now.exchange(IBV_QPS_ERR, std::memory_order_acq_rel) != IBV_QPS_ERR)
  {
    // After the change: a program that receives an event finds the queue pair in this state
    // (ibv_get_async_event(3)).
    if (fatal)
      raise(IBV_EVENT_QP_FATAL);
    if (shared != nullptr)
      raise(IBV_EVENT_QP_LAST_WQE_REACHED);
  }
  context_of.engine.owe(*this);
}

void datagram_queue_pair::withdraw()
{
  context_of.datagrams.leave(qp_num);
  context_of.engine.remove(*this);
}

} // namespace rdma::software
