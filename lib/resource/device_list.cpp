//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/device_list.hpp"

#include "verbs/software/software.hpp"

#include <boost/system/errc.hpp>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace rdma::detail {
namespace {

// Returns the reason why this device could not be opened just now, with a remedy.
std::string opening_failure(const ibv_device& device, error_code& ec)
{
  ec = last_verbs_error();
  const std::string file = "/dev/infiniband/" + std::string(device.dev_name);
  // On EACCES libibverbs tries another device name and returns ENOENT, so check here.
  if (::faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) != 0 && errno == EACCES)
    ec.assign(EACCES, boost::system::system_category());
  std::string result = file + ", user " + std::to_string(::geteuid()) + ": " + ec.message();
  if (ec == boost::system::errc::permission_denied
    || ec == boost::system::errc::operation_not_permitted)
    return result
      + ". The user needs read and write access: add the user to the group that owns it (often "
        "\"rdma\"), or assign it "
        "to such a group by a udev rule: KERNEL==\"uverbs*\", GROUP=\"rdma\", MODE=\"0660\".";
  if (const std::string cause = likely_cause(ec); !cause.empty())
    result += ". " + cause;
  return result;
}

// Returns the reason why there is no device of this name.
std::string reason_of_missing(const std::string& name, const std::vector<std::string>& listed)
{
  const verbs::system_library& library = verbs::system();
  if (library.functions == nullptr)
    return library.reason;
  for (const unlisted_device& each : unlisted_devices(listed))
    if (each.name == name)
      return each.why;
  std::string result = std::string("there is ") + software::device_name;
  for (const std::string& each : listed)
    result += ", " + each;
  return result;
}

void append(std::string& reasons, const std::string& more)
{
  reasons += (reasons.empty() ? "" : "; ") + more;
}

// Opens the first device with an active port.
std::unique_ptr<device_impl> open_any_nic(std::string& why)
{
  const device_list devices;
  std::vector<std::string> names;
  for (ibv_device* each : devices)
  {
    names.push_back(devices.name(*each));
    error_code ignored; // the next device may work
    std::string reason;
    auto opened = devices.open(*each, ignored, reason);
    if (opened && opened->port_active())
      return opened;
    append(why, opened ? names.back() + " has no active port" : reason);
  }
  if (verbs::system().functions == nullptr)
    why = verbs::system().reason;
  else
    for (const unlisted_device& each : unlisted_devices(names))
      append(why, each.why);
  if (why.empty())
    why = "this side has none";
  return nullptr;
}

} // namespace

device_list::device_list()
  : api_(verbs::system().functions)
  , list_(api_ != nullptr ? api_->get_device_list(&count_) : nullptr)
{
}

device_list::~device_list()
{
  if (list_ != nullptr)
    api_->free_device_list(list_);
}

std::string device_list::name(ibv_device& device) const
{
  return api_->get_device_name(&device);
}

std::unique_ptr<device_impl> device_list::open(
  ibv_device& device, error_code& ec, std::string& why) const
{
  errno = 0;
  ibv_context* context = api_->open_device(&device);
  if (context == nullptr)
  {
    why = opening_failure(device, ec);
    return nullptr;
  }
  try
  {
    return std::make_unique<device_impl>(*api_, context, device_kind::nic);
  }
  catch (const system_error& e)
  {
    ec = e.code();
    why = e.what();
    return nullptr;
  }
}

std::vector<unlisted_device> unlisted_devices(const std::vector<std::string>& listed)
{
  namespace fs = std::filesystem;
  std::vector<unlisted_device> result;
  std::error_code none; // ignored: without the directory, this kernel has no RDMA
  for (fs::directory_iterator each("/sys/class/infiniband_verbs", none), end; !none && each != end;
       each.increment(none))
  {
    std::string name;
    if (!(std::ifstream(each->path() / "ibdev") >> name)
      || std::find(listed.begin(), listed.end(), name) != listed.end())
      continue;
    const std::string file = "/dev/infiniband/" + each->path().filename().string();
    result.push_back({name,
      ::access(file.c_str(), F_OK) != 0 ? "the kernel has it, but there is no file " + file
          + ". In a container, pass it in (--device " + file + "); otherwise check udev"
                                        : "the kernel has it, but libibverbs has no driver for it: "
                                          "install the package ibverbs-providers"});
  }
  return result;
}

std::unique_ptr<device_impl> open_nic(const std::string& name, error_code& ec, std::string& why)
{
  ec = {};
  if (name.empty())
    return open_any_nic(why);
  const device_list devices;
  std::vector<std::string> names;
  for (ibv_device* each : devices)
  {
    names.push_back(devices.name(*each));
    if (names.back() == name)
      return devices.open(*each, ec, why);
  }
  ec = error::no_device;
  why = reason_of_missing(name, names);
  return nullptr;
}

} // namespace rdma::detail
