//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/grant_table.hpp"

#include "verbs/software/atomics.hpp"
#include "verbs/software/memory/grant_word.hpp"
#include "verbs/software/memory/key_table.hpp"

#include <algorithm>
#include <new>

namespace rdma::software {

std::optional<grant_table::grant> grant_table::give(page& to, key_slot& what) noexcept
{
  if (to.peer == nullptr)
    return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (const entry& each : entries_)
    if (each.what == &what && each.where == &to)
      return grant{
        each.index, to.generations[each.index]}; // the peer has dropped its grant and asks again
  const auto free = std::find(to.used.begin(), to.used.end(), false);
  if (free == to.used.end())
    return std::nullopt;
  const auto index = static_cast<std::uint32_t>(free - to.used.begin());
  try
  {
    entries_.push_back({&what, &to, index});
  }
  catch (const std::bad_alloc&)
  {
    return std::nullopt;
  }
  *free = true;
  const std::uint32_t generation =
    ++to.generations[index] != 0 ? to.generations[index] : ++to.generations[index];
  what.book.store(this, std::memory_order_relaxed); // the caller's pin orders it before revoke()
  to.words[index].store(generation, std::memory_order_release);
  return grant{index, generation};
}

// Precondition: the slot still belongs to the entry, with its memory.
void grant_table::clear(const entry& which) noexcept
{
  page& of = *which.where;
  const std::uint32_t mark = which.index + 1;
  of.used[which.index] = false;
  if (withdraw_grant<atomics>(of.words[which.index], *of.peer->mark, mark))
    late_writers::add(which.what->memory, which.what->length, of.peer, mark, of.socket);
}

void grant_table::revoke(const key_slot& what) noexcept
{
  const std::lock_guard lock(mutex_);
  const auto first = std::partition(
    entries_.begin(), entries_.end(), [&what](const entry& each) { return each.what != &what; });
  std::for_each(first, entries_.end(), &grant_table::clear);
  entries_.erase(first, entries_.end());
}

void grant_table::close(page& of) noexcept
{
  const std::lock_guard lock(mutex_);
  const auto first = std::partition(
    entries_.begin(), entries_.end(), [&of](const entry& each) { return each.where != &of; });
  std::for_each(first, entries_.end(), &grant_table::clear);
  entries_.erase(first, entries_.end());
}

} // namespace rdma::software
