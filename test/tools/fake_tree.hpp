//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_TOOLS_FAKE_TREE_HPP
#define BOOST_RDMA_TEST_TOOLS_FAKE_TREE_HPP

#include "common/catch.hpp"

#include "info/doctor.hpp"
#include "info/machine.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace test {

/// A directory with the files of /proc and /sys of an imaginary machine.
class fake_tree
{
public:
  fake_tree()
  {
    std::string name = (std::filesystem::temp_directory_path() / "rdma_info_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("cannot make " + name);
    root_ = name;
  }
  ~fake_tree()
  {
    std::error_code ec;
    std::filesystem::remove_all(root_, ec);
  }
  fake_tree(const fake_tree&) = delete;
  fake_tree& operator=(const fake_tree&) = delete;

  fake_tree& write(const std::string& path, const std::string& text)
  {
    const std::filesystem::path file = at(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
    return *this;
  }

  fake_tree& link(const std::string& path, const std::string& target)
  {
    const std::filesystem::path file = at(path);
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_symlink(target, file);
    return *this;
  }

  fake_tree& remove(const std::string& path)
  {
    std::filesystem::remove_all(at(path));
    return *this;
  }

  /// A NIC without problems: one active RoCE port on eth0 with the address 10.0.0.1.
  fake_tree& add_nic(
    const std::string& name = "mlx5_0", const std::string& interface = "eth0", int number = 0)
  {
    const std::string device = "/sys/class/infiniband/" + name;
    const std::string uverbs = "uverbs" + std::to_string(number);
    write(device + "/node_type", "1: CA");
    write(device + "/node_guid", "98:03:9b:03:00:2e:5a:10");
    write(device + "/fw_ver", "16.35.2000");
    write(device + "/board_id", "MT_0000000011");
    write(device + "/device/vendor", "0x15b3");
    write(device + "/device/device", "0x1017");
    link(device + "/device/driver", "../../../bus/pci/drivers/mlx5_core");
    write(device + "/ports/1/state", "4: ACTIVE");
    write(device + "/ports/1/phys_state", "5: LinkUp");
    write(device + "/ports/1/link_layer", "Ethernet");
    write(device + "/ports/1/rate", "100 Gb/sec (4X EDR)");
    add_gid(name, 0, "fe80:0000:0000:0000:9a03:9bff:fe2e:5a10", "IB/RoCE v1", interface);
    add_gid(name, 1, "fe80:0000:0000:0000:9a03:9bff:fe2e:5a10", "RoCE v2", interface);
    add_gid(name, 2, "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1", interface);
    add_gid(name, 3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", interface);
    write(device + "/ports/1/gids/4", "0000:0000:0000:0000:0000:0000:0000:0000");
    write("/sys/class/net/" + interface + "/mtu", "9000");
    write("/sys/class/infiniband_verbs/" + uverbs + "/ibdev", name);
    write("/sys/class/misc/rdma_cm/dev", "10:124");
    write("/dev/infiniband/" + uverbs, "");
    write("/dev/infiniband/rdma_cm", "");
    return *this;
  }

  fake_tree& add_gid(const std::string& device, int index, const std::string& gid,
    const std::string& type, const std::string& interface)
  {
    const std::string port = "/sys/class/infiniband/" + device + "/ports/1/";
    const std::string number = std::to_string(index);
    write(port + "gids/" + number, gid);
    write(port + "gid_attrs/types/" + number, type);
    return write(port + "gid_attrs/ndevs/" + number, interface);
  }

  /// Writes the lines of /proc/self/limits that the doctor reads.
  fake_tree& limits(const std::string& locked, const std::string& files = "1048576",
    const std::string& hard = "unlimited")
  {
    return write("/proc/self/limits",
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max open files            "
        + files + "               " + files
        + "              files     \n"
          "Max locked memory         "
        + locked + "              " + hard + "              bytes     ");
  }

  fake_tree& status(
    const std::string& processors, const std::string& capabilities = "0000000000000000")
  {
    return write("/proc/self/status",
      "Name:\tx\nCapEff:\t" + capabilities + "\nCpus_allowed:\tff\nCpus_allowed_list:\t"
        + processors);
  }

  [[nodiscard]] std::filesystem::path at(const std::string& path) const
  {
    return root_ / std::filesystem::path(path).relative_path();
  }
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] info::machine machine() const { return info::look_at_tree(root_); }

private:
  std::filesystem::path root_;
};

/// Returns the findings of one check of the doctor.
inline info::findings findings_of(const info::machine& on, const std::string& name)
{
  for (const info::check& each : info::all_checks())
    if (each.name == name)
      return each.run(on);
  throw std::runtime_error("no check has the name " + name);
}

inline info::findings findings_of(const fake_tree& tree, const std::string& name)
{
  return findings_of(tree.machine(), name);
}

inline std::string text_of(const info::finding& found)
{
  return std::string(info::name_of(found.how)) + ": " + found.seen + " | " + found.why + " | "
    + found.remedy;
}

/// Requires one finding of this level whose texts contain all of these parts.
inline void finds(
  const info::findings& found, info::level how, std::initializer_list<const char*> parts)
{
  std::string all;
  for (const info::finding& each : found)
    all += text_of(each) + '\n';
  CAPTURE(all);
  REQUIRE(found.size() == 1);
  CHECK(info::name_of(found[0].how) == std::string(info::name_of(how)));
  for (const char* part : parts)
  {
    CAPTURE(part);
    CHECK(all.find(part) != std::string::npos);
  }
}

} // namespace test

#endif // BOOST_RDMA_TEST_TOOLS_FAKE_TREE_HPP
