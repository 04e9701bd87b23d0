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

/// A used entry of a port's GID table.
struct gid_report
{
  unsigned index = 0;
  std::string type;    ///< "InfiniBand", "RoCE v1", "RoCE v2", "iWARP", "TCP" (the software device)
  std::string gid;     ///< in hexadecimal, in the kernel's format
  std::string address; ///< the IP address in the GID; empty on InfiniBand
  std::string interface; ///< the network interface; empty if unknown
};

struct port_report
{
  unsigned number = 1;
  std::string state;          ///< in lower case: "active", "down", "init"
  std::string physical_state; ///< "LinkUp"; empty if unknown
  std::string link_layer;     ///< "Ethernet", "InfiniBand"
  std::string rate;           ///< "100 Gb/sec (4X EDR)"; empty if unknown
  std::string interface;      ///< the network interface; empty if there is none
  std::optional<std::uint32_t> active_mtu;
  std::optional<std::uint32_t> max_mtu;
  std::optional<std::uint32_t> interface_mtu;
  std::vector<gid_report> gids;

  [[nodiscard]] bool active() const { return state == "active"; }
};

/// A limit or a capability, with its name in <infiniband/verbs.h>.
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
  std::string remark;    ///< the reason why it is not usable
  std::string driver;    ///< kernel driver
  bool emulated = false; ///< implemented by the kernel in software (rxe, siw)
  std::string node_guid;
  std::string firmware;
  std::string vendor; ///< "0x15b3"
  std::string part;
  std::string board; ///< the vendor's name for it
  std::optional<unsigned> numa_node;
  std::vector<port_report> ports;
  std::vector<limit_report> limits;      ///< empty if it is not usable
  std::vector<std::string> capabilities; ///< as text

  [[nodiscard]] bool is_nic() const { return kind == rdma::device_kind::nic; }
  [[nodiscard]] bool active() const
  {
    for (const port_report& each : ports)
      if (each.active())
        return true;
    return false;
  }
  /// The device's directory in sysfs.
  [[nodiscard]] std::string directory() const { return "/sys/class/infiniband/" + name; }
  [[nodiscard]] bool on_pci() const { return is_nic() && !emulated; }
};

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_DEVICE_REPORT_HPP
