//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/activity.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>

namespace rdma::detail {

void completion_counters::failed(unsigned status) noexcept
{
  const std::size_t at = 2 * kinds + status;
  add(values_[std::min(at, values_.size() - 1)], 1); // the last one is general_error
}

void completion_counters::add_to(statistics& sum) const noexcept
{
  const auto value = [&](std::size_t at) { return values_[at].load(std::memory_order_relaxed); };
  const auto count = [&](request_kind kind) { return value(static_cast<std::size_t>(kind)); };
  const auto add_kind = [&](operation_statistics& to, request_kind kind)
  {
    to.completed += count(kind);
    to.bytes += value(kinds + static_cast<std::size_t>(kind));
  };
  add_kind(sum.sends, request_kind::send);
  add_kind(sum.sends, request_kind::send_with_immediate);
  add_kind(sum.sends, request_kind::send_with_invalidate);
  add_kind(sum.receives, request_kind::receive);
  add_kind(sum.reads, request_kind::read);
  add_kind(sum.writes, request_kind::write);
  add_kind(sum.writes, request_kind::write_with_immediate);
  add_kind(sum.batches, request_kind::batch);
  sum.atomics += count(request_kind::fetch_add) + count(request_kind::compare_exchange);
  sum.binds += count(request_kind::bind_window);
  sum.invalidations += count(request_kind::invalidate);
  for (std::size_t i = 0; i < sum.errors.size(); ++i)
    sum.errors[i] += value(2 * kinds + i);
}

void activity::add(const completion_counters& counters)
{
  const std::lock_guard lock(mutex_);
  queues_.push_back(&counters);
}

void activity::remove(const completion_counters& counters) noexcept
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  if (std::erase(queues_, &counters) != 0)
    counters.add_to(ended_);
}

void activity::connected(transport by) noexcept
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  ++(ended_.*by).established;
  ++(ended_.*by).established_total;
}

void activity::connecting_failed(transport by) noexcept
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  ++(ended_.*by).failed;
}

void activity::disconnected(transport by, const error_code& reason) noexcept
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  connection_statistics& to = ended_.*by;
  --to.established;
  if (!reason || reason == boost::asio::error::operation_aborted)
    ++to.closed;
  else if (reason == error::peer_closed)
    ++to.closed_by_peer;
  else if (reason == error::peer_lost)
    ++to.lost;
  else
    ++to.broken;
}

void activity::read(statistics& to) const
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  to = ended_;
  for (const completion_counters* each : queues_)
    each->add_to(to);
}

} // namespace rdma::detail
