//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_impl.hpp"

#include <boost/asio/error.hpp>

#include <utility>

// Messages to other members.

namespace rdma::detail::rpc {

using std::chrono::steady_clock;

void group_impl::send(
  const lock_type& lock, const record_ptr& of, const task& what, bool may_repeat)
{
  const std::uint32_t rank = rank_of(*of, what.to.first);
  if (has_failed(rank))
    return of->state.take_failure(what.to.first, error::peer_lost, steady_clock::now());
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
  const lock_type& lock, member& to, const record_ptr& of, const task& what, bool may_repeat)
{
  const auto now = steady_clock::now();
  if (what.until <= now || !of->state.waits_for(what.to.first))
    return; // on_time() bypasses it, or has done so
  set_group_callee(of->message, what.again ? group_request_kind::inquiry : of->header.kind, what.to,
    rounded_time(what.ends - now));
  const std::span<const std::byte> all(of->message);
  to.by->async_call<group_transport>(what.again ? all.first(group_request::header_size) : all,
    {.timeout = what.until - now},
    [self = shared_from_this(), of, what, by = to.by, may_repeat](
      const error_code& ec, const std::vector<std::byte>& content)
    { self->on_answer(of, what, by, may_repeat, ec, content); });
  if (of->bulk)
    add_feed(lock, to, of, what.to);
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
    or_end(lock, of,
      [&]
      {
        if (!ec)
          return submit(lock, to, of, what, false);
        of->state.take_failure(what.to.first, ec, steady_clock::now());
        advance(lock, of);
      });
}

void group_impl::on_answer(const record_ptr& of, const task& what,
  const std::shared_ptr<client>& by, bool may_repeat, error_code ec,
  std::span<const std::byte> content)
{
  const std::uint32_t place = what.to.first;
  std::optional<group_answer> answer;
  try
  {
    if (!ec)
      answer = decode_group_answer(content, what.to);
  }
  catch (const std::bad_alloc&)
  {
    ec = boost::asio::error::no_memory;
  }
  if (!ec && (!answer || (answer->part.answered != 0 && !of->method.accepts(answer->part.value))))
    ec = error::malformed_message;
  const lock_type lock(mutex_);
  if (closed_ || !of->state.waits_for(place))
    return;
  or_end(lock, of,
    [&]
    {
      if (ec && may_repeat && !by->is_open())
      {
        // The connection was there before this call, and the member may have been started again
        // since.
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
    });
}

} // namespace rdma::detail::rpc
