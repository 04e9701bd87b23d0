//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/arena.hpp"

#include "resource/address_map.hpp"
#include "resource/size_classes.hpp"

#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace rdma::detail {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
static_assert(address_map<arena>::granule_bytes == huge_page_bytes);

// Pages of 2 MiB whatever the system's default is: with MAP_FIXED, mmap(2) would round the length
// up to one of that, and map over what lies behind (MAP_HUGE_2MB of linux/mman.h: the logarithm,
// shifted by MAP_HUGE_SHIFT). memfd_create(2) has the same.
constexpr int huge_page_flags = MAP_HUGETLB | (21 << 26);

// Address space from a multiple of 2 MiB on, without memory.
std::byte* reserve(std::size_t bytes) noexcept
{
  void* mapped = ::mmap(nullptr, bytes + huge_page_bytes, PROT_NONE,
    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before = (0 - reinterpret_cast<std::uintptr_t>(begin)) % huge_page_bytes;
  if (before != 0)
    ::munmap(begin, before);
  ::munmap(begin + before + bytes, huge_page_bytes - before);
  return begin + before;
}

} // namespace

mapped_memory::mapped_memory(std::size_t bytes, huge_pages huge, bool shared, error_code& ec)
{
  ec = {};
  const std::size_t reserved = round_up(bytes, huge_page_bytes);
  std::byte* const data = reserve(reserved);
  if (data == nullptr)
  {
    ec = last_verbs_error();
    return;
  }
  data_ = data;
  reserved_ = reserved;
  const std::size_t whole = bytes / huge_page_bytes * huge_page_bytes;
  std::size_t done = 0;
  if (shared && share(bytes, huge))
    return; // else this host does without (memfd_create(2) may be refused), and so do the peers
  if (huge == huge_pages::reserved && whole != 0
    && ::mmap(data, whole, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | huge_page_flags, -1, 0)
      != MAP_FAILED)
    done = whole; // else the system has none to spare, and the pages below will do
  if (done < bytes
    && ::mmap(data + done, bytes - done, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
      == MAP_FAILED)
  {
    ec = last_verbs_error();
    return;
  }
  if (done == 0 && huge != huge_pages::off && whole != 0
    && ::madvise(data, whole, MADV_HUGEPAGE) == 0) // EINVAL: a kernel without them
    done = whole;
  huge_bytes_asked_ = done;
}

bool mapped_memory::share(std::size_t bytes, huge_pages huge)
{
  if (huge == huge_pages::reserved && bytes % huge_page_bytes == 0)
  {
    shared_ = software::shared_memory::map_over(data_, bytes, MFD_HUGETLB | (21u << 26));
    if (shared_)
    {
      huge_bytes_asked_ = bytes;
      return true;
    }
  }
  shared_ = software::shared_memory::map_over(data_, bytes, 0);
  if (!shared_)
    return false;
  const std::size_t whole = bytes / huge_page_bytes * huge_page_bytes;
  // It depends on /sys/kernel/mm/transparent_hugepage/shmem_enabled whether that means anything.
  if (huge != huge_pages::off && whole != 0 && ::madvise(data_, whole, MADV_HUGEPAGE) == 0)
    huge_bytes_asked_ = whole;
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
  , huge_bytes_asked_(std::exchange(other.huge_bytes_asked_, 0))
{
}

mapped_memory& mapped_memory::operator=(mapped_memory&& other) noexcept
{
  std::swap(data_, other.data_);
  std::swap(shared_, other.shared_);
  std::swap(reserved_, other.reserved_);
  std::swap(huge_bytes_asked_, other.huge_bytes_asked_);
  return *this;
}

void arena::open(const domain_impl& where, std::size_t bytes, huge_pages huge, error_code& ec)
{
  // What may throw comes first.
  pages.emplace(bytes / page_bytes);
  slabs.assign(bytes / page_bytes, nullptr);
  // What a NIC registers need not be shared, and the system has larger pages for what is not.
  const bool shared = where.default_device().kind() == device_kind::software;
  mapped_memory mapped(bytes, huge, shared, ec);
  if (ec)
    return;
  range.emplace();
  // Windows can be opened on its blocks; until one is, no peer reaches them.
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
  references.store(1, std::memory_order_release); // with the above, for try_retain()
}

void arena::close() noexcept
{
  range.reset(); // before the memory goes
  memory = mapped_memory();
}

} // namespace rdma::detail
