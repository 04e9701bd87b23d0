//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/checks.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>

// Checks of the processors and of the NICs' attachment to them.

namespace info {
namespace {

// Returns the processors on which this process may run.
std::vector<unsigned> processors_allowed(const file_tree& files)
{
  const auto status = files.read("/proc/self/status").text;
  return status ? numbers_of(value_of(*status, "Cpus_allowed_list").value_or(""))
                : std::vector<unsigned>();
}

// Returns 16 for "16.0 GT/s PCIe".
double number_in(const std::string& text)
{
  double result = 0;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

} // namespace

findings check_processors(const machine& on)
{
  const std::vector<unsigned> allowed = processors_allowed(on.files);
  if (allowed.empty())
    return {
      cannot_tell("how many processors there are", "no Cpus_allowed_list in /proc/self/status")};
  if (allowed.size() > 1)
    return {{level::ok, "this process may run on " + std::to_string(allowed.size()) + " processors",
      {}, {}}};
  return {{level::slows, "this process may run on one processor",
    "a thread that polls for completions blocks the threads that produce them",
    "use completion_mode::event, or permit more processors (taskset -p, the container's "
    "--cpuset-cpus)"}};
}

findings check_processor_quota(const machine& on)
{
  // Only cgroup 2, whose line begins with "0::". The lowest limit of the group and its parents
  // applies.
  const std::string groups = on.files.read("/proc/self/cgroup").text.value_or("");
  const std::size_t line = groups.find("0::");
  if (line == std::string::npos)
    return {};
  std::string group = groups.substr(line + 3, groups.find('\n', line) - line - 3);
  double least = 0;
  std::string where;
  for (;;)
  {
    const std::string file = "/sys/fs/cgroup" + (group == "/" ? "" : group) + "/cpu.max";
    const std::string quota = on.files.read(file).text.value_or("max");
    const std::size_t blank = quota.find(' ');
    if (!quota.starts_with("max") && blank != std::string::npos
      && number_in(quota.substr(blank + 1)) > 0)
      if (const double share = number_in(quota) / number_in(quota.substr(blank + 1));
          where.empty() || share < least)
      {
        least = share;
        where = file;
      }
    if (group.size() <= 1)
      break;
    group.resize(std::max<std::size_t>(group.rfind('/'), 1));
  }
  if (where.empty())
    return {};
  char seen[64];
  std::snprintf(seen, sizeof seen, "this process has at most the time of %.2f processors", least);
  return {{least < 2 ? level::slows : level::ok, std::string(seen) + " (" + where + ')',
    least < 2
      ? "polling for completions consumes the quota, and the kernel then suspends the process"
      : "",
    least < 2
      ? "use completion_mode::event, or a larger quota (docker run --cpus, CPUQuota= of systemd)"
      : ""}};
}

findings check_governor(const machine& on)
{
  std::map<std::string, unsigned> governors;
  std::string driver;
  for (const std::string& name : on.files.names("/sys/devices/system/cpu"))
    if (name.starts_with("cpu") && name.size() > 3
      && name.find_first_not_of("0123456789", 3) == std::string::npos)
    {
      const std::string directory = "/sys/devices/system/cpu/" + name + "/cpufreq/";
      if (const auto governor = on.files.read(directory + "scaling_governor").text)
      {
        ++governors[*governor];
        driver = on.files.read(directory + "scaling_driver").text.value_or("unknown");
      }
    }
  if (governors.empty())
    return {cannot_tell(
      "the frequency of the processors", "the firmware or hypervisor sets it, not the kernel")};
  std::string seen = "frequency governor (" + driver + "):";
  for (const auto& [name, count] : governors)
    seen += ' ' + name + " on " + std::to_string(count);
  if (governors.size() == 1 && governors.contains("performance"))
    return {{level::ok, seen, {}, {}}};
  // In the active mode of these two drivers "powersave" still scales with load. In other drivers it
  // is the lowest frequency.
  const bool lowest =
    governors.contains("powersave") && driver != "intel_pstate" && driver != "amd-pstate-epp";
  return {{lowest ? level::slows : level::note, seen,
    lowest ? "processors remain at their lowest frequency"
           : "processors start slowly after they were idle, which increases latency",
    "cpupower frequency-set -g performance"}};
}

findings check_numa(const machine& on)
{
  findings result;
  const std::vector<unsigned> allowed = processors_allowed(on.files);
  for (const device_report* nic : on.nics())
  {
    if (!nic->on_pci() || !nic->numa_node)
      continue;
    const std::string node = std::to_string(*nic->numa_node);
    const reading list = on.files.read("/sys/devices/system/node/node" + node + "/cpulist");
    if (!list.text || allowed.empty())
    {
      result.push_back(cannot_tell("the distance of " + nic->name,
        list.text ? "no Cpus_allowed_list in /proc/self/status" : list.why_not));
      continue;
    }
    const std::vector<unsigned> near = numbers_of(*list.text);
    const auto common = std::ranges::count_if(
      allowed, [&](unsigned each) { return std::ranges::find(near, each) != near.end(); });
    const std::string place = nic->name + " is at NUMA node " + node + ", ";
    const std::string seen = place + std::to_string(common) + " of this process's "
      + std::to_string(allowed.size()) + " processors are there";
    const auto all = static_cast<std::ptrdiff_t>(allowed.size());
    const std::string remedy = "numactl --cpunodebind=" + node + " --membind=" + node + " COMMAND";
    if (common == all)
      result.push_back({level::ok, seen, {}, {}});
    else
      result.push_back({common == 0 ? level::slows : level::note, seen,
        "from other nodes, every doorbell, completion and byte of memory crosses the link between "
        "sockets",
        remedy});
  }
  return result;
}

findings check_pci(const machine& on)
{
  findings result;
  for (const device_report* nic : on.nics())
  {
    if (!nic->on_pci())
      continue;
    const std::string directory = nic->directory() + "/device/";
    const auto value = [&](const char* name)
    { return on.files.read(directory + name).text.value_or(""); };
    const double width = number_in(value("current_link_width"));
    const double width_max = number_in(value("max_link_width"));
    const double speed = number_in(value("current_link_speed"));
    const double speed_max = number_in(value("max_link_speed"));
    if (width <= 0 || width_max <= 0 || speed <= 0 || speed_max <= 0)
    {
      result.push_back(cannot_tell("the link of " + nic->name,
        "its PCI device does not report it (a virtual function, or a virtual machine)"));
      continue;
    }
    const std::string seen = nic->name + " has " + value("current_link_width") + " lanes at "
      + value("current_link_speed");
    if (width >= width_max && speed >= speed_max)
      result.push_back({level::ok, seen, {}, {}});
    else
      result.push_back({level::slows,
        seen + ", but supports " + value("max_link_width") + " at " + value("max_link_speed"),
        "the slot may be slower than the port",
        "use a slot with all lanes, or check the firmware settings; lspci -vv shows "
        "both ends (LnkCap, LnkSta)"});
  }
  return result;
}

findings check_iommu(const machine& on)
{
  findings result;
  for (const device_report* nic : on.nics())
  {
    const std::string group = nic->directory() + "/device/iommu_group";
    if (!nic->on_pci() || !on.files.exists(group))
      continue;                                          // no IOMMU
    const reading type = on.files.read(group + "/type"); // since Linux 5.11
    if (!type.text)
      result.push_back(cannot_tell("if an IOMMU translates for " + nic->name, type.why_not));
    else if (*type.text == "identity")
      result.push_back({level::ok, "no IOMMU translates for " + nic->name + " (identity)", {}, {}});
    else
      result.push_back(
        {level::slows, "an IOMMU translates for " + nic->name + " (" + *type.text + ')',
          "registering memory takes longer, and transfers may wait for translations",
          "if its protection is not required: iommu=pt on the kernel command line"});
  }
  return result;
}

} // namespace info
