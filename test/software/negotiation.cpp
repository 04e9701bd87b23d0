//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <stdexcept>
#include <utility>

// Tests the handshake parameters of both sides and the negotiated result.

namespace {

using namespace test;
using namespace std::chrono_literals;
using rdma::detail::frame_type;
using rdma::detail::handshake_parameters;

// A NIC that does not exist on this host.
rdma::endpoint_description nic_endpoint()
{
  rdma::endpoint_description endpoint;
  endpoint.kind = rdma::device_kind::nic;
  endpoint.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7};
  endpoint.path_mtu = 1024;
  endpoint.wire = rdma::wire::roce_v2;
  endpoint.device = "mlx5_0";
  return endpoint;
}

std::string request_of(const handshake_parameters& self)
{
  error_code ec;
  return http_text(rdma::detail::make_upgrade_request("h", {}, self, ec));
}

/// A client with the test's options that connects to an acceptor.
struct attempt
{
  explicit attempt(connect_fixture& f, const rdma::queue_pair_options& options = {})
    : client(f.io, f.client_context, options)
  {
    f.acceptor.async_accept(server.handler());
  }
  void connect(connect_fixture& f, const rdma::connect_options& options = {})
  {
    client.async_connect(f.acceptor.local_endpoint(), options, connected.handler());
  }
  rdma::queue_pair client;
  connect_fixture::accepted server;
  plain_record connected;
};

} // namespace

TEST_CASE("both sides report the transport in use and why better ones are declined")
{
  connect_fixture f;
  attempt a(f);
  CHECK(a.client.transport().wire == rdma::wire::unknown);
  a.connect(f);
  REQUIRE(run_until(f.io, [&] { return a.connected.done() && a.server.calls != 0; }));
  REQUIRE(!a.connected.ec);
  attempt next(f);
  next.connect(f);
  REQUIRE(run_until(f.io, [&] { return next.connected.done() && next.server.calls != 0; }));
  REQUIRE(!next.connected.ec);
  for (const rdma::transport_choice& choice : {a.client.transport(), a.server.peer->transport(),
         next.client.transport(), next.server.peer->transport()})
  {
    INFO(choice.text());
    CHECK(choice.device == device_name());
    CHECK(choice.peer_device == device_name());
    CHECK(choice.path_mtu >= 256);
    CHECK(choice.read_atomic_depth > 0);
    CHECK(choice.timeout == rdma::queue_pair_options().timeout);
    CHECK(((choice.features & rdma::device_features::atomics) != 0) == has(feature::atomics));
    CHECK((choice.features & rdma::device_features::immediate_data) != 0);
    CHECK(choice.gid == choice.peer_gid); // both are on this host
    if (has(feature::software_device))
    {
      CHECK(choice.wire == rdma::wire::shared_memory);
      CHECK(names(choice, "RDMA NIC", "the software device alone"));
      CHECK_FALSE(names(choice, "shared memory", ""));
      CHECK(choice.text().find("shared memory, soft0 to soft0") == 0);
      CHECK(choice.text().find("regions is accessed directly, other memory is copied")
        != std::string::npos);
    }
    else
    {
      CHECK(choice.kind == rdma::device_kind::nic);
      CHECK(choice.wire == rdma::wire::roce_v2);
      CHECK(choice.declined.empty());
    }
  }
}

TEST_CASE("both sides report why they do not use shared memory")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  rdma::context_options by_tcp;
  by_tcp.software.wires = {"tcp"};
  const rdma::context restricted(by_tcp);
  connect_fixture f;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair client(f.io, restricted);
  plain_record connected;
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls != 0; }));
  REQUIRE(!connected.ec);
  CHECK(client.transport().wire == rdma::wire::tcp);
  CHECK(client.transport().text().find("directly") == std::string::npos);
  CHECK(names(client.transport(), "shared memory", "device_settings::wires"));
  CHECK(server.peer->transport().wire == rdma::wire::tcp);
  CHECK(names(server.peer->transport(), "shared memory", "the peer's device does not offer it"));
}

