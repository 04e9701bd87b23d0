//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/memory_window.hpp"

#include "resource/window_impl.hpp"

#include <algorithm>
#include <cerrno>

namespace rdma {
namespace detail {

window_impl::window_impl(std::shared_ptr<domain_impl> owner, const std::string& device_name)
  : domain(std::move(owner))
  , device(&domain->find_device(device_name, "cannot allocate a type 2 memory window"))
{
  if (!device->has_windows())
    throw system_error(error_code(EOPNOTSUPP, boost::system::system_category()),
      "cannot allocate a type 2 memory window: " + device->name()
        + " does not support them (IBV_DEVICE_MEM_WINDOW_TYPE_2*). Use another device.");
  errno = 0;
  native = ibv_alloc_mw(domain->native(device->index()), IBV_MW_TYPE_2);
  if (native == nullptr)
    throw system_error(device->why(last_verbs_error()), "cannot allocate a type 2 memory window");
}

void window_impl::close() noexcept
{
  if (native != nullptr && !device->forked())
    ibv_dealloc_mw(native);
  native = nullptr;
}

window_impl::~window_impl()
{
  close();
  for (registration* each : held_)
    each->release();
}

void window_impl::may_open_on(registration* region)
{
  const std::lock_guard lock(mutex_);
  held_.push_back(region);
  region->retain();
}

void window_impl::opens_on(registration* region) noexcept
{
  // Binds complete in the order of posting, so the entries after `found` are not bound yet.
  // release() takes no lock of this class.
  const std::lock_guard lock(mutex_);
  const auto before = held_.begin() + (bound_ ? 1 : 0);
  const auto found = std::find(before, held_.end(), region);
  std::for_each(held_.begin(), found, [](registration* each) { each->release(); });
  held_.erase(held_.begin(), found);
  bound_ = true;
}

} // namespace detail

memory_window::memory_window(const protection_domain& domain, const std::string& device)
  : impl_(std::make_shared<detail::window_impl>(domain.impl(), device))
{
}

std::uint32_t memory_window::key() const noexcept
{
  return impl_->native->rkey;
}

ibv_mw* memory_window::native_handle() const noexcept
{
  return impl_->native;
}

} // namespace rdma
