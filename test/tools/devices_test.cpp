//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "tools/fake_tree.hpp"

#include "info/devices.hpp"

// Tests the reading of RDMA devices from the kernel's files.

TEST_CASE("devices_of_kernel reads a RoCE NIC with its ports, GIDs and hardware details")
{
  test::fake_tree tree;
  tree.add_nic();
  tree.write("/sys/class/infiniband/mlx5_0/device/numa_node", "1");
  const auto devices = info::devices_of_kernel(info::file_tree(tree.root()));
  REQUIRE(devices.size() == 1);
  const info::device_report& nic = devices[0];
  CHECK(nic.name == "mlx5_0");
  CHECK(nic.driver == "mlx5_core");
  CHECK(nic.firmware == "16.35.2000");
  CHECK(nic.vendor == "0x15b3");
  CHECK(nic.numa_node == 1u);
  CHECK_FALSE(nic.emulated);
  CHECK(nic.active());
  REQUIRE(nic.ports.size() == 1);
  const info::port_report& port = nic.ports[0];
  CHECK(port.state == "active");
  CHECK(port.physical_state == "LinkUp");
  CHECK(port.interface == "eth0");
  CHECK(port.interface_mtu == 9000u);
  REQUIRE(port.gids.size() == 4); // an empty table entry is not a GID
  CHECK(port.gids[2].type == "RoCE v1");
  CHECK(port.gids[3].type == "RoCE v2");
  CHECK(port.gids[3].index == 3);
  CHECK(port.gids[3].address == "10.0.0.1");
}

TEST_CASE("devices_of_kernel sorts GIDs by index, not by file name")
{
  test::fake_tree tree;
  tree.add_nic();
  tree.add_gid("mlx5_0", 10, "0000:0000:0000:0000:0000:ffff:0a00:0002", "RoCE v2", "eth0");
  const auto devices = info::devices_of_kernel(info::file_tree(tree.root()));
  REQUIRE(devices.at(0).ports.at(0).gids.size() == 5);
  CHECK(devices[0].ports[0].gids[4].index == 10);
  CHECK(devices[0].ports[0].gids[1].index == 1);
}

TEST_CASE("devices_of_kernel reports no addresses for InfiniBand GIDs")
{
  test::fake_tree tree;
  tree.add_nic();
  tree.write("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
  const auto devices = info::devices_of_kernel(info::file_tree(tree.root()));
  CHECK(devices.at(0).ports.at(0).gids.at(0).type == "InfiniBand");
  CHECK(devices[0].ports[0].gids[0].address.empty());
}

TEST_CASE("devices_of_kernel reports no NUMA node when the machine does not report one")
{
  test::fake_tree tree;
  tree.add_nic();
  tree.write("/sys/class/infiniband/mlx5_0/device/numa_node", "-1");
  CHECK_FALSE(info::devices_of_kernel(info::file_tree(tree.root())).at(0).numa_node.has_value());
}

TEST_CASE(
  "devices_of_kernel marks Soft-RoCE and siw as emulated regardless of their interface's bus")
{
  test::fake_tree tree;
  tree.add_nic("rxe0", "eth0");
  tree.write("/sys/class/infiniband/rxe0/parent", "eth0");
  tree.add_nic("siw0", "eth1", 1);
  tree.write("/sys/class/infiniband/siw0/node_desc", "Software iWARP stack");
  const auto devices = info::devices_of_kernel(info::file_tree(tree.root()));
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].driver == "rdma_rxe");
  CHECK(devices[0].emulated);
  CHECK(devices[1].driver == "siw");
  CHECK(devices[1].emulated);
}

TEST_CASE("devices_of_kernel matches an iWARP device to the interface with its hardware address")
{
  test::fake_tree tree;
  const std::string device = "/sys/class/infiniband/iw0";
  tree.write(device + "/node_type", "4: RNIC");
  tree.write(device + "/ports/1/state", "4: ACTIVE");
  tree.write(device + "/ports/1/link_layer", "Ethernet");
  tree.write(device + "/ports/1/gids/0", "be03:2c25:0679:0000:0000:0000:0000:0000");
  tree.write("/sys/class/net/lo/address", "00:00:00:00:00:00");
  tree.write("/sys/class/net/eth7/address", "be:03:2c:25:06:79");
  tree.write("/sys/class/net/eth7/mtu", "1500");
  const auto devices = info::devices_of_kernel(info::file_tree(tree.root()));
  const info::port_report& port = devices.at(0).ports.at(0);
  CHECK(port.interface == "eth7");
  CHECK(port.interface_mtu == 1500u);
  CHECK(port.gids.at(0).type == "iWARP");
  CHECK(port.gids[0].address.empty());
}

TEST_CASE("devices_of_kernel returns no devices on a machine without RDMA")
{
  const test::fake_tree tree;
  CHECK(info::devices_of_kernel(info::file_tree(tree.root())).empty());
}
