//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_impl.hpp"

#include "boost_rdma/detail/inner_executor.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using std::chrono::microseconds;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::hours timeout_max{24 * 10};

microseconds rounded(steady_clock::duration time)
{
  return std::max(std::chrono::duration_cast<microseconds>(time), microseconds(1));
}

bool is_right(const rdma::rpc::group_call_options& options)
{
  return options.timeout.count() > 0 && options.timeout <= timeout_max
    && options.silence.count() >= 0;
}

// Orders the processes that have had the same rank, one after the other.
std::uint64_t now_as_incarnation()
{
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
    std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

} // namespace

// The program's handler has not answered. Only its first answer has an effect, and only in time.
class group_impl::own_call final : public running_call
{
public:
  own_call(std::shared_ptr<group_impl> by, record_ptr of)
    : by_(std::move(by))
    , of_(std::move(of))
  {
    content.assign(of_->header.content.begin(), of_->header.content.end());
  }

  void reply(const reply_source& what) override
  {
    std::vector<std::byte> value;
    try
    {
      rdma::rpc::output to(value);
      what.encode(what.value, to);
    }
    catch (...)
    {
      return fail(error_of(std::current_exception()));
    }
    by_->take_own(of_, {}, std::move(value));
  }
  void fail(const error_code& ec) override
  {
    by_->take_own(of_, ec ? ec : make_error_code(error::call_failed), {});
  }

private:
  const std::shared_ptr<group_impl> by_;
  const record_ptr of_;
};

class group_impl::own_arrival final : public arrived_call
{
public:
  own_arrival(std::shared_ptr<own_call> of, time_point deadline)
    : arrived_call(of->content, deadline, {}, nullptr)
    , of_(std::move(of))
  {
  }
  void reply(const reply_source& what) override { of_->reply(what); }
  void fail(const error_code& ec) override { of_->fail(ec); }
  std::shared_ptr<running_call> keep() override { return of_; }

private:
  const std::shared_ptr<own_call> of_;
};

std::shared_ptr<group_core> group_core::make(const io_executor& executor,
  const protection_domain& domain, std::vector<endpoint_type> members, std::uint32_t rank,
  const rdma::rpc::group_options& options)
{
  if (rank >= members.size() || members.size() > UINT32_MAX || options.fan_out == 0)
    throw system_error(asio::error::invalid_argument, "rpc::group");
  const rdma::rpc::client checked(executor, domain, options.client); // throws now and not later
  return std::make_shared<group_impl>(executor, domain, std::move(members), rank, options);
}

group_impl::group_impl(const io_executor& executor, const protection_domain& domain,
  std::vector<endpoint_type> members, std::uint32_t rank, const rdma::rpc::group_options& options)
  : executor_(executor)
  , domain_(domain)
  , endpoints_(std::move(members))
  , rank_(rank)
  , options_(options)
  , incarnation_(now_as_incarnation())
  , alarm_(connection_service::of(inner_executor(executor)))
  , barrier_(std::make_shared<group_barrier>(
      executor, static_cast<std::uint32_t>(endpoints_.size()), rank, incarnation_))
{
  barrier_->add_methods(*this);
}

void group_impl::add(std::unique_ptr<group_method> method)
{
  const lock_type lock(mutex_);
  const std::string name(method->handler->description.name);
  methods_.emplace(name, std::move(method));
}

error_code group_impl::find(const method_description& what, group_method*& found) const
{
  const auto at = methods_.find(what.name);
  if (at == methods_.end())
    return error::no_such_method;
  const method_description& own = at->second->handler->description;
  if (own.request != what.request || own.reply != what.reply)
    return error::method_mismatch;
  found = at->second.get();
  return {};
}

// --- calls of which this member is the root ---

