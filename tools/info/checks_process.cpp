//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/checks.hpp"

#include <boost_rdma/software/device.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>

// Checks of this process's permissions and of the software device.

namespace info {

findings check_calls(const machine& on)
{
  findings result;
  for (const call_report& each : on.calls)
  {
    if (each.error == 0)
      result.push_back({level::ok, each.name + " works", {}, {}});
    else if (each.name == "eventfd")
      result.push_back({level::stops, each.name + ": " + std::strerror(each.error),
        "Asio and the software device use it to wake threads",
        "use a seccomp profile that allows it"});
    else
      result.push_back({level::note, each.name + ": " + std::strerror(each.error),
        "connections over shared memory need it; without it, they use TCP or "
        "copy more often",
        "use a seccomp profile that allows it (--security-opt seccomp=FILE); Linux 5.3 for "
        "pidfd_open"});
  }
  return result;
}

findings check_descriptors(const machine& on)
{
  constexpr std::uint64_t plenty = 4096; // for about 2,000 connections
  constexpr std::uint64_t others = 64;
  const reading limits = on.files.read("/proc/self/limits");
  if (!limits.text)
    return {cannot_tell("the limit of open descriptors", limits.why_not)};
  const std::string value = value_of(*limits.text, "Max open files").value_or("");
  std::uint64_t count = 0;
  if (value.starts_with("unlimited"))
    return {{level::ok, "any number of descriptors may be open", {}, {}}};
  if (std::from_chars(value.data(), value.data() + value.size(), count).ec != std::errc())
    return {cannot_tell(
      "the limit of open descriptors", "no number in /proc/self/limits: \"" + value + '"')};
  const std::string seen = std::to_string(count) + " descriptors may be open (RLIMIT_NOFILE)";
  if (count >= plenty)
    return {{level::ok, seen, {}, {}}};
  return {{level::note,
    seen + ", enough for about " + std::to_string((count - std::min(count, others)) / 2)
      + " connections",
    "a connection over the software device has two sockets on each side, one over a NIC has one",
    "ulimit -n 65536"}};
}

findings check_backlog(const machine& on)
{
  constexpr std::uint64_t asked = 4096; // SOMAXCONN, which acceptors request
  const auto most = on.files.number("/proc/sys/net/core/somaxconn");
  if (!most || *most >= asked)
    return {}; // a larger limit has no effect
  return {{level::note,
    "at most " + std::to_string(*most) + " clients can wait to be accepted (net.core.somaxconn)",
    "if more connect at once, some wait a second or more before they retry",
    "sysctl net.core.somaxconn=" + std::to_string(asked)}};
}

findings check_software_addresses(const machine& on)
{
  const auto found =
    std::ranges::find(on.devices, rdma::device_kind::software, &device_report::kind);
  if (found == on.devices.end())
    return {}; // only with a saved tree
  if (!found->usable)
    return {{level::stops, "soft0 cannot be opened: " + found->remark, "every context opens it",
      "ip link set lo up: it needs at least one address of this host"}};
  std::string loopback;
  std::string others;
  for (const port_report& port : found->ports)
    for (const gid_report& gid : port.gids)
    {
      std::string& list =
        gid.address == "::1" || gid.address.starts_with("127.") ? loopback : others;
      list += (list.empty() ? "" : ", ") + gid.address;
    }
  findings result;
  if (loopback.empty())
    result.push_back({level::note, "soft0 has no loopback address",
      "connections within this host use another address", "ip link set lo up"});
  if (others.empty())
    result.push_back(
      {level::note, "soft0 has loopback addresses only: " + loopback, "no other host reaches it",
        "ip link set INTERFACE up; ip address add ADDRESS/PREFIX dev INTERFACE"});
  else
    result.push_back({level::ok, "other hosts reach soft0 by " + others, {}, {}});
  return result;
}

findings check_software_test(const machine& on)
{
  if (!on.software_test
    || std::ranges::any_of(
      on.devices, [](const device_report& each) { return !each.is_nic() && !each.usable; }))
    return {}; // check_software_addresses reports this
  if (on.software_test->outcome == test_outcome::passed)
    return {{level::ok, "soft0 works: " + on.software_test->text, {}, {}}};
  return {{level::stops, "soft0 does not work: " + on.software_test->text,
    "programs use it without a NIC, and fall back to it with one", {}}};
}

} // namespace info
