//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_impl.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

// The course of a call at a member, and its times.

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using std::chrono::steady_clock;

void group_impl::advance(const lock_type& lock, const record_ptr& of)
{
  if (closed_)
    return;
  for (auto tasks = of->state.take_tasks(); !tasks.empty(); tasks = of->state.take_tasks())
    for (const task& each : tasks)
      send(lock, of, each, true);
  if (of->state.done() && !of->finishing)
  {
    of->finishing = true;
    asio::post(executor_, [self = shared_from_this(), of] { self->finish(of); });
  }
  answer_callers(of, steady_clock::now());
  feed(lock, of);
  enqueue(lock, of);
}

// Combines the replies and answers.
void group_impl::finish(const record_ptr& of)
{
  if (process_.foreign())
    return;
  try
  {
    combine(of);
  }
  catch (const std::bad_alloc&)
  {
    const lock_type lock(mutex_);
    if (!closed_)
      end_without_memory(lock, of);
  }
}

void group_impl::combine(const record_ptr& of)
{
  group_call::outcome all;
  {
    const lock_type lock(mutex_);
    if (closed_)
      return;
    all = of->state.take_outcome();
  }
  group_part part{all.answered, std::move(all.missing), {}};
  error_code ec;
  try
  {
    for (std::size_t i = 0; i != all.values.size(); ++i)
      part.value = i == 0 ? std::move(all.values[0]) : of->method.reduce(part.value, all.values[i]);
  }
  catch (...)
  {
    ec = error_of(std::current_exception());
  }
  group_outcome outcome;
  {
    const lock_type lock(mutex_);
    if (closed_)
      return;
    of->message = {};
    withdraw(lock, *of);
    if (of->header.root == rank_)
    {
      own_calls_.erase(of->header.sequence);
      for (const group_absence& each : part.missing)
        outcome.missing.push_back({rank_of(*of, each.place), each.ec});
      std::ranges::sort(outcome.missing, {}, &rdma::rpc::missing_member::rank);
      outcome.answered = part.answered;
      outcome.value = std::move(part.value);
      end_operation(lock, *of, ec, ec ? group_outcome() : std::move(outcome));
    }
    else
    {
      std::vector<std::byte>& result = of->result.emplace();
      if (!ec)
        append_part(result, part);
      of->failure = ec;
      answer_callers(of, steady_clock::now());
      enqueue(lock, of);
    }
  }
}

// The operation of the root ends when no member can access its memory.
// The call is over at this member. Needs no memory.
void group_impl::end_without_memory(const lock_type& lock, const record_ptr& of) noexcept
{
  of->finishing = true;
  of->state.abandon();
  of->message = {};
  if (of->header.root == rank_)
  {
    own_calls_.erase(of->header.sequence);
    end_operation(lock, *of, asio::error::no_memory, {});
  }
  else
  {
    withdraw(lock, *of);
    of->failure = asio::error::no_memory;
    of->result.emplace();
    for (auto& [number, to] : of->callers)
      to.fail(of->failure);
    of->callers.clear();
    history_.forget(of->header.root, of->header.sequence, *of);
    of->removed = true;
  }
  queue_.erase({of->queued_at, of});
  of->queued_at = time_point::max();
}

void group_impl::end_operation(
  const lock_type& lock, record& of, const error_code& ec, group_outcome outcome)
{
  if (!of.handler || of.ending)
    return;
  of.ending.emplace(ec, std::move(outcome));
  withdraw(lock, of);
  complete_if_withdrawn(lock, of);
}

void group_impl::complete_if_withdrawn(const lock_type&, record& of)
{
  if (!of.ending || !of.handler || (of.bulk && of.bulk->exposed != 0))
    return;
  std::move(*of.handler).complete(of.ending->first, std::move(of.ending->second));
  of.handler.reset();
}

// The caller has the mutex.
void group_impl::answer_callers(const record_ptr& of, time_point now)
{
  if (of->finishing && !of->result)
    return;
  for (const std::uint64_t number : of->state.take_callers(now))
  {
    auto to = of->callers.extract(number);
    if (of->failure)
      to.mapped().fail(of->failure);
    else if (of->result)
      to.mapped().reply(*of->result);
    else
    {
      std::vector<std::byte> pending;
      append_pending(pending);
      to.mapped().reply(pending);
    }
  }
}

void group_impl::enqueue(const lock_type&, const record_ptr& of)
{
  auto next = of->state.alarm();
  if (of->finishing)
    next = of->result && !of->removed ? of->keep_until : time_point::max();
  if (next == of->queued_at)
    return;
  queue_.erase({of->queued_at, of});
  of->queued_at = next;
  if (next == time_point::max())
    return;
  queue_.emplace(next, of);
  set_alarm();
}

// The caller has the mutex.
void group_impl::set_alarm()
{
  if (queue_.empty() || queue_.begin()->first >= alarm_at_)
    return;
  alarm_at_ = queue_.begin()->first;
  alarm_.set(alarm_at_, weak_from_this());
}

// On the thread of connections.
void group_impl::on_alarm()
{
  const lock_type lock(mutex_);
  alarm_at_ = time_point::max();
  if (closed_ || queue_.empty())
    return;
  try
  {
    asio::post(executor_, [self = shared_from_this()] { self->on_time(); });
  }
  catch (const std::bad_alloc&)
  {
    late_alarm_->of = weak_from_this();
    static_cast<void>(run_later(executor_, late_alarm_)); // there is a thread: of the alarm
  }
}

void group_impl::on_time(const lock_type& lock, const record_ptr& of, time_point now,
  std::vector<std::shared_ptr<running_call>>& late)
{
  if (of->finishing)
  {
    history_.forget(of->header.root, of->header.sequence, *of);
    of->removed = true;
    return;
  }
  const bool waited = of->state.waits_for_own();
  of->state.on_time(now);
  if (waited && !of->state.waits_for_own())
    if (auto own = of->own.lock())
      late.push_back(std::move(own));
  advance(lock, of);
}

void group_impl::on_time()
{
  if (process_.foreign())
    return;
  std::vector<std::shared_ptr<running_call>> late;
  {
    const lock_type lock(mutex_);
    if (closed_)
      return;
    const auto now = steady_clock::now();
    while (!queue_.empty() && queue_.begin()->first <= now)
    {
      const record_ptr each = queue_.begin()->second;
      queue_.erase(queue_.begin());
      each->queued_at = time_point::max();
      or_end(lock, each, [&] { on_time(lock, each, now, late); });
    }
    set_alarm();
  }
  for (const auto& each : late)
    each->cancelled.emit(asio::cancellation_type::terminal);
}

} // namespace rdma::detail::rpc
