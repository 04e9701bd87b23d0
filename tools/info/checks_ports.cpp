//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/checks.hpp"

#include "resource/gid_choice.hpp"

#include <algorithm>

// Checks of the ports of RDMA devices.

namespace info {
namespace {

std::string name_of(const device_report& device, const port_report& port)
{
  return device.name + " port " + std::to_string(port.number);
}

bool is_iwarp(const port_report& port)
{
  return std::ranges::any_of(port.gids, [](const gid_report& gid) { return gid.type == "iWARP"; });
}

bool is_roce(const port_report& port)
{
  return port.link_layer == "Ethernet" && !is_iwarp(port);
}

// Returns the interface for use in a command.
std::string interface_of(const port_report& port)
{
  return port.interface.empty() ? "INTERFACE" : port.interface;
}

// Calls the function for each active RoCE port of a NIC.
template <class Function>
void for_each_roce_port(const machine& on, Function function)
{
  for (const device_report* nic : on.nics())
    for (const port_report& port : nic->ports)
      if (port.active() && is_roce(port))
        function(*nic, port);
}

std::string remedy_of_port(const port_report& port)
{
  if (port.link_layer == "InfiniBand" && port.state == "init")
    return "start a subnet manager in the fabric, for instance opensm (Debian: opensm)";
  if (port.link_layer == "InfiniBand")
    return "check the cable and the switch; ibstat shows the port's state (Debian: "
           "infiniband-diags)";
  if (port.interface.empty())
    return "check the cable, and set the network interface up (ip link)";
  return "ip link set " + port.interface + " up; then check the cable (ethtool "
    + port.interface + ')';
}

std::uint32_t bytes_of_path(const port_report& port)
{
  if (port.active_mtu)
    return *port.active_mtu;
  return port.interface_mtu ? rdma::detail::roce_path_mtu(*port.interface_mtu) : 0;
}

} // namespace

findings check_ports(const machine& on)
{
  findings result;
  const auto nics = on.nics();
  const bool some_active =
    std::ranges::any_of(nics, [](const device_report* each) { return each->active(); });
  for (const device_report* nic : nics)
    for (const port_report& port : nic->ports)
      if (port.active())
        result.push_back({level::ok, name_of(*nic, port) + " is active", {}, {}});
      else
        result.push_back({some_active ? level::note : level::stops,
          name_of(*nic, port) + " is " + (port.state.empty() ? "in an unknown state" : port.state)
            + (port.physical_state.empty() ? "" : " (" + port.physical_state + ')'),
          some_active ? "other ports are active" : "programs use soft0 while no port is active",
          remedy_of_port(port)});
  return result;
}

findings check_roce_versions(const machine& on)
{
  findings result;
  for_each_roce_port(on,
    [&](const device_report& nic, const port_report& port)
    {
      if (port.gids.empty())
        result.push_back({level::stops, name_of(nic, port) + " has no GID",
          "a peer addresses a RoCE port by a GID, which the kernel creates from the interface's "
          "addresses",
          "ip link set " + interface_of(port) + " up; ip address add ADDRESS/PREFIX dev "
            + interface_of(port)});
      else if (std::ranges::none_of(
                 port.gids, [](const gid_report& gid) { return gid.type == "RoCE v2"; }))
        result.push_back({level::slows, name_of(nic, port) + " has no RoCE v2 GID",
          "RoCE v1 does not leave its Ethernet segment, and peers with only RoCE v2 have no "
          "protocol "
          "in common with it: "
          "connections fall back to the software device",
          "use a driver or firmware with RoCE v2; cards before ConnectX-3 Pro do not support it"});
      else
        result.push_back({level::ok, name_of(nic, port) + " has RoCE v2", {}, {}});
    });
  return result;
}

findings check_addresses(const machine& on)
{
  findings result;
  for_each_roce_port(on,
    [&](const device_report& nic, const port_report& port)
    {
      const auto has = [&](const std::string& address)
      {
        return std::ranges::any_of(
          port.gids, [&](const gid_report& gid) { return gid.address == address; });
      };
      if (std::ranges::all_of(
            port.gids, [](const gid_report& gid) { return gid.address.starts_with("fe80:"); }))
        result.push_back({level::stops, name_of(nic, port) + " has link-local GIDs only",
          "programs connect to IP addresses, and this port has none "
          "(error::no_local_gid): connections "
          "fall back to the software device",
          "ip address add ADDRESS/PREFIX dev " + interface_of(port)});
      if (!on.interfaces)
        return;
      for (const interface_report& each : *on.interfaces)
        if (each.name == port.interface)
          for (const std::string& address : each.addresses)
            if (!has(address))
              result.push_back({level::stops,
                name_of(nic, port) + " has no GID for " + address + " of " + each.name,
                "connections to that address fail with error::no_local_gid, or fall back to the "
                "software device",
                "ip address del " + address + "/PREFIX dev " + each.name
                  + "; then add it again with ip address add: the kernel creates "
                    "the GID (rdma_info shows the table)"});
    });
  return result;
}

findings check_mtu(const machine& on)
{
  constexpr std::uint32_t largest = 4096;
  findings result;
  for (const device_report* nic : on.nics())
    for (const port_report& port : nic->ports)
    {
      const std::uint32_t bytes = port.active() ? bytes_of_path(port) : 0;
      if (bytes == 0 || is_iwarp(port)) // iWARP segments messages as TCP does
        continue;
      const std::uint32_t most = std::min(port.max_mtu.value_or(largest), largest);
      const std::string seen = name_of(*nic, port) + " carries packets of " + std::to_string(bytes)
        + " bytes of " + std::to_string(most)
        + (port.interface_mtu
            ? ", the MTU of " + port.interface + " is " + std::to_string(*port.interface_mtu)
            : "");
      if (bytes >= most)
        result.push_back({level::ok, seen, {}, {}});
      else if (port.link_layer != "Ethernet")
        result.push_back({level::slows, seen, "smaller packets reduce throughput",
          "the subnet manager's partition sets it (opensm: mtu=5 in partitions.conf, for 4096)"});
      else
        result.push_back({level::slows, seen,
          "smaller packets reduce throughput; 4096 bytes need an MTU of 4192 (40 GRH, 8 UDP, 48 "
          "transport headers)",
          "ip link set " + interface_of(port)
            + " mtu 9000; the same on the peers, and a matching MTU on the switches"});
    }
  return result;
}

findings check_congestion(const machine& on)
{
  findings result;
  for_each_roce_port(on,
    [&](const device_report& nic, const port_report& port)
    {
      if (nic.emulated || port.interface.empty())
        return;
      constexpr char why[] =
        "packet loss slows RoCE down: lossless queues (PFC) or congestion control "
        "(ECN, DCQCN) prevent it, configured alike on both ends and the switches";
      const std::string ecn = "/sys/class/net/" + port.interface + "/ecn/roce_np/enable/";
      std::string priorities;
      for (const std::string& priority : on.files.names(ecn))
        if (on.files.number(ecn + priority) == 1u)
          priorities += (priorities.empty() ? "" : ", ") + priority;
      if (!priorities.empty())
        result.push_back({level::ok,
          port.interface + " responds to ECN marks on the priorities " + priorities, {}, {}});
      else if (on.files.exists(ecn))
        result.push_back({level::note, port.interface + " responds to ECN marks on no priority",
          why, "echo 1 > " + ecn + "3, for priority 3"});
      else
        result.push_back({level::unknown,
          "cannot tell how "
            + port.interface + " handles congestion: the kernel does not report it",
          why,
          "dcb pfc show dev "
            + port.interface + " (iproute2); and ask the administrator of the switches"});
    });
  return result;
}

findings check_firewall(const machine& on)
{
  bool roce = false;
  for_each_roce_port(on, [&](const device_report&, const port_report&) { roce = true; });
  findings result;
  if (roce)
    result.push_back({level::unknown,
      "cannot tell if UDP port 4791 (RoCE v2) is open: firewalls between the hosts cannot be "
      "checked here",
      "if it is blocked, connections fall back to the software device",
      "rping -s on one host, rping -c -a ADDRESS -v on the other"});
  result.push_back({level::unknown,
    "cannot tell if other hosts reach the software device: firewalls between the hosts cannot be "
    "checked here",
    "it listens on TCP ports that the kernel chooses (net.ipv4.ip_local_port_range)",
    "connect from the other host; if no message gets through, queue_pair::diagnose() has the "
    "path"});
  return result;
}

} // namespace info
