//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair.hpp"

#include <algorithm>

#include <sys/epoll.h>

// How a queue pair moves: whoever comes by carries frames in and out and looks at what time it is.

namespace rdma::software {
namespace {

// IBA 9.7.6.1.3: from one to four times the time that the attribute says, for each try.
std::int64_t silence_max(const ibv_qp_attr& attributes, std::chrono::milliseconds at_least)
{
  if (attributes.timeout == 0)
    return 0;                                                         // waits for ever
  const std::int64_t once = std::int64_t{4096} << attributes.timeout; // 4.096 us * 2^timeout
  return std::max<std::int64_t>(
    4 * once * (attributes.retry_cnt + 1), std::chrono::nanoseconds(at_least).count());
}

// How long requests to a peer that is gone stay unanswered: as a NIC leaves them at least, which
// tries on in vain. What other queue pairs have from that peer, sent before it went, is read in the
// meantime, and is not overtaken by the failure.
std::int64_t patience_with_the_lost(const ibv_qp_attr& attributes)
{
  constexpr std::int64_t most = 100'000'000;
  const std::int64_t tries =
    (std::int64_t{4096} << attributes.timeout) * (attributes.retry_cnt + 1);
  return attributes.timeout != 0 && tries < most ? tries : most;
}

// An exchange that is cheap when there is nothing to take.
bool take(std::atomic<bool>& flag)
{
  return flag.load(std::memory_order_relaxed) && flag.exchange(false, std::memory_order_relaxed);
}

} // namespace

void queue_pair::serve(wire::mover by, std::uint32_t ready_for)
{
  bool writable = (ready_for & EPOLLOUT) != 0;
  bool readable = (ready_for & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0;
  const bool is_engine = by == wire::mover::engine;
  bool locked = is_engine ? progress.try_lock() : progress.try_lock_soon();
  for (;;)
  {
    if (!locked)
    {
      // What the note says besides "come": published by it.
      if (writable)
        room.store(true, std::memory_order_relaxed);
      if (readable)
        told.store(true, std::memory_order_relaxed);
      if (by == wire::mover::engine)
        pressed.store(true, std::memory_order_relaxed);
      if (by != wire::mover::poster)
        wanted.store(true, std::memory_order_relaxed);
      // The note is left before the lock is tried again: either the holder sees it, or it has let
      // go and we get the lock.
      called.store(true, std::memory_order_seq_cst);
      if (!progress.try_lock())
        return;
    }
    // What others came for is done even if we came for less: they come only once.
    if (called.load(std::memory_order_relaxed))
    {
      called.exchange(false, std::memory_order_seq_cst); // reads it: what it published is seen
      writable = take(room) || writable;
      readable = take(told) || readable;
      const bool receives_too = take(wanted);
      if (take(pressed))
        by = wire::mover::engine;
      else if (receives_too && by == wire::mover::poster)
        by = wire::mover::poller;
    }
    move(by, writable, readable);
    writable = readable = false;
    progress.unlock();
    if (!called.load(std::memory_order_seq_cst) || (is_engine && taken_over()))
      return;
    locked = progress.try_lock();
  }
}

// Who polls all the time comes back for the note. Without that moment the engine, once it is here,
// would do the work of both for as long as the polling lasts, and the poller would leave one note
// after another.
bool queue_pair::taken_over() const noexcept
{
  for (unsigned i = 0; i < 2 * progress_lock::looks_max; ++i)
  {
    progress_lock::pause();
    if (!called.load(std::memory_order_relaxed))
      return true; // by whoever has the lock now
  }
  return false;
}

void queue_pair::come_due(std::int64_t now)
{
  // Before the look: who comes to owe something from here on says so anew.
  indebted.exchange(false, std::memory_order_seq_cst);
  const std::int64_t alarm = alarm_at.load(std::memory_order_relaxed);
  if (owes.load(std::memory_order_seq_cst) || (alarm != 0 && now >= alarm)
    || sends.posted.load(std::memory_order_acquire) != begun_below.load(std::memory_order_relaxed))
    serve(wire::mover::engine);
}

// Once is enough until the engine has been here.
void queue_pair::owe() noexcept
{
  if (!indebted.exchange(true, std::memory_order_seq_cst))
    context_of.engine.owe(*this);
}

void queue_pair::tell_how_far() noexcept
{
  begun_below.store(requester.begun_below(), std::memory_order_relaxed);
  through_below.store(requester.through_below(), std::memory_order_relaxed);
}

// For those who held `progress` for another reason: does what others left a note about meanwhile.
void queue_pair::let_go()
{
  progress.unlock();
  if (called.load(std::memory_order_seq_cst))
    serve(wire::mover::engine);
}

void queue_pair::move(wire::mover by, bool writable, bool readable)
{
  const ibv_qp_state now_state = current();
  if (now_state == IBV_QPS_RESET || now_state == IBV_QPS_INIT)
    return;
  if (now_state == IBV_QPS_ERR)
  {
    flush();
    return;
  }
  // Messages on the local wire do without the clock, and without working out what is due: while
  // that is nothing but the alarm, for which the engine comes.
  bool calm = by != wire::mover::engine && with_.kind == protocol::service_rc && link.is_local()
    && !link.held() && resume_at == 0;
  std::int64_t now = 0;
  if (!calm)
  {
    now = wire::now();
    link.timer(now);
  }
  const std::uint32_t receives_before = responder.receives();
  if (resume_at != 0 && now >= resume_at)
  {
    resume_at = 0;
    requester.resume();
  }
  if (by != wire::mover::poster)
  {
    if (writable)
      link.writable();
    link.receive(now, readable);
    // Another message than before is announced anew: the shared receive queue forgets a holder it
    // has told.
    while (link.held()
      && (!held.exchange(true, std::memory_order_seq_cst) || announced != link.hold_number()))
    {
      announced = link.hold_number();
      if (shared != nullptr)
        shared->holder.store(qp_num, std::memory_order_seq_cst);
      link.receive(now, false);
    }
    if (!link.held())
      held.store(false, std::memory_order_relaxed);
  }
  // A poller that finds a message may answer it at once, and the acknowledgement rides along; so it
  // waits for one more call, but not when it has been waiting already. On the local wire it is
  // cheap by itself: it waits for the answer to one message of a program that polls, and not for
  // what becomes of many.
  const std::uint32_t received = responder.receives() - receives_before;
  const bool may_ride = by == wire::mover::poller && !owing
    && (link.is_local() ? received == 1 && link.is_looked_at() : received != 0);
  const bool owed = owing;
  link.transmit(by == wire::mover::engine || (by == wire::mover::poller && !may_ride));
  if (link.deaf())
    link.receive(now, true);
  owing = responder.acknowledgement_wanted();
  const bool expects_without_alarm =
    alarm_at.load(std::memory_order_relaxed) == 0 && requester.expecting();
  if (calm
    && (!link.is_local() || link.held() || link.malformed() || broken || draining
      || requester.failed() || requester.waiting() || responder.failed() || expects_without_alarm))
  {
    calm = false;
    now = wire::now();
  }
  if (!calm)
  {
    look_for_the_end(now);
    if (current() == IBV_QPS_ERR)
      return;
    keep_time(now);
  }
  tell_how_far();
  const bool unfinished = requester.unfinished() || link.unfinished();
  if (const bool now_owes = owing || unfinished; owes.load(std::memory_order_relaxed) != now_owes)
    owes.store(now_owes, std::memory_order_seq_cst);
  const bool owes_more = owing && !owed && !link.is_looked_at();
  if (owes_more || unfinished)
    owe();
}

void queue_pair::look_for_the_end(std::int64_t now)
{
  if (with_.kind != protocol::service_rc) [[unlikely]]
    return look_for_the_end_unreliable();
  if (link.lost() && lost_until == 0)
    lost_until = now + patience_with_the_lost(attributes);
  if (lost_until != 0 && now >= lost_until && !link.malformed() && requester.expecting()
    && !requester.failed())
    requester.fail(IBV_WC_RETRY_EXC_ERR, protocol::detail_connection_lost);
  const bool fatal = link.malformed() || broken;
  // A refusal that the connection cannot carry any more ends this side all the same.
  if (requester.failed() || responder.failed() || (link.lost() && responder.refusing()) || fatal)
    enter_error(fatal);
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
    resume_at = wire::now() + wait;
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
  std::int64_t alarm = alarm_at.load(std::memory_order_relaxed);
  if (alarm != 0 && now >= alarm)
    alarm_at.store(alarm = 0, std::memory_order_relaxed); // it has rung, or is about to
  std::int64_t next = 0;
  const std::int64_t gone_at = expecting ? lost_until : 0;
  for (const std::int64_t at :
    {silent_until, resume_at, gone_at, link.retry_at(), give_up_at > now ? give_up_at : 0})
    if (at != 0 && (next == 0 || at < next))
      next = at;
  // Later than an alarm that is set anyway is soon enough: it is looked at again then.
  if (next != 0 && (alarm == 0 || next < alarm))
  {
    alarm_at.store(next, std::memory_order_relaxed);
    context_of.engine.alarm(*this, next);
  }
}

void queue_pair::meet()
{
  progress.lock();
  if (current() != IBV_QPS_RESET && current() != IBV_QPS_INIT)
  {
    link.meet();
    move(wire::mover::poster, false, false); // the answer to our hello takes its time
  }
  let_go();
}

// IBA 10.3.1.7: what is outstanding is completed, in order, with a flush error.
void queue_pair::flush()
{
  requester.flush();
  responder.flush();
  tell_how_far();
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

void queue_pair::enter_error(bool fatal)
{
  if (current() == IBV_QPS_ERR)
    return;
  set_state(IBV_QPS_ERR);
  // From now on: who hears of it finds the queue pair in this state (ibv_get_async_event(3)).
  if (const auto refused = responder.take_event())
    raise(*refused);
  if (fatal)
    raise(IBV_EVENT_QP_FATAL);
  requester.halt();
  // The last answers first: the peer is to know why.
  link.transmit(true);
  link.close();
  flush();
  if (shared != nullptr)
    raise(IBV_EVENT_QP_LAST_WQE_REACHED);
}

} // namespace rdma::software
