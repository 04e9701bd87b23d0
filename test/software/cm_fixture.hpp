//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_CM_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_CM_FIXTURE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/cm/acceptor.hpp>
#include <boost_rdma/cm/connect.hpp>

#include <boost/asio/ip/tcp.hpp>

#include <cstdlib>
#include <optional>
#include <utility>

namespace test {

using asio::ip::tcp;
using rdma::error;
namespace cm = rdma::cm;

/// A device with the address of its interface: the software device, or one in the machine of
/// tools/rdma_vm.
struct machine_device
{
  const char* name;
  const char* address;
};
inline constexpr machine_device software_device{"soft0", "127.0.0.1"};
inline constexpr machine_device machine_rxe{"rxe0", "10.0.0.1"};
inline constexpr machine_device machine_siw{"siw0", "10.0.1.1"};

/// Returns the address of the device's interface: BOOST_RDMA_TEST_ADDRESS, or the one above.
inline asio::ip::address device_address()
{
  if (const char* wanted = std::getenv("BOOST_RDMA_TEST_ADDRESS"); wanted != nullptr)
    return asio::ip::make_address(wanted);
  for (const machine_device& each : {software_device, machine_siw})
    if (device_name() == each.name)
      return asio::ip::make_address(each.address);
  return asio::ip::make_address(machine_rxe.address);
}

/// Returns the device of the machine that is not under test.
inline const machine_device& other_device()
{
  return device_name() == machine_siw.name ? machine_rxe : machine_siw;
}

using data_record = record<cm::private_data>;

/// Stores the result of an accept or of a wait for a request.
template <class Object>
struct object_record
{
  int calls = 0;
  error_code ec;
  std::optional<Object> object;

  auto handler()
  {
    return [this](error_code result, Object value)
    {
      ++calls;
      ec = result;
      object.emplace(std::move(value));
    };
  }
  [[nodiscard]] bool done() const { return calls != 0; }
};
using accept_record = object_record<rdma::queue_pair>;
using request_record = object_record<cm::connection_request>;

/// The data that two sides pass each other while they connect.
struct cm_exchange
{
  cm::private_data client_data;
  cm::private_data server_data;
  tcp::endpoint client_endpoint;
};

/// Connects client and server with this private data.
inline cm_exchange connect_by_cm(asio::io_context& io, cm::acceptor& acceptor,
  rdma::queue_pair& client, rdma::queue_pair& server, std::string_view from_client = {},
  std::string_view from_server = {})
{
  request_record asked;
  plain_record accepted;
  data_record connected;
  acceptor.async_get_request(asked.handler());
  cm::async_connect(client, acceptor.local_endpoint(),
    cm::connect_options{.data = cm::private_data(from_client), .source = {}}, connected.handler());
  REQUIRE(run_until(io, [&] { return asked.done() || connected.done(); }));
  REQUIRE(connected.ec == error_code());
  REQUIRE(asked.ec == error_code());
  cm_exchange told{asked.object->data(), {}, asked.object->remote_endpoint()};
  asked.object->async_accept(server, cm::private_data(from_server), accepted.handler());
  REQUIRE(run_until(io, [&] { return accepted.done() && connected.done(); }));
  REQUIRE(connected.ec == error_code());
  REQUIRE(accepted.ec == error_code());
  told.server_data = connected.value();
  return told;
}

/// An acceptor, a context for its clients, and a queue pair for each side.
struct cm_fixture : cm_exchange
{
  explicit cm_fixture(const cm::acceptor_options& options = {})
    : acceptor(io, server_context, tcp::endpoint(device_address(), 0), options)
  {
  }

  /// Connects client and server with this private data.
  void connect(std::string_view from_client = {}, std::string_view from_server = {})
  {
    static_cast<cm_exchange&>(*this) =
      connect_by_cm(io, acceptor, client, server, from_client, from_server);
  }

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  cm::acceptor acceptor;
  rdma::queue_pair server{io, server_context};
  rdma::queue_pair client{io, client_context};
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_CM_FIXTURE_HPP
