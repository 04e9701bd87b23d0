//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include <boost_rdma/detail/objects/semaphore.hpp>

#include <boost_rdma/error.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <utility>

namespace rdma::detail::objects {

step permit_request::begin() noexcept
{
  // Processes begin with different permits.
  index_ = static_cast<std::size_t>(now_().time_since_epoch().count() / 64);
  return look();
}

step permit_request::look() noexcept
{
  stage_ = stage::look;
  return step::access(1);
}

step permit_request::change(stage entered, const lease_word& desired) noexcept
{
  stage_ = entered;
  exchange_ = {.offset = offsetof(semaphore_memory, permits) + 8 * index_,
    .expected = memory_.permits[index_],
    .desired = desired.packed()};
  posted_ = now_();
  return step::access(1);
}

access_request permit_request::request(std::size_t) noexcept
{
  if (stage_ != stage::look)
    return exchange_.request();
  return {.kind = request_kind::read,
    .offset = 0,
    .bytes = std::as_writable_bytes(std::span(&memory_, 1))};
}

std::optional<held_lease> permit_request::held() const noexcept
{
  if (!acquired_)
    return std::nullopt;
  return held_lease(word(), index_, lease(), holder_end(posted_, lease()));
}

step permit_request::decide(bool cancelled) noexcept
{
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  const auto now = now_();
  const std::size_t permits =
    std::clamp<std::uint64_t>(memory_.header.capacity, 1, open_leased::permits_max);
  bool unchanged = true;
  for (std::size_t i = 0; i != permits; ++i)
    if (std::exchange(seen_[i], memory_.permits[i]) != memory_.permits[i])
    {
      seen_since_[i] = now;
      unchanged = false;
    }
  for (std::size_t i = 0; i != permits; ++i)
  {
    index_ = (index_ + 1) % permits;
    if (const lease_word free = word(); !free.held)
      return change(stage::take, {free.ticket, 0, true});
  }
  for (std::size_t i = 0; i != permits; ++i)
  {
    index_ = (index_ + 1) % permits;
    if (const lease_word held = word(); now - seen_since_[index_] >= lease())
      return change(stage::take, {held.ticket + 1, 0, true});
  }
  // Words that two reads have found are those of a moment between the reads.
  if (tries_ && unchanged)
    return step::finish();
  if (tries_)
    return ++looks_ == looks_max ? step::finish(error::contended) : look();
  stage_ = stage::pause;
  return pause_.next();
}

step permit_request::next(bool cancelled) noexcept
{
  if (stage_ == stage::look)
    return decide(cancelled);
  if (stage_ == stage::pause)
    return cancelled ? decide(cancelled) : look();
  if (stage_ == stage::take)
    ended_lease_ = lease_word::of(exchange_.expected).held;
  memory_.permits[index_] = exchange_.content();
  if (!exchange_.succeeded() || stage_ == stage::release)
    return decide(cancelled);
  if (cancelled)
    return change(stage::release, word().released());
  if (now_() >= holder_end(posted_, lease()))
    return change(stage::renew, word().renewed());
  acquired_ = true;
  return step::finish();
}

} // namespace rdma::detail::objects