void group_impl::broadcast(const io_executor& executor, const method_description& method,
  std::span<const std::byte> request, const rdma::rpc::group_call_options& options,
  outcome_handler handler)
{
  const auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<group_outcome> waiting(executor, std::move(handler));
  if (process_.foreign())
    return std::move(waiting).complete(error::forked, {});
  record_ptr made;
  const auto start = [&]() -> error_code
  {
    if (!is_right(options))
      return asio::error::invalid_argument;
    const lock_type lock(mutex_);
    if (closed_)
      return error::closed;
    group_method* by = nullptr;
    if (const error_code ec = find(method, by))
      return ec;
    group_request r;
    r.kind = group_request_kind::call;
    r.root = rank_;
    r.members = static_cast<std::uint32_t>(endpoints_.size());
    r.range = {0, r.members};
    r.fan_out = options_.fan_out;
    r.incarnation = incarnation_;
    r.sequence = next_sequence_;
    r.oldest = own_calls_.empty() ? r.sequence : own_calls_.begin()->first;
    if (r.sequence - r.oldest >= group_request::calls_max)
      return error::overloaded;
    steady_clock::duration patience =
      options.timeout / (4 * (std::int64_t{height_of(r.members, r.fan_out)} + 1));
    if (options.silence.count() > 0)
      patience = std::min<steady_clock::duration>(patience, options.silence);
    r.patience = rounded(patience);
    r.method = method;
    r.content = request;
    const auto now = steady_clock::now();
    made = std::make_shared<record>(
      *by, r, group_call::plan{r.range, r.fan_out, now + options.timeout, r.patience}, now);
    append_group_request(made->message, r);
    made->header.content = std::span(made->message).last(request.size());
    made->handler.emplace(std::move(waiting));
    on_cancellation(slot, weak_from_this(),
      [weak = std::weak_ptr(made)](group_impl& self)
      {
        std::optional<waiting_handler<group_outcome>> cancelled;
        if (const auto found = weak.lock())
        {
          const lock_type lock_of_self(self.mutex_);
          cancelled.swap(found->handler);
        }
        if (cancelled)
          std::move(*cancelled).complete(asio::error::operation_aborted, {});
      });
    own_calls_.emplace(next_sequence_++, made);
    asio::post(executor_, [self = shared_from_this(), made] { self->start_own(made); });
    advance(lock, made);
    return {};
  };
  if (const error_code ec = start())
    std::move(waiting).complete(ec, {});
}

// --- calls that arrive ---

void group_impl::take(std::span<const std::byte> request, answer to)
{
  const auto r = decode_group_request(request);
  if (!r || r->members != endpoints_.size()
    || (std::uint64_t{r->root} + r->range.first) % r->members != rank_)
    return to.fail(error::malformed_message);
  record_ptr found;
  bool is_fresh = false;
  error_code ec;
  {
    const lock_type lock(mutex_);
    ec = accept(lock, *r, found, is_fresh);
    if (!ec)
    {
      const std::uint64_t caller = found->next_caller++;
      found->callers.emplace(caller, std::move(to));
      found->state.add_caller(caller, steady_clock::now());
      advance(lock, found);
    }
  }
  if (ec)
    to.fail(ec);
  else if (is_fresh)
    start_own(found);
}

// Finds or makes the record of a call that has arrived.
error_code group_impl::accept(
  const lock_type& lock, const group_request& r, record_ptr& found, bool& is_fresh)
{
  if (closed_)
    return error::closed;
  std::vector<record_ptr> removed;
  const auto known = history_.find(r, removed);
  for (const record_ptr& each : removed)
  {
    each->removed = true;
    enqueue(lock, each);
  }
  using verdict = group_history<record>::verdict;
  found = known.record;
  if (known.is == verdict::ended)
    return asio::error::timed_out;
  if (known.is == verdict::known)
    return found->header.range == r.range && found->header.members == r.members
      ? error_code()
      : make_error_code(error::malformed_message);
  if (r.kind == group_request_kind::inquiry)
    return error::malformed_message;
  group_method* by = nullptr;
  if (const error_code ec = find(r.method, by))
    return ec;
  const auto now = steady_clock::now();
  found = std::make_shared<record>(
    *by, r, group_call::plan{r.range, r.fan_out, now + r.left, r.patience}, now);
  append_group_request(found->message, r);
  found->header.content = std::span(found->message).last(r.content.size());
  found->header.method = {};
  history_.add(r, found);
  is_fresh = true;
  return {};
}

// --- the handler of this member ---

