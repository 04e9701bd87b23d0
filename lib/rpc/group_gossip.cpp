//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_gossip.hpp"

#include "boost_rdma/detail/inner_executor.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using std::chrono::steady_clock;

group_gossip::group_gossip(const io_executor& executor, const protection_domain& domain,
  const std::vector<endpoint_type>& members, std::uint32_t rank,
  const rdma::rpc::group_options& options, std::uint64_t incarnation)
  : executor_(executor)
  , domain_(domain)
  , endpoints_(members)
  , rank_(rank)
  , options_(options)
  , alarm_(connection_service::of(inner_executor(executor)))
  , state_({.members = static_cast<std::uint32_t>(members.size()),
             .rank = rank,
             .incarnation = incarnation,
             .period = options.probe_period,
             .suspicion = options.suspicion_time,
             .seed = static_cast<std::uint32_t>(incarnation) ^ rank},
      steady_clock::now())
{
}

void group_gossip::start(hooks h)
{
  hooks_ = std::move(h);
  late_time_->of = weak_from_this();
  const lock_type lock(mutex_);
  set_alarm();
}

template <class Function>
bool group_gossip::update(Function function)
{
  std::map<std::uint64_t, handler_type> waiting;
  membership changed;
  {
    const lock_type lock(mutex_);
    if (closed_)
      return false;
    function(steady_clock::now());
    set_alarm();
    if (reported_ == state_.version())
      return true;
    try
    {
      changed = membership_now();
    }
    catch (const std::bad_alloc&)
    {
      return true; // the next call reports it
    }
    reported_ = changed.version;
    waiting.swap(waiting_);
  }
  try
  {
    hooks_.changed(changed);
  }
  catch (const std::bad_alloc&)
  {
    // Calls and barriers that go on are not told, and end by their own time limits.
  }
  for (auto& [number, each] : waiting)
    complete_with_copy(std::move(each), {}, changed);
  return true;
}

// --- messages of other members ---

void group_gossip::take(std::span<const std::byte> request, answer to)
{
  const auto r = decode_gossip_request(request, static_cast<std::uint32_t>(endpoints_.size()));
  if (!r || r->sender == rank_)
    return to.fail(error::malformed_message);
  const outgoing_ptr relay = r->target != rank_ ? std::make_shared<outgoing>() : nullptr;
  std::vector<std::byte> reply;
  const bool is_open = update(
    [&](time_point now)
    {
      for (const swim_report& each : r->reports)
        state_.take(each, now);
      state_.take_contact(r->sender, r->incarnation, now);
      if (!relay)
        append_gossip_answer(reply, {state_.incarnation(), state_.take_reports(r->sender)});
      else if (relays_ != relays_max)
      {
        ++relays_;
        relay->what = {r->target, r->target, now + options_.probe_period / 3};
        relay->rank_of_asker = r->sender;
        relay->asker.emplace(std::move(to));
      }
    });
  if (!is_open)
    to.fail(error::closed);
  else if (!relay)
    to.reply(reply);
  else if (relay->asker)
    send(relay);
  else
    to.fail(error::overloaded);
}

// --- pings ---

// Runs a step of a ping, which ends with the error if the step throws.
template <class Step>
void group_gossip::or_fail(const outgoing_ptr& of, Step step)
try
{
  step();
}
catch (const system_error& e)
{
  on_answer(of, e.code(), {});
}
catch (const std::bad_alloc&)
{
  on_answer(of, asio::error::no_memory, {});
}

void group_gossip::send(const outgoing_ptr& of)
{
  or_fail(of,
    [&]
    {
      of->by = hooks_.connection(of->what.to);
      if (of->by)
        return submit(of);
      of->by = std::make_shared<rdma::rpc::client>(executor_, domain_, options_.client);
      of->is_own = true;
      if (!update([&](time_point) { own_.emplace(of->what.until, of); }))
        throw system_error(error::closed);
      of->by->async_connect(endpoints_[of->what.to],
        [self = shared_from_this(), of](const error_code& ec)
        {
          if (ec)
            self->on_answer(of, ec, {});
          else
            self->or_fail(of, [&] { self->submit(of); });
        });
    });
}

// May throw.
void group_gossip::submit(const outgoing_ptr& of)
{
  const auto now = steady_clock::now();
  if (of->what.until <= now)
    throw system_error(asio::error::timed_out);
  gossip_request r;
  r.members = static_cast<std::uint32_t>(endpoints_.size());
  r.sender = rank_;
  r.target = of->what.target;
  {
    const lock_type lock(mutex_);
    r.incarnation = state_.incarnation();
    r.reports = state_.take_reports(of->what.to);
  }
  std::vector<std::byte> request;
  append_gossip_request(request, r);
  of->by->async_call<gossip_transport>(request, {.timeout = of->what.until - now},
    [self = shared_from_this(), of](const error_code& ec, const std::vector<std::byte>& content)
    { self->on_answer(of, ec, content); });
}

