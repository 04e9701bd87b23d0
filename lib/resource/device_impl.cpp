//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/device_impl.hpp"

#include "resource/gid.hpp"
#include "verbs/software/software.hpp"

#include <cerrno>
#include <cstdlib>

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
  auto query_port = [this](std::uint8_t number, ibv_port_attr& attributes)
  {
    attributes = {};
    return api_.query_port(context_, number, reinterpret_cast<_compat_ibv_port_attr*>(&attributes)) == 0;
  };
  bool known = api_.query_device(context_, &attributes_) == 0 && query_port(1, port_);
  // The first port that is up; port 1 where none is.
  for (std::uint8_t number = 2; known && !port_active() && number <= attributes_.phys_port_cnt; ++number)
  {
    ibv_port_attr other;
    if (query_port(number, other) && other.state == IBV_PORT_ACTIVE)
    {
      port_ = other;
      port_number_ = number;
    }
  }
  if (!known)
  {
    const error_code ec = last_verbs_error();
    api_.close_device(context_);
    throw system_error(ec, "cannot query the RDMA device");
  }
}

device_impl::~device_impl() { api_.close_device(context_); }

std::size_t device_impl::index() const noexcept
{
  return kind_ == device_kind::software ? software_index : nic_index;
}

std::vector<device_impl::gid_entry> device_impl::gids() const
{
  std::vector<gid_entry> result;
  for (int i = 0; i < port_.gid_tbl_len && i < 256; ++i)
  {
    ibv_gid_entry found{};
    if (api_.query_gid_ex(context_, port_number_, static_cast<std::uint32_t>(i), &found, 0, sizeof found) != 0)
      continue; // an empty place in the table (ENODATA)
    gid_entry entry;
    entry.index = static_cast<std::uint8_t>(i);
    entry.gid = found.gid;
    entry.routable = found.gid_type != IBV_GID_TYPE_ROCE_V1;
    if (found.gid_type != IBV_GID_TYPE_IB)
      entry.address = address_of(found.gid);
    result.push_back(entry);
  }
  return result;
}

std::optional<device_impl::gid_entry> device_impl::find_gid(
  const std::optional<boost::asio::ip::address>& local) const
{
  std::optional<gid_entry> best;
  int best_rank = -1;
  for (const gid_entry& entry : gids())
  {
    const bool loopback = entry.address && is_loopback(*entry.address);
    const bool link_local = entry.address && entry.address->is_v6() && entry.address->to_v6().is_link_local();
    // The address in use decides; then what can be routed; loopback reaches nobody but this host.
    const int rank = (local && entry.address == local ? 8 : 0) + (entry.routable ? 4 : 0)
      + (link_local ? 0 : 2) + (loopback ? 0 : 1);
    if (rank > best_rank)
    {
      best = entry;
      best_rank = rank;
    }
  }
  return best;
}

std::unique_ptr<device_impl> open_software(const software::device_settings& settings)
{
  errno = 0;
  ibv_context* context = software::open_device(settings);
  if (context == nullptr)
    throw system_error(last_verbs_error(), "cannot open the software RDMA device");
  return std::make_unique<device_impl>(software::api(), context, device_kind::software);
}

std::unique_ptr<device_impl> open_nic(const std::string& name, error_code& ec)
{
  ec = {};
  const bool any = name.empty();
  const verbs::api* api = verbs::system().functions;
  int count = 0;
  ibv_device** list = api != nullptr ? api->get_device_list(&count) : nullptr;
  std::unique_ptr<device_impl> found;
  for (int i = 0; list != nullptr && i < count && !found; ++i)
  {
    if (!any && name != api->get_device_name(list[i]))
      continue;
    errno = 0;
    ibv_context* context = api->open_device(list[i]);
    if (context == nullptr)
    {
      // Asked for by name, the reason matters; otherwise the next one may do.
      if (!any)
        ec = last_verbs_error();
      continue;
    }
    auto candidate = std::make_unique<device_impl>(*api, context, device_kind::nic);
    if (!any || candidate->port_active())
      found = std::move(candidate);
  }
  if (list != nullptr)
    api->free_device_list(list);
  if (!any && !found && !ec)
    ec = error::no_device;
  return found;
}

} // namespace rdma::detail
