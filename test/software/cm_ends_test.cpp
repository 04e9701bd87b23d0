//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/cm_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <memory>

// Tests operations of RDMA-CM that are cancelled, closed or destroyed.

using namespace test;

TEST_CASE("connect and accept by RDMA-CM support cancellation")
{
  const auto type = GENERATE(asio::cancellation_type::terminal, asio::cancellation_type::partial,
    asio::cancellation_type::total);
  cm_fixture f;
  asio::cancellation_signal signal;
  SECTION("a connect whose listener does not answer")
  {
    request_record asked;
    data_record connected;
    f.acceptor.async_get_request(asked.handler());
    cm::async_connect(f.client, f.acceptor.local_endpoint(),
      asio::bind_cancellation_slot(signal.slot(), connected.handler()));
    REQUIRE(run_until(f.io, [&] { return asked.done(); }));
    CHECK_FALSE(connected.done());
    signal.emit(type);
    REQUIRE(run_until(f.io, [&] { return connected.done(); }));
    CHECK(connected.ec == asio::error::operation_aborted);
  }
  SECTION("an accept, without losing a client")
  {
    accept_record accepted;
    accept_record next;
    data_record connected;
    f.acceptor.async_accept(asio::bind_cancellation_slot(signal.slot(), accepted.handler()));
    signal.emit(type);
    REQUIRE(run_until(f.io, [&] { return accepted.done(); }));
    CHECK(accepted.ec == asio::error::operation_aborted);
    cm::async_connect(f.client, f.acceptor.local_endpoint(), connected.handler());
    f.acceptor.async_accept(next.handler());
    REQUIRE(run_until(f.io, [&] { return next.done() && connected.done(); }));
    CHECK(next.ec == error_code());
  }
  SECTION("a wait for a request")
  {
    request_record asked;
    f.acceptor.async_get_request(asio::bind_cancellation_slot(signal.slot(), asked.handler()));
    signal.emit(type);
    REQUIRE(run_until(f.io, [&] { return asked.done(); }));
    CHECK(asked.ec == asio::error::operation_aborted);
    CHECK_FALSE(asked.object->is_open());
  }
}

TEST_CASE("closing an acceptor of RDMA-CM ends its pending operations")
{
  cm_fixture f;
  accept_record accepted;
  request_record asked;
  accept_record late;
  f.acceptor.async_accept(accepted.handler());
  f.acceptor.async_get_request(asked.handler());
  const bool cancelled_only = GENERATE(true, false);
  if (cancelled_only)
    f.acceptor.cancel();
  else
    f.acceptor.close();
  CHECK_FALSE(accepted.done()); // handlers are never called inside close() or cancel()
  REQUIRE(run_until(f.io, [&] { return accepted.done() && asked.done(); }));
  CHECK(accepted.ec == asio::error::operation_aborted);
  CHECK(asked.ec == asio::error::operation_aborted);
  CHECK(f.acceptor.is_open() == cancelled_only);
  if (!cancelled_only)
  {
    f.acceptor.async_accept(late.handler());
    REQUIRE(run_until(f.io, [&] { return late.done(); }));
    CHECK(late.ec == error::closed);
  }
}

TEST_CASE("pending operations of RDMA-CM are destroyed with their io_context")
{
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = alive;
  {
    cm_fixture f;
    request_record asked;
    std::optional<rdma::queue_pair> second;
    f.connect();
    f.acceptor.async_get_request(asked.handler());
    second.emplace(f.io, f.client_context);
    cm::async_connect(*second, f.acceptor.local_endpoint(),
      [alive](error_code, const cm::private_data&) { FAIL("must not be called"); });
    REQUIRE(run_until(f.io, [&] { return asked.done(); }));
    f.acceptor.async_accept([alive](error_code, rdma::queue_pair) { FAIL("must not be called"); });
    alive.reset();
    if (GENERATE(true, false))
    {
      asked.object.reset(); // its handler is queued when everything is destroyed
      second.reset();
    }
  }
  CHECK(watch.expired());
}

TEST_CASE("a queued request of RDMA-CM is destroyed with its io_context")
{
  asio::io_context client_io;
  {
    cm_fixture f;
    f.acceptor.async_get_request(
      [](error_code, cm::connection_request) { FAIL("must not be called"); });
    rdma::queue_pair_options options;
    options.connect_timeout = std::chrono::milliseconds(300);
    rdma::queue_pair client(client_io, f.client_context, options);
    data_record connected;
    cm::async_connect(client, f.acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(client_io, [&] { return connected.done(); }));
    CHECK(connected.ec == error::handshake_timeout);
    // The request has been queued for the handler for a while, but nothing runs f.io.
  }
}
