//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/memory_region.hpp"

#include "boost_rdma/register_buffer.hpp"

#include "resource/domain_impl.hpp"
#include "verbs/software/memory/huge_pages.hpp"
#include "verbs/software/memory/shared_memory.hpp"

#include <sys/mman.h>

namespace rdma {
namespace detail {
namespace {

// The registration behind a memory_region, with the memory if the library allocated it.
struct region final : registration
{
  ~region()
  {
    range.reset(); // deregister before the memory is unmapped
    if (shared)
      shared->withdraw();
    if (mapped != nullptr)
      ::munmap(mapped, size);
  }

  std::shared_ptr<domain_impl> keep_alive;
  std::unique_ptr<registered_range> range = std::make_unique<registered_range>();
  void* mapped = nullptr;
  std::shared_ptr<software::shared_memory>
    shared; // at `mapped`, where peers on this host may map it, too
};

registration* make_region(
  const protection_domain& domain, void* data, std::size_t size, access rights, error_code& ec)
{
  ec = {};
  if (size == 0)
    ec = error::empty_buffer;
  // ibv_reg_mr(3): remote write and remote atomic require local write
  else if ((rights & (access::remote_write | access::remote_atomic)) != access::local_read
    && !permits(rights, access::local_write))
    ec = error::bad_access;
  if (ec)
    return nullptr;

  auto made = std::make_unique<region>();
  made->keep_alive = domain.impl();
  made->size = size;
  if (data == nullptr)
  {
    // A window may have more rights than its region.
    constexpr access others_write =
      access::remote_write | access::remote_atomic | access::window_bind;
    const bool peers_only_read = (rights & others_write) == access::local_read;
    if (domain.impl()->default_device().traits().copies_shared_memory)
      made->shared = software::shared_memory::map(
        size, size, 0, peers_only_read ? software::writers::owner : software::writers::all);
    std::byte* const mapped = made->shared
      ? made->shared->base()
      : software::map_aligned(size, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (mapped == nullptr)
    {
      ec = last_verbs_error();
      return nullptr;
    }
    made->mapped = data = mapped;
    if (made->shared)
      software::use_huge_pages(mapped, size);
  }
  made->range->open(*domain.impl(), data, size, rights, ec);
  if (ec)
    return nullptr;
  made->local_keys = made->range->local_keys();
  made->remote_keys = made->range->remote_keys();
  for (std::size_t i = 0; i < device_count_max; ++i)
    made->natives[i] = made->range->native(i);
  made->domain = domain.impl().get();
  made->base = static_cast<std::byte*>(data);
  made->rights = rights;
  made->destroy = [](registration* r) noexcept { delete static_cast<region*>(r); };
  return made.release();
}

} // namespace
} // namespace detail

memory_region::memory_region(
  const protection_domain& domain, std::size_t size, access rights, error_code& ec)
  : registration_(detail::make_region(domain, nullptr, size, rights, ec))
{
}

memory_region::memory_region(const protection_domain& domain, std::size_t size, access rights)
{
  error_code ec;
  *this = memory_region(domain, size, rights, ec);
  if (ec)
    throw system_error(ec, detail::registration_failure(size, ec));
}

memory_region::memory_region(
  const protection_domain& domain, void* data, std::size_t size, access rights, error_code& ec)
{
  if (data == nullptr)
    ec = error::empty_buffer;
  else
    registration_ = detail::make_region(domain, data, size, rights, ec);
}

memory_region::memory_region(
  const protection_domain& domain, void* data, std::size_t size, access rights)
{
  error_code ec;
  *this = memory_region(domain, data, size, rights, ec);
  if (ec)
    throw system_error(ec, detail::registration_failure(size, ec));
}

memory_region register_buffer(const protection_domain& domain,
  const boost::asio::mutable_buffer& memory, access rights, error_code& ec)
{
  return memory_region(domain, memory.data(), memory.size(), rights, ec);
}

memory_region register_buffer(
  const protection_domain& domain, const boost::asio::mutable_buffer& memory, access rights)
{
  return memory_region(domain, memory.data(), memory.size(), rights);
}

memory_region register_buffer(const protection_domain& domain,
  const boost::asio::const_buffer& memory, access rights, error_code& ec)
{
  if (!permits(access::remote_read, rights))
  {
    ec = error::bad_access;
    return {};
  }
  // Verbs has no pointer to const. Without local_write, the device only reads as well.
  memory_region result(domain, const_cast<void*>(memory.data()), memory.size(), rights, ec);
  if (!ec)
    result.registration()->read_only = true; // not visible to other threads yet
  return result;
}

memory_region register_buffer(
  const protection_domain& domain, const boost::asio::const_buffer& memory, access rights)
{
  error_code ec;
  memory_region result = register_buffer(domain, memory, rights, ec);
  if (ec)
    throw system_error(ec, detail::registration_failure(memory.size(), ec));
  return result;
}

bool memory_region::is_shared() const noexcept
{
  return software::shared_memory::find(data(), size()) != nullptr;
}

remote_buffer memory_region::remote(error_code& ec) const noexcept
{
  ec = {};
  if (registration_ == nullptr || (rights() & remote_access) == access::local_read)
  {
    ec = error::not_exposed;
    return {};
  }
  return {reinterpret_cast<std::uintptr_t>(data()), size(), registration_->remote_keys,
    rights() & remote_access};
}

remote_buffer memory_region::remote() const
{
  return detail::or_throw("memory_region::remote", [&](error_code& ec) { return remote(ec); });
}

} // namespace rdma
