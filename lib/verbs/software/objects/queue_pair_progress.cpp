//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair.hpp"

#include <algorithm>

// How a queue pair moves: whoever comes by carries frames in and out and looks at what time it is.

namespace rdma::software {
namespace {

// IBA 9.7.6.1.3: from one to four times the time that the attribute says, for each try.
std::int64_t silence_max(const ibv_qp_attr& attributes, std::chrono::milliseconds at_least)
{
  if (attributes.timeout == 0)
    return 0; // waits for ever
  const std::int64_t once = std::int64_t{4096} << attributes.timeout; // 4.096 us * 2^timeout
  return std::max<std::int64_t>(
    4 * once * (attributes.retry_cnt + 1), std::chrono::nanoseconds(at_least).count());
}

// An exchange that is cheap when there is nothing to take.
bool take(std::atomic<bool>& flag)
{
  return flag.load(std::memory_order_relaxed) && flag.exchange(false, std::memory_order_relaxed);
}

} // namespace

void queue_pair::serve(wire::mover by, bool writable)
{
  // What the note says besides "come": published by it.
  if (writable)
    room.store(true, std::memory_order_relaxed);
  if (by == wire::mover::engine)
    pressed.store(true, std::memory_order_relaxed);
  if (by != wire::mover::poster)
    wanted.store(true, std::memory_order_relaxed);
  do
  {
    // The note is left first: either the holder sees it, or it has let go and we get the lock.
    called.store(true, std::memory_order_seq_cst);
    if (!progress.try_lock())
      return;
    called.store(false, std::memory_order_seq_cst);
    const bool has_room = take(room);
    // What others came for is done even if we came for less: they come only once.
    const bool receives_too = take(wanted);
    if (take(pressed))
      by = wire::mover::engine;
    else if (receives_too && by == wire::mover::poster)
      by = wire::mover::poller;
    move(by, has_room);
    progress.unlock();
  } while (called.load(std::memory_order_seq_cst));
}

// For those who held `progress` for another reason: does what others left a note about meanwhile.
void queue_pair::let_go()
{
  progress.unlock();
  if (called.load(std::memory_order_seq_cst))
    serve(wire::mover::engine);
}

void queue_pair::move(wire::mover by, bool writable)
{
  const ibv_qp_state now_state = current();
  if (now_state == IBV_QPS_RESET || now_state == IBV_QPS_INIT)
    return;
  if (now_state == IBV_QPS_ERR)
  {
    flush();
    return;
  }
  if (by == wire::mover::engine)
    indebted.store(false, std::memory_order_relaxed);
  const std::int64_t now = wire::now();
  const std::uint32_t receives_before = responder.receives();
  link.timer(now);
  if (resume_at != 0 && now >= resume_at)
  {
    resume_at = 0;
    requester.resume();
  }
  if (by != wire::mover::poster)
  {
    if (writable)
      link.writable();
    link.receive(now);
    // Another message than before is announced anew: the shared receive queue forgets a holder it has told.
    while (link.held() && (!held.exchange(true, std::memory_order_seq_cst) || announced != link.hold_number()))
    {
      announced = link.hold_number();
      if (shared != nullptr)
        shared->holder.store(qp_num, std::memory_order_seq_cst);
      link.receive(now);
    }
    if (!link.held())
      held.store(false, std::memory_order_relaxed);
  }
  // A poller that finds a message may answer it at once, and the acknowledgement rides along; so it waits
  // for one more call, but not when it has been waiting already.
  const bool may_ride = by == wire::mover::poller && !owing && responder.receives() != receives_before;
  const bool owed = owing;
  link.transmit(by == wire::mover::engine || (by == wire::mover::poller && !may_ride));
  if (link.deaf())
    link.receive(now);
  owing = responder.acknowledgement_wanted();
  look_for_the_end();
  if (current() == IBV_QPS_ERR)
    return;
  keep_time(now);
  // Once is enough until the engine has been here.
  if (owing && !owed && !indebted.exchange(true, std::memory_order_relaxed))
    context_of.engine.owe(*this);
}

void queue_pair::look_for_the_end()
{
  if (link.lost() && !link.malformed() && requester.expecting() && !requester.failed())
    requester.fail(IBV_WC_RETRY_EXC_ERR, protocol::detail_connection_lost);
  if (link.malformed() || broken)
    raise(IBV_EVENT_QP_FATAL);
  // A refusal that the connection cannot carry any more ends this side all the same.
  if (requester.failed() || responder.failed() || (link.lost() && responder.refusing()) || link.malformed()
    || broken)
    enter_error();
  else if (draining && requester.drained())
  {
    draining = false;
    if (attributes.en_sqd_async_notify != 0)
      raise(IBV_EVENT_SQ_DRAINED);
  }
}

void queue_pair::keep_time(std::int64_t now)
{
  if (const std::int64_t wait = requester.take_wait(); wait != 0)
    resume_at = now + wait;
  const bool expecting = current() != IBV_QPS_RTR && requester.expecting();
  // Bytes that move are a sign of life: a large message may take longer than the timer.
  const bool sign = heard != requester.responses() || moved != link.moved() || resume_at != 0;
  heard = requester.responses();
  moved = link.moved();
  std::int64_t silent_until = 0;
  if (!expecting)
    waiting_since = 0;
  else
  {
    if (waiting_since == 0 || sign)
      waiting_since = now;
    const std::int64_t most = silence_max(attributes, context_of.settings.retry_time_min);
    silent_until = most != 0 ? waiting_since + most : 0;
    if (silent_until != 0 && now >= silent_until)
    {
      requester.fail(IBV_WC_RETRY_EXC_ERR, protocol::detail_no_answer);
      enter_error();
      return;
    }
  }
  if (alarm_at != 0 && now >= alarm_at)
    alarm_at = 0; // it has rung, or is about to
  std::int64_t next = 0;
  for (const std::int64_t at : {silent_until, resume_at, link.retry_at()})
    if (at != 0 && (next == 0 || at < next))
      next = at;
  // Later than an alarm that is set anyway is soon enough: it is looked at again then.
  if (next != 0 && (alarm_at == 0 || next < alarm_at))
  {
    alarm_at = next;
    context_of.engine.alarm(*this, next);
  }
}

void queue_pair::meet()
{
  progress.lock();
  if (current() != IBV_QPS_RESET && current() != IBV_QPS_INIT)
  {
    link.meet();
    move(wire::mover::poster, false); // the answer to our hello takes its time
  }
  let_go();
}

// IBA 10.3.1.7: what is outstanding is completed, in order, with a flush error.
void queue_pair::flush()
{
  requester.flush();
  responder.flush();
  if (shared != nullptr)
    return; // they belong to others as well
  ibv_wc wc{};
  wc.status = IBV_WC_WR_FLUSH_ERR;
  wc.opcode = IBV_WC_RECV;
  wc.vendor_err = protocol::detail_flushed;
  wc.qp_num = qp_num;
  wc.src_qp = with_.peer_qp;
  while (take_receive(flushing))
  {
    wc.wr_id = flushing.id;
    receive_completed(wc, false);
  }
}

void queue_pair::enter_error()
{
  if (current() == IBV_QPS_ERR)
    return;
  set_state(IBV_QPS_ERR);
  requester.halt();
  // The last answers first: the peer is to know why.
  link.transmit(true);
  link.close();
  flush();
  if (shared != nullptr)
    raise(IBV_EVENT_QP_LAST_WQE_REACHED);
}

} // namespace rdma::software
