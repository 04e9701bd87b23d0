//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "vm/device_machine.hpp"

#include <boost_rdma/acceptor.hpp>

#include <boost/asio/ip/tcp.hpp>

#include <algorithm>
#include <net/if.h>

// Tests the choice of a queue pair's address on a RoCE device with several addresses.

using namespace test;
using asio::ip::make_address;

namespace {

std::string address_of(const rdma::endpoint_description& description)
{
  const asio::ip::address_v6 v6(description.gid);
  return v6.is_v4_mapped() ? asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_string()
                           : v6.to_string();
}

error_code endpoint_error(rdma::queue_pair& pair, const char* address)
{
  try
  {
    (void)pair.local_endpoint(make_address(address));
  }
  catch (const rdma::system_error& e)
  {
    return e.code();
  }
  return {};
}

/// Further addresses; nodad makes the IPv6 address usable at once.
struct more_addresses
{
  more_addresses()
  {
    shell("ip addr add 10.0.0.9/24 dev veth0 && ip -6 addr add fd00::1/64 dev veth0 nodad");
  }
  afterwards gone{"ip addr del 10.0.0.9/24 dev veth0; ip -6 addr del fd00::1/64 dev veth0"};
};

std::string link_local()
{
  for (const auto& each : make_context().default_device().addresses())
    if (each.is_v6() && each.to_v6().is_link_local())
      return each.to_string();
  return {};
}

/// Connects by TCP to this address and sends a message.
void connect_by(asio::ip::address address, const rdma::queue_pair_options& options = {})
{
  CAPTURE(address.to_string());
  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  rdma::acceptor_options accepting;
  accepting.queue_pair = options;
  rdma::acceptor acceptor(io, far_context, {address, 0}, accepting);
  rdma::queue_pair near(io, near_context, options);
  rdma::queue_pair far(io.get_executor(), nullptr);
  plain_record connected;
  plain_record accepted;
  acceptor.async_accept(
    [&](error_code ec, rdma::queue_pair peer)
    {
      far = std::move(peer);
      accepted.handler()(ec);
    });
  near.async_connect(acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  CHECK(near.transport().device == device_name()); // there was no fall-back
  REQUIRE(run_until(io, [&] { return accepted.done(); }));
  rdma::registered_buffer from = buffer_of(near_context, "hello");
  rdma::registered_buffer to = far_context.allocate(5);
  bytes_record sent;
  bytes_record received;
  far.async_receive(to, received.handler());
  near.async_send(from, sent.handler());
  REQUIRE(run_until(io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(text_of(to) == "hello");
}

} // namespace

TEST_CASE("each address of the interface has its own GID and carries messages")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  more_addresses more;
  const std::string local = link_local();
  REQUIRE_FALSE(local.empty());
  for (const std::string& each :
    {std::string("10.0.0.1"), std::string("10.0.0.9"), std::string("fd00::1"), local})
  {
    CAPTURE(each);
    asio::io_context io;
    rdma::context context = make_context();
    rdma::queue_pair a(io, context);
    rdma::queue_pair b(io, context);
    const auto of_a = a.local_endpoint(make_address(each));
    const auto of_b = b.local_endpoint(make_address(each));
    CHECK(address_of(of_a) == each);
    a.connect(of_b);
    b.connect(of_a);
    rdma::registered_buffer from = buffer_of(context, "hello");
    rdma::registered_buffer to = context.allocate(5);
    bytes_record sent;
    bytes_record received;
    b.async_receive(to, received.handler());
    a.async_send(from, sent.handler());
    REQUIRE(run_until(io, [&] { return sent.done() && received.done(); }));
    CHECK(sent.ec == error_code());
    CHECK(text_of(to) == "hello");
  }
}

TEST_CASE("async_connect over TCP uses the GID of the address in use")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  more_addresses more;
  connect_by(make_address("10.0.0.1"));
  connect_by(make_address("10.0.0.9"));
  connect_by(make_address("fd00::1"));
  connect_by(make_address("127.0.0.1"));
  connect_by(make_address("::1"));
  asio::ip::address_v6 local = make_address(link_local()).to_v6();
  local.scope_id(::if_nametoindex("veth0"));
  connect_by(local);
}

TEST_CASE("addresses are looked up when they are needed, not when the device is opened")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair pair(io, context);
  CHECK(endpoint_error(pair, "10.0.0.9") == rdma::error::no_local_gid);
  {
    more_addresses more;
    CHECK(address_of(pair.local_endpoint(make_address("10.0.0.9"))) == "10.0.0.9");
    const auto all = context.default_device().addresses();
    CHECK(std::find(all.begin(), all.end(), make_address("fd00::1")) != all.end());
  }
  CHECK(endpoint_error(pair, "10.0.0.9") == rdma::error::no_local_gid);
}

TEST_CASE("async_connect fails for an address of another interface unless local_address is set")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  shell("ip addr show dev veth1 | grep -q 10.0.1.1/24 || ip addr add 10.0.1.1/24 dev veth1");
  asio::io_context io;
  rdma::context context = make_context();
  rdma::acceptor acceptor(io, context, {make_address("10.0.1.1"), 0});
  rdma::queue_pair_options no_software;
  no_software.fall_back = false;
  rdma::queue_pair pair(io, context, no_software);
  plain_record connected;
  pair.async_connect(acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  CHECK(connected.ec == rdma::error::no_local_gid);
  const std::string text = pair.diagnose().text();
  CAPTURE(text);
  for (const char* part : {"rxe0", "10.0.1.1", "10.0.0.1", "local_address"})
    CHECK(text.find(part) != std::string::npos);

  rdma::queue_pair_options options;
  options.local_address = make_address("10.0.0.1");
  connect_by(make_address("10.0.1.1"), options);
}

TEST_CASE("connect fails with other_address_family when the GIDs are of two address families")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  more_addresses more;
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair a(io, context);
  rdma::queue_pair b(io, context);
  (void)a.local_endpoint(make_address("10.0.0.1"));
  const auto of_b = b.local_endpoint(make_address("fd00::1"));
  error_code ec;
  a.connect(of_b, ec);
  CHECK(ec == rdma::error::other_address_family);
}

TEST_CASE("the path MTU follows the MTU of the interface")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair before(io, context);
  CHECK(before.local_endpoint().path_mtu == 1024);
  afterwards back("ip link set veth0 mtu 1500");
  shell("ip link set veth0 mtu 9000");
  rdma::queue_pair after(io, context);
  CHECK(after.local_endpoint().path_mtu == 4096);
}
