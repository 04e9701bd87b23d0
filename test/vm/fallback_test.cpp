//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/connect_fixture.hpp"
#include "vm/device_machine.hpp"

#include <array>
#include <string>

// Tests queue pairs on a NIC that fall back to the software device because the peer lacks a feature
// of the NIC. test/vm/fallback covers different hosts and restricted links.

namespace {

using namespace test;
using rdma::detail::frame_type;
using rdma::detail::handshake_parameters;

rdma::queue_pair_options software_only()
{
  rdma::queue_pair_options options;
  options.device = "soft0";
  return options;
}

rdma::queue_pair_options nic_only()
{
  rdma::queue_pair_options options;
  options.fall_back = false;
  return options;
}

/// Describes rxe0 as if it supported RoCE v1 only; no software device does.
rdma::endpoint_description roce_v1_endpoint(const rdma::queue_pair& like)
{
  rdma::endpoint_description endpoint;
  endpoint.kind = rdma::device_kind::nic;
  endpoint.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  endpoint.queue_pair_number = like.number();
  endpoint.path_mtu = 1024;
  endpoint.wire = rdma::wire::roce_v1;
  endpoint.device = "mlx4_0";
  return endpoint;
}

/// Sends a message in each direction.
void exchange(asio::io_context& io, rdma::queue_pair& a, rdma::queue_pair& b)
{
  for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)})
  {
    auto buffer = to->context().allocate(5);
    bytes_record sent;
    bytes_record received;
    to->async_receive(buffer, received.handler());
    from->async_send(buffer_of(from->context(), "hello"), sent.handler());
    REQUIRE(run_until(io, [&] { return sent.done() && received.done(); }));
    CHECK(sent.ec == error_code());
    CHECK(received.ec == error_code());
    CHECK(text_of(buffer) == "hello");
  }
}

/// Acts as a client that falls back to the software device. Returns the acceptor's transport
/// choice.
rdma::transport_choice fall_back_as_client(
  connect_fixture& f, connect_fixture::accepted& server, plain_peer& peer, rdma::queue_pair& own)
{
  peer.send(rdma::detail::encode_frame(frame_type::endpoint, own.local_endpoint().text()));
  REQUIRE(peer.await(frame_type::endpoint));
  connect_as_client(own, rdma::endpoint_description::parse(peer.payload));
  peer.send(frame_type::confirmed);
  REQUIRE(peer.await(frame_type::confirmed));
  REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
  REQUIRE(server.ec == error_code());
  rdma::transport_choice choice = server.peer->transport();
  CHECK(choice.wire == rdma::wire::shared_memory);
  exchange(f.io, own, *server.peer);
  return choice;
}

/// Acts as a server that falls back. Returns the client's transport choice.
rdma::transport_choice fall_back_as_server(asio::io_context& io, rdma::queue_pair& client,
  plain_record& connected, plain_peer& peer, rdma::queue_pair& own)
{
  REQUIRE(peer.await(frame_type::endpoint));
  const std::string described = own.local_endpoint().text();
  connect_as_server(own, rdma::endpoint_description::parse(peer.payload));
  peer.send(rdma::detail::encode_frame(frame_type::endpoint, described));
  REQUIRE(peer.await(frame_type::confirmed));
  peer.send(frame_type::confirmed);
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  rdma::transport_choice choice = client.transport();
  CHECK(choice.wire == rdma::wire::shared_memory);
  exchange(io, own, client);
  return choice;
}

rdma::acceptor_options accepting(const rdma::queue_pair_options& options)
{
  rdma::acceptor_options result;
  result.queue_pair = options;
  return result;
}

} // namespace

