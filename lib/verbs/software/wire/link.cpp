//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/link.hpp"

#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/wire/engine.hpp"

#include <utility>

#include <sys/epoll.h>

namespace rdma::software::wire {
namespace {

// Long enough for a program that connects repeatedly to reuse the link.
constexpr std::int64_t unused_link_time = 1'000'000'000;

// Other threads can request more work while this one serves.
constexpr unsigned rounds_max = 8;

} // namespace

path path_to(const protocol::endpoint_name& peer, bool locally) noexcept
{
  path there;
  there.is_local = locally;
  there.to = peer.gid;
  there.port = port_of(peer.qp);
  return there;
}

void link::introduce(const attach_message& what) noexcept
{
  const auto theirs = protocol::decode_hello(what.bytes);
  pending_hello hello;
  hello.link = weak_from_this().lock();
  hello.lane = what.lane;
  if (!hello.link)
    return;
  if (!theirs || !may_name(theirs->from))
    return engine::refuse(hello);
  hello.theirs = *theirs;
  engine_.introduce(std::move(hello));
}

// If another thread is serving, it does the work of this call as well.
void link::serve(mover by, std::uint32_t events)
{
  if (inherited()) [[unlikely]]
    return; // the parent reads the socket
  if ((events & ~std::uint32_t{EPOLLOUT}) != 0)
    readable_.store(true, std::memory_order_relaxed);
  if ((events & EPOLLOUT) != 0)
    writable_.store(true, std::memory_order_relaxed);
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

void link::report_end(mover by) noexcept
{
  if (!ended() || std::exchange(end_is_known_, true))
    return;
  engine_.unwatch(socket());
  for (unsigned lane = 0; lane != lanes_max; ++lane)
    if (const std::uint32_t qp = user_of(lane); qp != 0)
      engine_.serve(qp, by);
  released();
}

void link::expect_use(std::int64_t time) noexcept
{
  const std::int64_t until = now() + time;
  unused_until_.store(until, std::memory_order_relaxed);
  engine_.alarm(*this, until);
}

void link::released() noexcept
{
  if (is_unused())
    expect_use(ended() ? 0 : unused_link_time);
}

void link::end_if_unused(std::int64_t now) noexcept
{
  if (has_expired(now))
    engine_.end_unused_links_soon();
  else if (is_unused())
    engine_.alarm(*this, unused_until_.load(std::memory_order_relaxed));
}

} // namespace rdma::software::wire
