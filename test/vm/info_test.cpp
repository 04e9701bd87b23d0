//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "vm/device_machine.hpp"

#include "info/choice.hpp"
#include "info/doctor.hpp"
#include "info/machine.hpp"
#include "info/self_test.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>

// Tests tools/rdma_info with kernel devices.

using namespace test;

namespace {

const info::device_report& device_of(const info::machine& on, const char* name)
{
  const auto found = std::ranges::find(on.devices, name, &info::device_report::name);
  if (found == on.devices.end())
    throw std::runtime_error(std::string("rdma_info does not list ") + name);
  return *found;
}

// A kernel thread informs rxe of changes of its interface, so the change is delayed.
bool port_becomes(const std::string& state)
{
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (device_of(info::look_at_tree("/"), "rxe0").ports.at(0).state != state)
    if (std::chrono::steady_clock::now() > limit)
      return false;
  return true;
}

// Returns the problems that one check finds. A port that is down is no stop if the machine has
// another device.
std::string trouble_with(const info::machine& on, const std::string& check)
{
  std::string result;
  for (const info::diagnosed& each : info::examine(on))
    if (each.check == check && each.what.how != info::level::ok)
      result += each.what.seen + " | " + each.what.remedy + '\n';
  return result;
}

} // namespace

TEST_CASE("rdma_info lists Soft-RoCE with its interface and a RoCE v2 GID of its address")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  const info::machine on = info::look_at_this_machine(false);
  const info::device_report& rxe = device_of(on, "rxe0");
  CHECK(rxe.usable);
  CHECK(rxe.driver == "rdma_rxe");
  REQUIRE(rxe.ports.size() == 1);
  CHECK(rxe.ports[0].active());
  CHECK(rxe.ports[0].interface == "veth0");
  CHECK(rxe.ports[0].active_mtu == 1024u);
  CHECK(std::ranges::any_of(rxe.ports[0].gids,
    [](const info::gid_report& gid)
    { return gid.type == "RoCE v2" && gid.address == "10.0.0.1" && gid.interface == "veth0"; }));
  CHECK_FALSE(rxe.limits.empty());
  for (const info::diagnosed& each : info::examine(on))
  {
    CAPTURE(each.what.seen);
    CHECK(each.what.how != info::level::stops);
  }
}

TEST_CASE("rdma_info names the device and GID for a peer and sends a message over the device")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  // siw0 may exist as well, and the device that was created last is listed last.
  REQUIRE(::setenv("BOOST_RDMA_DEVICE", "rxe0", 1) == 0); // each test case runs in its own process
  const info::choice_report choice = info::choose_for(boost::asio::ip::make_address("10.0.0.2"));
  CAPTURE(choice.why_no_nic);
  CHECK(choice.device == "rxe0");
  CHECK(choice.gid.type == "RoCE v2");
  CHECK(choice.gid.address == "10.0.0.1");
  // The address of an interface without an RDMA device.
  const info::choice_report other = info::choose_for(boost::asio::ip::make_address("10.0.1.1"));
  CHECK(other.device == "soft0");
  CHECK(other.why_no_nic.find("rxe0") != std::string::npos);
  const info::test_report test = info::test_device("rxe0");
  CAPTURE(test.text);
  CHECK(test.outcome == info::test_outcome::passed);
}

TEST_CASE("the doctor names a port whose interface is down")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  const afterwards back("ip link set veth0 up");
  shell("ip link set veth0 down");
  REQUIRE(port_becomes("down"));
  const std::string found = trouble_with(info::look_at_this_machine(false), "ports");
  CAPTURE(found);
  CHECK(found.find("rxe0 port 1 is down") != std::string::npos);
  CHECK(found.find("ip link set veth0 up") != std::string::npos);
  shell("ip link set veth0 up");
  CHECK(port_becomes("active")); // required by the following tests
}

TEST_CASE("the doctor names the missing file of a device")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  const afterwards back("mv /dev/infiniband/hidden /dev/infiniband/uverbs0");
  shell("mv /dev/infiniband/uverbs0 /dev/infiniband/hidden");
  const info::machine on = info::look_at_this_machine(false);
  const std::string found = trouble_with(on, "device files");
  CAPTURE(found);
  CHECK(found.find("no file /dev/infiniband/uverbs0") != std::string::npos);
  CHECK_FALSE(device_of(on, "rxe0").usable);
  CHECK(device_of(on, "soft0").usable);
}

TEST_CASE("rdma_info reports that an iWARP device connects by RDMA-CM only")
{
  BOOST_RDMA_TEST_IN_MACHINE("siw0");
  const info::machine on = info::look_at_this_machine(false);
  const info::device_report& siw = device_of(on, "siw0");
  CHECK(siw.driver == "siw");
  REQUIRE(siw.ports.size() == 1);
  CHECK(siw.ports[0].interface == "veth1");
  REQUIRE_FALSE(siw.ports[0].gids.empty());
  CHECK(siw.ports[0].gids[0].type == "iWARP");
  const info::test_report test = info::test_device("siw0");
  CHECK(test.outcome == info::test_outcome::not_made);
  CHECK(test.text.find("RDMA-CM") != std::string::npos);
}
