//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/memory.hpp"

#include "verbs/software/memory/late_writers.hpp"
#include "verbs/software/memory/shared_memory.hpp"
#include "verbs/software/memory/window.hpp"
#include "verbs/software/objects/context.hpp"

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma::software {
namespace {

constexpr int known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
  | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED
  | IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING;

bool may_be_registered(
  const void* address, std::size_t length, std::uint64_t iova, int access) noexcept
{
  const bool needs_write = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  return length <= UINT64_MAX - reinterpret_cast<std::uintptr_t>(address)
    && length <= UINT64_MAX - iova && (access & ~known_access) == 0
    && (!needs_write || (access & IBV_ACCESS_LOCAL_WRITE) != 0); // ibv_reg_mr(3)
}

// Sets all but the key, which makes the slot reachable.
void set_up(key_slot& slot, const ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
  int access, const moved_pages* moved)
{
  slot.memory = static_cast<std::byte*>(address);
  slot.address = iova;
  slot.length = length;
  slot.access = static_cast<unsigned>(access);
  slot.pd = protecting(pd);
  slot.shared = moved != nullptr ? moved->shared()
    : shared_memory::find(address, length) != nullptr
    ? shared_part{0, length, static_cast<std::byte*>(address)}
    : shared_part{};
}

// Moves the pages of a new registration if the device does so. Returns false if memory is short.
bool move_pages(device_context& device, void* address, std::size_t length,
  std::unique_ptr<moved_pages>& moved) noexcept
{
  if (!device.moves_pages.load(std::memory_order_relaxed))
    return true;
  try
  {
    moved = std::make_unique<moved_pages>(address, length);
    return true;
  }
  catch (const std::bad_alloc&)
  {
    return false;
  }
}

} // namespace

ibv_pd* alloc_pd(ibv_context* context)
{
  device_context& owner = device_context::of(context);
  if (owner.removed)
    return fail(EIO);
  object_place place(owner.domains);
  auto* made = place ? new (std::nothrow) protection_domain{} : nullptr;
  if (made == nullptr)
    return fail(ENOMEM);
  place.keep();
  made->context = context;
  owner.children.fetch_add(1, std::memory_order_relaxed);
  return made;
}

int dealloc_pd(ibv_pd* pd)
{
  auto* domain = static_cast<protection_domain*>(pd);
  if (domain->users.load(std::memory_order_acquire) != 0)
    return EBUSY;
  if (domain->parent_of != nullptr)
    domain->parent_of->users.fetch_sub(1, std::memory_order_release);
  if (domain->thread != nullptr)
    domain->thread->users.fetch_sub(1, std::memory_order_release);
  device_context& owner = device_context::of(pd->context);
  owner.domains.give_back();
  owner.children.fetch_sub(1, std::memory_order_release);
  delete domain;
  return 0;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int access)
{
  return reg_mr_iova(pd, address, length, reinterpret_cast<std::uintptr_t>(address), access);
}

buffer_mapping::~buffer_mapping()
{
  ::munmap(memory, size);
}

ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access)
{
  device_context& owner = device_context::of(pd->context);
  if (owner.removed)
    return fail(EIO);
  if ((access & IBV_ACCESS_ZERO_BASED) != 0)
    iova = 0; // ibv_reg_mr() is a macro that passes the address here
  if (!may_be_registered(address, length, iova, access))
    return fail(EINVAL);
  object_place place(owner.regions);
  std::unique_ptr<memory_region> made(new (std::nothrow) memory_region{});
  if (!place || !made || !move_pages(owner, address, length, made->moved))
    return fail(ENOMEM);
  std::uint32_t key = 0;
  key_slot* slot = owner.keys.allocate(key);
  if (slot == nullptr)
    return fail(ENOMEM);
  place.keep();
  set_up(*slot, pd, address, length, iova, access, made->moved.get());
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

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
  int descriptor, int access)
{
  constexpr int supported = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;
  if ((access & ~supported) != 0)
    return fail(EOPNOTSUPP);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t before = offset % page;
  struct stat about = {};
  if (::fstat(descriptor, &about) != 0)
    return fail(errno);
  const auto size = static_cast<std::uint64_t>(about.st_size);
  // A page behind the end would be a SIGBUS. The page offsets must agree (ibv_reg_dmabuf_mr(3)).
  if (length == 0 || offset > size || length > size - offset || iova % page != before)
    return fail(EINVAL);
  const int protection = PROT_READ | ((access & IBV_ACCESS_LOCAL_WRITE) != 0 ? PROT_WRITE : 0);
  void* const at = ::mmap(nullptr, before + length, protection, MAP_SHARED, descriptor,
    static_cast<off_t>(offset - before));
  if (at == MAP_FAILED)
    return fail(errno);
  std::unique_ptr<buffer_mapping> mapped(new (std::nothrow) buffer_mapping(at, before + length));
  if (mapped == nullptr)
  {
    ::munmap(at, before + length);
    return fail(ENOMEM);
  }
  ibv_mr* const made = reg_mr_iova(pd, static_cast<std::byte*>(at) + before, length, iova, access);
  if (made != nullptr)
  {
    static_cast<memory_region*>(made)->buffer = std::move(mapped);
    made->addr = reinterpret_cast<void*>(offset); // as libibverbs
  }
  return made;
}

