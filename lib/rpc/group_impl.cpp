//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_impl.hpp"

#include "boost_rdma/detail/inner_executor.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::hours timeout_max{24 * 10};

bool is_right(const rdma::rpc::group_call_options& options)
{
  return options.timeout.count() > 0 && options.timeout <= timeout_max
    && options.silence.count() >= 0;
}

bool is_right(const rdma::rpc::group_options& options)
{
  return options.fan_out != 0 && options.probe_period.count() >= 0
    && options.probe_period <= timeout_max && options.suspicion_time.count() >= 0
    && options.suspicion_time <= timeout_max;
}

// Orders the processes that have had the same rank, one after the other.
std::uint64_t now_as_incarnation()
{
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
    std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

} // namespace

std::shared_ptr<group_core> group_core::make(const io_executor& executor,
  const protection_domain& domain, std::vector<endpoint_type> members, std::uint32_t rank,
  const rdma::rpc::group_options& options)
{
  if (rank >= members.size() || members.size() > UINT32_MAX || !is_right(options))
    throw system_error(asio::error::invalid_argument, "rpc::group");
  const rdma::rpc::client checked(executor, domain, options.client); // throws now and not later
  auto made = std::make_shared<group_impl>(executor, domain, std::move(members), rank, options);
  made->start_gossip();
  return made;
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
      executor, alarm_, static_cast<std::uint32_t>(endpoints_.size()), rank, incarnation_))
  , gossip_(options.probe_period.count() > 0
        ? std::make_shared<group_gossip>(executor, domain, endpoints_, rank, options, incarnation_)
        : nullptr)
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
    const bool is_bulk = options.exposed.size() != 0;
    r.kind = is_bulk ? group_request_kind::bulk : group_request_kind::call;
    r.bytes = options.exposed.size();
    r.root = rank_;
    r.members = static_cast<std::uint32_t>(endpoints_.size());
    r.range = {0, r.members};
    // The root sends the content to each of its children.
    r.fan_out = is_bulk ? std::min(options_.fan_out, 2U) : options_.fan_out;
    r.incarnation = incarnation_;
    r.sequence = next_sequence_;
    r.oldest = own_calls_.empty() ? r.sequence : own_calls_.begin()->first;
    if (r.sequence - r.oldest >= group_request::calls_max)
      return error::overloaded;
    steady_clock::duration patience =
      options.timeout / (4 * (std::int64_t{height_of(r.members, r.fan_out)} + 1));
    if (options.silence.count() > 0)
      patience = std::min<steady_clock::duration>(patience, options.silence);
    r.patience = rounded_time(patience);
    r.method = method;
    r.content = request;
    const auto now = steady_clock::now();
    made = std::make_shared<record>(
      *by, r, group_call::plan{r.range, r.fan_out, now + options.timeout, r.patience}, now);
    append_group_request(made->message, r);
    made->header.content = std::span(made->message).last(request.size());
    if (is_bulk)
    {
      made->bulk = std::make_unique<bulk_content>(r.bytes, true);
      made->bulk->memory = options.exposed;
    }
    on_cancellation(slot, weak_from_this(),
      [weak = std::weak_ptr(made)](group_impl& self)
      {
        if (const auto found = weak.lock())
        {
          const lock_type lock_of_self(self.mutex_);
          self.end_operation(lock_of_self, *found, asio::error::operation_aborted, {});
        }
      });
    own_calls_.emplace(next_sequence_++, made);
    made->handler.emplace(std::move(waiting));
    or_end(lock, made,
      [&]
      {
        asio::post(executor_, [self = shared_from_this(), made] { self->start_own(made); });
        advance(lock, made);
      });
    return {};
  };
  if (const error_code ec = start())
    std::move(waiting).complete(ec, {});
}

void group_impl::enter_barrier(const io_executor& executor,
  const rdma::rpc::group_call_options& options, missing_handler handler)
{
  const auto slot = asio::get_associated_cancellation_slot(handler);
  group_barrier::handler_type waiting(executor, std::move(handler));
  if (process_.foreign())
    return std::move(waiting).complete(error::forked, {});
  if (!is_right(options) || options.exposed.size() != 0)
    return std::move(waiting).complete(asio::error::invalid_argument, {});
  if (!is_open())
    return std::move(waiting).complete(error::closed, {});
  barrier_->enter(shared_from_this(), options, std::move(waiting), slot);
  if (has_failed(0))
    barrier_->lose_root();
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
    for (const auto& [time, each] : queue_) // some of them are no longer in the history
      all.push_back(each);
    queue_.clear();
    for (auto& [rank, each] : members_)
      if (each.by)
        clients.push_back(std::move(each.by));
    members_.clear();
  }
  if (gossip_)
    gossip_->close();
  // From now on, nothing else uses the records but the ends of parts of their contents.
  for (const auto& each : clients)
    each->close();
  for (const record_ptr& each : all)
  {
    for (auto& [number, to] : each->callers)
      to.fail(error::closed);
    each->callers.clear();
    {
      const lock_type lock(mutex_);
      withdraw(lock, *each);
      end_operation(lock, *each, asio::error::operation_aborted, {});
    }
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
