//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <algorithm>
#include <deque>
#include <future>
#include <optional>
#include <string>
#include <thread>

// Tests handshakes while others are unfinished or the server is busy, and their limits.

using namespace test;
using namespace std::chrono_literals;

TEST_CASE("async_connect completes while no thread runs the io_context of the server")
{
  asio::io_context server_io;
  rdma::context server_context = make_context();
  rdma::completion_queue_options manual;
  manual.mode = rdma::completion_mode::manual;
  rdma::acceptor_options options;
  options.queue_pair.completions.emplace(server_io, server_context, manual);
  rdma::acceptor acceptor(server_io, server_context, loopback(), options);
  connect_fixture::accepted accepted;
  acceptor.async_accept(accepted.handler());
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair client(io, context);
  plain_record connected;
  client.async_connect(acceptor.local_endpoint(), connected.handler());
  // No thread runs the server's io_context.
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  CHECK(connected.ec == error_code());
  REQUIRE(run_until(server_io, [&] { return accepted.calls != 0; }));
  CHECK(accepted.ec == error_code());
}

TEST_CASE("a handler that blocks longer than confirm_timeout delays no client")
{
  asio::io_context server_io;
  rdma::context server_context = make_context();
  rdma::acceptor_options options;
  options.queue_pair.confirm_timeout = 200ms;
  rdma::acceptor acceptor(server_io, server_context, loopback(), options);
  connect_fixture::accepted first, second;
  acceptor.async_accept(first.handler());
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair early(io, context);
  plain_record connected;
  early.async_connect(acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(io, server_io, [&] { return connected.done() && first.calls != 0; }));
  REQUIRE(!first.ec);
  acceptor.async_accept(second.handler());
  rdma::registered_buffer room = server_context.allocate(8);
  std::promise<void> computes;
  std::promise<void> enough;
  first.peer->async_receive(room,
    [&](error_code, std::size_t)
    {
      computes.set_value();
      enough.get_future().wait(); // blocks while further completions are pending
    });
  server_io.restart();
  std::jthread server(
    [&]
    {
      while (second.calls == 0)
        server_io.run_one();
    });
  rdma::registered_buffer text = buffer_of(context, "go");
  bytes_record sent;
  early.async_send(text, sent.handler());
  computes.get_future().wait();
  rdma::queue_pair late(io, context);
  plain_record served;
  late.async_connect(acceptor.local_endpoint(), served.handler());
  CHECK(run_until(io, [&] { return served.done(); }));
  CHECK(served.ec == error_code());
  enough.set_value();
  server.join();
  CHECK(second.ec == error_code());
}

TEST_CASE("clients beyond handshakes_max wait and all are served")
{
  constexpr int count = 40;
  rdma::acceptor_options options;
  options.handshakes_max = 4;
  options.handshakes_per_address_max = GENERATE(0, 1, 64);
  connect_fixture f(options);
  std::deque<connect_fixture::accepted> servers(count);
  std::deque<rdma::queue_pair> clients;
  std::deque<plain_record> connected(count);
  for (auto& each : servers)
    f.acceptor.async_accept(each.handler());
  for (plain_record& each : connected)
    clients.emplace_back(f.io, f.client_context)
      .async_connect(f.acceptor.local_endpoint(), each.handler());
  REQUIRE(run_until(f.io,
    [&]
    {
      return std::all_of(
               connected.begin(), connected.end(), [](const auto& each) { return each.done(); })
        && std::all_of(
          servers.begin(), servers.end(), [](const auto& each) { return each.calls != 0; });
    }));
  for (const plain_record& each : connected)
    CHECK(each.ec == error_code());
  for (const auto& each : servers)
    CHECK(each.ec == error_code());
}

TEST_CASE("a server that accepts one client after the other loses none of those that wait")
{
  constexpr int count = 20;
  rdma::acceptor_options options;
  options.handshakes_max = 4;
  connect_fixture f(options);
  std::deque<rdma::queue_pair> clients;
  std::deque<plain_record> connected(count);
  for (plain_record& each : connected)
    clients.emplace_back(f.io, f.client_context)
      .async_connect(f.acceptor.local_endpoint(), each.handler());
  std::deque<connect_fixture::accepted> servers(count);
  for (auto& each : servers)
  {
    f.acceptor.async_accept(each.handler());
    REQUIRE(run_until(f.io, [&] { return each.calls != 0; }));
    CHECK(each.ec == error_code());
  }
  REQUIRE(run_until(f.io,
    [&]
    {
      return std::all_of(
        connected.begin(), connected.end(), [](const auto& each) { return each.done(); });
    }));
  for (const plain_record& each : connected)
    CHECK(each.ec == error_code());
}

/// Connects clients that send a valid request and then nothing.
std::deque<plain_peer> silent_clients(
  connect_fixture& f, rdma::queue_pair& described, int count, const char* from)
{
  const std::string request = good_request(described.local_endpoint());
  std::deque<plain_peer> made;
  for (int i = 0; i != count; ++i)
  {
    made.push_back(
      plain_peer::connect(f.io, f.acceptor.local_endpoint(), asio::ip::make_address(from)));
    made.back().send(request);
  }
  return made;
}

