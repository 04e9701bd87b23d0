//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/arena.hpp"

#include "resource/address_map.hpp"
#include "resource/size_classes.hpp"
#include "verbs/software/memory/huge_pages.hpp"

#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace rdma::detail {
namespace {

using software::huge_page_bytes;
static_assert(address_map<arena>::granule_bytes == huge_page_bytes);

// Requests pages of 2 MiB explicitly (MAP_HUGE_2MB of linux/mman.h: the logarithm, shifted by
// MAP_HUGE_SHIFT). mmap(2) rounds the length up to the huge page size, and a larger system default
// would not fit. memfd_create(2) has the same flag.
constexpr int huge_page_flags = MAP_HUGETLB | (21 << 26);

} // namespace

mapped_memory::mapped_memory(
  std::size_t bytes, const memory_pool_options& options, bool shared, error_code& ec)
  : reserved_(round_up(bytes, huge_page_bytes))
{
  ec = {};
  if (shared && share(bytes, options))
    return; // otherwise private memory is used: memfd_create(2) may be refused here
  const huge_pages huge = options.huge;
  const std::size_t whole = bytes / huge_page_bytes * huge_page_bytes;
  constexpr int protection = PROT_READ | PROT_WRITE;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  if (huge == huge_pages::reserved && whole != 0)
    data_ = software::map_aligned(whole, reserved_, protection, flags | huge_page_flags, -1);
  if (data_ != nullptr)
  {
    huge_bytes_requested_ = whole;
    if (whole != bytes && ::mprotect(data_ + whole, bytes - whole, protection) != 0)
      ec = last_verbs_error();
    return;
  }
  // The system has no huge pages left, or none are wanted.
  data_ = software::map_aligned(bytes, reserved_, protection, flags, -1);
  if (data_ == nullptr)
    ec = last_verbs_error();
  else if (huge != huge_pages::off && whole != 0
    && ::madvise(data_, whole, MADV_HUGEPAGE) == 0) // EINVAL: no transparent huge pages
    huge_bytes_requested_ = whole;
}

bool mapped_memory::share(std::size_t bytes, const memory_pool_options& options)
{
  const huge_pages huge = options.huge;
  const auto map = [&](unsigned flags)
  {
    shared_ = software::shared_memory::map(bytes, reserved_, flags,
      options.peers_only_read ? software::writers::owner : software::writers::all);
    data_ = shared_ ? shared_->base() : nullptr;
    return data_ != nullptr;
  };
  if (huge == huge_pages::reserved && bytes % huge_page_bytes == 0
    && map(MFD_HUGETLB | (21u << 26)))
  {
    huge_bytes_requested_ = bytes;
    return true;
  }
  if (!map(0))
    return false;
  const std::size_t whole = bytes / huge_page_bytes * huge_page_bytes;
  // The kernel's setting shmem_enabled determines if MADV_HUGEPAGE has an effect.
  if (huge != huge_pages::off && whole != 0 && ::madvise(data_, whole, MADV_HUGEPAGE) == 0)
  {
    huge_bytes_requested_ = whole;
    software::use_huge_pages(data_, whole);
  }
  return true;
}

mapped_memory::~mapped_memory()
{
  if (shared_)
    shared_->withdraw();
  if (data_ != nullptr)
    ::munmap(data_, reserved_);
}

mapped_memory::mapped_memory(mapped_memory&& other) noexcept
  : data_(std::exchange(other.data_, nullptr))
  , shared_(std::move(other.shared_))
  , reserved_(std::exchange(other.reserved_, 0))
  , huge_bytes_requested_(std::exchange(other.huge_bytes_requested_, 0))
{
}

mapped_memory& mapped_memory::operator=(mapped_memory&& other) noexcept
{
  std::swap(data_, other.data_);
  std::swap(shared_, other.shared_);
  std::swap(reserved_, other.reserved_);
  std::swap(huge_bytes_requested_, other.huge_bytes_requested_);
  return *this;
}

void arena::open(
  const domain_impl& where, std::size_t bytes, const memory_pool_options& options, error_code& ec)
{
  // All calls that may throw come before the memory is mapped and registered.
  pages.emplace(bytes / page_bytes);
  slabs.assign(bytes / page_bytes, nullptr);
  // Private memory can have larger pages.
  const bool shared = where.default_device().traits().copies_shared_memory;
  mapped_memory mapped(bytes, options, shared, ec);
  if (ec)
    return;
  range.emplace();
  // Blocks can be opened to peers through memory windows. Without a window, no peer has access.
  constexpr access arena_rights = access::local_write | access::window_bind;
  range->open(where, mapped.data(), bytes, arena_rights, ec);
  if (ec)
  {
    range.reset();
    return;
  }
  memory = std::move(mapped);
  local_keys = range->local_keys();
  for (std::size_t i = 0; i != natives.size(); ++i)
    if (const device_impl* device = where.device_at(i); device != nullptr && device->has_windows())
      natives[i] = range->native(i);
  domain = &where;
  base = memory.data();
  size = bytes;
  rights = arena_rights;
  references.store(1, std::memory_order_release); // publishes the members above, see try_retain()
}

void arena::close() noexcept
{
  range.reset(); // deregister before the memory is unmapped
  memory = mapped_memory();
}

} // namespace rdma::detail