TEST_CASE("both sides receive the peer's depths, timers and retries and use the longer timeout")
{
  rdma::queue_pair_options at_client;
  at_client.send_depth = 33;
  at_client.receive_depth = 34;
  at_client.retry_count = 5;
  at_client.rnr_retry_count = 4;
  at_client.min_rnr_timer = 13;
  at_client.timeout = 15;
  at_client.read_atomic_depth = 3;
  rdma::acceptor_options options;
  rdma::queue_pair_options& at_server = options.queue_pair;
  at_server = at_client;
  at_server.send_depth = 43;
  at_server.receive_depth = 44;
  at_server.rnr_retry_count = 7;
  at_server.min_rnr_timer = 14;
  at_server.timeout = 16;
  at_server.read_atomic_depth = 5;
  connect_fixture f(options);
  attempt a(f, at_client);
  a.connect(f);
  REQUIRE(run_until(f.io, [&] { return a.connected.done() && a.server.calls != 0; }));
  REQUIRE(!a.connected.ec);
  const auto check =
    [](const rdma::transport_choice& choice, const rdma::queue_pair_options& of_peer)
  {
    CHECK(choice.peer_send_depth == of_peer.send_depth);
    CHECK(choice.peer_receive_depth == of_peer.receive_depth);
    CHECK(choice.peer_retry_count == of_peer.retry_count);
    CHECK(choice.peer_rnr_retry_count == of_peer.rnr_retry_count);
    CHECK(choice.peer_min_rnr_timer == of_peer.min_rnr_timer);
    CHECK(choice.timeout == 16);
    CHECK(choice.read_atomic_depth == 3);
  };
  check(a.client.transport(), at_server);
  check(a.server.peer->transport(), at_client);
}

TEST_CASE("async_connect fails and names an option that is out of range")
{
  connect_fixture f;
  rdma::queue_pair_options options;
  options.rnr_retry_count = 8;
  attempt a(f, options);
  a.connect(f);
  REQUIRE(run_until(f.io, [&] { return a.connected.done(); }));
  CHECK(a.connected.ec == asio::error::invalid_argument);
  CHECK(
    a.client.diagnose().reason.find("queue_pair_options::rnr_retry_count") != std::string::npos);
  CHECK(a.server.calls == 0);
}