TEST_CASE("clients that send a valid request and then nothing do not keep others out")
{
  rdma::acceptor_options options;
  options.handshakes_max = 8;
  options.handshake_timeout = 10min; // which no client waits for
  connect_fixture f(options);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair described(f.io, f.client_context);
  const char* const from = GENERATE("127.0.0.2", "127.0.0.1");
  CAPTURE(from);
  const std::deque<plain_peer> silent = silent_clients(f, described, 40, from);
  CHECK(f.serves_a_good_client(server));
  CHECK(f.serves_a_good_client());
}

TEST_CASE("a client of an address at its handshake limit waits until a silent one loses its place")
{
  rdma::acceptor_options options;
  options.handshakes_per_address_max = 2;
  options.handshake_timeout = 10min;
  connect_fixture f(options);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair slow(f.io, f.client_context);
  plain_peer of_another_address =
    std::move(silent_clients(f, slow, 1, "127.0.0.3").front()); // it is the oldest
  const std::string answer = of_another_address.read_header();
  rdma::queue_pair described(f.io, f.client_context);
  std::deque<plain_peer> clients = silent_clients(f, described, 3, "127.0.0.2");
  for (plain_peer& each : clients)
    CHECK(each.read_header().starts_with("HTTP/1.1 101"));
  CHECK(clients.front().read_end());
  CHECK(confirm_as_client(of_another_address, slow, answer));
  REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
  CHECK(server.ec == error_code());
  CHECK(f.serves_a_good_client());
}

TEST_CASE("a client beyond handshakes_max waits until the oldest silent one loses its place")
{
  rdma::acceptor_options options;
  options.handshakes_max = 2;
  options.handshake_timeout = 10min;
  connect_fixture f(options);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair described(f.io, f.client_context);
  std::deque<plain_peer> clients;
  for (const char* from : {"127.0.0.2", "127.0.0.3", "127.0.0.4"})
  {
    clients.push_back(std::move(silent_clients(f, described, 1, from).front()));
    CHECK(clients.back().read_header().starts_with("HTTP/1.1 101"));
  }
  CHECK(clients.front().read_end());
  CHECK(f.serves_a_good_client(server));
}

TEST_CASE("a client overtakes those of an address at its handshake limit")
{
  const auto crowded = asio::ip::make_address("127.0.0.2");
  std::optional<rdma::authorisation_handler> kept;
  rdma::acceptor_options options;
  options.handshakes_per_address_max = 1;
  options.handshake_timeout = 10min;
  // A handshake that waits for this decision keeps its place.
  options.authorise = [&](rdma::client_request request, rdma::authorisation_handler handler)
  {
    if (request.remote_endpoint().address() == crowded)
      kept.emplace(std::move(handler));
    else
      std::move(handler)(rdma::authorisation::accept());
  };
  connect_fixture f(options);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair described(f.io, f.client_context);
  const std::deque<plain_peer> silent = silent_clients(f, described, 2, "127.0.0.2");
  CHECK(f.serves_a_good_client(server));
  CHECK(kept.has_value());
  kept.reset();
}

TEST_CASE("a waiting client of an address that wastes its places leaves when too many wait")
{
  rdma::acceptor_options options;
  options.handshakes_max = 2; // and one of each address
  options.handshake_timeout = 10min;
  connect_fixture f(options);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair described(f.io, f.client_context);
  // When the first one loses its place, the second one gets it. Then the third and fourth wait.
  std::deque<plain_peer> clients = silent_clients(f, described, 4, "127.0.0.2");
  CHECK(clients[0].read_header().starts_with("HTTP/1.1 101"));
  CHECK(clients[1].read_header().starts_with("HTTP/1.1 101"));
  CHECK(clients[2].read_header().empty());
  CHECK(f.serves_a_good_client(server));
}

TEST_CASE("clients connect while others keep sending valid requests and then nothing")
{
  connect_fixture f; // with default limits
  rdma::queue_pair described(f.io, f.client_context);
  const char* const from = GENERATE("127.0.0.2", "127.0.0.1");
  // The acceptor disconnects waiting clients of an address that wastes its places. It cannot
  // distinguish an honest one, which must try again.
  const bool may_be_disconnected = from == std::string("127.0.0.1");
  CAPTURE(from);
  std::deque<plain_peer> silent = silent_clients(f, described, 100, from);
  constexpr std::size_t silent_max = 400; // descriptors
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  std::optional<rdma::queue_pair> client;
  plain_record connected;
  const auto attempt = [&]
  {
    connected = {};
    client.emplace(f.io, f.client_context);
    client->async_connect(f.acceptor.local_endpoint(), connected.handler());
  };
  attempt();
  CHECK(until(
    [&]
    {
      silent.push_back(std::move(silent_clients(f, described, 1, from).front()));
      if (silent.size() > silent_max)
        silent.pop_front();
      f.io.restart();
      f.io.run_for(5ms); // for 200 silent clients a second, at most
      if (may_be_disconnected && connected.ec)
        attempt();
      return connected.done() && (server.calls != 0 || connected.ec);
    }));
  CHECK(connected.ec == error_code());
  CHECK(server.ec == error_code());
}
