//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/memory.hpp"
#include "verbs/software/objects/queue_pair_base.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

// Posting to a queue pair of any service.

namespace rdma::software {
namespace {

template <class... Opcodes>
constexpr std::uint32_t bits(Opcodes... of) noexcept
{
  return ((1u << of) | ...);
}

// IBA 9.2.1: the services have no opcodes for others.
constexpr std::uint32_t ud_operations = bits(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM);
constexpr std::uint32_t uc_operations = ud_operations
  | bits(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW);
constexpr std::uint32_t rc_operations = uc_operations
  | bits(IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_WR_ATOMIC_FETCH_AND_ADD, protocol::wr_atomic_write);

constexpr std::uint32_t with_inline_data = bits(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
  IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, protocol::wr_atomic_write);

constexpr bool contains(std::uint32_t set, ibv_wr_opcode opcode) noexcept
{
  return static_cast<std::uint32_t>(opcode) < 32 && (set >> opcode & 1) != 0;
}

std::size_t request_extra(const ibv_qp_cap& cap)
{
  return std::max<std::size_t>(cap.max_inline_data, cap.max_send_sge * sizeof(ibv_sge));
}

queue_pair_base& of(ibv_qp* qp) noexcept
{
  return *static_cast<queue_pair_base*>(qp);
}

} // namespace

queue_pair_base::queue_pair_base(protection_domain& in, const ibv_qp_init_attr& with)
  : context_of(device_context::of(in.context))
  , domain(in)
  , cap(with.cap)
  , signal_all(with.sq_sig_all != 0)
  , sends(std::max(with.cap.max_send_wr, 1u), request_extra(with.cap), in.queues())
  , receives(
      std::max(with.cap.max_recv_wr, 1u), with.cap.max_recv_sge * sizeof(ibv_sge), in.queues())
  , shared(static_cast<shared_receive_queue*>(with.srq))
  , operations(with.qp_type == IBV_QPT_UD  ? ud_operations
        : with.qp_type == IBV_QPT_UC       ? uc_operations
        : with.qp_type == IBV_QPT_XRC_RECV ? 0
                                           : rc_operations)
{
}

int queue_pair_base::check(const ibv_send_wr& wr) const noexcept
{
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > cap.max_send_sge
    || !contains(operations, wr.opcode) || (wr.opcode == IBV_WR_BIND_MW && wr.bind_mw.mw == nullptr)
    || (qp_type == IBV_QPT_XRC_SEND && wr.qp_type.xrc.remote_srqn > protocol::psn_mask))
    return EINVAL;
  if (qp_type == IBV_QPT_UD) [[unlikely]]
    if (const int error = check_destination(wr); error != 0)
      return error;
  if ((wr.send_flags & IBV_SEND_INLINE) == 0)
    return 0;
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i)
    bytes += wr.sg_list[i].length;
  return contains(with_inline_data, wr.opcode) && bytes <= cap.max_inline_data ? 0 : EINVAL;
}

void queue_pair_base::store(protocol::send_request& to, const ibv_send_wr& wr) const noexcept
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
    auto& window = *static_cast<memory_window*>(wr.bind_mw.mw);
    // Only the low 8 bits of a key belong to the program (IBA 10.6.3.3).
    window.rkey = to.rkey = (window.first_key & ~0xffu) | (wr.bind_mw.rkey & 0xff);
    to.bind = {window.first_key, info.mr != nullptr ? info.mr->lkey : 0, info.mw_access_flags,
      info.addr, info.length};
    return;
  }
  if (qp_type == IBV_QPT_XRC_SEND)
    to.srq = wr.qp_type.xrc.remote_srqn;
  if (qp_type == IBV_QPT_UD) [[unlikely]]
  {
    store_destination(to, wr);
  }
  else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
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
    if ((wr.send_flags & IBV_SEND_INLINE) == 0)
      to.elements_begin()[to.elements++] = e;
    else if (e.length != 0)
      std::memcpy(to.inline_bytes() + to.length, reinterpret_cast<const void*>(e.addr), e.length);
    to.length += e.length;
  }
}

int queue_pair_base::post(ibv_send_wr* wr, ibv_send_wr** bad, bool whole)
{
  const ibv_qp_state now = current();
  if (now == IBV_QPS_RESET || now == IBV_QPS_INIT || now == IBV_QPS_RTR) // IBA 10.3.1
  {
    *bad = wr;
    return EINVAL;
  }
  int error = 0;
  std::uint64_t bytes = 0;
  std::uint64_t posted = 0;
  ibv_send_wr* const first = wr;
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
      {
        // No memory. A caller that stays below max_send_wr does not expect that a part of its list
        // is posted: if only the last request is signalled, no completion reports the end of it.
        error = ENOMEM;
        whole = true;
      }
      if (error != 0)
      {
        *bad = whole ? first : wr;
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
  if (error == 0)
    requests_posted(posted, bytes);
  else
    serve(wire::mover::poster);
  return error;
}

int queue_pair_base::post_receives(ibv_recv_wr* wr, ibv_recv_wr** bad)
{
  if (current() == IBV_QPS_RESET || cap.max_recv_wr == 0)
  {
    *bad = wr;
    return srq == nullptr && cap.max_recv_wr == 0 ? ENOMEM : EINVAL;
  }
  const int error = fill(receives, cap.max_recv_sge, wr, bad);
  if (receives.awaited.load(std::memory_order_relaxed) || current() == IBV_QPS_ERR)
    serve(wire::mover::poller); // announces the receive, or flushes it
  return error;
}

bool queue_pair_base::take_posted(protocol::receive_work& to, bool await) noexcept
{
  if (shared != nullptr)
    return shared->take(to, await ? qp_num : 0);
  if (take_oldest(receives, to))
  {
    if (await && receives.awaited.load(std::memory_order_relaxed))
      receives.awaited.store(false, std::memory_order_relaxed);
    return true;
  }
  const std::lock_guard lock(receives.mutex);
  const bool found = take_oldest(receives, to);
  if (await && receives.awaited.load(std::memory_order_relaxed) == found)
    receives.awaited.store(!found, std::memory_order_relaxed);
  return found;
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad)
{
  return of(qp).post(wr, bad);
}

int post_whole(ibv_qp* qp, ibv_send_wr* wr)
{
  ibv_send_wr* bad = nullptr;
  return of(qp).post(wr, &bad, true);
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad)
{
  return of(qp).post_receives(wr, bad);
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
  return post_send(qp, &wr, &bad);
}

} // namespace rdma::software
