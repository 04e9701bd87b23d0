//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/doctor.hpp"

#include "info/checks.hpp"

#include <algorithm>
#include <array>

namespace info {
namespace {

constexpr std::array checks{
  check{"default device", check_default},
  check{"devices", check_devices},
  check{"kernel drivers", check_drivers},
  check{"libraries", check_libraries},
  check{"device files", check_device_files},
  check{"opening", check_opening},
  check{"RDMA-CM", check_connection_manager},
  check{"several devices", check_several_devices},
  check{"emulated devices", check_emulated_devices},
  check{"ports", check_ports},
  check{"RoCE versions", check_roce_versions},
  check{"addresses", check_addresses},
  check{"MTU", check_mtu},
  check{"congestion", check_congestion},
  check{"firewall", check_firewall},
  check{"locked memory", check_locked_memory},
  check{"registration cache", check_registration_cache},
  check{"huge pages", check_huge_pages},
  check{"shared huge pages", check_shared_huge_pages},
  check{"overcommit", check_overcommit},
  check{"fork", check_fork},
  check{"processors", check_processors},
  check{"processor quota", check_processor_quota},
  check{"frequency", check_governor},
  check{"NUMA", check_numa},
  check{"PCI Express", check_pci},
  check{"IOMMU", check_iommu},
  check{"system calls", check_calls},
  check{"descriptors", check_descriptors},
  check{"backlog", check_backlog},
  check{"container", check_container},
  check{"soft0 addresses", check_software_addresses},
  check{"soft0 test", check_software_test},
};

} // namespace

const char* name_of(level value) noexcept
{
  switch (value)
  {
  case level::ok:
    return "ok";
  case level::note:
    return "note";
  case level::unknown:
    return "unknown";
  case level::slows:
    return "slows";
  case level::stops:
    return "stops";
  }
  return "?";
}

std::span<const check> all_checks()
{
  return checks;
}

std::vector<diagnosed> examine(const machine& on)
{
  std::vector<diagnosed> result;
  for (const check& each : all_checks())
    for (finding& found : each.run(on))
      result.push_back({each.name, std::move(found)});
  std::ranges::stable_sort(
    result, std::ranges::greater(), [](const diagnosed& each) { return each.what.how; });
  return result;
}

finding cannot_tell(const std::string& what, const std::string& reason, std::string why)
{
  return {level::unknown, "cannot tell " + what + ": " + reason, std::move(why), {}};
}

} // namespace info