TEST_CASE("waiting receives move to the software device in order when their queue pair falls back")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  constexpr std::size_t count = 5;
  connect_fixture f(accepting(software_only()));
  rdma::queue_pair client(f.io, f.client_context);
  CHECK(client.transport().device == "rxe0");
  const std::uint32_t number = client.number();
  const ibv_qp* const native = client.native_handle();
  rdma::registered_buffer to = f.client_context.allocate(8 * count);
  std::array<bytes_record, count> received;
  for (std::size_t i = 0; i < count; ++i)
    client.async_receive(to.slice(8 * i, 8), received[i].handler());
  // Also with registered user memory.
  std::string own(8, '-');
  const rdma::memory_region region(
    f.client_context, own.data(), own.size(), rdma::access::local_write);
  bytes_record received_by_own;
  client.async_receive(region, received_by_own.handler());

  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  plain_record connected;
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls != 0; }));
  REQUIRE(connected.ec == error_code());
  REQUIRE(server.ec == error_code());

  CHECK(client.number() != number);
  CHECK(client.native_handle() != native);
  const rdma::transport_choice choice = client.transport();
  INFO(choice.text());
  CHECK(choice.kind == rdma::device_kind::software);
  CHECK(choice.wire == rdma::wire::shared_memory);
  CHECK(names(
    choice, "RDMA NIC", "the peer reports \"the queue pair was made for the software device\""));
  CHECK(
    names(server.peer->transport(), "RDMA NIC", "the queue pair was made for the software device"));
  for (const bytes_record& each : received)
    CHECK_FALSE(each.done());

  for (std::size_t i = 0; i <= count; ++i)
  {
    bytes_record sent;
    server.peer->async_send(
      buffer_of(f.server_context, "number " + std::to_string(i)), sent.handler());
    REQUIRE(run_until(f.io, [&] { return sent.done(); }));
    CHECK(sent.ec == error_code());
  }
  REQUIRE(run_until(f.io, [&] { return received_by_own.done(); }));
  for (std::size_t i = 0; i < count; ++i)
  {
    CHECK(received[i].calls == 1);
    CHECK(received[i].ec == error_code());
    CHECK(text_of(to.slice(8 * i, 8)) == "number " + std::to_string(i));
  }
  CHECK(own == "number 5");
}

TEST_CASE("both sides fall back when the server has another RoCE version")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  connect_fixture f;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair own(f.io, f.client_context, software_only());
  handshake_parameters self = handshake_parameters_of(roce_v1_endpoint(own));
  self.falls_back = true;
  error_code ec;
  plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  peer.send(http_text(rdma::detail::make_upgrade_request("localhost", {}, self, ec)));
  const std::string answer = peer.read_header();
  INFO(answer);
  CHECK(answer.find("101 ") != std::string::npos);
  CHECK(answer.find("RoCE v1 on rxe0") != std::string::npos);

  const rdma::transport_choice choice = fall_back_as_client(f, server, peer, own);
  INFO(choice.text());
  CHECK(names(choice, "RoCE v1 on rxe0", "10.0.0.1 by RoCE v2"));
}

TEST_CASE("a client of another RoCE version is refused with the reason when it cannot fall back")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  connect_fixture f;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair own(f.io, f.client_context, software_only());
  plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  peer.send(good_request(roce_v1_endpoint(own)));
  const std::string answer = peer.read_header();
  INFO(answer);
  CHECK(answer.find(" 409 ") != std::string::npos);
  CHECK(answer.find("RoCE v1 on rxe0: ") != std::string::npos);
  CHECK(f.serves_a_good_client(server));
}

TEST_CASE("a client reports the RoCE version of the answer as unusable")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::queue_pair own(io, context, software_only());
  plain_server server;

  SECTION("and falls back when both sides can")
  {
    rdma::queue_pair client(io, context);
    plain_record connected;
    client.async_connect(server.endpoint(), connected.handler());
    plain_peer peer = server.accept();
    CHECK(peer.read_header().find("wire=roce2") != std::string::npos);
    handshake_parameters self = handshake_parameters_of(roce_v1_endpoint(own));
    self.falls_back = true;
    peer.send(http_text(rdma::detail::make_upgrade_response(self)));
    REQUIRE(peer.await(frame_type::unconfirmed));
    CHECK(peer.payload.find("no GID") != std::string::npos);
    const rdma::transport_choice choice = fall_back_as_server(io, client, connected, peer, own);
    INFO(choice.text());
    CHECK(names(choice, "RoCE v1 on rxe0", "10.0.0.1 by RoCE v2"));
  }
  SECTION("and fails when one side cannot fall back")
  {
    rdma::queue_pair client(io, context, nic_only());
    plain_record connected;
    client.async_connect(server.endpoint(), connected.handler());
    plain_peer peer = server.accept();
    (void)peer.read_header();
    handshake_parameters self = handshake_parameters_of(roce_v1_endpoint(own));
    self.falls_back = true;
    peer.send(http_text(rdma::detail::make_upgrade_response(self)));
    REQUIRE(run_until(io, [&] { return connected.done(); }));
    CHECK(connected.ec);
    CHECK_FALSE(client.is_connected());
    INFO(client.diagnose().text());
    CHECK(client.diagnose().reason.find("RoCE v1 on rxe0: ") != std::string::npos);
    REQUIRE(peer.await(frame_type::unconfirmed));
    CHECK(peer.read_end());
  }
}

