//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/cm_fixture.hpp"
#include "software/faults.hpp"
#include "software/next_client.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <optional>
#include <utility>

// Connecting by RDMA-CM while some step fails.

using namespace test;

namespace {

/// An acceptor, and the queue pairs of a round.
struct connecting_by_cm
{
  void run(faulty_round& round)
  {
    if (!round.make(
          [&]
          {
            client.emplace(io, client_context, faulty_round_options());
            server.emplace(io, server_context, faulty_round_options());
          }))
      return;
    const auto& receive =
      round.start([&](auto handler) { server->async_receive(received, handler); });
    const auto& asked = round.start([&](auto handler) { acceptor.async_get_request(handler); },
      [&](cm::connection_request made)
      {
        request.emplace(std::move(made));
        asio::post(io, [&] { accept(round); }); // faults spare this handler, not what it posts
      });
    if (!receive.is_started || !asked.is_started)
      return;
    const auto& connected = round.start([&](auto handler)
      { cm::async_connect(*client, acceptor.local_endpoint(), cm::connect_options(), handler); });
    round.await(connected);
    if (!connected.succeeded())
      return;
    const auto& send = round.start([&](auto handler) { client->async_send(sent, handler); });
    round.await(send);
    if (send.succeeded())
      round.await(receive);
  }

  void accept(faulty_round& round)
  {
    round.start([&](auto handler) { request->async_accept(*server, cm::private_data(), handler); });
  }

  void end()
  {
    io.restart();
    io.poll(); // what is posted belongs to this round
    acceptor.cancel();
    request.reset();
    server.reset();
    client.reset();
  }

  [[nodiscard]] bool serves_next()
  {
    data_record connected;
    return next_client(*this, connected)
      .is_served([&](rdma::queue_pair& next)
        { cm::async_connect(next, acceptor.local_endpoint(), connected.handler()); });
  }

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  cm::acceptor acceptor{io, server_context, tcp::endpoint(device_address(), 0)};
  std::optional<rdma::queue_pair> server;
  std::optional<rdma::queue_pair> client;
  std::optional<cm::connection_request> request;
  const rdma::registered_buffer sent = buffer_of(client_context, "hello");
  const rdma::registered_buffer received = server_context.allocate(64);
};

} // namespace

TEST_CASE("queue pairs that connect by RDMA-CM while allocations fail end each operation once")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // rdma-core ends the process at some places
  with_failing_allocations<connecting_by_cm>();
}

TEST_CASE("what RDMA-CM connects can be closed without memory")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const bool is_answered = GENERATE(true, false);
  connecting_by_cm f;
  faulty_round round(f.io, fault::allocation);
  f.client.emplace(f.io, f.client_context);
  f.server.emplace(f.io, f.server_context);
  const auto& asked = round.start([&](auto handler) { f.acceptor.async_get_request(handler); },
    [&](cm::connection_request made) { f.request.emplace(std::move(made)); });
  const auto& connected = round.start([&](auto handler)
    { cm::async_connect(*f.client, f.acceptor.local_endpoint(), cm::connect_options(), handler); });
  round.await(asked);
  plain_record ended;
  if (is_answered)
  {
    f.accept(round);
    round.await(connected);
    REQUIRE(connected.succeeded());
    f.client->async_wait_close(ended.handler());
  }
  const tcp::endpoint place = f.acceptor.local_endpoint();
  bool is_over = true;
  {
    const failing_allocations failures(0, true);
    f.acceptor.close();
    f.request.reset();
    f.server.reset();
    if (is_answered)
      is_over = until([&] { return !f.client->is_connected(); });
  }
  REQUIRE(is_over);
  if (is_answered)
  {
    REQUIRE(run_until(f.io, [&] { return ended.done(); }));
    CHECK(ended.ec == error::peer_closed);
  }
  round.check();
  CHECK((is_answered || connected.ec == error::refused));
  const auto is_free = [&]
  {
    cm::acceptor_options options;
    options.reuse_address = false;
    error_code ec;
    const cm::acceptor next(f.io, f.server_context, place, options, ec);
    asio::post(f.io, [] {}); // try again
    return !ec;
  };
  CHECK(run_until(f.io, is_free));
}

TEST_CASE("queue pairs that connect by RDMA-CM while system calls fail end each operation once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_calls<connecting_by_cm>();
}
