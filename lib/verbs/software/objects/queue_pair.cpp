//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/queue_pair.hpp"

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

// The states of a queue pair with a connection. queue_pair_progress.cpp carries its requests out.

namespace rdma::software {

queue_pair::queue_pair(protection_domain& in, const ibv_qp_init_attr& with)
  : queue_pair_base(in, with)
  , requester(sends, with_, *this)
  , responder(with_, *this,
      with.qp_type == IBV_QPT_XRC_RECV ? context_of.settings.max_sge
        : shared != nullptr            ? shared->elements_max
                                       : with.cap.max_recv_sge)
  , connection(context_of.engine, with_, requester, responder, context_of.grants)
{
  flushing.storage = std::make_unique<ibv_sge[]>(std::max(with.cap.max_recv_sge, 1u));
  with_.kind = with.qp_type == IBV_QPT_UC ? protocol::service_uc
    : with.qp_type == IBV_QPT_RC          ? protocol::service_rc
                                          : protocol::service_xrc;
}

int queue_pair::enter(ibv_qp_state from, ibv_qp_state to)
{
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
  {
    if (const int error = enter_ready_to_receive(); error != 0)
      return error;
  }
  else if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
  {
    enter_ready_to_send();
  }
  else if (from == IBV_QPS_SQE && to == IBV_QPS_RTS)
  {
    requester.recover();
  }
  requester.drain(to == IBV_QPS_SQD);
  draining = to == IBV_QPS_SQD && (draining || from == IBV_QPS_RTS);
  with_.access = attributes.qp_access_flags;
  with_.min_rnr_timer = attributes.min_rnr_timer;
  with_.max_read_atomic = attributes.max_rd_atomic;
  with_.rnr_retry = attributes.rnr_retry;
  with_.retry_count = attributes.retry_cnt;
  with_.timeout = attributes.timeout;
  return 0;
}

void queue_pair::changed_from(ibv_qp_state before)
{
  // A connection that has just begun has nothing to read yet, or the socket reports it.
  const bool connecting = before != current() && (before == IBV_QPS_INIT || before == IBV_QPS_RTR);
  move(connecting ? wire::mover::poster : wire::mover::engine);
}

int queue_pair::enter_ready_to_receive()
{
  const ibv_gid& mine = context_of.gids[attributes.ah_attr.grh.sgid_index];
  protocol::hello hello;
  std::memcpy(hello.from.gid.data(), mine.raw, sizeof mine.raw);
  hello.from.qp = qp_num;
  std::memcpy(hello.to.gid.data(), attributes.ah_attr.grh.dgid.raw, sizeof mine.raw);
  hello.to.qp = attributes.dest_qp_num;
  hello.expected_psn = attributes.rq_psn;
  with_.keys = &context_of.keys;
  with_.pd = protecting(&domain);
  with_.receive_pd = protecting(shared != nullptr ? shared->pd : &domain);
  with_.qp = qp_num;
  with_.peer_qp = attributes.dest_qp_num;
  with_.rq_psn = attributes.rq_psn;
  with_.max_peer_read_atomic = attributes.max_dest_rd_atomic;
  with_.signal_all = signal_all;
  with_.has_short_sends = context_of.has_short_sends;
  if (const std::uint64_t seed = context_of.settings.hostile_seed; seed != 0)
    with_.hostile = &hostile.emplace(seed, qp_num);
  if (const int error = context_of.engine.listen(qp_num, mine, attributes.ah_attr.grh.sgid_index);
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
  connection.choose_route({attributes.ah_attr.grh.traffic_class, attributes.ah_attr.grh.hop_limit});
  connection.open(hello, secret,
    end_of_wire == wire_end::connects
      || (end_of_wire == wire_end::by_name && hello.from < hello.to),
    wire::now());
  return 0;
}

void queue_pair::enter_ready_to_send()
{
  with_.sq_psn = attributes.sq_psn;
  with_.rnr_retry = attributes.rnr_retry;
  responder.announce(false);
  connection.tell_first_psn(attributes.sq_psn);
  requester.start();
}

// A request of its own that cannot be carried out ends the sending of an unreliable queue pair, not
// its receiving (IBA 10.3.1.6). ibv_modify_qp() to RTS resumes it.
void queue_pair::enter_send_error()
{
  set_state(IBV_QPS_SQE);
  requester.flush();
}

void queue_pair::enter_error(bool fatal)
{
  if (current() == IBV_QPS_ERR)
    return;
  set_state(IBV_QPS_ERR);
  // After the change: a program that receives an event finds the queue pair in this state
  // (ibv_get_async_event(3)).
  if (const auto refused = responder.take_event())
    raise(*refused);
  if (fatal)
    raise(IBV_EVENT_QP_FATAL);
  requester.halt();
  // The last answers first, so that the peer receives the reason.
  connection.transmit(true);
  connection.close();
  flush();
  if (srq != nullptr)
    raise(IBV_EVENT_QP_LAST_WQE_REACHED);
}

void queue_pair::stop() noexcept
{
  connection.close();
  requester.reset();
  responder.reset();
  if (with_.kind == protocol::service_xrc)
    select(nullptr);
  publish_progress();
  broken = owing = draining = false;
  resume_at = waiting_since = last_look = lost_until = give_up_at = 0;
}

// The protection domain of an XRC target is that of the shared receive queue, for remote keys, too
// (IBA annex A14).
void queue_pair::select(shared_receive_queue* queue) noexcept
{
  shared = queue;
  with_.pd = with_.receive_pd = protecting(queue != nullptr ? queue->pd : &domain);
}

bool queue_pair::select_queue(std::uint32_t number) noexcept
{
  if (shared == nullptr || shared->number != number)
    select(context_of.xrc.find(number, domain));
  return shared != nullptr;
}

void queue_pair::forget_queue(const shared_receive_queue& gone) noexcept
{
  progress.lock();
  if (shared == &gone)
  {
    select(nullptr);
    responder.lose_receive();
  }
  let_go();
}

bool queue_pair::is_draining() const noexcept
{
  return current() == IBV_QPS_SQD && !requester.drained();
}

void queue_pair::withdraw()
{
  context_of.engine.remove(*this);
  const std::lock_guard lock(progress);
  connection.close();
}

namespace {

// Null for a datagram queue pair, which has no peer, and for one that is past INIT.
queue_pair* unconnected(ibv_qp* qp) noexcept
{
  if (qp->qp_type == IBV_QPT_UD)
    return nullptr;
  auto* const found = static_cast<queue_pair*>(qp);
  return found->current() == IBV_QPS_RESET || found->current() == IBV_QPS_INIT ? found : nullptr;
}

} // namespace

int set_connection_secret(ibv_qp* qp, const connection_secret& secret)
{
  queue_pair* const owner = unconnected(qp);
  if (owner == nullptr)
    return EINVAL;
  owner->secret = secret;
  return 0;
}

int set_wire_end(ibv_qp* qp, wire_end which)
{
  queue_pair* const owner = unconnected(qp);
  if (owner == nullptr)
    return EINVAL;
  owner->end_of_wire = which;
  return 0;
}

const char* wire_name(const ibv_qp* qp)
{
  return qp->qp_type != IBV_QPT_UD ? static_cast<const queue_pair*>(qp)->wire_name() : "";
}

const char* linked_by(const ibv_qp* qp)
{
  return qp->qp_type != IBV_QPT_UD ? static_cast<const queue_pair*>(qp)->linked_by() : "";
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
