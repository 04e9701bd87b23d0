//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_DOMAIN_IMPL_HPP
#define BOOST_RDMA_LIB_RESOURCE_DOMAIN_IMPL_HPP

#include "boost_rdma/access.hpp"
#include "boost_rdma/context.hpp"
#include "boost_rdma/detail/registration.hpp"
#include "boost_rdma/memory_pool.hpp"
#include "resource/activity.hpp"
#include "resource/device_impl.hpp"
#include "resource/registration_cache.hpp"

#include <array>
#include <memory>
#include <string>

namespace rdma::detail {

// The devices that a context opened, shared by its protection domains.
struct device_set
{
  explicit device_set(const context_options& options);

  std::array<std::unique_ptr<device_impl>, device_count_max> devices;
  memory_pool_options pool_options;
  registration_cache_options cache_options;
  std::string why_no_nic;    // reason why there is no NIC, as text for the user
  detail::activity activity; // for context::statistics()
};

// Returns the text for a failed registration: its size and the likely cause.
std::string registration_failure(std::size_t bytes, const error_code& ec);

// One registration per device, with the keys. Deregisters on destruction.
class registered_range
{
public:
  registered_range() = default;
  ~registered_range();
  registered_range(const registered_range&) = delete;
  registered_range& operator=(const registered_range&) = delete;

  // Precondition: not open.
  void open(const domain_impl& domain, void* data, std::size_t size, access rights, error_code& ec);

  void close() noexcept;

  [[nodiscard]] device_keys local_keys() const noexcept;
  [[nodiscard]] device_keys remote_keys() const noexcept;
  [[nodiscard]] ibv_mr* native(std::size_t device_index) const noexcept
  {
    return regions_[device_index];
  }

private:
  const domain_impl* domain_ = nullptr;
  std::array<ibv_mr*, device_count_max> regions_{};
};

class pool_impl;

// A protection domain on every device of a context, with the pool that allocates in it. After the
// last handle is gone, it stays alive as long as blocks of its pool are in use.
class domain_impl : public std::enable_shared_from_this<domain_impl>
{
public:
  // Throws system_error with the error of ibv_alloc_pd.
  static std::shared_ptr<domain_impl> make(std::shared_ptr<device_set> devices);

  // Used by make() only.
  explicit domain_impl(std::shared_ptr<device_set> devices);
  ~domain_impl();
  domain_impl(const domain_impl&) = delete;
  domain_impl& operator=(const domain_impl&) = delete;

  [[nodiscard]] const std::shared_ptr<device_set>& devices() const noexcept { return devices_; }
  [[nodiscard]] device_impl* device_at(std::size_t index) const noexcept
  {
    return devices_->devices[index].get();
  }
  [[nodiscard]] device_impl& default_device() const noexcept
  {
    return device_at(nic_index) != nullptr ? *device_at(nic_index) : *device_at(software_index);
  }
  // Returns the device with this name ("" for the default). Throws system_error with `who` in the
  // text: error::no_device, which lists the opened devices, error::device_lost or error::forked.
  [[nodiscard]] device_impl& find_device(const std::string& name, const std::string& who) const;

  [[nodiscard]] ibv_pd* native(std::size_t device_index) const noexcept
  {
    return domains_[device_index];
  }
  [[nodiscard]] pool_impl& pool() noexcept { return *pool_; }
  [[nodiscard]] memory_pool& resource() noexcept { return resource_; }
  [[nodiscard]] registration_cache& cache() noexcept { return cache_; }

  // For a child of fork(): abandons the pool. A thread of the parent may have been in the middle of
  // a change to it.
  void leave_pool() noexcept { static_cast<void>(pool_.release()); }

private:
  void close() noexcept;

  std::shared_ptr<device_set> devices_;
  std::array<ibv_pd*, device_count_max> domains_{};
  std::unique_ptr<pool_impl> pool_; // has no arenas left when the domain is destroyed
  memory_pool resource_;            // the public interface to the pool
  registration_cache cache_;        // after domains_, because it registers in them
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_DOMAIN_IMPL_HPP
