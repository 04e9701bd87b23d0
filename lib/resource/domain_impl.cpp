//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/domain_impl.hpp"

#include <cerrno>
#include <cstdlib>

namespace rdma::detail {

device_set::device_set(const context_options& options)
  : pool_options(options.pool)
{
  std::string wanted = options.device;
  if (const char* from_environment = std::getenv("BOOST_RDMA_DEVICE"); wanted.empty() && from_environment)
    wanted = from_environment;
  if (wanted != software::device_name)
  {
    error_code ec;
    devices[nic_index] = open_nic(wanted, ec);
    if (ec)
      throw system_error(ec, "cannot open the RDMA device '" + wanted + "'");
  }
  devices[software_index] = open_software(options.software);
}

registered_range::~registered_range()
{
  for (std::size_t i = 0; i < device_count_max; ++i)
    if (regions_[i] != nullptr)
      domain_->device_at(i)->api().dereg_mr(regions_[i]);
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
    errno = 0;
    regions_[i] = device->api().reg_mr(domain.native(i), data, size, static_cast<int>(rights));
    if (regions_[i] == nullptr)
    {
      ec = last_verbs_error();
      return; // what was registered goes with this object
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

domain_impl::domain_impl(std::shared_ptr<device_set> devices)
  : devices_(std::move(devices))
  , pool_(*this, devices_->pool_options)
{
  for (std::size_t i = 0; i < device_count_max; ++i)
  {
    const device_impl* device = device_at(i);
    if (device == nullptr)
      continue;
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

domain_impl::~domain_impl() { close(); }

void domain_impl::close() noexcept
{
  pool_.clear();
  for (std::size_t i = 0; i < device_count_max; ++i)
    if (domains_[i] != nullptr)
      device_at(i)->api().dealloc_pd(domains_[i]);
}

device_impl* domain_impl::find_device(const std::string& name) const
{
  if (name.empty())
    return &default_device();
  for (const auto& device : devices_->devices)
    if (device && name == device->api().get_device_name(device->native()->device))
      return device.get();
  return nullptr;
}

} // namespace rdma::detail
