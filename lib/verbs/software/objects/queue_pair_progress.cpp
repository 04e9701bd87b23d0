//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair.hpp"

#include <algorithm>

// The progress of a queue pair with a connection: the thread that has `progress` receives,
// transmits and checks the time limits.

namespace rdma::software {
namespace {

// IBA 9.7.6.1.3: between one and four times the attribute's time, for each try.
std::int64_t silence_max(const ibv_qp_attr& attributes, std::chrono::milliseconds at_least)
{
  if (attributes.timeout == 0)
    return 0;                                                         // no limit
  const std::int64_t once = std::int64_t{4096} << attributes.timeout; // 4.096 us * 2^timeout
  return std::max<std::int64_t>(
    4 * once * (attributes.retry_cnt + 1), std::chrono::nanoseconds(at_least).count());
}

// The time from the loss of a connection to the failure of its requests: at least as on a NIC,
// which retries first. Meanwhile messages that the peer sent to other queue pairs before it ended
// are read, so that the failure does not overtake them.
std::int64_t patience_with_the_lost(const ibv_qp_attr& attributes)
{
  constexpr std::int64_t most = 100'000'000;
  const std::int64_t tries =
    (std::int64_t{4096} << attributes.timeout) * (attributes.retry_cnt + 1);
  return attributes.timeout != 0 && tries < most ? tries : most;
}

// The engine reads the sockets in this time, where a process runs at all.
constexpr std::int64_t last_look_time = 50'000'000;

// Only so few bytes wait for the next poll.
constexpr std::uint64_t deferred_bytes_max = 4096;

// An exchange that is cheap when there is nothing to take.
bool take(std::atomic<bool>& flag)
{
  return flag.load(std::memory_order_relaxed) && flag.exchange(false, std::memory_order_relaxed);
}

} // namespace

void queue_pair::serve(wire::mover by, std::uint32_t)
{
  carry(by, by == wire::mover::engine ? progress.try_lock() : progress.try_lock_soon());
}

// As serve(). `locked`: this thread has `progress`.
void queue_pair::carry(wire::mover by, bool locked)
{
  const bool is_engine = by == wire::mover::engine;
  for (;;)
  {
    if (!locked)
    {
      // The reason, published by `called`.
      if (by == wire::mover::engine)
        pressed.store(true, std::memory_order_relaxed);
      if (by != wire::mover::poster)
        wanted.store(true, std::memory_order_relaxed);
      // Set before the lock is tried again: either the holder sees it, or it has unlocked and this
      // thread gets the lock.
      called.store(true, std::memory_order_seq_cst);
      if (!progress.try_lock())
        return;
    }
    // This call also does what other threads called for, because they call only once.
    if (called.load(std::memory_order_relaxed))
    {
      called.exchange(false, std::memory_order_seq_cst); // an exchange reads, so it acquires
      const bool receives_too = take(wanted);
      if (take(pressed))
        by = wire::mover::engine;
      else if (receives_too && by == wire::mover::poster)
        by = wire::mover::poller;
    }
    move(by);
    progress.unlock();
    if (!called.load(std::memory_order_seq_cst) || (is_engine && taken_over()))
      return;
    locked = progress.try_lock();
  }
}

// A thread that polls all the time comes back soon. Without this wait the engine, once it has the
// lock, would do the poller's work for as long as the polling lasts.
bool queue_pair::taken_over() const noexcept
{
  for (unsigned i = 0; i < 2 * progress_lock::looks_max; ++i)
  {
    detail::pause();
    if (!called.load(std::memory_order_relaxed))
      return true; // by whoever has the lock now
  }
  return false;
}

bool queue_pair::come_due(std::int64_t now)
{
  // Cleared before the check, so that a later debt is reported again.
  indebted.exchange(false, std::memory_order_seq_cst);
  const std::int64_t alarm = alarm_at.load(std::memory_order_relaxed);
  if (owes.load(std::memory_order_seq_cst) || (alarm != 0 && now >= alarm)
    || sends.posted.load(std::memory_order_acquire) != begun_below.load(std::memory_order_relaxed))
  {
    serve(wire::mover::engine);
    return true;
  }
  return false;
}

void queue_pair::deliver(wire::tcp_link& from, wire::mover by)
{
  progress.lock();
  move(by, &from);
  let_go();
}

bool queue_pair::has_many_under_way() const noexcept
{
  constexpr std::int64_t under_way_min = 4;
  // Neither needs to be exact.
  const std::uint64_t begun = begun_below.load(std::memory_order_relaxed);
  const std::uint64_t through = through_below.load(std::memory_order_relaxed);
  return static_cast<std::int64_t>(begun - through) >= under_way_min;
}

void queue_pair::requests_posted(std::uint64_t end, std::uint64_t bytes)
{
  if (!progress.try_lock())
    return serve(wire::mover::poster);
  if (at_rest && connection.write_at_once() && !broken)
    publish_progress();
  else if (connection.is_tcp() && bytes <= deferred_bytes_max && context_of.engine.is_awake())
    move_or_defer(end);
  else
    return carry(wire::mover::poster, true);
  progress.unlock();
  if (called.load(std::memory_order_seq_cst))
    serve(wire::mover::poster);
}

// Small messages on the TCP wire wait for the next poll, so that several leave with one system
// call, if several have come together or many are under way: a program with so many polls for their
// completions. The engine sends them if nobody polls. If it would have to be woken, nothing waits.
void queue_pair::move_or_defer(std::uint64_t end)
{
  constexpr std::uint64_t messages_max = 128;
  const bool answers = connection.expects_more();
  if ((answers || has_many_under_way())
    && end - begun_below.load(std::memory_order_relaxed) <= messages_max)
    connection.defer(answers);
  else
    move(wire::mover::poster);
}

void queue_pair::send_completed(const ibv_wc& wc, std::uint64_t next)
{
  if (with_.hostile != nullptr) [[unlikely]]
    with_.hostile->delay_completion();
  if (!static_cast<completion_queue*>(send_cq)->push(wc, carrier(), this, true, next, false))
    broken = true;
}

void queue_pair::receive_completed(const ibv_wc& wc, bool solicited)
{
  // XRC: the message's queue has one; null after its end.
  ibv_cq* const to = recv_cq != nullptr ? recv_cq : shared != nullptr ? shared->cq : nullptr;
  if (to != nullptr
    && !static_cast<completion_queue*>(to)->push(wc, carrier(), this, false, 0, solicited))
    broken = true;
}

// Calls the engine once until it has been here.
void queue_pair::owe() noexcept
{
  if (!indebted.exchange(true, std::memory_order_seq_cst))
    context_of.engine.owe(*this);
}

void queue_pair::publish_progress() noexcept
{
  begun_below.store(requester.begun_below(), std::memory_order_relaxed);
  through_below.store(requester.through_below(), std::memory_order_relaxed);
}

void queue_pair::move(wire::mover by, wire::tcp_link* from)
{
  at_rest = false;
  const ibv_qp_state now_state = current();
  if (now_state == IBV_QPS_RESET || now_state == IBV_QPS_INIT)
    return;
  if (now_state == IBV_QPS_ERR)
    return flush();
  // Messages on the local wire are carried without reading the clock and without checking what is
  // due, as long as nothing but the alarm can be due, for which the engine comes.
  bool calm = by != wire::mover::engine && with_.kind != protocol::service_uc
    && connection.is_local() && resume_at == 0;
  std::int64_t now = 0;
  if (!calm)
  {
    now = wire::now();
    connection.timer(now);
  }
  if (resume_at != 0 && now >= resume_at)
  {
    resume_at = 0;
    requester.resume();
  }
  if (responder.awaits_receive())
    announce_receive();
  const std::uint32_t receives_before = responder.receives();
  if (by != wire::mover::poster)
    connection.receive(now, from);
  const bool owed = owing;
  transmit(by, responder.receives() - receives_before);
  if (calm && needs_the_clock())
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
  publish_progress();
  const bool unfinished = requester.unfinished() || connection.unfinished();
  if (const bool now_owes = owing || unfinished; owes.load(std::memory_order_relaxed) != now_owes)
    owes.store(now_owes, std::memory_order_seq_cst);
  const bool owes_more = owing && !owed && !connection.is_looked_at();
  if (owes_more && connection.is_tcp())
    connection.defer(true);
  else if (owes_more || unfinished)
    owe();
  if (unfinished && send_cq != nullptr) // the next poll continues, long before the engine does
    static_cast<completion_queue*>(send_cq)->hint.store(qp_num, std::memory_order_relaxed);
  at_rest = calm && connection.is_at_rest();
}

// A message was refused because it found no receive. Tells the requester when there is one.
void queue_pair::announce_receive()
{
  protocol::receive_queue& queue = shared != nullptr ? shared->queue : receives;
  const std::lock_guard lock(queue.mutex);
  if (queue.size() != 0)
  {
    queue.awaited.store(false, std::memory_order_relaxed);
    responder.receive_posted();
  }
  else if (shared != nullptr)
  {
    shared->await(qp_num); // another queue pair took it
  }
}

// A poller that finds a message may answer it at once, and the answer includes the acknowledgement.
// So the acknowledgement waits for one more call, but only one. On the local wire an
// acknowledgement is cheap: there it waits only after a single message, and only for a program that
// polls.
void queue_pair::transmit(wire::mover by, std::uint32_t received)
{
  const bool waits = by == wire::mover::poller && !owing
    && (connection.is_local() ? received == 1 && connection.is_looked_at() : received != 0);
  connection.transmit(by == wire::mover::engine || (by == wire::mover::poller && !waits));
  owing = responder.acknowledgement_wanted();
}

// Returns true after a call without the clock that left something to time or to end.
bool queue_pair::needs_the_clock() const noexcept
{
  return !connection.is_local() || connection.wakes_again() || connection.malformed() || broken
    || draining || requester.failed() || requester.waiting() || responder.failed()
    || (alarm_at.load(std::memory_order_relaxed) == 0 && requester.expecting());
}

void queue_pair::look_for_the_end(std::int64_t now)
{
  if (with_.kind == protocol::service_uc) [[unlikely]]
    return look_for_the_end_unreliable();
  if (connection.lost() && lost_until == 0)
    lost_until = now + patience_with_the_lost(attributes);
  if (lost_until != 0 && now >= lost_until && !connection.malformed() && requester.expecting()
    && !requester.failed())
    requester.fail(IBV_WC_RETRY_EXC_ERR, protocol::detail_connection_lost);
  const bool fatal = connection.malformed() || broken;
  // A refusal that the connection can no longer carry ends this side all the same.
  if (requester.failed() || responder.failed() || (connection.lost() && responder.refusing())
    || fatal)
    enter_error(fatal);
  else
    report_drained();
}

// Neither the peer nor the network ends an unreliable connection's queue pair (IBA 9.8).
void queue_pair::look_for_the_end_unreliable()
{
  if (broken || responder.failed())
  {
    enter_error(broken);
    return;
  }
  const std::int64_t now = wire::now();
  if (connection.lost())
  {
    // The peer may come back under the same name. Until then messages are lost, as on a network.
    responder.lose_message();
    requester.vanish();
    connection.reopen(now);
    give_up_at = now;
  }
  if (connection.established())
  {
    give_up_at = 0;
  }
  else if (requester.outstanding())
  {
    // At the beginning the peer may be late: the first message waits for it.
    if (give_up_at == 0)
      give_up_at = now + std::chrono::nanoseconds(context_of.settings.retry_time_min).count();
    else if (now >= give_up_at)
      requester.discard();
  }
  if (current() == IBV_QPS_SQE)
  {
    requester.flush(); // requests posted since
  }
  else if (requester.failed())
  {
    enter_send_error();
  }
  else
  {
    report_drained();
  }
}

void queue_pair::report_drained()
{
  if (!draining || !requester.drained())
    return;
  draining = false;
  if (attributes.en_sqd_async_notify != 0)
    raise(IBV_EVENT_SQ_DRAINED);
}

void queue_pair::keep_time(std::int64_t now)
{
  if (const std::int64_t wait = requester.take_wait(); wait != 0)
    resume_at = wire::now() + wait;
  else if (!requester.waiting())
    resume_at = 0;
  const bool expecting = current() != IBV_QPS_RTR && requester.expecting();
  // Only progress of this end's requests restarts the time: messages that answer nothing must not
  // keep a request waiting. A large message may take longer than the timer, so bytes count.
  const bool sign = heard != requester.progress() || moved != connection.moved() || resume_at != 0;
  heard = requester.progress();
  moved = connection.moved();
  std::int64_t silent_until = 0;
  if (!expecting)
    waiting_since = 0;
  else
  {
    if (waiting_since == 0 || sign)
      waiting_since = now;
    const std::int64_t most = silence_max(attributes, context_of.settings.retry_time_min);
    silent_until = most != 0 ? waiting_since + most : 0;
    // It may have been this process that did not run: what has come meanwhile is read first.
    if (silent_until == 0 || now < silent_until)
      last_look = 0;
    else if (last_look == 0)
      last_look = now + last_look_time;
    if (last_look != 0)
      silent_until = last_look;
    if (silent_until != 0 && now >= silent_until)
    {
      requester.fail(IBV_WC_RETRY_EXC_ERR, protocol::detail_no_answer);
      enter_error(false);
      return;
    }
  }
  std::int64_t alarm = alarm_at.load(std::memory_order_relaxed);
  if (alarm != 0 && now >= alarm)
    alarm_at.store(alarm = 0, std::memory_order_relaxed); // it has expired
  std::int64_t next = 0;
  const std::int64_t gone_at = expecting ? lost_until : 0;
  for (const std::int64_t at :
    {silent_until, resume_at, gone_at, connection.retry_at(), give_up_at > now ? give_up_at : 0})
    if (at != 0 && (next == 0 || at < next))
      next = at;
  // An earlier alarm suffices: it checks the times again.
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
    connection.meet();
    move(wire::mover::poster); // the answer to our hello comes later
  }
  let_go();
}

// IBA 10.3.1.7: outstanding requests complete, in order, with a flush error.
void queue_pair::flush()
{
  requester.flush();
  responder.flush();
  publish_progress();
  if (cap.max_recv_wr == 0)
    return; // a shared queue's receives belong to other queue pairs, too
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

} // namespace rdma::software
