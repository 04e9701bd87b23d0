//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_DEVICE_LIST_HPP
#define BOOST_RDMA_LIB_RESOURCE_DEVICE_LIST_HPP

#include "boost_rdma/error.hpp"
#include "resource/device_impl.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rdma::detail {

// The devices that libibverbs lists; none if libibverbs is missing.
class device_list
{
public:
  device_list();
  ~device_list();
  device_list(const device_list&) = delete;
  device_list& operator=(const device_list&) = delete;

  [[nodiscard]] auto begin() const noexcept { return listed().begin(); }
  [[nodiscard]] auto end() const noexcept { return listed().end(); }
  [[nodiscard]] std::string name(ibv_device& device) const;

  // Opens a listed device. Returns null if this fails; `why` then receives the cause of `ec`, with
  // a remedy.
  [[nodiscard]] std::unique_ptr<device_impl> open(
    ibv_device& device, error_code& ec, std::string& why) const;

private:
  [[nodiscard]] std::span<ibv_device* const> listed() const noexcept
  {
    return {list_, list_ != nullptr ? static_cast<std::size_t>(count_) : 0};
  }

  const verbs::api* api_;
  int count_ = 0;
  ibv_device** list_ = nullptr;
};

// A device that the kernel has but libibverbs does not list, with the reason. Devices in `listed`
// are left out.
struct unlisted_device
{
  std::string name;
  std::string why;
};
std::vector<unlisted_device> unlisted_devices(const std::vector<std::string>& listed);

// Opens the device that `name` selects (see context_options::device). Returns null if `name`
// selects only the software device. `why` receives the cause of `ec`, or the reason why there is no
// device, as text for the user.
std::unique_ptr<device_impl> open_nic(const std::string& name, error_code& ec, std::string& why);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_DEVICE_LIST_HPP
