//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/machine.hpp"

#include "info/devices.hpp"
#include "verbs/api.hpp"
#include "verbs/cm_api.hpp"

#include <boost_rdma/software/device.hpp>

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace info {
namespace {

namespace fs = std::filesystem;
namespace ip = boost::asio::ip;

library_report report_of(const std::string& path, const std::string& reason)
{
  library_report result;
  result.reason = reason;
  if (path.empty())
    return result;
  std::error_code ec;
  const fs::path file = fs::canonical(path, ec);
  result.path = ec ? path : file.string();
  result.version = version_of_library(result.path);
  return result;
}

std::optional<std::vector<interface_report>> interfaces_of_this_machine()
{
  std::vector<interface_report> result;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next)
  {
    auto found = std::ranges::find(result, i->ifa_name, &interface_report::name);
    if (found == result.end())
      found = result.insert(result.end(),
        {i->ifa_name, (i->ifa_flags & IFF_UP) != 0, (i->ifa_flags & IFF_LOOPBACK) != 0, {}});
    if (i->ifa_addr == nullptr)
      continue;
    if (i->ifa_addr->sa_family == AF_INET)
    {
      sockaddr_in address{};
      std::memcpy(&address, i->ifa_addr, sizeof address);
      found->addresses.push_back(ip::address_v4(ntohl(address.sin_addr.s_addr)).to_string());
    }
    else if (i->ifa_addr->sa_family == AF_INET6)
    {
      sockaddr_in6 address{};
      std::memcpy(&address, i->ifa_addr, sizeof address);
      ip::address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), &address.sin6_addr, bytes.size());
      if (const ip::address_v6 v6(bytes); !v6.is_link_local())
        found->addresses.push_back(v6.to_string());
    }
  }
  return result;
}

// Returns 0, or the errno of a call that returns a descriptor. Closes the descriptor.
int outcome(long descriptor)
{
  if (descriptor < 0)
    return errno;
  ::close(static_cast<int>(descriptor));
  return 0;
}

int read_own_memory()
{
  char from = 'x';
  char to = 0;
  const iovec local{&to, 1};
  const iovec remote{&from, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1 ? 0 : errno;
}

std::vector<call_report> try_calls()
{
  return {
    {"eventfd", outcome(::eventfd(0, EFD_CLOEXEC))},
    {"memfd_create", outcome(::memfd_create("rdma_info", MFD_CLOEXEC))},
    {"pidfd_open", outcome(::syscall(SYS_pidfd_open, ::getpid(), 0))},
    {"process_vm_readv", read_own_memory()},
  };
}

int open_error(const fs::path& file)
{
  return ::faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) == 0 ? 0 : errno;
}

} // namespace

std::string version_of_library(const fs::path& file)
{
  // The name ends with .so, the ABI's major and minor number, and rdma-core's version (its
  // Documentation/versioning.md).
  const std::string name = file.filename().string();
  std::size_t at = name.find(".so.");
  constexpr std::array skipped{".so.", ".", "."};
  for (const char* part : skipped)
  {
    if (at == std::string::npos)
      return {};
    at = name.find(part, at);
    if (at != std::string::npos)
      at += std::strlen(part);
  }
  return at == std::string::npos ? std::string() : name.substr(at);
}

std::vector<const device_report*> machine::nics() const
{
  std::vector<const device_report*> result;
  for (const device_report& each : devices)
    if (each.is_nic())
      result.push_back(&each);
  return result;
}

machine look_at_this_machine(bool with_test)
{
  machine result;
  const rdma::verbs::system_library& verbs = rdma::verbs::system();
  const rdma::verbs::cm_library& cm = rdma::verbs::system_cm();
  result.verbs = report_of(verbs.path, verbs.reason);
  result.connection_manager = report_of(cm.path, cm.reason);
  result.devices = devices_of_library(result.files);
  result.by_default = choose_default();
  result.interfaces = interfaces_of_this_machine();
  result.calls = try_calls();
  result.why_not_open = [](const std::string& file) { return open_error(file); };
  if (with_test)
    result.software_test = test_device(rdma::software::device_name);
  return result;
}

machine look_at_tree(const fs::path& root)
{
  machine result;
  result.files = file_tree(root);
  result.devices = devices_of_kernel(result.files);
  result.why_not_open = [files = result.files](const std::string& file)
  { return files.exists(file) ? 0 : ENOENT; };
  return result;
}

} // namespace info
