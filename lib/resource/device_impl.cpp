//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/device_impl.hpp"

#include "verbs/software/software.hpp"

#include <cerrno>
#include <map>
#include <mutex>

namespace rdma::detail {

error_code last_verbs_error() noexcept
{
  return {errno != 0 ? errno : EIO, boost::system::system_category()};
}

device_impl::device_impl(const verbs::api& api, ibv_context* context, device_kind kind)
  : api_(api)
  , context_(context)
  , kind_(kind)
{
  try
  {
    static std::mutex mutex;
    static std::map<std::string, std::atomic<last_wqe_reporting>> known;
    {
      const std::lock_guard lock(mutex);
      last_wqe_reporting_ = &known[name()];
    }
    events_ = std::make_shared<event_hub>(api, context);
    errno = 0;
    const bool answers = api_.query_device(context_, &attributes_) == 0;
    const auto first = answers ? query_port(1) : std::nullopt;
    if (!first)
      throw system_error(last_verbs_error(), "cannot query the RDMA device");
    traits_ = &traits_of(family_of(kind_, context_->device->transport_type, attributes_.vendor_id));
    port_ = *first;
    // Selects the first active port, or port 1 if none is active.
    for (unsigned number = 2; !port_active() && number <= attributes_.phys_port_cnt; ++number)
      if (const auto other = query_port(static_cast<std::uint8_t>(number));
          other && other->state == IBV_PORT_ACTIVE)
      {
        port_ = *other;
        port_number_ = static_cast<std::uint8_t>(number);
      }
  }
  catch (...)
  {
    api_.close_device(context_);
    throw;
  }
}

device_impl::~device_impl()
{
  if (forked())
    return; // the parent process still uses the device
  events_->close();
  api_.close_device(context_);
}

std::size_t device_impl::index() const noexcept
{
  return kind_ == device_kind::software ? software_index : nic_index;
}

error_code device_impl::state() const noexcept
{
  if (forked())
    return error::forked;
  if (events_->lost())
    return error::device_lost;
  return {};
}

std::optional<ibv_port_attr> device_impl::query_port(std::uint8_t number) const
{
  ibv_port_attr attributes{};
  if (forked()
    || api_.query_port(context_, number, reinterpret_cast<_compat_ibv_port_attr*>(&attributes))
      != 0)
    return std::nullopt;
  return attributes;
}

std::vector<gid_entry> device_impl::gids() const
{
  constexpr int indices_max = 256; // the limit of ibv_global_route::sgid_index (8 bits)
  std::vector<gid_entry> result;
  for (unsigned port = 1; port <= attributes_.phys_port_cnt; ++port)
  {
    const auto attributes = query_port(static_cast<std::uint8_t>(port));
    for (int i = 0; attributes && i < attributes->gid_tbl_len && i < indices_max; ++i)
    {
      ibv_gid_entry found{};
      if (api_.query_gid_ex(context_, port, static_cast<std::uint32_t>(i), &found, 0, sizeof found)
        != 0)
        continue; // an empty table entry (ENODATA)
      gid_entry entry;
      entry.port = static_cast<std::uint8_t>(port);
      entry.active = attributes->state == IBV_PORT_ACTIVE;
      entry.index = static_cast<std::uint8_t>(i);
      entry.gid = found.gid;
      entry.interface_index = found.ndev_ifindex;
      entry.wire = found.gid_type == IBV_GID_TYPE_ROCE_V2 ? wire::roce_v2
        : found.gid_type == IBV_GID_TYPE_ROCE_V1          ? wire::roce_v1
                                                          : wire::infiniband;
      if (entry.wire != wire::infiniband && !traits_->gids_without_addresses)
        entry.address = address_of(found.gid);
      result.push_back(entry);
    }
  }
  return result;
}

std::optional<gid_entry> device_impl::find_gid(
  const std::optional<boost::asio::ip::address>& local, wire by, error_code& ec) const
{
  std::vector<gid_entry> table = gids();
  if (by != wire::unknown && traits_->only_wire == wire::unknown)
    std::erase_if(table, [by](const gid_entry& entry) { return entry.wire != by; });
  return choose_gid(table, local, traits_->routes_any_gid, ec);
}

std::unique_ptr<device_impl> open_software(const software::device_settings& settings)
{
  errno = 0;
  ibv_context* context = software::open_device(settings);
  if (context == nullptr)
    throw system_error(last_verbs_error(),
      errno == ENOSPC
        ? "cannot open the software RDMA device: other contexts and programs use all of "
          "the ports 20480 to 21503. Close some of them."
        : "cannot open the software RDMA device");
  return std::make_unique<device_impl>(software::api(), context, device_kind::software);
}

} // namespace rdma::detail
