//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/cm_fixture.hpp"
#include "vm/device_machine.hpp"

namespace {

using namespace test;

// A client on one device of a context.
struct device_client
{
  device_client(asio::io_context& io, const rdma::context& context, const std::string& device)
    : peer(io, context, options_of(device))
  {
  }

  static rdma::queue_pair_options options_of(const std::string& device)
  {
    rdma::queue_pair_options options;
    options.device = device;
    return options;
  }

  rdma::queue_pair peer;
  data_record connected;
};

// Returns the device of the queue pair that the acceptor makes for a client of `device`.
std::string accepted_device(asio::io_context& io, const rdma::context& context,
  cm::acceptor& acceptor, const std::string& device, const asio::ip::address& address)
{
  device_client client(io, context, device);
  accept_record accepted;
  acceptor.async_accept(accepted.handler());
  cm::async_connect(
    client.peer, {address, acceptor.local_endpoint().port()}, client.connected.handler());
  REQUIRE(run_until(io,
    [&]
    {
      return (accepted.done() && client.connected.done())
        || (client.connected.done() && client.connected.ec);
    }));
  REQUIRE(client.connected.ec == error_code());
  REQUIRE(accepted.ec == error_code());
  CHECK(client.peer.transport().device == device);
  return accepted.object->transport().device;
}

} // namespace

TEST_CASE(
  "an acceptor of RDMA-CM on all addresses serves clients of the NIC and the software device")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  asio::io_context io;
  const rdma::context server_context = make_context();
  const rdma::context client_context = make_context();
  cm::acceptor acceptor(io, server_context, tcp::endpoint(tcp::v4(), 0));
  const auto loopback = asio::ip::make_address(software_device.address);
  CHECK(accepted_device(io, client_context, acceptor, "rxe0", device_address()) == "rxe0");
  CHECK(accepted_device(io, client_context, acceptor, "soft0", loopback) == "soft0");

  const tcp::endpoint port = acceptor.local_endpoint();
  acceptor.close();
  for (const char* device : {"rxe0", "soft0"})
  {
    device_client client(io, client_context, device);
    cm::async_connect(client.peer,
      {std::string(device) == "rxe0" ? device_address() : loopback, port.port()},
      client.connected.handler());
    REQUIRE(run_until(io, [&] { return client.connected.done(); }));
    CHECK(client.connected.ec == asio::error::connection_refused);
  }
}

TEST_CASE("an acceptor of RDMA-CM whose device is named listens on that device only")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  asio::io_context io;
  const rdma::context context = make_context();
  cm::acceptor_options options;
  options.queue_pair.device = "rxe0";
  cm::acceptor acceptor(io, context, tcp::endpoint(tcp::v4(), 0), options);
  CHECK(accepted_device(io, context, acceptor, "rxe0", device_address()) == "rxe0");
  device_client client(io, context, "soft0");
  cm::async_connect(client.peer,
    {asio::ip::make_address(software_device.address), acceptor.local_endpoint().port()},
    client.connected.handler());
  REQUIRE(run_until(io, [&] { return client.connected.done(); }));
  CHECK(client.connected.ec == asio::error::connection_refused);
}