// A device ignores unknown optional rights (ibv_reg_mr(3)).
ibv_mr* reg_mr_iova2(
  ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access)
{
  constexpr unsigned unknown = IBV_ACCESS_OPTIONAL_RANGE & ~static_cast<unsigned>(known_access);
  return reg_mr_iova(pd, address, length, iova, static_cast<int>(access & ~unknown));
}

int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access)
{
  auto* region = static_cast<memory_region*>(mr);
  key_table& keys = device_context::of(mr->context).keys;
  const auto refuse = [](int error, int code) // ibv_rereg_mr(3): the code names the remaining state
  {
    errno = error;
    return code;
  };
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  key_slot& old = *region->slot;
  ibv_pd* const new_pd = changes_pd ? pd : mr->pd;
  void* const new_address = moves ? address : mr->addr;
  const std::size_t new_length = moves ? length : mr->length;
  const int new_access =
    (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : static_cast<int>(old.access);
  const auto is_zero_based = [](unsigned flags) { return (flags & IBV_ACCESS_ZERO_BASED) != 0; };
  const std::uint64_t iova = is_zero_based(static_cast<unsigned>(new_access)) ? 0
    : moves || is_zero_based(old.access) ? reinterpret_cast<std::uintptr_t>(new_address)
                                         : old.address;
  if (region->buffer != nullptr)
    return refuse(EOPNOTSUPP, IBV_REREG_MR_ERR_INPUT);
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 || new_pd == nullptr
    || new_pd->context != mr->context || (moves && length == 0)
    || !may_be_registered(new_address, new_length, iova, new_access))
    return refuse(EINVAL, IBV_REREG_MR_ERR_INPUT);
  std::unique_ptr<moved_pages> moved;
  if (moves && !move_pages(device_context::of(mr->context), address, length, moved))
    return refuse(ENOMEM, IBV_REREG_MR_ERR_INPUT);
  // Only a move changes the keys: their holders have not agreed to the new memory.
  std::uint32_t key = mr->rkey;
  key_slot* const slot = moves ? keys.allocate(key) : &old;
  if (slot == nullptr)
    return refuse(ENOMEM, IBV_REREG_MR_ERR_INPUT);
  {
    // Under the mutex, so that no window is bound to it in between.
    const std::lock_guard lock(keys.binding);
    if (old.windows.load(std::memory_order_acquire) == 0)
      key_table::revoke(old);
    else
    {
      if (moves)
        keys.release(*slot);
      return refuse(EBUSY, IBV_REREG_MR_ERR_INPUT);
    }
  }
  late_writers::wait(old.memory, old.length);
  if (moves)
    region->moved.swap(moved);
  set_up(*slot, new_pd, new_address, new_length, iova, new_access, region->moved.get());
  if (moves)
    keys.release(old);
  region->slot = slot;
  static_cast<protection_domain*>(new_pd)->users.fetch_add(1, std::memory_order_relaxed);
  static_cast<protection_domain*>(mr->pd)->users.fetch_sub(1, std::memory_order_release);
  mr->pd = new_pd;
  mr->addr = new_address;
  mr->length = new_length;
  mr->lkey = mr->rkey = key;
  key_table::publish(*slot, key);
  return 0;
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
  late_writers::wait(region->slot->memory, region->length);
  device_context& owner = device_context::of(mr->context);
  owner.keys.release(*region->slot);
  owner.regions.give_back();
  static_cast<protection_domain*>(mr->pd)->users.fetch_sub(1, std::memory_order_release);
  delete region;
  return 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type)
{
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
    return fail(EINVAL);
  device_context& owner = device_context::of(pd->context);
  object_place place(owner.windows);
  std::unique_ptr<memory_window> made(new (std::nothrow) memory_window);
  if (!place || !made)
    return fail(ENOMEM);
  std::uint32_t key = 0;
  key_slot* slot = owner.keys.allocate(key);
  if (slot == nullptr)
    return fail(ENOMEM);
  place.keep();
  slot->window = true;
  slot->type2 = type == IBV_MW_TYPE_2;
  slot->pd = protecting(pd);
  made->context = pd->context;
  made->pd = pd;
  made->rkey = made->first_key = key;
  {
    const std::lock_guard lock(owner.keys.binding); // bind_window() reads it
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
  device_context& owner = device_context::of(mw->context);
  free_window(owner.keys, *window->slot);
  owner.windows.give_back();
  static_cast<protection_domain*>(mw->pd)->users.fetch_sub(1, std::memory_order_release);
  delete window;
  return 0;
}

} // namespace rdma::software
