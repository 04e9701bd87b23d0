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
// MAP_HUGE_SHIFT). With MAP_FIXED, mmap(2) rounds the length up to the huge page size. A larger
// system default would therefore map over adjacent memory. memfd_create(2) has the same flag.
constexpr int huge_page_flags = MAP_HUGETLB | (21 << 26);

} // namespace

mapped_memory::mapped_memory(
  std::size_t bytes, const memory_pool_options& options, bool shared, error_code& ec)
{
  const huge_pages huge = options.huge;
  ec = {};
  const std::size_t reserved = round_up(bytes, huge_page_bytes);
  std::byte* const data = software::reserve_address_space(reserved);
  if (data == nullptr)
  {
    ec = last_verbs_error();
    return;
  }
  data_ = data;
  reserved_ = reserved;
  const std::size_t whole = bytes / huge_page_bytes * huge_page_bytes;
  std::size_t done = 0;
  if (shared && share(bytes, options))
    return; // otherwise private memory is used: memfd_create(2) may be refused here
  if (huge == huge_pages::reserved && whole != 0
    && ::mmap(data, whole, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | huge_page_flags, -1, 0)
      != MAP_FAILED)
    done = whole; // otherwise the system has no huge pages left, and small pages follow
  if (done < bytes
    && ::mmap(data + done, bytes - done, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
      == MAP_FAILED)
  {
    ec = last_verbs_error();
    return;
  }
  if (done == 0 && huge != huge_pages::off && whole != 0
    && ::madvise(data, whole, MADV_HUGEPAGE) == 0) // EINVAL: no transparent huge pages
    done = whole;
  huge_bytes_requested_ = done;
}

bool mapped_memory::share(std::size_t bytes, const memory_pool_options& options)
{
  const huge_pages huge = options.huge;
  const software::writers who =
    options.peers_only_read ? software::writers::owner : software::writers::all;
  if (huge == huge_pages::reserved && bytes % huge_page_bytes == 0)
  {
    shared_ = software::shared_memory::map_over(data_, bytes, MFD_HUGETLB | (21u << 26), who);
    if (shared_)
    {
      huge_bytes_requested_ = bytes;
      return true;
    }
  }
  shared_ = software::shared_memory::map_over(data_, bytes, 0, who);
  if (!shared_)
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
