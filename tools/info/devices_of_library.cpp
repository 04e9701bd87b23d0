//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/devices.hpp"

#include "resource/device_list.hpp"
#include "verbs/api.hpp"

#include <boost_rdma/software/device.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <net/if.h>
#include <utility>

namespace info {
namespace {

using rdma::detail::device_impl;

struct limit
{
  const char* name;
  std::uint64_t (*value)(const ibv_device_attr&);
};

#define BOOST_RDMA_INFO_LIMIT(member)                                                              \
  limit                                                                                            \
  {                                                                                                \
    #member, [](const ibv_device_attr& from) { return static_cast<std::uint64_t>(from.member); }   \
  }
constexpr std::array limits{
  BOOST_RDMA_INFO_LIMIT(max_qp),
  BOOST_RDMA_INFO_LIMIT(max_qp_wr),
  BOOST_RDMA_INFO_LIMIT(max_sge),
  BOOST_RDMA_INFO_LIMIT(max_sge_rd),
  BOOST_RDMA_INFO_LIMIT(max_qp_rd_atom),
  BOOST_RDMA_INFO_LIMIT(max_qp_init_rd_atom),
  BOOST_RDMA_INFO_LIMIT(max_cq),
  BOOST_RDMA_INFO_LIMIT(max_cqe),
  BOOST_RDMA_INFO_LIMIT(max_pd),
  BOOST_RDMA_INFO_LIMIT(max_mr),
  BOOST_RDMA_INFO_LIMIT(max_mr_size),
  BOOST_RDMA_INFO_LIMIT(max_mw),
  BOOST_RDMA_INFO_LIMIT(max_srq),
  BOOST_RDMA_INFO_LIMIT(max_srq_wr),
  BOOST_RDMA_INFO_LIMIT(max_srq_sge),
};
#undef BOOST_RDMA_INFO_LIMIT

std::vector<std::string> capabilities_of(const device_impl& device)
{
  std::vector<std::string> result;
  const ibv_device_attr& has = device.attributes();
  if (has.atomic_cap != IBV_ATOMIC_NONE)
    result.emplace_back(has.atomic_cap == IBV_ATOMIC_GLOB
        ? "atomics (coherent with the processor's)"
        : "atomics (coherent within this device)"); // IBV_ATOMIC_HCA
  if (device.has_windows())
    result.emplace_back("memory windows of type 2");
  if (!device.traits().no_immediate_data)
    result.emplace_back("immediate data");
  if (has.max_srq > 0)
    result.emplace_back("shared receive queues");
  return result;
}

std::string state_of(ibv_port_state state)
{
  switch (state)
  {
  case IBV_PORT_DOWN:
    return "down";
  case IBV_PORT_INIT:
    return "init";
  case IBV_PORT_ARMED:
    return "armed";
  case IBV_PORT_ACTIVE:
    return "active";
  case IBV_PORT_ACTIVE_DEFER:
    return "active_defer";
  case IBV_PORT_NOP:
    break;
  }
  return "nop";
}

// Returns the GID in the kernel's format.
std::string text_of(const ibv_gid& gid)
{
  std::string result;
  for (std::size_t i = 0; i < sizeof gid.raw; i += 2)
  {
    char part[8];
    std::snprintf(part, sizeof part, "%s%02x%02x", i == 0 ? "" : ":", gid.raw[i], gid.raw[i + 1]);
    result += part;
  }
  return result;
}

std::string text_of_guid(std::uint64_t network_order)
{
  std::array<unsigned char, 8> bytes{};
  static_assert(sizeof network_order == bytes.size());
  std::copy_n(reinterpret_cast<const unsigned char*>(&network_order), bytes.size(), bytes.begin());
  char text[24];
  std::snprintf(text, sizeof text, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", bytes[0], bytes[1],
    bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]);
  return text;
}

std::string hexadecimal(std::uint32_t value)
{
  char text[16];
  std::snprintf(text, sizeof text, "0x%04x", value);
  return text;
}

std::string type_of(const device_impl& device, const rdma::detail::gid_entry& entry)
{
  return rdma::name_of(device.wire_by(entry));
}

std::string name_of_interface(std::uint32_t index)
{
  char name[IF_NAMESIZE];
  return index != 0 && ::if_indextoname(index, name) != nullptr ? name : "";
}

// Replaces the kernel's figures by those of the opened device.
void ask(const device_impl& device, device_report& report)
{
  const ibv_device_attr& has = device.attributes();
  report.usable = true;
  report.remark.clear();
  report.firmware = has.fw_ver;
  report.node_guid = text_of_guid(device.api().get_device_guid(device.native()->device));
  if (device.kind() == rdma::device_kind::nic)
  {
    report.vendor = hexadecimal(has.vendor_id);
    report.part = hexadecimal(has.vendor_part_id);
  }
  report.capabilities = capabilities_of(device);
  for (const limit& each : limits)
    report.limits.push_back({each.name, each.value(has)});
  const auto table = device.gids();
  std::vector<port_report> ports;
  for (unsigned number = 1; number <= has.phys_port_cnt; ++number)
  {
    const auto known = std::ranges::find(report.ports, number, &port_report::number);
    port_report port = known != report.ports.end() ? *known : port_report{};
    port.number = number;
    const auto now = device.query_port(static_cast<std::uint8_t>(number));
    if (!now)
      continue;
    port.state = state_of(now->state);
    port.link_layer = now->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
    port.active_mtu = 128u << static_cast<unsigned>(now->active_mtu);
    port.max_mtu = 128u << static_cast<unsigned>(now->max_mtu);
    port.gids.clear(); // replaced by the table of the opened device
    for (const auto& entry : table)
    {
      if (entry.port != number)
        continue;
      gid_report gid{entry.index, type_of(device, entry), text_of(entry.gid), {},
        name_of_interface(entry.interface_index)};
      if (entry.address)
        gid.address = entry.address->to_string();
      port.gids.push_back(std::move(gid));
    }
    ports.push_back(std::move(port));
  }
  report.ports = std::move(ports);
  report.limits.push_back({"max_msg_sz", device.port().max_msg_sz});
}

void ask_nics(std::vector<device_report>& reports)
{
  const rdma::detail::device_list devices;
  for (ibv_device* each : devices)
  {
    const std::string name = devices.name(*each);
    auto found = std::ranges::find(reports, name, &device_report::name);
    if (found == reports.end())
    {
      found = reports.emplace(reports.end());
      found->name = name;
    }
    rdma::error_code ec;
    std::string why;
    if (const auto opened = devices.open(*each, ec, why))
      ask(*opened, *found);
    else
      found->remark = "cannot be opened: " + why;
  }
}

device_report software_device()
{
  device_report result;
  result.name = rdma::software::device_name;
  result.kind = rdma::device_kind::software;
  try
  {
    ask(*rdma::detail::open_software({}), result);
  }
  catch (const rdma::system_error& e)
  {
    result.remark = e.what();
  }
  return result;
}

} // namespace

std::vector<device_report> devices_of_library(const file_tree& files)
{
  std::vector<device_report> result = devices_of_kernel(files);
  ask_nics(result);
  // The library's own reason why it does not list a device of the kernel.
  const rdma::verbs::system_library& library = rdma::verbs::system();
  for (device_report& each : result)
    if (library.functions == nullptr)
      each.remark = library.reason;
  std::vector<std::string> listed;
  for (const device_report& each : result)
    if (each.usable || !each.remark.empty())
      listed.push_back(each.name);
  for (const rdma::detail::unlisted_device& missing : rdma::detail::unlisted_devices(listed))
    if (const auto found = std::ranges::find(result, missing.name, &device_report::name);
        found != result.end())
      found->remark = missing.why;
  for (device_report& each : result)
    if (!each.usable && each.remark.empty())
      each.remark = "the kernel has it, but without a verbs device. Load the module ib_uverbs.";
  result.push_back(software_device());
  return result;
}

} // namespace info
