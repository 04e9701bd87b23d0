//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/cm/acceptor.hpp>
#include <boost_rdma/cm/connect.hpp>

namespace {

using namespace test;

rdma::context software_context()
{
  rdma::context_options options;
  options.device = "soft0";
  return rdma::context(options);
}

} // namespace

TEST_CASE("RDMA-CM functions fail with no_connection_manager on the software device")
{
  asio::io_context io;
  const rdma::context context = software_context();
  const asio::ip::tcp::endpoint somewhere(asio::ip::address_v4::loopback(), 7471);

  rdma::queue_pair peer(io, context);
  record<rdma::cm::private_data> connected;
  rdma::cm::async_connect(peer, somewhere, connected.handler());
  CHECK_FALSE(connected.done());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  CHECK(connected.ec == rdma::error::no_connection_manager);
  CHECK(rdma::likely_cause(connected.ec).find("software device") != std::string::npos);

  // The queue pair is still usable.
  rdma::queue_pair other(io, context);
  connect(peer, other);
  CHECK(peer.is_connected());

  error_code ec;
  rdma::cm::acceptor acceptor(io, context, somewhere, {}, ec);
  CHECK(ec == rdma::error::no_connection_manager);
  CHECK_FALSE(acceptor.is_open());
  CHECK_THROWS_AS(rdma::cm::acceptor(io, context, somewhere), rdma::system_error);

  bool called = false;
  acceptor.async_accept(
    [&](error_code result, rdma::queue_pair)
    {
      called = true;
      CHECK(result == rdma::error::closed);
    });
  REQUIRE(run_until(io, [&] { return called; }));
}
