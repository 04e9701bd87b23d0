//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/window.hpp"

#include "verbs/software/objects/memory.hpp"

namespace rdma::software {
namespace {

constexpr unsigned remote_rights = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

bool inside(const ibv_mw_bind_info& info, const key_slot& region) noexcept
{
  return info.addr >= region.address && info.addr - region.address <= region.length
    && info.length <= region.length - (info.addr - region.address);
}

// Nobody gets in any more, and the region may go.
void unbind(key_slot& slot) noexcept
{
  key_table::revoke(slot);
  if (slot.region != nullptr)
    slot.region->windows.fetch_sub(1, std::memory_order_release);
  slot.region = nullptr;
  slot.bound = false;
}

} // namespace

bool bind_window(key_table& keys, ibv_mw& mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
  const ibv_pd* pd, std::uint32_t qp) noexcept
{
  auto& window = static_cast<memory_window&>(mw);
  const std::lock_guard lock(keys.binding);
  key_slot& slot = *window.slot;
  const bool type2 = mw.type == IBV_MW_TYPE_2;
  // A type 2 window is bound once, under a key of its own choice in the low 8 bits only.
  if (mw.pd != pd || (type2 && slot.bound) || ((rkey ^ window.first_key) & ~0xffu) != 0)
    return false;
  if (info.length == 0)
  {
    if (type2)
      return false;
    unbind(slot); // a type 1 window is taken back by binding nothing (ibv_bind_mw(3))
    key_table::publish(slot, rkey);
    return true;
  }
  if (info.mr == nullptr || info.mr->pd != pd)
    return false;
  key_slot& region = *static_cast<memory_region&>(*info.mr).slot;
  const bool writes = (info.mw_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if ((region.access & IBV_ACCESS_MW_BIND) == 0 || (info.mw_access_flags & ~remote_rights) != 0
    || (writes && (region.access & IBV_ACCESS_LOCAL_WRITE) == 0) || !inside(info, region))
    return false;
  unbind(slot);
  region.windows.fetch_add(1, std::memory_order_relaxed);
  slot.region = &region;
  slot.memory = region.memory + (info.addr - region.address);
  slot.address = info.addr;
  slot.length = info.length;
  slot.access = info.mw_access_flags;
  slot.pd = pd;
  slot.owner_qp = type2 ? qp : 0;
  slot.window = true;
  slot.bound = true;
  key_table::publish(slot, rkey);
  return true;
}

bool invalidate_window(key_table& keys, std::uint32_t rkey, const ibv_pd* pd, std::uint32_t qp) noexcept
{
  const std::lock_guard lock(keys.binding); // a window is not freed meanwhile
  key_slot* slot = keys.find(rkey);
  if (rkey == 0 || slot == nullptr || slot->key.load(std::memory_order_acquire) != rkey || !slot->window
    || !slot->bound || slot->owner_qp != qp || slot->pd != pd)
    return false;
  unbind(*slot);
  return true;
}

void free_window_slot(key_table& keys, memory_window& window) noexcept
{
  const std::lock_guard lock(keys.binding);
  unbind(*window.slot);
  keys.release(*window.slot);
}

} // namespace rdma::software
