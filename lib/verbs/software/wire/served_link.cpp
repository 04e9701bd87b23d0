//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/served_link.hpp"

#include "verbs/software/wire/engine.hpp"

namespace rdma::software::wire {
namespace {

// The delay before a refused wake-up is repeated, so that a peer that does not read its socket
// costs the engine little.
constexpr std::int64_t wake_again_time = 10'000'000;

// With few active lanes, polling their rings is faster than polling the bells.
constexpr unsigned few_lanes = 2;

} // namespace

void served_link::release(lane_use which) noexcept
{
  const bool rung = link_.release(which);
  if (!rung && !is_unused())
    engine_.alarm(*this, now() + wake_again_time);
  released();
}

bool served_link::come_due(std::int64_t at)
{
  serve(mover::engine);
  end_if_unused(at);
  if (!is_unused() && !link_.wake())
    engine_.alarm(*this, now() + wake_again_time);
  return true;
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
  report_end(by);
}

} // namespace rdma::software::wire
