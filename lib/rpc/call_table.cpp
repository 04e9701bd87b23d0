//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/call_table.hpp"

#include <algorithm>

namespace rdma::detail::rpc {

namespace {

constexpr unsigned slot_bits = 16;
constexpr std::uint32_t slot_mask = (1u << slot_bits) - 1;

} // namespace

bool call_table::add(call& what)
{
  if (count_ == slots_max_)
    return false;
  if (first_vacant_ == none)
  {
    slots_.emplace_back();
    vacate(static_cast<std::uint16_t>(slots_.size() - 1));
  }
  const std::uint16_t index = first_vacant_;
  slot& s = slots_[index];
  first_vacant_ = s.next_vacant;
  s.what = &what;
  s.is = state::added;
  ++s.use;
  what.number = std::uint32_t{s.use} << slot_bits | index;
  ++count_;
  ++added_;
  return true;
}

bool call_table::submit(call& what, bool may_send) noexcept
{
  --added_;
  slot& s = *slot_of(what.number);
  if (what.deadline != time_point::max())
    deadlines_.insert(what);
  if (!may_send || !waiting_.empty() || !has_room(what))
  {
    s.is = state::waiting;
    waiting_.push_back(what);
    return false;
  }
  send(s);
  return true;
}

call* call_table::next_to_send() noexcept
{
  if (waiting_.empty() || !has_room(waiting_.front()))
    return nullptr;
  call& next = waiting_.front();
  waiting_.pop_front();
  send(*slot_of(next.number));
  return &next;
}

call* call_table::with_server(std::uint32_t number) noexcept
{
  slot* const s = slot_of(number);
  return s != nullptr && s->is == state::sent ? s->what : nullptr;
}

call* call_table::find(std::uint32_t number) noexcept
{
  slot* const s = slot_of(number);
  return s != nullptr && s->is != state::added ? s->what : nullptr;
}

bool call_table::remove(call& what) noexcept
{
  slot& s = *slot_of(what.number);
  const bool was_sent = s.is == state::sent;
  if (was_sent)
  {
    --sent_;
    sent_bytes_ -= what.size;
  }
  else if (s.is == state::waiting)
    waiting_.erase(waiting_.iterator_to(what));
  else
    --added_;
  if (static_cast<const deadline_hook&>(what).is_linked())
    deadlines_.erase(deadlines_.iterator_to(what));
  s.what = nullptr;
  s.is = state::vacant;
  vacate(static_cast<std::uint16_t>(what.number & slot_mask));
  --count_;
  return was_sent;
}

void call_table::remove_all(call_list& to) noexcept
{
  for (const slot& each : slots_)
    if (call* const what = each.what; what != nullptr && each.is != state::added)
    {
      remove(*what);
      to.push_back(*what);
    }
}

void call_table::vacate(std::uint16_t index) noexcept
{
  slots_[index].next_vacant = none;
  if (first_vacant_ == none)
    first_vacant_ = index;
  else
    slots_[last_vacant_].next_vacant = index;
  last_vacant_ = index;
}

// Returns null if the call with the number has ended.
call_table::slot* call_table::slot_of(std::uint32_t number) noexcept
{
  const std::size_t index = number & slot_mask;
  if (index >= slots_.size())
    return nullptr;
  slot& s = slots_[index];
  return s.is != state::vacant && s.use == number >> slot_bits ? &s : nullptr;
}

bool call_table::has_room(const call& what) const noexcept
{
  return sent_ == 0
    || (sent_ < calls_max_ && what.size <= bytes_max_ - std::min(sent_bytes_, bytes_max_));
}

void call_table::send(slot& s) noexcept
{
  s.is = state::sent;
  s.what->progress = call::progress_type::sent;
  ++sent_;
  sent_bytes_ += s.what->size;
}

} // namespace rdma::detail::rpc
