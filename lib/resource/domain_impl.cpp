//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/domain_impl.hpp"

#include "resource/device_list.hpp"
#include "resource/pool_impl.hpp"

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace rdma::detail {

device_set::device_set(const context_options& options)
  : pool_options(options.pool)
  , cache_options(options.cache)
{
  std::string wanted = options.device;
  if (const char* from_environment = ::secure_getenv("BOOST_RDMA_DEVICE");
      wanted.empty() && from_environment)
    wanted = from_environment;
  if (wanted != software::device_name)
  {
    error_code ec;
    std::string why;
    devices[nic_index] = open_nic(wanted, ec, why);
    why_no_nic = why;
    if (ec)
      throw system_error(ec, "cannot open the RDMA device '" + wanted + "' (" + why + ")");
  }
  else
    why_no_nic = "the context was opened for the software device alone";
  devices[software_index] = open_software(options.software);
}

std::string registration_failure(std::size_t bytes, const error_code& ec)
{
  std::string result = "cannot register " + std::to_string(bytes) + " bytes of memory";
  if (const std::string cause = likely_cause(ec); !cause.empty())
    result += " (" + cause + ")";
  return result;
}

registered_range::~registered_range()
{
  close();
}

void registered_range::close() noexcept
{
  for (std::size_t i = 0; i < device_count_max; ++i)
    if (ibv_mr* region = std::exchange(regions_[i], nullptr);
        region != nullptr && !domain_->device_at(i)->forked())
      domain_->device_at(i)->api().dereg_mr(region);
}

void registered_range::open(
  const domain_impl& domain, void* data, std::size_t size, access rights, error_code& ec)
{
  ec = {};
  domain_ = &domain;
  for (std::size_t i = 0; i < device_count_max; ++i)
  {
    const device_impl* device = domain.device_at(i);
    if (device == nullptr)
      continue;
    if (ec = device->state(); ec)
      return;
    errno = 0;
    // Some devices refuse the registration if it requests a right that they do not support.
    const auto here = device->has_windows() ? rights : without(rights, access::window_bind);
    regions_[i] = device->api().reg_mr(domain.native(i), data, size, static_cast<int>(here));
    if (regions_[i] == nullptr)
    {
      ec = device->why(last_verbs_error());
      return; // the destructor deregisters the entries before
    }
  }
}

device_keys registered_range::local_keys() const noexcept
{
  device_keys keys{};
  for (std::size_t i = 0; i < device_count_max; ++i)
    keys[i] = regions_[i] != nullptr ? regions_[i]->lkey : 0;
  return keys;
}

device_keys registered_range::remote_keys() const noexcept
{
  device_keys keys{};
  for (std::size_t i = 0; i < device_count_max; ++i)
    keys[i] = regions_[i] != nullptr ? regions_[i]->rkey : 0;
  return keys;
}

std::shared_ptr<domain_impl> domain_impl::make(std::shared_ptr<device_set> devices)
{
  return {new domain_impl(std::move(devices)),
    [](domain_impl* last) { pool_impl::retire(std::unique_ptr<domain_impl>(last)); }};
}

domain_impl::domain_impl(std::shared_ptr<device_set> devices)
  : devices_(std::move(devices))
  , pool_(std::make_unique<pool_impl>(*this, devices_->pool_options))
  , resource_(*pool_)
  , cache_(*this, devices_->cache_options)
{
  for (std::size_t i = 0; i < device_count_max; ++i)
  {
    const device_impl* device = device_at(i);
    if (device == nullptr)
      continue;
    if (device->state())
    {
      close();
      throw system_error(device->state(), "cannot allocate a protection domain");
    }
    errno = 0;
    domains_[i] = device->api().alloc_pd(device->native());
    if (domains_[i] == nullptr)
    {
      const error_code ec = last_verbs_error();
      close();
      throw system_error(ec, "cannot allocate a protection domain");
    }
  }
}

domain_impl::~domain_impl()
{
  close();
}

void domain_impl::close() noexcept
{
  cache_.clear();
  for (std::size_t i = 0; i < device_count_max; ++i)
    if (domains_[i] != nullptr && !device_at(i)->forked())
      device_at(i)->api().dealloc_pd(domains_[i]);
}

device_impl& domain_impl::find_device(const std::string& name, const std::string& who) const
{
  device_impl* found = name.empty() ? &default_device() : nullptr;
  std::string names;
  for (const auto& device : devices_->devices)
    if (device)
    {
      names += (names.empty() ? "" : ", ") + device->name();
      if (found == nullptr && name == device->name())
        found = device.get();
    }
  if (found == nullptr)
    throw system_error(
      error::no_device, who + " on '" + name + "': the context has opened " + names);
  if (const error_code ec = found->state())
    throw system_error(ec, who);
  return *found;
}

} // namespace rdma::detail
