//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "tools/fake_tree.hpp"

#include "info/choice.hpp"
#include "info/devices.hpp"
#include "info/self_test.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/io_context.hpp>

#include <algorithm>

// Tests the tool's use of the library on this machine.

TEST_CASE("test_device passes when the software device sends itself a message")
{
  const info::test_report result = info::test_device("soft0");
  CAPTURE(result.text);
  CHECK(result.outcome == info::test_outcome::passed);
  CHECK(result.text.find("shared memory") != std::string::npos);
}

TEST_CASE("test_device fails with the library's error text when the device does not exist")
{
  const info::test_report result = info::test_device("no_such_device");
  CHECK(result.outcome == info::test_outcome::failed);
  CHECK(result.text.find("no_such_device") != std::string::npos);
}

TEST_CASE("choose_for returns the choice that a queue pair sends to its peer")
{
  REQUIRE(::setenv("BOOST_RDMA_DEVICE", "soft0", 1) == 0); // each test case runs in its own process
  const auto address = boost::asio::ip::make_address("127.0.0.1");
  const info::choice_report choice = info::choose_for(address);
  boost::asio::io_context io;
  const rdma::context context;
  rdma::queue_pair pair(io, context);
  const rdma::endpoint_description told = pair.local_endpoint(address);
  CHECK(choice.device == told.device);
  CHECK(choice.path_mtu == told.path_mtu);
  CHECK(choice.gid.type == rdma::name_of(told.wire));
  CHECK(choice.gid.address == "127.0.0.1");
  CHECK(choice.local == "127.0.0.1");
  CHECK_FALSE(choice.why_no_nic.empty());
}

TEST_CASE("devices_of_library lists the software device with its limits")
{
  const auto devices = info::devices_of_library(info::file_tree());
  REQUIRE_FALSE(devices.empty());
  const info::device_report& soft = devices.back();
  CHECK(soft.name == "soft0");
  CHECK(soft.usable);
  REQUIRE(soft.ports.size() == 1);
  CHECK(soft.ports[0].active());
  CHECK(std::ranges::any_of(
    soft.ports[0].gids, [](const info::gid_report& gid) { return gid.address == "127.0.0.1"; }));
  const auto limit = std::ranges::find(soft.limits, "max_qp_rd_atom", &info::limit_report::name);
  REQUIRE(limit != soft.limits.end());
  const rdma::context context(rdma::context_options{"soft0", {}, {}, {}});
  CHECK(limit->value == context.default_device().max_read_atomic());
}
