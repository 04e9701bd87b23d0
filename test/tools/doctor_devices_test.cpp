//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "tools/fake_tree.hpp"

#include "info/words.hpp"

#include <cerrno>

// Tests the doctor's checks of devices: everything that blocks a program's access to them.

using info::level;
using test::findings_of;
using test::finds;

TEST_CASE("the doctor notes that only the software device exists when there is no RDMA device")
{
  test::fake_tree tree;
  finds(
    findings_of(tree, "devices"), level::note, {"no RDMA device", "soft0", "modprobe rdma_rxe"});
  tree.write("/sys/module/rdma_rxe/refcnt", "0");
  const info::findings loaded = findings_of(tree, "devices");
  finds(loaded, level::note, {"Soft-RoCE is loaded", "rdma link add"});
  CHECK(loaded[0].remedy.find("modprobe") == std::string::npos);
  CHECK(findings_of(tree, "device files").empty());
  CHECK(findings_of(tree, "ports").empty());
  CHECK(findings_of(tree, "RDMA-CM").empty());
}

TEST_CASE("the doctor reports no problem for a complete NIC")
{
  test::fake_tree tree;
  tree.add_nic();
  for (const char* check : {"device files", "RDMA-CM", "ports", "RoCE versions", "MTU"})
    finds(findings_of(tree, check), level::ok, {});
  CHECK(findings_of(tree, "devices").empty());
  CHECK(findings_of(tree, "addresses").empty());
}

TEST_CASE("the doctor reports a missing device file and names the container option")
{
  test::fake_tree tree;
  tree.add_nic().remove("/dev/infiniband/uverbs0");
  finds(findings_of(tree, "device files"), level::stops,
    {"/dev/infiniband/uverbs0", "mlx5_0", "udevadm"});
  tree.write("/.dockerenv", "");
  finds(findings_of(tree, "device files"), level::stops,
    {"start the container with --device /dev/infiniband/uverbs0"});
}

TEST_CASE("the doctor names the group and the udev rule when a device file cannot be opened")
{
  test::fake_tree tree;
  tree.add_nic();
  info::machine on = tree.machine();
  on.why_not_open = [](const std::string& file)
  { return file == "/dev/infiniband/uverbs0" ? EACCES : 0; };
  finds(findings_of(on, "device files"), level::stops,
    {"Permission denied", "usermod -aG rdma", "KERNEL==\"uverbs*\""});
  on.why_not_open = [](const std::string& file)
  { return file == "/dev/infiniband/rdma_cm" ? EACCES : 0; };
  finds(findings_of(on, "RDMA-CM"), level::note, {"Permission denied", "KERNEL==\"rdma_cm\""});
  on.why_not_open = [](const std::string&) { return EACCES; };
  on.devices[0].remark = "cannot be opened";
  CHECK(findings_of(on, "opening").empty()); // reported already
}

TEST_CASE("the doctor names the kernel module when ib_uverbs or rdma_ucm is missing")
{
  test::fake_tree tree;
  tree.add_nic().remove("/sys/class/infiniband_verbs");
  finds(findings_of(tree, "device files"), level::stops, {"mlx5_0", "modprobe ib_uverbs"});
  tree.remove("/sys/class/misc/rdma_cm");
  finds(findings_of(tree, "RDMA-CM"), level::note, {"rdma_ucm", "modprobe rdma_ucm"});
}

TEST_CASE("the doctor reports a missing libibverbs as a stop only when there is a NIC")
{
  ::unsetenv("BOOST_RDMA_LIBIBVERBS"); // otherwise the remedy would name it
  test::fake_tree tree;
  info::machine on = tree.machine();
  on.verbs = info::library_report{{}, {}, "cannot load libibverbs.so.1"};
  finds(findings_of(on, "libraries"), level::note,
    {"cannot load libibverbs.so.1", "apt install libibverbs1 ibverbs-providers"});
  tree.add_nic();
  on.devices = tree.machine().devices;
  finds(findings_of(on, "libraries"), level::stops, {"cannot load libibverbs.so.1"});
}

