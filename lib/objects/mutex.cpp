//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/mutex.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <utility>

namespace rdma::detail::objects {

step mutex_lock_request::take_ticket() noexcept
{
  stage_ = stage::ticket;
  return step::access(2);
}

step mutex_lock_request::look() noexcept
{
  stage_ = stage::look;
  return step::access(1);
}

step mutex_lock_request::change_served(stage entered, const lease_word& desired) noexcept
{
  stage_ = entered;
  exchange_ = {.offset = offsetof(mutex_memory, served),
    .expected = memory_.served,
    .desired = desired.packed()};
  posted_ = now_();
  return step::access(1);
}

access_request mutex_lock_request::request(std::size_t i) noexcept
{
  if (stage_ != stage::ticket && stage_ != stage::look)
    return exchange_.request();
  if (i == 1)
    return {
      .kind = request_kind::fetch_add, .offset = offsetof(mutex_memory, next), .compare_or_add = 1};
  return {.kind = request_kind::read,
    .offset = 0,
    .bytes = std::as_writable_bytes(std::span(&memory_, 1))};
}

void mutex_lock_request::answered(std::size_t i, std::uint64_t was) noexcept
{
  if (stage_ != stage::ticket)
    exchange_.was = was;
  else if (i == 1)
    ticket_ = was;
}

std::optional<held_lease> mutex_lock_request::held() const noexcept
{
  if (!locked_)
    return std::nullopt;
  return held_lease(word(), 0, lease(), holder_end(posted_, lease()));
}

// Returns the first ticket from this one on that is not abandoned. Tickets beyond this operation's
// own are not reached.
std::uint64_t mutex_lock_request::first_waiting(std::uint64_t ticket) const noexcept
{
  while (memory_.marks[ticket % mutex_memory::marks_max] == ticket)
    ++ticket;
  return ticket;
}

step mutex_lock_request::give_up() noexcept
{
  return step::finish(
    cancelled_ ? error_code(boost::asio::error::operation_aborted) : error_code());
}

// The mutex is free if each ticket that was taken and is still to be served is abandoned.
step mutex_lock_request::claim_if_free() noexcept
{
  ticket_ = memory_.next;
  if (first_waiting(word().ticket) != ticket_)
    return give_up();
  stage_ = stage::claim;
  exchange_ = {.offset = offsetof(mutex_memory, next), .expected = ticket_, .desired = ticket_ + 1};
  return step::access(1);
}

// The process has a ticket. memory_.served may be newer than memory_.marks. An abandoned ticket
// remains so.
step mutex_lock_request::decide() noexcept
{
  const lease_word served = word();
  if (served.ticket > ticket_)
  {
    if (tries_ || cancelled_)
      return give_up();
    ++skipped_;
    return take_ticket();
  }
  if (std::exchange(seen_, memory_.served) != memory_.served)
  {
    seen_since_ = now_();
    pause_ = back_off(pause_max(lease()));
  }
  const std::uint64_t turn = first_waiting(served.ticket);
  if (turn == ticket_ && cancelled_)
    return change_served(stage::skip, {ticket_ + 1, 0, false});
  if (turn == ticket_)
    return change_served(
      stage::lock, served.held ? served.renewed() : lease_word{ticket_, 0, true});
  if (cancelled_)
    return abandon();
  if (turn != served.ticket)
    return change_served(stage::skip, {turn, 0, false});
  if (now_() - seen_since_ < lease())
  {
    stage_ = stage::pause;
    return pause_.next();
  }
  ends_lease_ = true;
  return change_served(stage::skip, {first_waiting(turn + 1), 0, false});
}

// Without the mark, the ticket delays others by a lease. That happens if it replaces the mark of a
// ticket that has not been served, or if that one is written at the same time.
step mutex_lock_request::abandon() noexcept
{
  const std::size_t slot = ticket_ % mutex_memory::marks_max;
  stage_ = stage::abandon;
  exchange_ = {.offset = offsetof(mutex_memory, marks) + 8 * slot,
    .expected = memory_.marks[slot],
    .desired = ticket_};
  return step::access(1);
}

step mutex_lock_request::next(bool cancelled) noexcept
{
  cancelled_ = cancelled_ || cancelled;
  switch (stage_)
  {
  case stage::look:
    if (ticket_ == 0)
      return claim_if_free();
    return decide();
  case stage::ticket:
    return decide();
  case stage::claim:
    return exchange_.succeeded() ? decide() : give_up();
  case stage::pause:
    return look();
  case stage::lock:
    memory_.served = exchange_.content();
    locked_ = exchange_.succeeded() && !cancelled_ && now_() < holder_end(posted_, lease());
    return locked_ ? step::finish() : decide();
  case stage::skip:
    if (exchange_.succeeded() && std::exchange(ends_lease_, false))
      ++ended_leases_;
    memory_.served = exchange_.content();
    return decide();
  case stage::abandon:
    return give_up();
  }
  return step::finish(); // not reached
}

} // namespace rdma::detail::objects
