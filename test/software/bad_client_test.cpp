//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

// Tests acceptors with clients that violate the protocol.

namespace {

using namespace test;
using rdma::detail::frame_type;

// Provides the description of an existing queue pair that the client does not use.
class bad_client
{
public:
  explicit bad_client(connect_fixture& f)
    : queue_pair_(f.io, f.client_context)
  {
  }
  rdma::endpoint_description endpoint() { return queue_pair_.local_endpoint(); }
  rdma::queue_pair& queue_pair() { return queue_pair_; }

private:
  rdma::queue_pair queue_pair_;
};

std::string status_of(const std::string& answer)
{
  return answer.substr(0, 12);
}

rdma::acceptor_options hurried()
{
  rdma::acceptor_options options;
  options.handshake_timeout = std::chrono::milliseconds(50);
  return options;
}

} // namespace

TEST_CASE("an acceptor answers a bad request with its error and no accept fails")
{
  connect_fixture f;
  bad_client client(f);
  rdma::endpoint_description other = client.endpoint();
  other.kind =
    other.kind == rdma::device_kind::nic ? rdma::device_kind::software : rdma::device_kind::nic;
  std::string version = good_request(client.endpoint());
  version.replace(version.find("boost-rdma/1"), 12, "boost-rdma/9");
  std::string broken = good_request(client.endpoint());
  broken.replace(broken.find("qpn="), 4, "qpn=x");

  // One byte above the limit. Beast does not count the start line when the header arrives at once.
  std::string large = good_request(client.endpoint());
  large.insert(large.size() - 2,
    "X: " + std::string(rdma::detail::upgrade_header_size_max + 1 - large.size() - 5, 'x')
      + "\r\n");

  const std::vector<std::pair<std::string, std::string>> cases{
    {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 426"},
    {version, "HTTP/1.1 426"},
    {broken, "HTTP/1.1 400"},
    {"\x16\x03\x01\x02 garbage \xff\xfe\r\n\r\n", "HTTP/1.1 400"},
    {std::string(3000, '\0'), "HTTP/1.1 400"},
    {"GET /rdma HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", "HTTP/1.1 431"},
    {"GET /rdma HTTP/1.1\r\n" + std::string(20'000, 'x'), "HTTP/1.1 431"},
    {large, "HTTP/1.1 431"},
    {good_request(other), "HTTP/1.1 409"},
  };
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  for (const auto& [request, status] : cases)
  {
    plain_peer bad = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    bad.send(request);
    std::string answer;
    INFO(request.substr(0, 60));
    bad.finish_sending();
    REQUIRE(bad.read_end(answer));
    CHECK(status_of(answer) == status);
    CHECK(answer.find("Upgrade: boost-rdma/1\r\n") != std::string::npos);
  }
  f.io.poll();
  CHECK(server.calls == 0);
  CHECK(f.serves_a_good_client(server)); // by the accept that has been outstanding all the time
}

TEST_CASE("no accept fails when a client disconnects at any step of connecting")
{
  connect_fixture f;
  bad_client client(f);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  const std::string request = good_request(client.endpoint());
  for (std::size_t sent = 0; sent < request.size(); sent += 1 + request.size() / 24)
  {
    plain_peer bad = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    bad.send(request.substr(0, sent));
  }
  {
    plain_peer bad = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    bad.send(request); // does not wait for the answer
  }
  for (std::size_t sent = 0; sent < rdma::detail::frame_header_size; ++sent)
  {
    plain_peer bad = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    bad.send(request);
    CHECK(status_of(bad.read_header()) == "HTTP/1.1 101");
    bad.send(rdma::detail::encode_frame(frame_type::confirmed).substr(0, sent));
  }
  {
    plain_peer bad = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    bad.send(request);
    bad.read_header();
    bad.send(frame_type::bye);
    CHECK(bad.read_end());
  }
  {
    plain_peer bad = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    bad.send(request);
    bad.read_header();
    bad.send(std::string(64, '\xff')); // a frame of 4 GiB
    CHECK(bad.read_end());
  }
  f.io.poll();
  CHECK(server.calls == 0);
  CHECK(f.serves_a_good_client(server));
}

TEST_CASE("an acceptor serves good clients while bad clients stay connected")
{
  connect_fixture f;
  bad_client client(f);
  std::vector<plain_peer> idlers;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  const std::string request = good_request(client.endpoint());
  for (int i = 0; i < 10; ++i)
  {
    idlers.push_back(plain_peer::connect(f.io, f.acceptor.local_endpoint()));
    idlers.push_back(plain_peer::connect(f.io, f.acceptor.local_endpoint()));
    idlers.back().send(request.substr(0, 40));
    idlers.push_back(plain_peer::connect(f.io, f.acceptor.local_endpoint()));
    idlers.back().send(request);
    CHECK(status_of(idlers.back().read_header()) == "HTTP/1.1 101"); // and never becomes ready
  }
  CHECK(f.serves_a_good_client(server));
  for (int i = 0; i < 5; ++i)
    CHECK(f.serves_a_good_client());
}

TEST_CASE(
  "an acceptor evicts the oldest silent client when the number of handshakes is at its limit")
{
  rdma::acceptor_options options;
  options.handshakes_max = 4;
  options.handshakes_per_address_max = 4;
  options.handshake_timeout = std::chrono::minutes(10); // which no client waits for
  connect_fixture f(options);
  bad_client described(f);
  const std::string request = good_request(described.endpoint());
  std::vector<plain_peer> idlers;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  for (std::size_t i = 0; i != options.handshakes_max; ++i)
    idlers.push_back(plain_peer::connect(f.io, f.acceptor.local_endpoint()));
  SECTION("as many clients as there are places have one each")
  {
    for (plain_peer& each : idlers)
      each.send(request);
    for (plain_peer& each : idlers)
      CHECK(status_of(each.read_header()) == "HTTP/1.1 101");
  }
  SECTION("one more has the place of the oldest")
  {
    CHECK(f.serves_a_good_client(server));
    CHECK(idlers.front().read_end());
    for (std::size_t i = 1; i != idlers.size(); ++i)
    {
      idlers[i].send(request);
      CHECK(status_of(idlers[i].read_header()) == "HTTP/1.1 101");
    }
  }
}

TEST_CASE("an acceptor drops a client that exceeds the handshake time-out")
{
  connect_fixture f(hurried());
  bad_client client(f);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  plain_peer silent = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  CHECK(silent.read_end());
  plain_peer not_ready = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  not_ready.send(good_request(client.endpoint()));
  CHECK(status_of(not_ready.read_header()) == "HTTP/1.1 101");
  CHECK(not_ready.read_end());
  plain_peer lingering = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  lingering.send("nonsense\r\n\r\n");
  CHECK(lingering.read_end());
  f.io.poll();
  CHECK(server.calls == 0);
}

TEST_CASE("operations end with peer_lost after a disconnect and with peer_closed after a bye frame")
{
  connect_fixture f;
  for (const bool polite : {false, true})
  {
    bad_client client(f);
    connect_fixture::accepted server;
    f.acceptor.async_accept(server.handler());
    bytes_record received;
    auto buffer = f.server_context.allocate(64);
    {
      plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
      peer.send(good_request(client.endpoint()));
      const std::string answer = peer.read_header();
      CHECK(status_of(answer) == "HTTP/1.1 101");
      peer.send(std::string("\x77\0\0\0\0\0\0\3abc", 11)); // a frame of a later version
      REQUIRE(confirm_as_client(peer, client.queue_pair(), answer));
      REQUIRE(run_until(f.io, [&] { return server.calls == 1; }));
      REQUIRE(!server.ec);
      server.peer->async_receive(buffer, received.handler());
      if (polite)
        peer.send(frame_type::bye);
    }
    REQUIRE(run_until(f.io, [&] { return received.done(); }));
    CHECK(received.ec == (polite ? error::peer_closed : error::peer_lost));
  }
}

TEST_CASE("closing a queue pair sends a bye frame to the peer")
{
  connect_fixture f;
  bad_client client(f);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  peer.send(good_request(client.endpoint()));
  REQUIRE(confirm_as_client(peer, client.queue_pair(), peer.read_header()));
  REQUIRE(run_until(f.io, [&] { return server.calls == 1; }));
  server.peer.reset();
  CHECK(peer.read_frames() == std::vector{frame_type::bye});
}

TEST_CASE("an accept skips a client that has disconnected while it waited")
{
  connect_fixture f;
  bad_client client(f);
  connect_fixture::accepted first, second;
  f.acceptor.async_accept(first.handler());
  plain_peer early = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  early.send(good_request(client.endpoint()));
  const std::string answer = early.read_header();
  f.acceptor.cancel();
  // The handshake completes although no accept waits.
  CHECK(confirm_as_client(early, client.queue_pair(), answer));
  early.send(frame_type::bye);
  CHECK(early.read_end());
  CHECK(f.serves_a_good_client());
}

TEST_CASE("an acceptor refuses a client when it cannot create a queue pair")
{
  rdma::acceptor_options options;
  options.queue_pair.send_depth = 1u << 20; // exceeds the limit of every device
  connect_fixture f(options);
  connect_fixture::accepted server;
  plain_record connected;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair client(f.io, f.client_context);
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done(); }));
  CHECK(connected.ec == error::refused);
  CHECK(server.calls == 0);
}
