//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/in_child.hpp"
#include "software/cm_fixture.hpp"
#include "software/connect_fixture.hpp"
#include "software/faults.hpp"
#include "software/next_client.hpp"

#include <boost_rdma/stream.hpp>
#include <boost_rdma/stream_acceptor.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
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
    const auto& closed = round.start([&](auto handler) { server->async_wait_close(handler); });
    const auto& shut = round.start([&](auto handler) { client->async_shutdown(handler); });
    round.await(shut);
    if (shut.succeeded())
      round.await(closed);
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

/// Connects two peers and a client that sends nothing, and destroys their io_context without
/// memory. Handlers own the peers and the acceptor. Returns an error text.
template <class Acceptor, class Peer, class Connect, class Wait>
[[nodiscard]] std::string end_without_memory(Connect connect, Wait wait)
{
  const auto alive = std::make_shared<int>();
  rdma::context context = make_context();
  asio::io_context outside;
  tcp::socket silent(outside);
  std::optional<asio::io_context> io(std::in_place);
  auto acceptor = std::make_shared<Acceptor>(*io, context, tcp::endpoint(device_address(), 0));
  if constexpr (!std::is_same_v<Acceptor, rdma::cm::acceptor>)
    silent.connect(acceptor->local_endpoint());
  auto client = std::make_shared<Peer>(*io, context);
  std::shared_ptr<Peer> server;
  std::optional<error_code> connected;
  acceptor->async_accept(
    [&](error_code ec, Peer made)
    {
      if (!ec)
        server = std::make_shared<Peer>(std::move(made));
    });
  connect(*client, acceptor->local_endpoint(), [&](error_code ec, auto&&...) { connected = ec; });
  if (!run_until(*io, [&] { return server && connected; }) || *connected)
    return "not connected";
  for (auto* peer : {&client, &server})
  {
    Peer& waits = **peer;
    wait(waits, [kept = std::exchange(*peer, nullptr), alive](error_code, std::size_t) {});
  }
  Acceptor& accepts = *acceptor;
  accepts.async_accept([kept = std::exchange(acceptor, nullptr), alive](error_code, Peer) {});
  failing_allocations failures(0, true);
  io.reset();
  failures.stop();
  return alive.use_count() == 1 ? "" : "a handler is left";
}

} // namespace

TEST_CASE("an io_context with connections can be destroyed without memory")
{
  BOOST_RDMA_TEST_FORKS();
  BOOST_RDMA_TEST_NEEDS(software_device); // rdma-core ends the process at some places
  const auto connect = [](auto& client, const tcp::endpoint& to, auto handler)
  { client.async_connect(to, handler); };
  const auto receive = [](rdma::queue_pair& peer, auto handler)
  { peer.async_receive(rdma::mutable_buffer(), std::move(handler)); };
  SECTION("of queue pairs")
  {
    CHECK(in_child(
            [&] { return end_without_memory<rdma::acceptor, rdma::queue_pair>(connect, receive); })
      == "");
  }
  SECTION("of streams")
  {
    char byte = 0;
    CHECK(in_child(
            [&]
            {
              return end_without_memory<rdma::stream_acceptor, rdma::stream>(connect,
                [&](rdma::stream& peer, auto handler)
                { peer.async_read_some(asio::buffer(&byte, 1), std::move(handler)); });
            })
      == "");
  }
  SECTION("of queue pairs, by RDMA-CM")
  {
    CHECK(in_child(
            [&]
            {
              return end_without_memory<rdma::cm::acceptor, rdma::queue_pair>(
                [](rdma::queue_pair& client, const tcp::endpoint& to, auto handler)
                { rdma::cm::async_connect(client, to, rdma::cm::connect_options(), handler); },
                receive);
            })
      == "");
  }
}

TEST_CASE("queue pairs that connect while allocations fail end each operation once")
{
  with_failing_allocations<connecting>();
}

TEST_CASE("queue pairs that connect while system calls fail end each operation once")
{
  with_failing_calls<connecting>();
}
