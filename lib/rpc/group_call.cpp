//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_call.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;

std::vector<group_range> children_of(group_range of, std::uint32_t fan_out)
{
  std::vector<group_range> result;
  const std::uint32_t rest = of.count - 1;
  const std::uint32_t parts = std::min(fan_out, rest);
  std::uint32_t first = of.first + 1;
  for (std::uint32_t i = 0; i != parts; ++i)
  {
    const std::uint32_t count = rest / parts + (i < rest % parts ? 1 : 0);
    result.push_back({first, count});
    first += count;
  }
  return result;
}

std::uint32_t height_of(std::uint32_t count, std::uint32_t fan_out)
{
  if (fan_out == 1)
    return count - 1;
  std::uint32_t height = 0;
  for (; count > 1; ++height)
    count = (count - 1) / fan_out + ((count - 1) % fan_out != 0 ? 1 : 0);
  return height;
}

group_call::group_call(const plan& p, time_point now)
  : plan_(p)
{
  call_children(plan_.range, now);
}

void group_call::call_children(group_range of, time_point now)
{
  for (const group_range& each : children_of(of, plan_.fan_out))
  {
    child& made = children_[each.first];
    made.range = each;
    // Enough time is left to call its children if it does not answer.
    made.ends = std::max(plan_.ends - plan_.patience, now + (plan_.ends - now) / 2);
    made.until = std::min(now + plan_.patience, made.ends + (plan_.ends - made.ends) / 2);
    ++waiting_;
    add_task(made, false);
  }
}

void group_call::add_task(const child& of, bool again)
{
  tasks_.push_back({of.range, of.ends, of.until, again});
}

std::vector<group_call::task> group_call::take_tasks()
{
  return std::exchange(tasks_, {});
}

void group_call::take_own(std::vector<std::byte> value)
{
  if (!waits_for_own())
    return;
  own_ = std::move(value);
  state_of_own_ = own_state::answered;
  --waiting_;
}

void group_call::take_own_failure(const error_code& ec)
{
  if (!waits_for_own())
    return;
  missing_.push_back({plan_.range.first, ec});
  state_of_own_ = own_state::failed;
  --waiting_;
}

group_call::child* group_call::find(std::uint32_t place)
{
  const auto found = children_.find(place);
  return found == children_.end() || found->second.counted ? nullptr : &found->second;
}

bool group_call::waits_for(std::uint32_t place) const
{
  const auto found = children_.find(place);
  return found != children_.end() && !found->second.counted;
}

void group_call::take_part(std::uint32_t place, group_part part)
{
  child* const from = find(place);
  if (from == nullptr)
    return;
  from->part = std::move(part);
  from->counted = true;
  --waiting_;
}

void group_call::take_pending(std::uint32_t place, time_point now)
{
  child* const from = find(place);
  if (from == nullptr)
    return;
  from->until = std::min(now + plan_.patience, from->ends + (plan_.ends - from->ends) / 2);
  add_task(*from, true);
}

void group_call::take_failure(std::uint32_t place, const error_code& ec, time_point now)
{
  child* const from = find(place);
  if (from == nullptr)
    return;
  const group_range range = from->range;
  children_.erase(place); // so that its answer is not used any more
  --waiting_;
  missing_.push_back({place, ec});
  call_children(range, now);
}

void group_call::add_caller(std::uint64_t caller, time_point now)
{
  callers_.emplace(caller, now + plan_.patience / 2);
}

std::vector<std::uint64_t> group_call::take_callers(time_point now)
{
  std::vector<std::uint64_t> result;
  std::erase_if(callers_,
    [&](const auto& each)
    {
      const bool is_due = done() || each.second <= now;
      if (is_due)
        result.push_back(each.first);
      return is_due;
    });
  return result;
}

void group_call::on_time(time_point now)
{
  if (done())
    return;
  if (now < plan_.ends)
  {
    std::vector<std::uint32_t> silent;
    for (const auto& [place, each] : children_)
      if (!each.counted && each.until <= now)
        silent.push_back(place);
    for (const std::uint32_t place : silent)
      take_failure(place, asio::error::timed_out, now);
    return;
  }
  take_own_failure(asio::error::timed_out);
  std::erase_if(children_,
    [&](const auto& each)
    {
      const child& late = each.second;
      if (late.counted)
        return false;
      for (std::uint32_t i = 0; i != late.range.count; ++i)
        missing_.push_back({late.range.first + i, asio::error::timed_out});
      return true;
    });
  tasks_.clear();
  waiting_ = 0;
}

void group_call::abandon() noexcept
{
  children_.clear();
  tasks_.clear();
  missing_.clear();
  callers_.clear();
  state_of_own_ = own_state::failed;
  waiting_ = 0;
}

group_call::time_point group_call::alarm() const
{
  auto next = time_point::max();
  for (const auto& [caller, time] : callers_)
    next = std::min(next, time);
  if (done())
    return next;
  next = std::min(next, plan_.ends);
  for (const auto& [place, each] : children_)
    if (!each.counted)
      next = std::min(next, each.until);
  return next;
}

group_call::outcome group_call::take_outcome()
{
  outcome result;
  result.missing = std::move(missing_);
  if (state_of_own_ == own_state::answered)
  {
    ++result.answered;
    result.values.push_back(std::move(own_));
  }
  for (auto& [place, each] : children_)
  {
    result.answered += each.part.answered;
    std::ranges::move(each.part.missing, std::back_inserter(result.missing));
    if (each.part.answered != 0)
      result.values.push_back(std::move(each.part.value));
  }
  children_.clear();
  std::ranges::sort(result.missing, {}, &group_absence::place);
  return result;
}

} // namespace rdma::detail::rpc
