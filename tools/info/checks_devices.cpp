//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/checks.hpp"

#include <boost_rdma/software/device.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

// Checks which devices exist and if this process can access them.

namespace info {
namespace {

// Network drivers whose cards support RDMA through another kernel module.
struct rdma_module
{
  std::string_view network;
  const char* rdma;
};
constexpr std::array rdma_modules{
  rdma_module{"mlx5_core", "mlx5_ib"},
  rdma_module{"mlx4_core", "mlx4_ib"},
  rdma_module{"bnxt_en", "bnxt_re"},
  rdma_module{"ice", "irdma"},
  rdma_module{"qede", "qedr"},
  rdma_module{"cxgb4", "iw_cxgb4"},
  rdma_module{"mana", "mana_ib"},
};

// Returns the file of a device in /dev, or an empty string if the kernel has none.
std::string file_of(const machine& on, const std::string& device)
{
  for (const std::string& name : on.files.names("/sys/class/infiniband_verbs"))
    if (on.files.read("/sys/class/infiniband_verbs/" + name + "/ibdev").text == device)
      return "/dev/infiniband/" + name;
  return {};
}

bool in_container(const machine& on)
{
  return on.files.exists("/.dockerenv") || on.files.exists("/run/.containerenv")
    || on.files.exists("/run/systemd/container");
}

finding of_file(const machine& on, const std::string& file, const std::string& what)
{
  switch (const int error = on.why_not_open(file); error)
  {
  case 0:
    return {level::ok, file + (on.files.is_own() ? " can be opened" : " exists"), {}, {}};
  case ENOENT:
    return {level::stops, "there is no file " + file, what,
      in_container(on)
        ? "start the container with --device " + file + " --ulimit memlock=-1"
        : "udevadm trigger --subsystem-match=infiniband_verbs --subsystem-match=misc; "
          "in a container, start it with --device "
          + file};
  case EACCES:
  case EPERM:
    return {level::stops, file + " is not readable and writable: " + std::strerror(error), what,
      "add the user to the group that owns it (ls -l " + file
        + "; usermod -aG rdma USER), or add a udev rule: KERNEL==\""
        + (file.ends_with("rdma_cm") ? "rdma_cm" : "uverbs*")
        + "\", GROUP=\"rdma\", MODE=\"0660\""};
  default:
    return {level::stops, file + ": " + std::strerror(error), what, {}};
  }
}

} // namespace

findings check_default(const machine& on)
{
  if (!on.by_default)
    return {};
  const default_report& chosen = *on.by_default;
  const std::string wish =
    std::getenv("BOOST_RDMA_DEVICE") != nullptr ? "unset BOOST_RDMA_DEVICE" : "";
  if (!chosen.trouble.empty())
  {
    if (std::ranges::any_of(
          on.devices, [](const device_report& each) { return !each.is_nic() && !each.usable; }))
      return {}; // check_software_addresses reports this
    return {{level::stops, "a context cannot be created: " + chosen.trouble,
      "every program that uses this library needs a context", wish}};
  }
  const std::string name = rdma::software::device_name;
  if (chosen.device != name)
    return {{level::ok, "programs get " + chosen.device + ", and " + name + " beside it", {}, {}}};
  const auto nics = on.nics();
  const auto idle = std::ranges::find_if(
    nics, [](const device_report* each) { return each->usable && each->active(); });
  if (idle == nics.end())
    return {{level::ok, "programs get " + name + " (no NIC: " + chosen.why_no_nic + ')', {}, {}}};
  return {
    {level::note, "programs get " + name + " (" + chosen.why_no_nic + "), and not " + (*idle)->name,
      "the NIC is not used", wish}};
}

findings check_devices(const machine& on)
{
  if (on.has_nic())
    return {};
  std::string seen = "the kernel has no RDMA device";
  std::string load = "modprobe rdma_rxe && ";
  if (on.files.exists("/sys/module/rdma_rxe"))
  {
    seen += " (Soft-RoCE is loaded but has no device)";
    load.clear();
  }
  return {{level::note, seen, "this is not an error: programs use the software device, soft0",
    "to use the kernel's verbs without a NIC: " + load
      + "rdma link add rxe0 type rxe netdev INTERFACE"}};
}

findings check_drivers(const machine& on)
{
  findings result;
  for (const std::string& name : on.files.names("/sys/class/net"))
  {
    const std::string device = "/sys/class/net/" + name + "/device";
    const auto driver = on.files.link_name(device + "/driver");
    const auto known = std::ranges::find(rdma_modules, driver.value_or(""), &rdma_module::network);
    if (known == rdma_modules.end() || on.files.exists(device + "/infiniband"))
      continue;
    result.push_back({level::note, name + " (" + *driver + ") has no RDMA device",
      "many cards with this driver support RDMA; the RDMA module may not be loaded",
      std::string("modprobe ") + known->rdma});
  }
  return result;
}

findings check_libraries(const machine& on)
{
  if (!on.verbs)
    return {};
  if (on.verbs->usable())
    return {{level::ok, "loaded " + on.verbs->path, {}, {}}};
  return {{on.has_nic() ? level::stops : level::note, on.verbs->reason,
    on.has_nic() ? "libibverbs is required for NICs"
                 : "libibverbs is required for NICs; this machine has none",
    std::getenv("BOOST_RDMA_LIBIBVERBS") != nullptr ? "unset BOOST_RDMA_LIBIBVERBS"
                                                    : "apt install libibverbs1 ibverbs-providers"}};
}

findings check_device_files(const machine& on)
{
  findings result;
  for (const device_report* nic : on.nics())
  {
    const std::string file = file_of(on, nic->name);
    if (file.empty())
      result.push_back({level::stops, "the kernel has no verbs interface for " + nic->name,
        "programs access a device through /dev/infiniband/uverbsN", "modprobe ib_uverbs"});
    else
      result.push_back(of_file(on, file, "programs access " + nic->name + " through it"));
  }
  return result;
}

findings check_opening(const machine& on)
{
  findings result;
  for (const device_report* nic : on.nics())
  {
    if (nic->usable || nic->remark.empty() || (on.verbs && !on.verbs->usable()))
      continue;
    const std::string file = file_of(on, nic->name);
    if (file.empty() || on.why_not_open(file) != 0)
      continue; // check_device_files reports this
    result.push_back(
      {level::stops, nic->name + ": " + nic->remark, "the library cannot use this device",
        nic->remark.find("ibverbs-providers") != std::string::npos ? "apt install ibverbs-providers"
                                                                   : ""});
  }
  return result;
}

findings check_connection_manager(const machine& on)
{
  if (!on.has_nic())
    return {};
  constexpr char matters[] =
    "rdma::cm::acceptor and rdma::cm::async_connect need it, and all iWARP connections; "
    "rdma::acceptor and rdma::queue_pair::async_connect do not";
  if (!on.files.exists("/sys/class/misc/rdma_cm"))
    return {
      {level::note, "the kernel module rdma_ucm is not loaded", matters, "modprobe rdma_ucm"}};
  finding file = of_file(on, "/dev/infiniband/rdma_cm", matters);
  if (file.how != level::ok)
  {
    file.how = level::note;
    return {file};
  }
  if (on.connection_manager && !on.connection_manager->usable())
    return {{level::note, on.connection_manager->reason, matters, "apt install librdmacm1"}};
  return {file};
}

findings check_several_devices(const machine& on)
{
  const auto nics = on.nics();
  if (nics.size() < 2)
    return {};
  std::string names;
  std::string chosen;
  for (const device_report* each : nics)
  {
    names += (names.empty() ? "" : ", ") + each->name;
    if (on.by_default && on.by_default->device == each->name)
      chosen = each->name;
  }
  return {{level::note, "there are several RDMA devices: " + names,
    "a context opens one of them" + (chosen.empty() ? "" : ", here " + chosen)
      + "; RDMA-CM uses the device of the route to the address, which may be another one",
    "select one with BOOST_RDMA_DEVICE=NAME or context_options::device; rdma_info --for ADDRESS "
    "shows the device for an address"}};
}

findings check_emulated_devices(const machine& on)
{
  findings result;
  for (const device_report* nic : on.nics())
    if (nic->emulated)
      result.push_back({level::note, nic->name + " is emulated by the kernel (" + nic->driver + ')',
        "it is useful for tests; its speed is not that of a NIC, and some functions are "
        "different (doc/rdma_vm.md)",
        {}});
  return result;
}

findings check_container(const machine& on)
{
  if (!in_container(on))
    return {};
  return {{level::ok,
    "this is a container, with its own devices, limits and permitted system calls", {}, {}}};
}

} // namespace info
