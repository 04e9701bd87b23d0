//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "soft/kernel_files.hpp"

#include "soft/exports.hpp"
#include "soft/settings.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>

#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma::soft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view class_directory = "/sys/class/infiniband";
constexpr std::string_view device_files = "/dev/infiniband/";

// Pairs of bytes in hexadecimal digits, separated by colons, as the kernel writes GUIDs and GIDs.
template <class Bytes>
std::string in_groups(const Bytes& bytes)
{
  std::string text;
  char digits[3];
  const auto* const raw = reinterpret_cast<const unsigned char*>(&bytes);
  for (std::size_t i = 0; i < sizeof bytes; ++i)
  {
    std::snprintf(digits, sizeof digits, "%02x", raw[i]);
    text += digits;
    if (i % 2 == 1 && i + 1 < sizeof bytes)
      text += ':';
  }
  return text;
}

bool is_device_file(std::string_view name)
{
  const std::uint32_t devices = read_environment().devices;
  for (std::uint32_t i = 0; i != devices; ++i)
    if (name == software::the_device(i)->dev_name)
      return true;
  return false;
}

void check(bool succeeded)
{
  if (!succeeded)
    throw std::system_error(errno, std::generic_category());
}

using files = std::map<std::string, std::string>; // contents by name

// The kernel's files of a port: Documentation/ABI/stable/sysfs-class-infiniband in its source.
void add_port(files& to, const std::string& port, ibv_context* context)
{
  to[port + "state"] = "4: ACTIVE";
  to[port + "phys_state"] = "5: LinkUp";
  to[port + "rate"] = "100 Gb/sec (4X EDR)";
  to[port + "link_layer"] = "Ethernet";
  to[port + "lid"] = "0x0";
  to[port + "lid_mask_count"] = "0";
  to[port + "sm_lid"] = "0x0";
  to[port + "sm_sl"] = "0";
  to[port + "cap_mask"] = "0x00010000";
  to[port + "pkeys/0"] = "0xffff";
  ibv_gid_entry entry{};
  for (std::uint32_t i = 0;
       device().query_gid_ex(context, software::port_number, i, &entry, 0, sizeof entry) == 0; ++i)
  {
    const std::string index = std::to_string(i);
    char interface[IF_NAMESIZE];
    to[port + "gids/" + index] = in_groups(entry.gid);
    to[port + "gid_attrs/types/" + index] = "RoCE v2";
    if (::if_indextoname(entry.ndev_ifindex, interface) != nullptr)
      to[port + "gid_attrs/ndevs/" + index] = interface;
  }
}

void add_device(files& all, ibv_device* which)
{
  const std::string name = which->name;
  const std::unique_ptr<ibv_context, decltype(&::ibv_close_device)> context(
    ::ibv_open_device(which), &::ibv_close_device);
  check(context != nullptr);
  ibv_device_attr attributes{};
  check(device().query_device(context.get(), &attributes) == 0);
  const std::string bus = "devices/" + name + '/';
  const std::string made = bus + "infiniband/" + name + '/';
  all[bus + "numa_node"] = "-1"; // none
  all[made + "node_type"] = "1: CA";
  all[made + "node_guid"] = in_groups(attributes.node_guid);
  all[made + "sys_image_guid"] = in_groups(attributes.sys_image_guid);
  all[made + "node_desc"] = name;
  all[made + "fw_ver"] = attributes.fw_ver;
  add_port(all, made + "ports/1/", context.get());
}

// A file or link appears complete: other processes may use the directory.
template <class Make>
void add(const fs::path& root, const fs::path& name, Make make)
{
  fs::create_directories((root / name).parent_path());
  if (fs::exists(fs::symlink_status(root / name)))
    return;
  std::string unfinished = root / "new.XXXXXX";
  check(::mkdtemp(unfinished.data()) != nullptr);
  make(fs::path(unfinished) / "it");
  fs::rename(fs::path(unfinished) / "it", root / name);
  fs::remove(unfinished);
}

// Returns the directory of all this user's programs with the same devices. It remains, because a
// program may pass a resolved link to another one. Files that somebody deleted are made again.
std::string make_directory()
{
  files all;
  const std::uint32_t devices = read_environment().devices;
  for (std::uint32_t i = 0; i != devices; ++i)
    add_device(all, software::the_device(i));
  std::string together;
  for (const auto& [file, text] : all)
    together += file + '\n' + text + '\n';
  const char* const parent = ::secure_getenv("TMPDIR");
  const fs::path root = fs::path(parent != nullptr && *parent == '/' ? parent : "/tmp")
    / ("rdma_soft." + std::to_string(::geteuid()) + '.'
      + std::to_string(std::hash<std::string>()(together)));
  // Everyone can make a directory of this name in /tmp.
  struct ::stat made;
  check(::mkdir(root.c_str(), S_IRWXU) == 0 || errno == EEXIST);
  check(::lstat(root.c_str(), &made) == 0);
  errno = EPERM;
  check(S_ISDIR(made.st_mode) && made.st_uid == ::geteuid()
    && (made.st_mode & (S_IWGRP | S_IWOTH)) == 0);
  for (const auto& [file, text] : all)
    add(root, file,
      [&](const fs::path& at)
      {
        std::ofstream to;
        to.exceptions(std::ios::failbit | std::ios::badbit);
        to.open(at);
        to << text << '\n';
        to.close();
      });
  // As in the kernel, the class has links into the tree of devices. Programs resolve them to find
  // the NUMA node.
  for (std::uint32_t i = 0; i != devices; ++i)
  {
    const std::string name = software::the_device(i)->name;
    const std::string in_devices = "devices/" + name;
    add(root, "class/infiniband/" + name,
      [&](const fs::path& at)
      { fs::create_directory_symlink(root / in_devices / "infiniband" / name, at); });
    add(root, in_devices + "/infiniband/" + name + "/device",
      [](const fs::path& at) { fs::create_directory_symlink("../..", at); });
  }
  return root;
}

// Made by the first thread that needs it. No lock, which another thread could hold during fork().
const std::string& directory()
{
  static std::atomic<const std::string*> known{nullptr};
  const std::string* found = known.load(std::memory_order_acquire);
  if (found != nullptr)
    return *found;
  auto made = std::make_unique<const std::string>(make_directory());
  return known.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)
    ? *made.release()
    : *found;
}

} // namespace

file_path::file_path(const char* path) noexcept
  : chosen_(path)
{
  if (path == nullptr)
    return;
  const std::string_view whole(path);
  const int error = errno;
  try
  {
    if (whole.starts_with(device_files) && is_device_file(whole.substr(device_files.size())))
      chosen_ = "/dev/null"; // as this one, a character device that everyone may open
    else if (whole.starts_with(class_directory)
      && (whole.size() == class_directory.size() || whole[class_directory.size()] == '/'))
    {
      text_ = directory() + "/class/infiniband";
      text_ += whole.substr(class_directory.size());
      chosen_ = text_.c_str();
    }
  }
  catch (const std::exception&)
  {
    chosen_ = path; // not found, as without a device
  }
  errno = error;
}

} // namespace rdma::soft
