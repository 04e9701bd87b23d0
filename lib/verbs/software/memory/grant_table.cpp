//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/grant_table.hpp"

#include "verbs/software/memory/key_table.hpp"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include <poll.h>

namespace rdma::software {

bool is_connected(int socket) noexcept
{
  pollfd p{socket, POLLRDHUP, 0};
  return ::poll(&p, 1, 0) == 0;
}

std::optional<grant_table::grant> grant_table::give(page& to, key_slot& what) noexcept
{
  // revoke() and close() hold the mutex while they wait for a peer. This call does not wait with
  // them: the requests of this page's peer arrive as frames instead.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock)
    return std::nullopt;
  for (const entry& each : entries_)
    if (each.what == &what && each.where == &to)
      return grant{each.index, to.generations[each.index]}; // the peer has forgotten it
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

void grant_table::revoke(const key_slot& what) noexcept
{
  const std::lock_guard lock(mutex_);
  const auto first = std::partition(
    entries_.begin(), entries_.end(), [&what](const entry& each) { return each.what != &what; });
  for (auto i = first; i != entries_.end(); ++i)
    i->where->words[i->index].store(0, std::memory_order_seq_cst);
  for (auto i = first; i != entries_.end(); ++i)
  {
    wait(*i->where, i->index);
    i->where->used[i->index] = false;
  }
  entries_.erase(first, entries_.end());
}

void grant_table::close(page& of) noexcept
{
  const std::lock_guard lock(mutex_);
  if (std::find(of.used.begin(), of.used.end(), true) == of.used.end())
    return;
  for (std::uint32_t index = 0; index != grants_max; ++index)
    of.words[index].store(0, std::memory_order_seq_cst);
  for (std::uint32_t index = 0; index != grants_max; ++index)
    if (std::exchange(of.used[index], false))
      wait(of, index);
  std::erase_if(entries_, [&of](const auto& each) { return each.where == &of; });
}

// The peer copies a mebibyte at most. A peer that was stopped during the copy may continue at any
// time, so this waits until it continues or its process ends.
void grant_table::wait(const page& of, std::uint32_t index) noexcept
{
  constexpr unsigned looks_before_asking = 256;
  for (unsigned looks = 1; of.used_by_peer->load(std::memory_order_seq_cst) == index + 1; ++looks)
  {
    if (looks % looks_before_asking == 0 && !is_connected(of.socket))
      return;
    std::this_thread::yield();
  }
}

} // namespace rdma::software