void group_impl::start_own(const record_ptr& of)
{
  std::shared_ptr<own_call> made;
  {
    const lock_type lock(mutex_);
    if (!of->state.waits_for_own() || closed_)
      return;
    made = std::make_shared<own_call>(shared_from_this(), of);
    of->own = made;
  }
  own_arrival arrival(std::move(made), of->ends);
  of->method.handler->start(arrival);
}

void group_impl::take_own(const record_ptr& of, const error_code& ec, std::vector<std::byte> value)
{
  const lock_type lock(mutex_);
  if (ec)
    of->state.take_own_failure(ec);
  else
    of->state.take_own(std::move(value));
  advance(lock, of);
}

// --- the course of a call ---

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
  enqueue(lock, of);
}

// Combines the replies and answers.
void group_impl::finish(const record_ptr& of)
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
  std::optional<waiting_handler<group_outcome>> handler;
  group_outcome outcome;
  {
    const lock_type lock(mutex_);
    if (closed_)
      return;
    of->message = {};
    if (of->header.root == rank_)
    {
      own_calls_.erase(of->header.sequence);
      handler.swap(of->handler);
      for (const group_absence& each : part.missing)
        outcome.missing.push_back({rank_of(*of, each.place), each.ec});
      std::ranges::sort(outcome.missing, {}, &rdma::rpc::missing_member::rank);
      outcome.answered = part.answered;
      outcome.value = std::move(part.value);
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
  if (handler)
    std::move(*handler).complete(ec, ec ? group_outcome() : std::move(outcome));
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

// --- times ---

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
  if (!closed_ && !queue_.empty())
    asio::post(executor_, [self = shared_from_this()] { self->on_time(); });
}

void group_impl::on_time()
{
  std::vector<std::shared_ptr<own_call>> late;
  {
    const lock_type lock(mutex_);
    if (closed_)
      return;
    const auto now = steady_clock::now();
    std::vector<record_ptr> due;
    for (const auto& [time, each] : queue_)
      if (time <= now)
        due.push_back(each);
      else
        break;
    for (const record_ptr& each : due)
    {
      if (each->finishing)
      {
        history_.forget(each->header.root, each->header.sequence, *each);
        each->removed = true;
        enqueue(lock, each);
        continue;
      }
      const bool waited = each->state.waits_for_own();
      each->state.on_time(now);
      if (waited && !each->state.waits_for_own())
        if (auto own = each->own.lock())
          late.push_back(std::move(own));
      advance(lock, each);
    }
    set_alarm();
  }
  for (const auto& each : late)
    each->cancelled.emit(asio::cancellation_type::terminal);
}

// --- messages to other members ---

void group_impl::send(
  const lock_type& lock, const record_ptr& of, const task& what, bool may_repeat)
{
  const std::uint32_t rank = rank_of(*of, what.to.first);
  member& to = members_[rank];
  if (!to.by || !to.by->is_open())
    try
    {
      connect(rank);
    }
    catch (const system_error& e)
    {
      return of->state.take_failure(what.to.first, e.code(), steady_clock::now());
    }
  if (to.connected)
    submit(lock, to, of, what, may_repeat);
  else
    to.waiting.emplace_back(of, what);
}

void group_impl::submit(
  const lock_type&, member& to, const record_ptr& of, const task& what, bool may_repeat)
{
  const auto now = steady_clock::now();
  if (what.until <= now || !of->state.waits_for(what.to.first))
    return; // on_time() bypasses it, or has done so
  set_group_callee(of->message, what.again ? group_request_kind::inquiry : group_request_kind::call,
    what.to, rounded(what.ends - now));
  const std::span<const std::byte> all(of->message);
  to.by->async_call<group_transport>(what.again ? all.first(group_request::header_size) : all,
    {.timeout = what.until - now},
    [self = shared_from_this(), of, what, by = to.by, may_repeat](
      const error_code& ec, const std::vector<std::byte>& content)
    { self->on_answer(of, what, by, may_repeat, ec, content); });
}

void group_impl::connect(std::uint32_t rank)
{
  member& to = members_[rank];
  to.connected = false;
  to.by = std::make_shared<client>(executor_, domain_, options_.client);
  to.by->async_connect(endpoints_[rank],
    [self = shared_from_this(), rank, by = to.by](const error_code& ec)
    { self->on_connected(rank, by, ec); });
}

void group_impl::on_connected(
  std::uint32_t rank, const std::shared_ptr<client>& by, const error_code& ec)
{
  const lock_type lock(mutex_);
  member& to = members_[rank];
  if (closed_ || to.by != by)
    return;
  const auto waiting = std::exchange(to.waiting, {});
  to.connected = !ec;
  if (ec)
    to.by.reset();
  for (const auto& [of, what] : waiting)
    if (!ec)
      submit(lock, to, of, what, false);
    else
    {
      of->state.take_failure(what.to.first, ec, steady_clock::now());
      advance(lock, of);
    }
}

void group_impl::on_answer(const record_ptr& of, const task& what,
  const std::shared_ptr<client>& by, bool may_repeat, error_code ec,
  std::span<const std::byte> content)
{
  const std::uint32_t place = what.to.first;
  std::optional<group_answer> answer;
  if (!ec)
    answer = decode_group_answer(content, what.to);
  if (!ec && (!answer || (answer->part.answered != 0 && !of->method.accepts(answer->part.value))))
    ec = error::malformed_message;
  const lock_type lock(mutex_);
  if (closed_ || !of->state.waits_for(place))
    return;
  if (ec && may_repeat && !by->is_open())
  {
    // The connection was there before this call, and the member may have been started again since.
    task whole = what;
    whole.again = false;
    send(lock, of, whole, false);
  }
  else if (ec)
    of->state.take_failure(place, ec, steady_clock::now());
  else if (answer->is_pending)
    of->state.take_pending(place, steady_clock::now());
  else
    of->state.take_part(place, std::move(answer->part));
  advance(lock, of);
}

// --- barriers and the end ---

void group_impl::enter_barrier(const io_executor& executor,
  const rdma::rpc::group_call_options& options, missing_handler handler)
{
  const auto slot = asio::get_associated_cancellation_slot(handler);
  group_barrier::handler_type waiting(executor, std::move(handler));
  if (process_.foreign())
    return std::move(waiting).complete(error::forked, {});
  if (!is_right(options))
    return std::move(waiting).complete(asio::error::invalid_argument, {});
  if (!is_open())
    return std::move(waiting).complete(error::closed, {});
  barrier_->enter(shared_from_this(), options, std::move(waiting), slot);
}

void group_impl::close()
{
  if (process_.foreign())
    return; // the parent uses the connections
  std::vector<record_ptr> all;
  std::vector<std::shared_ptr<client>> clients;
  {
    const lock_type lock(mutex_);
    if (std::exchange(closed_, true))
      return;
    history_.clear(all);
    for (const auto& [sequence, each] : own_calls_)
      all.push_back(each);
    own_calls_.clear();
    queue_.clear();
    for (auto& [rank, each] : members_)
      if (each.by)
        clients.push_back(std::move(each.by));
    members_.clear();
  }
  // Nothing else uses the records from now on.
  for (const auto& each : clients)
    each->close();
  for (const record_ptr& each : all)
  {
    for (auto& [number, to] : each->callers)
      to.fail(error::closed);
    each->callers.clear();
    if (each->handler)
      std::move(*each->handler).complete(asio::error::operation_aborted, {});
    each->handler.reset();
    if (auto own = each->own.lock())
      asio::post(executor_, [own] { own->cancelled.emit(asio::cancellation_type::terminal); });
  }
  barrier_->close();
}

bool group_impl::is_open() const
{
  if (process_.foreign())
    return false;
  const lock_type lock(mutex_);
  return !closed_;
}

void start_broadcast(const group_core::io_executor& executor, group_core* core,
  const method_description& method, std::span<const std::byte> request,
  const rdma::rpc::group_call_options& options, group_core::outcome_handler handler)
{
  if (core != nullptr)
    core->broadcast(executor, method, request, options, std::move(handler));
  else
    waiting_handler<group_outcome>(executor, std::move(handler)).complete(error::closed, {});
}

void start_barrier(const group_core::io_executor& executor, group_core* core,
  const rdma::rpc::group_call_options& options, group_core::missing_handler handler)
{
  if (core != nullptr)
    core->enter_barrier(executor, options, std::move(handler));
  else
    group_barrier::handler_type(executor, std::move(handler)).complete(error::closed, {});
}

} // namespace rdma::detail::rpc
