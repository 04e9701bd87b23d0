//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/devices.hpp"

#include <boost/asio/ip/address_v6.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

namespace info {
namespace {

namespace ip = boost::asio::ip;

std::string text_of(const file_tree& files, const std::string& path)
{
  return files.read(path).text.value_or("");
}

// Returns "active" for "4: ACTIVE".
std::string state_of(std::string_view text)
{
  const std::size_t colon = text.find(": ");
  std::string result(colon == std::string_view::npos ? text : text.substr(colon + 2));
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

std::string after_colon(std::string_view text)
{
  const std::size_t colon = text.find(": ");
  return std::string(colon == std::string_view::npos ? text : text.substr(colon + 2));
}

// Returns the address of a RoCE GID, or an empty string for an empty GID.
std::string address_of(const std::string& gid)
{
  boost::system::error_code ec;
  const ip::address_v6 address = ip::make_address_v6(gid, ec);
  if (ec || address.is_unspecified())
    return {};
  return address.is_v4_mapped() ? ip::make_address_v4(ip::v4_mapped, address).to_string()
                                : address.to_string();
}

bool empty_gid(const std::string& gid)
{
  return gid.find_first_not_of("0:") == std::string::npos;
}

unsigned number_of(const std::string& text)
{
  unsigned result = 0;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

std::vector<gid_report> gids_of(
  const file_tree& files, const std::string& port, bool ethernet, bool iwarp)
{
  const std::string values = port + "/gids/";
  const std::string types = port + "/gid_attrs/types/";
  const std::string interfaces = port + "/gid_attrs/ndevs/";
  std::vector<gid_report> result;
  for (const std::string& index : files.names(values))
  {
    gid_report found;
    found.index = number_of(index);
    found.gid = text_of(files, values + index);
    if (empty_gid(found.gid))
      continue;
    // Not readable for unused entries and for drivers without RoCE.
    const auto type = files.read(types + index).text;
    found.interface = text_of(files, interfaces + index);
    found.type = iwarp             ? "iWARP"
      : !ethernet                  ? "InfiniBand"
      : type && *type == "RoCE v2" ? "RoCE v2"
                                   : "RoCE v1";
    if (ethernet && !iwarp)
      found.address = address_of(found.gid);
    result.push_back(std::move(found));
  }
  std::ranges::sort(result, {}, &gid_report::index);
  return result;
}

// The only GID of iWARP begins with the hardware address of the network interface.
std::string interface_of_iwarp(const file_tree& files, const std::vector<gid_report>& gids)
{
  constexpr std::size_t digits_max = 12;
  const auto digits_of = [](const std::string& text)
  {
    std::string digits;
    std::ranges::copy_if(text, std::back_inserter(digits), [](char c) { return c != ':'; });
    return digits.substr(0, digits_max);
  };
  for (const gid_report& gid : gids)
    for (const std::string& name : files.names("/sys/class/net"))
      if (digits_of(text_of(files, "/sys/class/net/" + name + "/address")) == digits_of(gid.gid))
        return name;
  return {};
}

port_report port_of(
  const file_tree& files, const std::string& device, const std::string& number, bool iwarp)
{
  const std::string port = device + "/ports/" + number;
  port_report result;
  result.number = number_of(number);
  result.state = state_of(text_of(files, port + "/state"));
  result.physical_state = after_colon(text_of(files, port + "/phys_state"));
  result.link_layer = text_of(files, port + "/link_layer");
  result.rate = text_of(files, port + "/rate");
  result.gids = gids_of(files, port, result.link_layer == "Ethernet", iwarp);
  for (const gid_report& each : result.gids)
    if (result.interface.empty())
      result.interface = each.interface; // VLANs follow their parent interface in the table
  if (result.interface.empty())
    result.interface = text_of(files, device + "/parent");
  if (result.interface.empty() && iwarp)
    result.interface = interface_of_iwarp(files, result.gids);
  if (!result.interface.empty())
    if (const auto mtu = files.number("/sys/class/net/" + result.interface + "/mtu"))
      result.interface_mtu = static_cast<std::uint32_t>(*mtu);
  return result;
}

// Depending on the kernel, rxe and siw set the interface's bus device as their parent or have none,
// so the location in sysfs does not identify them.
std::string emulating_driver(const file_tree& files, const std::string& device)
{
  if (files.exists(device + "/parent"))
    return "rdma_rxe"; // only rxe has this attribute
  if (text_of(files, device + "/node_desc") == "Software iWARP stack")
    return "siw"; // siw_main.c
  return {};
}

} // namespace

std::vector<device_report> devices_of_kernel(const file_tree& files)
{
  std::vector<device_report> result;
  for (const std::string& name : files.names("/sys/class/infiniband"))
  {
    device_report found;
    found.name = name;
    const std::string directory = found.directory();
    found.driver = emulating_driver(files, directory);
    found.emulated = !found.driver.empty();
    if (!found.emulated)
    {
      found.driver = files.link_name(directory + "/device/driver").value_or("");
      found.vendor = text_of(files, directory + "/device/vendor");
      found.part = text_of(files, directory + "/device/device");
      // The value is "-1" if unknown.
      if (const auto node = files.number(directory + "/device/numa_node"))
        found.numa_node = static_cast<unsigned>(*node);
    }
    found.node_guid = text_of(files, directory + "/node_guid");
    found.firmware = text_of(files, directory + "/fw_ver");
    found.board = text_of(files, directory + "/board_id");
    const bool iwarp = text_of(files, directory + "/node_type").find("RNIC") != std::string::npos;
    for (const std::string& number : files.names(directory + "/ports"))
      found.ports.push_back(port_of(files, directory, number, iwarp));
    result.push_back(std::move(found));
  }
  return result;
}

} // namespace info