TEST_CASE("the doctor names the package when libibverbs has no driver for a device")
{
  test::fake_tree tree;
  tree.add_nic();
  info::machine on = tree.machine();
  on.devices[0].remark =
    "the kernel has it, but libibverbs has no driver for it: install the package ibverbs-providers";
  finds(findings_of(on, "opening"), level::stops,
    {"mlx5_0", "no driver", "apt install ibverbs-providers"});
  on.devices[0].usable = true;
  CHECK(findings_of(on, "opening").empty());
}

TEST_CASE("the doctor names the kernel module for a network card that supports RDMA")
{
  test::fake_tree tree;
  tree.link("/sys/class/net/eth0/device/driver", "../../bus/pci/drivers/mlx5_core");
  tree.link("/sys/class/net/eth1/device/driver", "../../bus/pci/drivers/e1000e");
  finds(findings_of(tree, "kernel drivers"), level::note, {"eth0 (mlx5_core)", "modprobe mlx5_ib"});
  tree.write("/sys/class/net/eth0/device/infiniband/mlx5_0/x", "");
  CHECK(findings_of(tree, "kernel drivers").empty());
}

TEST_CASE("the doctor names the default device when there are several")
{
  test::fake_tree tree;
  tree.add_nic("mlx5_0", "eth0").add_nic("rxe0", "eth1", 1);
  tree.write("/sys/class/infiniband/rxe0/parent", "eth1");
  info::machine on = tree.machine();
  on.by_default = info::default_report{};
  on.by_default->device = "rxe0";
  finds(findings_of(on, "several devices"), level::note,
    {"mlx5_0, rxe0", "here rxe0", "BOOST_RDMA_DEVICE"});
  finds(findings_of(on, "emulated devices"), level::note, {"rxe0", "rdma_rxe"});
}

TEST_CASE("words_of appends the likely cause of an exception exactly once")
{
  const rdma::error_code ec = rdma::error::no_device;
  const std::string cause = rdma::likely_cause(ec);
  CHECK(info::words_of(rdma::system_error(ec, "x")).ends_with(". " + cause));
  const std::string whole = info::words_of(rdma::system_error(ec, "x (" + cause + ")"));
  CHECK(whole.find(cause) == whole.rfind(cause));
}

TEST_CASE("the doctor reports a stop when the default context cannot be made")
{
  info::machine on;
  on.by_default = info::default_report{};
  on.by_default->trouble = "cannot open the RDMA device 'mlx5_9'";
  finds(findings_of(on, "default device"), level::stops, {"mlx5_9"});
}

TEST_CASE("the doctor names an active NIC that is not the default device")
{
  test::fake_tree tree;
  tree.add_nic();
  info::machine on = tree.machine();
  on.devices[0].usable = true;
  on.by_default = info::default_report{};
  on.by_default->device = "mlx5_0";
  finds(findings_of(on, "default device"), level::ok, {"programs get mlx5_0"});
  on.by_default->device = "soft0";
  on.by_default->why_no_nic = "the context was opened for the software device alone";
  finds(findings_of(on, "default device"), level::note,
    {"soft0", "software device alone", "not mlx5_0"});
  on.devices[0].ports[0].state = "down";
  finds(findings_of(on, "default device"), level::ok, {"programs get soft0"});
}

TEST_CASE("the doctor reports a container")
{
  test::fake_tree tree;
  CHECK(findings_of(tree, "container").empty());
  tree.write("/run/.containerenv", "");
  finds(findings_of(tree, "container"), level::ok, {"container"});
}

