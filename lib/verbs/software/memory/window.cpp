//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/window.hpp"

#include "verbs/software/memory/late_writers.hpp"

#include <cstddef>
#include <cstdint>

namespace rdma::software {
namespace {

constexpr unsigned remote_rights =
  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

bool inside(const window_binding& what, const key_slot& region) noexcept
{
  return what.address >= region.address && what.address - region.address <= region.length
    && what.length <= region.length - (what.address - region.address);
}

// Waits for the peers that write through a window's key while it is being revoked: without the
// mutex, and for no longer than a copy takes, because threads that run an io_context call this.
class writers_gone
{
public:
  writers_gone() = default;
  ~writers_gone() { late_writers::wait(memory_, length_); }
  writers_gone(const writers_gone&) = delete;
  writers_gone& operator=(const writers_gone&) = delete;

  void of(const key_slot& window) noexcept
  {
    memory_ = window.memory;
    length_ = window.bound ? window.length : 0;
  }

private:
  const std::byte* memory_ = nullptr;
  std::uint64_t length_ = 0;
};

// Ends the access through a window, so that its region can be deregistered.
void unbind(key_slot& slot, writers_gone& writers) noexcept
{
  writers.of(slot);
  key_table::revoke(slot);
  if (slot.region != nullptr)
    slot.region->windows.fetch_sub(1, std::memory_order_release);
  slot.region = nullptr;
  slot.bound = false;
}

} // namespace

bool bind_window(key_table& keys, const window_binding& what, std::uint32_t rkey, const ibv_pd* pd,
  std::uint32_t qp) noexcept
{
  writers_gone writers; // waits after the lock is released
  const std::lock_guard lock(keys.binding);
  key_slot* const window = keys.find(what.window);
  if (what.window == 0 || window == nullptr || window->first_key != what.window || window->pd != pd)
    return false;
  if (window->type2 && window->bound) // it must be invalidated first
    return false;
  if (what.length == 0)
  {
    if (window->type2)
      return false;
    unbind(*window, writers); // binding no bytes ends a type 1 window's binding (ibv_bind_mw(3))
    key_table::publish(*window, rkey);
    return true;
  }
  key_slot* const region = keys.find(what.region);
  if (what.region == 0 || region == nullptr
    || region->key.load(std::memory_order_acquire) != what.region || region->window
    || region->pd != pd)
    return false;
  const bool writes = (what.access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  // A window has no local key, so local rights mean nothing. rdma-core's tests set one.
  constexpr unsigned known_rights = remote_rights | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED;
  if ((region->access & IBV_ACCESS_MW_BIND) == 0 || (what.access & ~known_rights) != 0
    || (writes && (region->access & IBV_ACCESS_LOCAL_WRITE) == 0) || !inside(what, *region))
    return false;
  unbind(*window, writers);
  region->windows.fetch_add(1, std::memory_order_relaxed);
  window->region = region;
  window->memory = region->memory + (what.address - region->address);
  window->shared = region->shared.within(what.address - region->address, what.length);
  window->address = (what.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : what.address;
  window->length = what.length;
  window->access = what.access & remote_rights;
  window->owner_qp = window->type2 ? qp : 0;
  window->bound = true;
  key_table::publish(*window, rkey);
  return true;
}

bool invalidate_window(
  key_table& keys, std::uint32_t rkey, const ibv_pd* pd, std::uint32_t qp) noexcept
{
  writers_gone writers;                     // waits after the lock is released
  const std::lock_guard lock(keys.binding); // a window is not freed meanwhile
  key_slot* slot = keys.find(rkey);
  if (rkey == 0 || slot == nullptr || slot->key.load(std::memory_order_acquire) != rkey
    || !slot->window || !slot->bound || slot->owner_qp != qp || slot->pd != pd)
    return false;
  unbind(*slot, writers);
  return true;
}

void free_window(key_table& keys, key_slot& window) noexcept
{
  writers_gone writers; // waits after the lock is released
  const std::lock_guard lock(keys.binding);
  unbind(window, writers);
  window.first_key = 0;
  keys.release(window);
}

} // namespace rdma::software