TEST_CASE("a client falls back when only the server's message does not get through")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::queue_pair peer_queue_pair(io, context, nic_only());
  rdma::queue_pair own(io, context, software_only());
  plain_server server;
  rdma::queue_pair client(io, context);
  plain_record connected;
  client.async_connect(server.endpoint(), connected.handler());
  plain_peer peer = server.accept();
  const std::string request = peer.read_header();
  handshake_parameters self = handshake_parameters_of(peer_queue_pair.local_endpoint());
  self.falls_back = true;
  connect_as_server(peer_queue_pair, endpoint_in(request));
  peer.send(http_text(rdma::detail::make_upgrade_response(self)));
  REQUIRE(peer.await(frame_type::confirmed));
  peer.send(rdma::detail::encode_frame(frame_type::unconfirmed, "a firewall"));
  const rdma::transport_choice choice = fall_back_as_server(io, client, connected, peer, own);
  INFO(choice.text());
  CHECK(names(choice, "RoCE v2 on rxe0", "the peer reports \"a firewall\""));
}

TEST_CASE(
  "a server falls back when its message does not get through despite the client's confirmation")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  connect_fixture f;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  // This queue pair is never connected, so it answers no message.
  rdma::queue_pair deaf(f.io, f.client_context, nic_only());
  rdma::queue_pair own(f.io, f.client_context, software_only());
  handshake_parameters self = handshake_parameters_of(deaf.local_endpoint());
  self.falls_back = true;
  error_code ec;
  plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  peer.send(http_text(rdma::detail::make_upgrade_request("localhost", {}, self, ec)));
  CHECK(endpoint_in(peer.read_header()).kind == rdma::device_kind::nic);
  peer.send(frame_type::confirmed);
  REQUIRE(peer.await(frame_type::unconfirmed));
  const rdma::transport_choice choice = fall_back_as_client(f, server, peer, own);
  INFO(choice.text());
  CHECK(names(choice, "RoCE v2 on rxe0", ""));
}

TEST_CASE("a queue pair fails with the reason when fall-back is off or its NIC is named")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  connect_fixture f(accepting(software_only()));
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  for (const bool by_name : {false, true})
  {
    rdma::queue_pair_options options;
    options.fall_back = by_name;
    options.device = by_name ? "rxe0" : "";
    rdma::queue_pair client(f.io, f.client_context, options);
    bytes_record received;
    auto buffer = f.client_context.allocate(8);
    client.async_receive(buffer, received.handler());
    plain_record connected;
    client.async_connect(f.acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(f.io, [&] { return connected.done() && received.done(); }));
    CHECK(connected.ec == error::no_common_transport);
    CHECK(received.ec);
    CHECK(received.calls == 1);
    INFO(client.diagnose().text());
    CHECK(client.diagnose().code == error::no_common_transport);
    CHECK(client.diagnose().reason.find("the queue pair was made for the software device")
      != std::string::npos);
  }
  CHECK(f.serves_a_good_client(server));
}

TEST_CASE("a server without fall-back sends the complete reason to a client without a NIC")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  connect_fixture f(accepting(nic_only()));
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair client(f.io, f.client_context, software_only());
  plain_record connected;
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done(); }));
  CHECK(connected.ec == error::no_common_transport);
  INFO(client.diagnose().text());
  CHECK(client.diagnose().reason.find("queue_pair_options::fall_back is off") != std::string::npos);
  // The client has reported the reason; the server does not repeat it.
  CHECK(client.diagnose().reason.find("offers none") == std::string::npos);
  CHECK(f.serves_a_good_client(server));
}
