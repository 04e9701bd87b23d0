//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/faults.hpp"
#include "software/rpc_fixture.hpp"

#include <chrono>
#include <optional>
#include <string>

// Calls of methods without memory for some step.

using namespace test;

namespace {

/// A server, and the client of a round.
struct rpc_round
{
  rpc_round()
  {
    server.handle<add>([](const numbers& n) { return n.a + n.b; });
    server.start();
  }

  void run(faulty_round& round)
  {
    if (!faulty_round::make([&] { client.emplace(io, near_context, by_rdma()); }))
      return;
    const auto& connected =
      round.start([&](auto handler) { client->async_connect(server.local_endpoint(), handler); });
    round.await(connected);
    if (!connected.succeeded())
      return;
    round.await(round.start(
      [&](auto handler) {
        client->async_call<add>({1, 2}, {.timeout = std::chrono::seconds(1)}, handler);
      },
      [](std::int32_t sum) { CHECK(sum == 3); }));
  }

  [[nodiscard]] bool serves_next()
  {
    rdma::rpc::client next(io, near_context, by_rdma());
    plain_record connected;
    next.async_connect(server.local_endpoint(), connected.handler());
    if (!run_until(io, [&] { return connected.done(); }) || connected.ec)
      return false;
    record<std::int32_t> called;
    next.async_call<add>({1, 2}, called.handler());
    return run_until(io, [&] { return called.done(); }) && !called.ec && called.value() == 3;
  }

  static rdma::rpc::client_options by_rdma() { return client_by(rdma::stream_transports::rdma); }

  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  rdma::rpc::server server{io, far_context, {asio::ip::address_v4::loopback(), 0},
    served_by(rdma::stream_transports::rdma)};
  std::optional<rdma::rpc::client> client;
};

} // namespace

TEST_CASE("calls of methods while allocations fail end once")
{
  rpc_round f;
  with_failing_allocations(
    f.io, [&](faulty_round& round) { f.run(round); }, [&] { f.client.reset(); },
    [&] { return f.serves_next(); }, true);
}