TEST_CASE(
  "the doctor names the interface of a port that is down and stops only without an active port")
{
  test::fake_tree tree;
  tree.add_nic();
  tree.write("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
  tree.write("/sys/class/infiniband/mlx5_0/ports/1/phys_state", "3: Disabled");
  finds(findings_of(tree, "ports"), level::stops,
    {"mlx5_0 port 1 is down (Disabled)", "ip link set eth0 up"});
  tree.add_nic("mlx5_1", "eth1", 1);
  const info::findings both = findings_of(tree, "ports");
  REQUIRE(both.size() == 2);
  CHECK(both[0].how == level::note);
  CHECK(both[1].how == level::ok);
}

TEST_CASE("the doctor names opensm when an InfiniBand port waits for a subnet manager")
{
  test::fake_tree tree;
  tree.add_nic();
  tree.write("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
  tree.write("/sys/class/infiniband/mlx5_0/ports/1/state", "2: INIT");
  finds(findings_of(tree, "ports"), level::stops, {"is init", "opensm"});
}

TEST_CASE("the doctor reports a slowdown when a port has RoCE v1 GIDs only")
{
  test::fake_tree tree;
  tree.add_nic();
  for (const char* index : {"1", "3"})
    tree.remove(std::string("/sys/class/infiniband/mlx5_0/ports/1/gids/") + index);
  finds(findings_of(tree, "RoCE versions"), level::slows, {"no RoCE v2 GID", "fall back"});
  tree.remove("/sys/class/infiniband/mlx5_0/ports/1/gids");
  finds(findings_of(tree, "RoCE versions"), level::stops, {"has no GID", "ip address add"});
}

TEST_CASE("the doctor requires an address when a port has link-local GIDs only")
{
  test::fake_tree tree;
  tree.add_nic();
  for (const char* index : {"2", "3"})
    tree.remove(std::string("/sys/class/infiniband/mlx5_0/ports/1/gids/") + index);
  finds(findings_of(tree, "addresses"), level::stops,
    {"link-local", "no_local_gid", "ip address add ADDRESS/PREFIX dev eth0"});
}

TEST_CASE("the doctor names an address of the interface that has no GID")
{
  test::fake_tree tree;
  tree.add_nic();
  info::machine on = tree.machine();
  on.interfaces.emplace();
  on.interfaces->push_back({"eth0", true, false, {"10.0.0.1", "10.0.0.7"}});
  // An address of another interface is not the NIC's.
  on.interfaces->push_back({"eth1", true, false, {"10.9.9.9"}});
  finds(findings_of(on, "addresses"), level::stops, {"no GID for 10.0.0.7 of eth0"});
}

TEST_CASE("the doctor names the interface MTU when packets of 4096 bytes do not fit")
{
  test::fake_tree tree;
  tree.add_nic();
  for (const char* enough : {"9000", "4192"})
  {
    tree.write("/sys/class/net/eth0/mtu", enough);
    finds(findings_of(tree, "MTU"), level::ok, {"4096"});
  }
  tree.write("/sys/class/net/eth0/mtu", "4191");
  finds(findings_of(tree, "MTU"), level::slows,
    {"2048 bytes of 4096", "4191", "4192", "ip link set eth0 mtu 9000"});
  tree.write("/sys/class/net/eth0/mtu", "1500");
  finds(findings_of(tree, "MTU"), level::slows, {"1024 bytes of 4096", "the MTU of eth0 is 1500"});
}

TEST_CASE("the doctor skips checks of RoCE for an iWARP port")
{
  test::fake_tree tree;
  tree.add_nic();
  tree.write("/sys/class/infiniband/mlx5_0/node_type", "4: RNIC");
  tree.write("/sys/class/net/eth0/mtu", "1500");
  for (const char* check : {"MTU", "RoCE versions", "addresses", "congestion"})
  {
    CAPTURE(check);
    CHECK(findings_of(tree, check).empty());
  }
}

TEST_CASE("the doctor reports ECN from the kernel's files and unknown without them")
{
  test::fake_tree tree;
  tree.add_nic();
  finds(findings_of(tree, "congestion"), level::unknown, {"eth0", "dcb pfc show dev eth0"});
  tree.write("/sys/class/net/eth0/ecn/roce_np/enable/3", "0");
  finds(findings_of(tree, "congestion"), level::note,
    {"no priority", "echo 1 > /sys/class/net/eth0/ecn"});
  tree.write("/sys/class/net/eth0/ecn/roce_np/enable/3", "1");
  finds(findings_of(tree, "congestion"), level::ok, {"priorities 3"});
}

TEST_CASE("the doctor reports firewalls as unknown and names a command to test them")
{
  test::fake_tree tree;
  finds(findings_of(tree, "firewall"), level::unknown, {"software device", "TCP"});
  tree.add_nic();
  const info::findings both = findings_of(tree, "firewall");
  REQUIRE(both.size() == 2);
  CHECK(both[0].how == level::unknown);
  CHECK(both[0].seen.find("4791") != std::string::npos);
  CHECK(both[0].remedy.find("rping") != std::string::npos);
}
