//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_DEVICE_REPORT_HPP
#define BOOST_RDMA_TOOLS_INFO_DEVICE_REPORT_HPP

#include <boost_rdma/device.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace info {

/// A place of a port's GID table that is taken.
struct gid_report
{
  unsigned index = 0;
  std::string type; ///< "InfiniBand", "RoCE v1", "RoCE v2", "iWARP", "TCP" (the software device's)
  std::string gid;  ///< in hexadecimal, as the kernel writes it
  std::string address;   ///< the IP address that it stands for; empty on InfiniBand
  std::string interface; ///< the network interface; empty where that is not known
};

struct port_report
{
  unsigned number = 1;
  std::string state;          ///< in small letters: "active", "down", "init"
  std::string physical_state; ///< "LinkUp"; empty where that is not known
  std::string link_layer;     ///< "Ethernet", "InfiniBand"
  std::string rate;           ///< "100 Gb/sec (4X EDR)"; empty where that is not known
  std::string interface;      ///< the network interface; empty where there is none
  std::optional<std::uint32_t> active_mtu;
  std::optional<std::uint32_t> max_mtu;
  std::optional<std::uint32_t> interface_mtu;
  std::vector<gid_report> gids;

  [[nodiscard]] bool active() const { return state == "active"; }
};

/// A limit or a capability, by its name in <infiniband/verbs.h>.
struct limit_report
{
  std::string name;
  std::uint64_t value = 0;
};

struct device_report
{
  std::string name;
  rdma::device_kind kind = rdma::device_kind::nic;
  bool usable = false;   ///< this process has opened it
  std::string remark;    ///< why not, where it has tried
  std::string driver;    ///< the kernel's
  bool emulated = false; ///< one that the kernel makes in software (rxe, siw)
  std::string node_guid;
  std::string firmware;
  std::string vendor; ///< "0x15b3"
  std::string part;
  std::string board; ///< the vendor's name of it
  std::optional<unsigned> numa_node;
  std::vector<port_report> ports;
  std::vector<limit_report> limits;      ///< empty where it is not usable
  std::vector<std::string> capabilities; ///< in words

  [[nodiscard]] bool is_nic() const { return kind == rdma::device_kind::nic; }
  [[nodiscard]] bool active() const
  {
    for (const port_report& each : ports)
      if (each.active())
        return true;
    return false;
  }
  /// Where sysfs has it.
  [[nodiscard]] std::string directory() const { return "/sys/class/infiniband/" + name; }
  [[nodiscard]] bool on_pci() const { return is_nic() && !emulated; }
};

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_DEVICE_REPORT_HPP
