//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/device.hpp"

#include "resource/device_list.hpp"
#include "verbs/software/software.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace rdma {

std::vector<device_info> list_devices()
{
  std::vector<device_info> result;
  const detail::device_list devices;
  std::vector<std::string> listed;
  for (ibv_device* each : devices)
  {
    device_info info{devices.name(*each), device_kind::nic, false, {}};
    error_code ec;
    std::string why;
    const auto opened = devices.open(*each, ec, why);
    info.active = opened && opened->port_active();
    if (!opened)
      info.remark = "cannot be opened: " + why;
    else if (!info.active)
      info.remark = "no port is active";
    listed.push_back(info.name);
    result.push_back(std::move(info));
  }
  if (verbs::system().functions != nullptr)
    for (const detail::unlisted_device& each : detail::unlisted_devices(listed))
      result.push_back({each.name, device_kind::nic, false, each.why});
  result.push_back({software::device_name, device_kind::software, true, {}});
  return result;
}

std::string system_library_remark()
{
  const verbs::system_library& library = verbs::system();
  return library.functions != nullptr ? library.path : library.reason;
}

std::string device::name() const
{
  return impl_->name();
}

device_kind device::kind() const noexcept
{
  return impl_->kind();
}

std::uint32_t device::max_work_requests() const noexcept
{
  return static_cast<std::uint32_t>(impl_->attributes().max_qp_wr);
}

std::uint32_t device::max_sge() const noexcept
{
  return static_cast<std::uint32_t>(impl_->attributes().max_sge);
}

std::uint32_t device::max_completions() const noexcept
{
  return static_cast<std::uint32_t>(impl_->attributes().max_cqe);
}

std::uint32_t device::max_read_atomic() const noexcept
{
  return static_cast<std::uint32_t>(impl_->attributes().max_qp_rd_atom);
}

std::uint64_t device::max_message_size() const noexcept
{
  return impl_->port().max_msg_sz;
}

bool device::has_atomics() const noexcept
{
  return impl_->attributes().atomic_cap != IBV_ATOMIC_NONE;
}

bool device::has_memory_windows() const noexcept
{
  return impl_->has_windows();
}

bool device::has_immediate_data() const noexcept
{
  return !impl_->traits().no_immediate_data;
}

bool device::has_shared_receive_queues() const noexcept
{
  return impl_->attributes().max_srq > 0;
}

std::vector<boost::asio::ip::address> device::addresses() const
{
  std::vector<boost::asio::ip::address> result;
  for (const detail::gid_entry& entry : impl_->gids())
    if (entry.address && std::find(result.begin(), result.end(), *entry.address) == result.end())
      result.push_back(*entry.address); // a RoCE v1 and a RoCE v2 GID have the same address
  return result;
}

ibv_context* device::native_handle() const noexcept
{
  return impl_->native();
}

const char* name_of(wire value) noexcept
{
  static constexpr const char* names[] = {"unknown wire", "InfiniBand", "RoCE v1", "RoCE v2",
    "iWARP", "TCP", "shared memory", "TCP socket without RDMA"};
  const auto index = static_cast<std::size_t>(value);
  return names[index < std::size(names) ? index : 0];
}

} // namespace rdma