void group_gossip::on_answer(
  const outgoing_ptr& of, error_code ec, std::span<const std::byte> content)
{
  release(of);
  std::optional<gossip_answer> answered;
  try
  {
    if (!ec)
      answered = decode_gossip_answer(content, static_cast<std::uint32_t>(endpoints_.size()));
    if (!ec && !answered)
      ec = error::malformed_message;
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  std::vector<std::byte> reply;
  bool is_open = true;
  try
  {
    is_open = update(
      [&](time_point now)
      {
        if (of->asker)
          --relays_;
        if (!answered)
          return;
        for (const swim_report& each : answered->reports)
          state_.take(each, now);
        state_.take_contact(of->what.target, answered->incarnation, now);
        if (of->asker)
          append_gossip_answer(
            reply, {answered->incarnation, state_.take_reports(of->rank_of_asker)});
      });
  }
  catch (const std::bad_alloc&) // of the reply
  {
    ec = asio::error::no_memory;
  }
  if (!of->asker)
    return;
  if (is_open && !ec)
    of->asker->reply(reply);
  else
    of->asker->fail(ec ? ec : make_error_code(error::closed));
}

void group_gossip::release(const outgoing_ptr& of)
{
  if (!of->is_own)
    return;
  {
    const lock_type lock(mutex_);
    std::erase_if(own_, [&](const auto& each) { return each.second == of; });
  }
  of->by->close();
}

// --- times ---

// The caller has the mutex.
void group_gossip::set_alarm() noexcept
{
  auto next = state_.alarm();
  if (!own_.empty())
    next = std::min(next, own_.begin()->first);
  if (next >= alarm_at_)
    return;
  alarm_at_ = next;
  alarm_.set(next, weak_from_this());
}

// On the thread of connections.
void group_gossip::on_alarm()
{
  const lock_type lock(mutex_);
  alarm_at_ = time_point::max();
  if (closed_)
    return;
  try
  {
    post_time();
  }
  catch (const std::bad_alloc&)
  {
    static_cast<void>(run_later(executor_, late_time_)); // there is a thread: of the alarm
  }
}

void group_gossip::post_time()
{
  asio::post(executor_, [self = shared_from_this()] { self->on_time(); });
}

void group_gossip::on_time()
{
  std::multimap<time_point, outgoing_ptr> late;
  try
  {
    std::vector<swim::ping> pings;
    update(
      [&](time_point now)
      {
        while (!own_.empty() && own_.begin()->first <= now)
          late.insert(own_.extract(own_.begin()));
        pings = state_.on_time(now);
      });
    for (const swim::ping& each : pings)
    {
      const auto made = std::make_shared<outgoing>();
      made->what = each;
      send(made);
    }
  }
  catch (const std::bad_alloc&)
  {
    // Pings that are not sent are like lost ones.
    const lock_type lock(mutex_);
    if (!closed_ && alarm_at_ == time_point::max())
    {
      alarm_at_ = steady_clock::now() + options_.probe_period;
      alarm_.set(alarm_at_, weak_from_this());
    }
  }
  for (const auto& [time, each] : late)
    each->by->close(); // its operation ends
}

// --- the program ---

bool group_gossip::has_failed(std::uint32_t rank) const
{
  const lock_type lock(mutex_);
  return state_.health(rank) == swim_health::failed;
}

group_gossip::membership group_gossip::current() const
{
  const lock_type lock(mutex_);
  return membership_now();
}

void group_gossip::wait(std::uint64_t known, handler_type handler, asio::cancellation_slot slot)
{
  const lock_type lock(mutex_);
  if (closed_)
    return std::move(handler).complete(error::closed, {});
  if (state_.version() != known)
    return std::move(handler).complete({}, membership_now());
  const std::uint64_t number = next_waiting_++;
  on_cancellation(slot, weak_from_this(),
    [number](group_gossip& self)
    {
      const lock_type lock_of_self(self.mutex_);
      if (auto found = self.waiting_.extract(number))
        std::move(found.mapped()).complete(asio::error::operation_aborted, {});
    });
  waiting_.emplace(number, std::move(handler));
}

void group_gossip::close()
{
  std::map<std::uint64_t, handler_type> waiting;
  std::multimap<time_point, outgoing_ptr> own;
  {
    const lock_type lock(mutex_);
    closed_ = true;
    waiting.swap(waiting_);
    own.swap(own_);
  }
  for (const auto& [time, each] : own)
    each->by->close();
  for (auto& [number, each] : waiting)
    std::move(each).complete(asio::error::operation_aborted, {});
}

} // namespace rdma::detail::rpc
