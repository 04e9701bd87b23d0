//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/served_link.hpp"

#include "verbs/software/wire/engine.hpp"

#include <cstring>

#include <sys/epoll.h>

namespace rdma::software::wire {
namespace {

// Programs that connect one after the other do not make a link each time.
constexpr std::int64_t unused_time = 1'000'000'000;

// Not at once: a peer that reads nothing must not keep the engine busy.
constexpr std::int64_t wake_again_time = 10'000'000;

// Other threads call for more while this one serves.
constexpr unsigned rounds_max = 8;

// With so few active lanes, polling their rings is faster than polling the bells.
constexpr unsigned few_lanes = 2;

} // namespace

bool served_link::leads_to(const ibv_gid& gid, std::uint16_t port) const noexcept
{
  return port_ == port && port != 0 && !link_.ended() && !link_.inherited()
    && std::memcmp(to_.raw, gid.raw, sizeof gid.raw) == 0;
}

void served_link::release(lane_use which) noexcept
{
  const bool rung = link_.release(which);
  if (link_.is_unused())
    engine_.alarm(*this, now() + (link_.ended() ? 0 : unused_time));
  else if (!rung)
    engine_.alarm(*this, now() + wake_again_time);
}

void served_link::introduce(const attach_message& what) noexcept
{
  const auto theirs = protocol::decode_hello(what.bytes);
  pending_hello who;
  who.link = weak_from_this().lock();
  who.lane = what.lane;
  if (!theirs || !who.link)
    return engine::refuse(who);
  who.theirs = *theirs;
  engine_.introduce(std::move(who));
}

// Another thread that serves is told to do this call's work as well.
void served_link::serve(mover by, std::uint32_t events)
{
  if (link_.inherited()) [[unlikely]]
    return; // what is in the socket is for the parent
  if (events != 0)
    readable_.store(true, std::memory_order_relaxed);
  if (calls_.fetch_add(1, std::memory_order_seq_cst) != 0)
    return;
  std::uint32_t seen = 1;
  for (unsigned round = 0; round != rounds_max; ++round)
  {
    work(by);
    if (calls_.compare_exchange_strong(seen, 0, std::memory_order_seq_cst))
      return;
  }
  calls_.store(0, std::memory_order_seq_cst);
  engine_.owe(*this);
}

void served_link::come_due(std::int64_t)
{
  serve(mover::engine);
  if (link_.is_unused())
    engine_.end_unused_links_soon();
  else if (!link_.wake())
    engine_.alarm(*this, now() + wake_again_time);
}

void served_link::work(mover by)
{
  if (readable_.load(std::memory_order_relaxed)
    && readable_.exchange(false, std::memory_order_relaxed))
    link_.hear_some([this](const attach_message& hello) { introduce(hello); });
  std::uint32_t last = 0;
  unsigned count = 0;
  link_.take_bells(
    [&](unsigned lane)
    {
      const std::uint32_t qp = link_.user_of(lane);
      if (qp == 0 || !engine_.serve(qp, by))
        return;
      last = qp;
      ++count;
    });
  if (by == mover::poller && count != 0 && count <= few_lanes)
    engine_.look_at_queue_pair(last);
  if (!link_.ended() || end_is_known_)
    return;
  end_is_known_ = true;
  engine_.unwatch(link_.socket());
  for (unsigned lane = 0; lane != lanes_max; ++lane)
    if (const std::uint32_t qp = link_.user_of(lane); qp != 0)
      engine_.serve(qp, by);
  if (link_.is_unused())
    engine_.alarm(*this, now());
}

} // namespace rdma::software::wire
