//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/connect_fixture.hpp"
#include "software/faults.hpp"
#include "software/next_client.hpp"

#include <chrono>
#include <optional>
#include <utility>

// Connecting and accepting while some step fails.

using namespace test;

namespace {

/// An acceptor, and the queue pairs of a round.
struct connecting : connect_fixture
{
  void run(faulty_round& round)
  {
    if (!round.make([&] { client.emplace(io, client_context, faulty_round_options()); }))
      return;
    const auto& accept = round.start([&](auto handler) { acceptor.async_accept(handler); },
      [&](rdma::queue_pair made) { server.emplace(std::move(made)); });
    if (!accept.is_started)
      return;
    const auto& connected =
      round.start([&](auto handler) { client->async_connect(acceptor.local_endpoint(), handler); });
    round.await(connected);
    if (!connected.succeeded() || !server)
      return; // the acceptor has lost this client and waits for the next
    const auto& received_it =
      round.start([&](auto handler) { server->async_receive(received, handler); });
    const auto& send = round.start([&](auto handler) { client->async_send(sent, handler); });
    round.await(send);
    if (send.succeeded())
      round.await(received_it);
  }

  void end()
  {
    acceptor.cancel();
    server.reset();
    client.reset();
  }

  [[nodiscard]] bool serves_next()
  {
    plain_record connected;
    return next_client(*this, connected)
      .is_served([&](rdma::queue_pair& next)
        { next.async_connect(acceptor.local_endpoint(), connected.handler()); });
  }

  std::optional<rdma::queue_pair> server;
  std::optional<rdma::queue_pair> client;
  const rdma::registered_buffer sent = buffer_of(client_context, "hello");
  const rdma::registered_buffer received = server_context.allocate(64);
};

} // namespace

TEST_CASE("queue pairs that connect while allocations fail end each operation once")
{
  with_failing_allocations<connecting>();
}

TEST_CASE("queue pairs that connect while system calls fail end each operation once")
{
  with_failing_calls<connecting>();
}
