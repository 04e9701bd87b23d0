//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/pool_policy.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>

namespace rdma::detail::rpc {

namespace asio = boost::asio;

namespace {

// Errors of a call that nothing of has left, and that another connection would refuse likewise.
bool is_of_call(const error_code& ec)
{
  return ec == error::no_such_method || ec == error::method_mismatch
    || ec == error::message_too_large || ec == asio::error::invalid_argument
    || ec == asio::error::no_memory;
}

} // namespace

pool_policy::pool_policy(std::size_t servers, const rdma::rpc::client_pool_options& options)
  : per_server_(options.connections)
  , attempts_(options.attempts)
  , backoff_min_(options.backoff_min)
  , backoff_max_(options.backoff_max)
  , idle_timeout_(options.idle_timeout)
  , connections_(servers * options.connections)
  , servers_(servers, server_state{.delay = options.backoff_min})
{
}

// --- connections ---

std::size_t pool_policy::count(std::size_t server, state is) const noexcept
{
  const auto first = connections_.begin() + static_cast<std::ptrdiff_t>(server * per_server_);
  return static_cast<std::size_t>(
    std::count_if(first, first + static_cast<std::ptrdiff_t>(per_server_),
      [is](const connection_state& each) { return each.is == is; }));
}

std::optional<std::size_t> pool_policy::next_to_open(time_point now)
{
  for (std::size_t i = 0; i != connections_.size(); ++i)
  {
    const std::size_t server = server_of(i);
    if (connections_[i].is != state::closed || now < servers_[server].not_before)
      continue;
    if (count(server, state::open) == 0 && count(server, state::opening) != 0)
      continue;
    connections_[i].is = state::opening;
    return i;
  }
  return std::nullopt;
}

void pool_policy::opened(std::size_t connection, time_point now)
{
  connections_[connection] = {.is = state::open};
  servers_[server_of(connection)].not_before = time_point::min();
  idle_since_ = std::max(idle_since_, now);
}

void pool_policy::not_opened(std::size_t connection, time_point now, double random)
{
  connections_[connection].is = state::closed;
  server_state& of = servers_[server_of(connection)];
  if (count(server_of(connection), state::open) == 0)
    of.failed = ++failures_;
  delay(of, now, random);
}

// A server that ends connections without an answer is not connected to again and again.
void pool_policy::ended(std::size_t connection, time_point now, double random)
{
  if (!connections_[connection].has_answered)
    delay(servers_[server_of(connection)], now, random);
  connections_[connection] = {};
}

void pool_policy::delay(server_state& of, time_point now, double random) noexcept
{
  const double part = 0.5 + random / 2;
  of.not_before = now
    + std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(of.delay.count()) * part));
  of.delay = std::min(of.delay * 2, backoff_max_);
}

pool_policy::time_point pool_policy::opens_at() const noexcept
{
  time_point result = time_point::max();
  for (std::size_t i = 0; i != servers_.size(); ++i)
  {
    const std::size_t open = count(i, state::open);
    const std::size_t opening = count(i, state::opening);
    if (open + opening != per_server_ && (open != 0 || opening == 0))
      result = std::min(result, servers_[i].not_before);
  }
  return result;
}

pool_policy::time_point pool_policy::idle_until() const noexcept
{
  const bool some = std::ranges::any_of(
    connections_, [](const connection_state& each) { return each.is == state::open; });
  return some && calls_ == 0 && idle_timeout_.count() > 0 ? idle_since_ + idle_timeout_
                                                          : time_point::max();
}

std::optional<std::size_t> pool_policy::next_to_close(time_point now)
{
  if (now < idle_until())
    return std::nullopt;
  const auto found = std::ranges::find(connections_, state::open, &connection_state::is);
  *found = {};
  return static_cast<std::size_t>(found - connections_.begin());
}

// --- calls ---

void pool_policy::begin(call_state& what) noexcept
{
  ++calls_;
  what.waits_since = failures_;
}

void pool_policy::end(time_point now) noexcept
{
  --calls_;
  idle_since_ = std::max(idle_since_, now);
}

std::optional<std::size_t> pool_policy::least_loaded(
  const call_state& what, std::uint32_t random) const noexcept
{
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i != connections_.size(); ++i)
  {
    const std::size_t at = (random + i) % connections_.size();
    const connection_state& each = connections_[at];
    if (each.is == state::open && (!best || each.calls < connections_[*best].calls)
      && std::ranges::find(what.tried, server_of(at)) == what.tried.end())
      best = at;
  }
  return best;
}

bool pool_policy::is_awaited(const call_state& what, std::size_t server) const noexcept
{
  return what.overloaded ? count(server, state::opening) != 0
                         : servers_[server].failed <= what.waits_since;
}

pool_policy::placement pool_policy::place(call_state& what, std::uint32_t random) const
{
  using enum placement::kind;
  for (;;)
  {
    if (const auto found = least_loaded(what, random))
      return {connection, *found};
    for (std::size_t i = 0; i != servers_.size(); ++i)
      if (std::ranges::find(what.tried, i) == what.tried.end() && is_awaited(what, i))
        return {waits};
    if (what.tried.empty() || what.overloaded)
      return {ends};
    what.tried.clear();
  }
}

void pool_policy::give(call_state& what, std::size_t connection)
{
  ++connections_[connection].calls;
  ++what.given;
}

void pool_policy::take_back(std::size_t connection, call::progress_type progress)
{
  --connections_[connection].calls;
  if (progress != call::progress_type::answered)
    return;
  connections_[connection].has_answered = true;
  servers_[server_of(connection)].delay = backoff_min_;
}

bool pool_policy::repeats(
  call_state& what, std::size_t server, const error_code& ec, call::progress_type progress) const
{
  if (what.given == attempts_)
    return false;
  switch (progress)
  {
  case call::progress_type::kept:
    if (is_of_call(ec))
      return false;
    break;
  case call::progress_type::sent:
    if (!what.idempotent)
      return false;
    break;
  case call::progress_type::refused:
    break;
  case call::progress_type::answered:
    return false;
  }
  what.overloaded = ec == error::overloaded;
  what.waits_since = failures_;
  if (std::ranges::find(what.tried, server) == what.tried.end())
    what.tried.push_back(server);
  return true;
}

} // namespace rdma::detail::rpc
