//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_DEVICE_IMPL_HPP
#define BOOST_RDMA_LIB_RESOURCE_DEVICE_IMPL_HPP

#include "boost_rdma/context.hpp"
#include "boost_rdma/device.hpp"
#include "verbs/api.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace rdma::detail {

// One opened device: the table to call it by, its limits, its first active port and that port's GIDs.
class device_impl
{
public:
  struct gid_entry
  {
    std::uint8_t index = 0;
    ::ibv_gid gid{};
    bool routable = true; // RoCE v2 or InfiniBand; a RoCE v1 GID reaches its own link only
    std::optional<boost::asio::ip::address> address;
  };

  // Takes over the opened context; throws system_error when the device cannot be queried.
  device_impl(const verbs::api& api, ibv_context* context, device_kind kind);
  ~device_impl();
  device_impl(const device_impl&) = delete;
  device_impl& operator=(const device_impl&) = delete;

  [[nodiscard]] const verbs::api& api() const noexcept { return api_; }
  [[nodiscard]] ibv_context* native() const noexcept { return context_; }
  [[nodiscard]] device_kind kind() const noexcept { return kind_; }
  [[nodiscard]] std::size_t index() const noexcept;
  [[nodiscard]] const ibv_device_attr& attributes() const noexcept { return attributes_; }
  [[nodiscard]] const ibv_port_attr& port() const noexcept { return port_; }
  [[nodiscard]] std::uint8_t port_number() const noexcept { return port_number_; }
  [[nodiscard]] bool port_active() const noexcept { return port_.state == IBV_PORT_ACTIVE; }
  [[nodiscard]] std::vector<gid_entry> gids() const;

  // The GID by which `local` is reached, the first that others can reach without one.
  [[nodiscard]] std::optional<gid_entry> find_gid(
    const std::optional<boost::asio::ip::address>& local) const;

private:
  const verbs::api& api_;
  ibv_context* context_;
  device_kind kind_;
  ibv_device_attr attributes_{};
  ibv_port_attr port_{};
  std::uint8_t port_number_ = 1;
};

// Opens the device that `name` asks for (see context_options::device); null when the software device
// is to be the only one.
std::unique_ptr<device_impl> open_nic(const std::string& name, error_code& ec);

// Opens the software device; throws system_error.
std::unique_ptr<device_impl> open_software(const software::device_settings& settings);

// The errno of a verbs call that failed, never zero.
[[nodiscard]] error_code last_verbs_error() noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_DEVICE_IMPL_HPP