TEST_CASE("an atomic fails with operation_not_supported when the peer's device has no atomics")
{
  need(feature::atomics);
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::queue_pair a(io, context), b(io, context);
  rdma::endpoint_description without = b.local_endpoint();
  CHECK((without.features & rdma::device_features::atomics) != 0);
  without.features &= ~rdma::device_features::atomics;
  b.connect(a.local_endpoint());
  a.connect(without);
  rdma::memory_region counter(context, 8, rdma::access::local_write | rdma::remote_access);
  value_record added;
  a.async_fetch_add(counter.remote(), 1, added.handler());
  REQUIRE(run_until(io, [&] { return added.done(); }));
  CHECK(added.ec == asio::error::operation_not_supported);
  CHECK(a.diagnose().reason.find("the peer's device has no atomics") != std::string::npos);
  bytes_record received, sent;
  auto to = context.allocate(5);
  b.async_receive(to, received.handler());
  a.async_send(buffer_of(context, "hello"), sent.handler());
  REQUIRE(run_until(io, [&] { return received.done() && sent.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(text_of(to) == "hello");
}

TEST_CASE("connect data is transferred in both directions and authorise decides by the request")
{
  rdma::acceptor_options options;
  options.target = "/cluster/rdma";
  std::string seen;
  options.authorise = [&](const rdma::client_request& request)
  {
    seen = std::string(request.target()) + '|'
      + std::string(request.field("authorization").value_or("none")) + '|'
      + std::string(request.data()) + '|' + request.remote_endpoint().address().to_string();
    if (request.field("Authorization") != "Bearer good")
      return rdma::authorisation::refuse(401, "a token, please");
    return rdma::authorisation::accept(std::string("welcome\0", 8));
  };
  connect_fixture f(options);
  rdma::connect_options wishes;
  wishes.target = "/cluster/rdma?shard=3";
  wishes.data = std::string("\0\xff hello", 8);
  {
    attempt unknown(f);
    unknown.connect(f, wishes);
    REQUIRE(run_until(f.io, [&] { return unknown.connected.done(); }));
    CHECK(unknown.connected.ec == error::refused);
    CHECK(unknown.client.diagnose().reason.find("a token, please") != std::string::npos);
    f.acceptor.cancel();
    REQUIRE(run_until(f.io, [&] { return unknown.server.calls != 0; }));
  }
  wishes.fields = {{"Authorization", "Bearer good"}};
  attempt known(f);
  known.connect(f, wishes);
  REQUIRE(run_until(f.io, [&] { return known.connected.done() && known.server.calls != 0; }));
  CHECK(known.connected.ec == error_code());
  CHECK(seen == "/cluster/rdma?shard=3|Bearer good|" + wishes.data + "|127.0.0.1");
  CHECK(known.server.peer->peer_data() == wishes.data);
  CHECK(known.client.peer_data() == std::string("welcome\0", 8));
  known.connected = {};
  wishes.target = "/elsewhere";
  rdma::queue_pair lost(f.io, f.client_context);
  f.acceptor.async_accept(known.server.handler());
  lost.async_connect(f.acceptor.local_endpoint(), wishes, known.connected.handler());
  REQUIRE(run_until(f.io, [&] { return known.connected.done(); }));
  CHECK(known.connected.ec == error::refused);
}

TEST_CASE("async_connect fails before sending when the request is invalid")
{
  connect_fixture f;
  attempt a(f);
  rdma::connect_options wishes;
  wishes.fields = {{"X", "two\r\nlines"}};
  a.connect(f, wishes);
  REQUIRE(run_until(f.io, [&] { return a.connected.done(); }));
  CHECK(a.connected.ec == asio::error::invalid_argument);
  CHECK(a.server.calls == 0);
}

TEST_CASE("a failing authorise callback refuses only its client")
{
  int calls = 0;
  rdma::acceptor_options options;
  options.authorise = [&](const rdma::client_request&) -> rdma::authorisation
  {
    switch (++calls)
    {
    case 1:
      throw std::runtime_error("no database");
    case 2:
      return rdma::authorisation::refuse(200);
    case 3:
      return rdma::authorisation::accept(
        std::string(rdma::connect_options::data_size_max + 1, 'x'));
    default:
      return rdma::authorisation::accept();
    }
  };
  connect_fixture f(options);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  for (int i = 0; i < 3; ++i)
  {
    rdma::queue_pair client(f.io, f.client_context);
    plain_record connected;
    client.async_connect(f.acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(f.io, [&] { return connected.done(); }));
    CHECK(connected.ec == error::refused);
  }
  CHECK(f.serves_a_good_client(server));
}

TEST_CASE("a server whose device is linked with the client's needs no confirmation")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  connect_fixture f;
  attempt first(f);
  first.connect(f);
  REQUIRE(run_until(f.io, [&] { return first.connected.done() && first.server.calls != 0; }));
  rdma::queue_pair next(f.io, f.client_context);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  // By the same address: there is a link for each pair of addresses.
  handshake_parameters self =
    handshake_parameters_of(next.local_endpoint(f.acceptor.local_endpoint().address()));
  plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  SECTION("if the client permits that")
  {
    self.confirms = false;
    peer.send(request_of(self));
    const std::string answer = peer.read_header();
    CHECK(answer.find("confirm=0") != std::string::npos);
    REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
    connect_as_client(next, endpoint_in(answer));
  }
  SECTION("but requests one if it does not")
  {
    peer.send(request_of(self));
    const std::string answer = peer.read_header();
    CHECK(answer.find("confirm=") == std::string::npos);
    REQUIRE(confirm_as_client(peer, next, answer));
    REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
  }
  REQUIRE(!server.ec);
  CHECK(server.peer->transport().wire == first.server.peer->transport().wire);
  rdma::registered_buffer out = f.client_context.allocate(1);
  rdma::registered_buffer in = f.server_context.allocate(1);
  bytes_record received;
  bytes_record sent;
  server.peer->async_receive(in, received.handler());
  next.async_send(out, sent.handler());
  REQUIRE(run_until(f.io, [&] { return sent.done() && received.done(); }));
  CHECK(!sent.ec);
  CHECK(!received.ec);
}

TEST_CASE("a client with a NIC falls back to the software device when the server has none")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  connect_fixture f;
  rdma::queue_pair software(f.io, f.client_context);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  handshake_parameters self = handshake_parameters_of(nic_endpoint());
  plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  SECTION("if the client allows fall-back")
  {
    self.falls_back = true;
    self.declined = {{"RoCE v1 on mlx5_0", "no such GID\x7f"}};
    peer.send(request_of(self));
    const std::string answer = peer.read_header();
    CHECK(answer.starts_with("HTTP/1.1 101"));
    CHECK(answer.find("software-next=1") != std::string::npos);
    CHECK(answer.find("Rdma-Declined: RDMA NIC: the context was opened for") != std::string::npos);
    CHECK(answer.find("Rdma-Endpoint") == std::string::npos);
    peer.send(rdma::detail::encode_frame(frame_type::endpoint, software.local_endpoint().text()));
    REQUIRE(peer.await(frame_type::endpoint));
    connect_as_client(software, rdma::endpoint_description::parse(peer.payload));
    peer.send(frame_type::confirmed);
    REQUIRE(peer.await(frame_type::confirmed));
    REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
    REQUIRE(!server.ec);
    const rdma::transport_choice choice = server.peer->transport();
    INFO(choice.text());
    CHECK(choice.wire == rdma::wire::shared_memory);
    CHECK(names(choice, "RDMA NIC", "the context was opened for the software device alone"));
    CHECK(names(choice, "RoCE v1 on mlx5_0", "the peer reports \"no such GID?\""));
  }
  SECTION("or if its request contains both endpoints")
  {
    self.endpoints.push_back(software.local_endpoint());
    peer.send(request_of(self));
    const std::string answer = peer.read_header();
    CHECK(endpoint_in(answer).kind == rdma::device_kind::software);
    REQUIRE(confirm_as_client(peer, software, answer));
    REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
    CHECK(!server.ec);
  }
  SECTION("but fails if the client cannot fall back")
  {
    peer.send(request_of(self));
    const std::string answer = peer.read_header();
    CHECK(answer.starts_with("HTTP/1.1 409"));
    CHECK(answer.find("RDMA NIC: the context was opened for") != std::string::npos);
    CHECK(f.serves_a_good_client(server));
  }
  SECTION("or if the next frame is not an endpoint")
  {
    self.falls_back = true;
    peer.send(request_of(self));
    CHECK(peer.read_header().starts_with("HTTP/1.1 101"));
    peer.send(rdma::detail::encode_frame(frame_type::endpoint, "v=1;nonsense"));
    CHECK(peer.read_end());
    CHECK(f.serves_a_good_client(server));
  }
}

TEST_CASE("both sides give up a path without traffic and neither handler reports success")
{
  rdma::queue_pair_options options;
  options.confirm_timeout = 100ms;
  options.fall_back = false;
  SECTION("the client detects it")
  {
    plain_server server;
    asio::io_context io;
    rdma::context context = make_context();
    rdma::queue_pair deaf(io, context); // never connected, so its device answers no message
    rdma::queue_pair client(io, context, options);
    plain_record connected;
    client.async_connect(server.endpoint(), connected.handler());
    plain_peer peer = server.accept();
    peer.read_header();
    peer.send(good_answer(deaf.local_endpoint()));
    CHECK(peer.await(frame_type::unconfirmed));
    REQUIRE(run_until(io, [&] { return connected.done(); }));
    CHECK(connected.ec == error::path_not_confirmed);
    CHECK(client.diagnose().code == error::path_not_confirmed);
    CHECK(client.diagnose().reason.find(device_name()) != std::string::npos);
    CHECK(peer.read_end());
  }
  SECTION("the server reports it")
  {
    plain_server server;
    asio::io_context io;
    rdma::context context = make_context();
    rdma::queue_pair peer_queue_pair(io, context);
    rdma::queue_pair client(io, context, options);
    plain_record connected;
    client.async_connect(server.endpoint(), connected.handler());
    plain_peer peer = server.accept();
    const std::string request = peer.read_header();
    const std::string answer = good_answer(peer_queue_pair.local_endpoint());
    connect_as_server(peer_queue_pair, endpoint_in(request));
    peer.send(answer);
    REQUIRE(peer.await(frame_type::confirmed));
    peer.send(rdma::detail::encode_frame(frame_type::unconfirmed, "the firewall\n"));
    REQUIRE(run_until(io, [&] { return connected.done(); }));
    CHECK(connected.ec == error::path_not_confirmed);
    CHECK(
      client.diagnose().reason.find("the peer reports \"the firewall\\x0a\"") != std::string::npos);
  }
  SECTION("the server detects it")
  {
    rdma::acceptor_options impatient;
    impatient.queue_pair = options;
    connect_fixture f(impatient);
    rdma::queue_pair deaf(f.io, f.client_context);
    connect_fixture::accepted accepted;
    f.acceptor.async_accept(accepted.handler());
    plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    peer.send(good_request(deaf.local_endpoint()));
    peer.read_header();
    peer.send(frame_type::confirmed);
    CHECK(peer.await(frame_type::unconfirmed));
    CHECK(peer.read_end());
    CHECK(f.serves_a_good_client(accepted));
  }
}
