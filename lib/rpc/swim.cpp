//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/swim.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace rdma::detail::rpc {

std::uint32_t swim::suspicion_periods(std::uint32_t members)
{
  return 3 + static_cast<std::uint32_t>(std::bit_width(members));
}

std::uint32_t swim::repeats(std::uint32_t members)
{
  return 3 * static_cast<std::uint32_t>(std::bit_width(members));
}

swim::swim(const settings& s, time_point now)
  : settings_(s)
  , suspicion_(
      s.suspicion.count() > 0 ? s.suspicion : s.period * std::int64_t{suspicion_periods(s.members)})
  , members_(s.members)
  , period_ends_(now + s.period)
  , random_(s.seed)
{
  members_[s.rank].incarnation = std::min(s.incarnation, swim_report::incarnation_max);
  for (std::uint32_t i = 0; i != s.members; ++i)
    if (i != s.rank)
      order_.push_back(i);
  next_ = order_.size();
  suspicions_.reserve(s.members);
  news_.reserve(s.members);
}

// --- reports ---

void swim::set(const swim_report& what, time_point now) noexcept
{
  member& of = members_[what.rank];
  if ((what.health == swim_health::failed) != (of.health == swim_health::failed))
    ++version_;
  if (of.repeats == 0)
    news_.push_back(what.rank);
  // A group that starts has many new incarnations. They give way to reports of other health.
  of.is_urgent = what.health != of.health || (of.is_urgent && of.repeats != 0);
  of.repeats = repeats(settings_.members) / (of.is_urgent ? 1 : 3);
  of.health = what.health;
  of.incarnation = what.incarnation;
  std::erase_if(suspicions_, [&](const suspicion& each) { return each.rank == what.rank; });
  if (what.health == swim_health::suspected)
    suspicions_.push_back({what.rank, what.incarnation, now + suspicion_});
}

void swim::take_contact(std::uint32_t rank, std::uint64_t incarnation, time_point now) noexcept
{
  if (probe_ && probe_->target == rank)
    probe_->answered = true;
  take({rank, swim_health::alive, incarnation}, now);
}

void swim::take(const swim_report& what, time_point now) noexcept
{
  member& of = members_[what.rank];
  if (what.rank != settings_.rank)
  {
    if (std::tie(what.incarnation, what.health) > std::tie(of.incarnation, of.health))
      set(what, now);
    return;
  }
  // Refutes it. A larger incarnation than that of this member is of a process before it.
  const std::uint64_t least = what.incarnation + (what.health == swim_health::alive ? 0 : 1);
  of.incarnation = std::max(of.incarnation, std::min(least, swim_report::incarnation_max));
}

std::vector<swim_report> swim::take_reports(std::uint32_t to)
{
  std::vector<swim_report> result;
  result.reserve(reports_max + 1);
  if (members_[to].health != swim_health::alive)
    result.push_back(report_on(to));
  // The newest first, so that old ones cannot keep them back.
  const auto count = std::min(news_.size(), reports_max);
  std::partial_sort(news_.begin(), news_.begin() + static_cast<std::ptrdiff_t>(count), news_.end(),
    [&](std::uint32_t a, std::uint32_t b)
    {
      const member& first = members_[a];
      const member& second = members_[b];
      return std::tie(first.is_urgent, first.repeats) > std::tie(second.is_urgent, second.repeats);
    });
  for (std::size_t i = 0; i != count; ++i)
  {
    --members_[news_[i]].repeats;
    if (news_[i] != to)
      result.push_back(report_on(news_[i]));
  }
  std::erase_if(news_, [&](std::uint32_t rank) { return members_[rank].repeats == 0; });
  return result;
}

std::vector<std::uint32_t> swim::failed() const
{
  std::vector<std::uint32_t> result;
  for (std::uint32_t i = 0; i != settings_.members; ++i)
    if (members_[i].health == swim_health::failed)
      result.push_back(i);
  return result;
}

// --- probes ---

std::vector<swim::ping> swim::on_time(time_point now)
{
  std::vector<ping> result;
  if (order_.empty())
    return result;
  result.reserve(2 + settings_.helpers);
  if (const auto late = now - alarm(); late > settings_.period)
  {
    // This process was stopped itself, or is overloaded. Its silence is no sign of others'.
    probe_.reset();
    period_ends_ += late;
    for (suspicion& each : suspicions_)
      each.ends += late;
  }
  end_suspicions(now);
  if (now >= period_ends_)
  {
    const auto last = std::exchange(probe_, std::nullopt);
    period_ends_ = now + settings_.period;
    start_probe(result);
    if (last && !last->answered)
    {
      take({last->target, swim_health::suspected, members_[last->target].incarnation}, now);
      // The ping has the suspicion, so that the member can refute it at once.
      if (health(last->target) == swim_health::suspected)
        result.push_back({last->target, last->target, period_ends_});
    }
  }
  else if (wants_helpers() && now >= helpers_at())
    ask_helpers(result);
  return result;
}

void swim::end_suspicions(time_point now)
{
  while (!suspicions_.empty() && suspicions_.front().ends <= now)
  {
    const suspicion ended = suspicions_.front();
    set({ended.rank, swim_health::failed, ended.incarnation}, now); // removes the suspicion
  }
}

void swim::start_probe(std::vector<ping>& to)
{
  // Failed members, too: they may have been started again, or were behind a partition.
  if (next_ == order_.size())
  {
    std::ranges::shuffle(order_, random_);
    next_ = 0;
  }
  probe_ = probe{.target = order_[next_++]};
  to.push_back({probe_->target, probe_->target, period_ends_});
}

void swim::ask_helpers(std::vector<ping>& to)
{
  probe_->helped = true;
  const std::size_t first = random_();
  for (std::size_t i = 0; i != order_.size() && to.size() != settings_.helpers; ++i)
  {
    const std::uint32_t helper = order_[(first + i) % order_.size()];
    if (helper != probe_->target && members_[helper].health != swim_health::failed)
      to.push_back({helper, probe_->target, period_ends_});
  }
}

swim::time_point swim::alarm() const
{
  if (order_.empty())
    return time_point::max();
  auto next = wants_helpers() ? helpers_at() : period_ends_;
  if (!suspicions_.empty())
    next = std::min(next, suspicions_.front().ends);
  return next;
}

} // namespace rdma::detail::rpc
