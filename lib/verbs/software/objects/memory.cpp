//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/memory.hpp"

#include "verbs/software/objects/context.hpp"

#include <cerrno>
#include <memory>
#include <new>

namespace rdma::software {
namespace {

constexpr int known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
  | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB
  | IBV_ACCESS_RELAXED_ORDERING;

template <class T>
T* fail(int error)
{
  errno = error;
  return nullptr;
}

} // namespace

ibv_pd* alloc_pd(ibv_context* context)
{
  if (device_context::of(context).removed)
    return fail<ibv_pd>(EIO);
  auto* made = new (std::nothrow) protection_domain{};
  if (made == nullptr)
    return fail<ibv_pd>(ENOMEM);
  made->context = context;
  device_context::of(context).children.fetch_add(1, std::memory_order_relaxed);
  return made;
}

int dealloc_pd(ibv_pd* pd)
{
  auto* domain = static_cast<protection_domain*>(pd);
  if (domain->users.load(std::memory_order_acquire) != 0)
    return EBUSY;
  device_context::of(pd->context).children.fetch_sub(1, std::memory_order_release);
  delete domain;
  return 0;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int access)
{
  if (device_context::of(pd->context).removed)
    return fail<ibv_mr>(EIO);
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const bool needs_write = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (length == 0 || length > UINT64_MAX - first || (access & ~known_access) != 0
    || (needs_write && (access & IBV_ACCESS_LOCAL_WRITE) == 0)) // ibv_reg_mr(3)
    return fail<ibv_mr>(EINVAL);
  std::unique_ptr<memory_region> made(new (std::nothrow) memory_region{});
  if (!made)
    return fail<ibv_mr>(ENOMEM);
  std::uint32_t key = 0;
  key_slot* slot = device_context::of(pd->context).keys.allocate(key);
  if (slot == nullptr)
    return fail<ibv_mr>(ENOMEM);
  slot->memory = static_cast<std::byte*>(address);
  slot->address = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : first;
  slot->length = length;
  slot->access = static_cast<unsigned>(access);
  slot->pd = pd;
  made->slot = slot;
  made->context = pd->context;
  made->pd = pd;
  made->addr = address;
  made->length = length;
  made->lkey = made->rkey = key;
  static_cast<protection_domain*>(pd)->users.fetch_add(1, std::memory_order_relaxed);
  key_table::publish(*slot, key);
  return made.release();
}

int dereg_mr(ibv_mr* mr)
{
  auto* region = static_cast<memory_region*>(mr);
  {
    // Under the mutex, so that no window is bound to it in between.
    const std::lock_guard lock(device_context::of(mr->context).keys.binding);
    if (region->slot->windows.load(std::memory_order_acquire) != 0)
      return EBUSY; // ibv_dereg_mr(3)
    key_table::revoke(*region->slot);
  }
  device_context::of(mr->context).keys.release(*region->slot);
  static_cast<protection_domain*>(mr->pd)->users.fetch_sub(1, std::memory_order_release);
  delete region;
  return 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type)
{
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
    return fail<ibv_mw>(EINVAL);
  std::unique_ptr<memory_window> made(new (std::nothrow) memory_window);
  if (!made)
    return fail<ibv_mw>(ENOMEM);
  std::uint32_t key = 0;
  key_slot* slot = device_context::of(pd->context).keys.allocate(key);
  if (slot == nullptr)
    return fail<ibv_mw>(ENOMEM);
  slot->window = true;
  slot->type2 = type == IBV_MW_TYPE_2;
  slot->pd = pd;
  made->context = pd->context;
  made->pd = pd;
  made->rkey = made->first_key = key;
  {
    const std::lock_guard lock(device_context::of(pd->context).keys.binding); // who binds looks for it
    slot->first_key = key;
  }
  made->handle = 0;
  made->type = type;
  made->slot = slot;
  static_cast<protection_domain*>(pd)->users.fetch_add(1, std::memory_order_relaxed);
  return made.release();
}

int dealloc_mw(ibv_mw* mw)
{
  auto* window = static_cast<memory_window*>(mw);
  free_window_slot(device_context::of(mw->context).keys, *window);
  static_cast<protection_domain*>(mw->pd)->users.fetch_sub(1, std::memory_order_release);
  delete window;
  return 0;
}

} // namespace rdma::software
