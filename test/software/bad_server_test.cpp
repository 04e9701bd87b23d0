//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Tests clients with servers that are not acceptors, violate the protocol or disconnect.

namespace {

using namespace test;
using rdma::detail::frame_type;

// A client of a server that the test controls.
struct bad_server_client
{
  explicit bad_server_client(const rdma::queue_pair_options& options = {})
    : client(std::in_place, io, context, options)
    , peer_queue_pair(io, context)
  {
  }

  void connect(const tcp::endpoint& to) { client->async_connect(to, connected.handler()); }

  [[nodiscard]] bool done()
  {
    return run_until(io, [&] { return connected.done(); });
  }

  // Returns the description of an existing queue pair for the server's answer.
  rdma::endpoint_description endpoint() { return peer_queue_pair.local_endpoint(); }

  asio::io_context io;
  rdma::context context = make_context();
  std::optional<rdma::queue_pair> client;
  rdma::queue_pair peer_queue_pair;
  plain_record connected;
};

} // namespace

TEST_CASE("async_connect maps each answer of a server to its error")
{
  bad_server_client probe;
  const std::string good = good_answer(probe.endpoint());
  const auto refusal = [](boost::beast::http::status status)
  { return http_text(rdma::detail::make_upgrade_refusal(status, "why not")); };
  rdma::endpoint_description other = probe.endpoint();
  other.kind =
    other.kind == rdma::device_kind::nic ? rdma::device_kind::software : rdma::device_kind::nic;
  std::string malformed = good;
  malformed.replace(malformed.find("gid="), 4, "gid=!");

  const std::vector<std::pair<std::string, error>> cases{
    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", error::not_an_acceptor},
    {"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n", error::not_an_acceptor},
    {"220 mail.example.com ESMTP\r\n", error::not_an_acceptor},
    {std::string("\0\1\2\3garbage\r\n\r\n", 15), error::not_an_acceptor},
    {"HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n", error::not_an_acceptor},
    {"HTTP/1.1 426 Upgrade Required\r\nUpgrade: boost-rdma/2\r\n\r\n", error::version_mismatch},
    {refusal(boost::beast::http::status::conflict), error::no_common_transport},
    {refusal(boost::beast::http::status::service_unavailable), error::refused},
    {good_answer(other), error::no_common_transport},
    {malformed, error::malformed_description},
  };
  for (const auto& [answer, expected] : cases)
  {
    plain_server server;
    bad_server_client v;
    v.connect(server.endpoint());
    plain_peer peer = server.accept();
    peer.read_header();
    peer.send(answer);
    REQUIRE(v.done());
    INFO(answer.substr(0, 60));
    CHECK(v.connected.ec == expected);
    CHECK(v.connected.calls == 1);
    CHECK(!v.client->is_connected());
    CHECK(v.client->diagnose().code == expected);
    CHECK(peer.read_end()); // the client has disconnected
  }
}

TEST_CASE("diagnose names the TCP endpoint and omits empty parts when a server refuses")
{
  plain_server server;
  bad_server_client v;
  v.connect(server.endpoint());
  plain_peer peer = server.accept();
  peer.read_header();
  peer.send("HTTP/1.1 403 Forbidden\r\nUpgrade: boost-rdma/1\r\n\r\n");
  REQUIRE(v.done());
  REQUIRE(v.connected.ec == error::refused);
  const std::string text = v.client->diagnose().text();
  INFO(text);
  CHECK(text.find("connecting to 127.0.0.1:" + std::to_string(server.endpoint().port()) + " failed")
    == 0);
  CHECK(text.find("HTTP status 403") != std::string::npos);
  CHECK(text.find("\"\"") == std::string::npos);
  CHECK(text.find("RDMA NIC") == std::string::npos);
}

TEST_CASE("async_connect fails with peer_lost when the server disconnects at any step")
{
  bad_server_client probe;
  const std::string answer = good_answer(probe.endpoint());
  for (std::size_t sent = 0; sent < answer.size(); sent += 1 + answer.size() / 24)
  {
    plain_server server;
    bad_server_client v;
    v.connect(server.endpoint());
    {
      plain_peer peer = server.accept();
      peer.read_header();
      peer.send(answer.substr(0, sent));
    }
    REQUIRE(v.done());
    INFO(sent);
    CHECK(v.connected.ec == error::peer_lost);
  }
  // The server disconnects before it reads: a reset may arrive before or instead of the end of the
  // stream.
  plain_server server;
  bad_server_client v;
  v.connect(server.endpoint());
  static_cast<void>(server.accept());
  REQUIRE(v.done());
  CHECK(v.connected.ec == error::peer_lost);
}

TEST_CASE("operations end with peer_lost when a connected server disconnects")
{
  plain_server server;
  bad_server_client v;
  v.connect(server.endpoint());
  bytes_record received;
  auto buffer = v.context.allocate(64);
  {
    plain_peer peer = server.accept();
    REQUIRE(confirm_as_server(peer, v.peer_queue_pair, peer.read_header()));
    REQUIRE(v.done());
    REQUIRE(!v.connected.ec);
    v.client->async_receive(buffer, received.handler());
  }
  REQUIRE(run_until(v.io, [&] { return received.done(); }));
  CHECK(received.ec == error::peer_lost);
}

TEST_CASE("frames that arrive with the answer are processed")
{
  plain_server server;
  bad_server_client v;
  v.connect(server.endpoint());
  bytes_record received;
  auto buffer = v.context.allocate(64);
  v.client->async_receive(buffer, received.handler());
  plain_peer peer = server.accept();
  CHECK(confirm_as_server(
    peer, v.peer_queue_pair, peer.read_header(), rdma::detail::encode_frame(frame_type::bye)));
  REQUIRE(v.done());
  CHECK(!v.connected.ec);
  REQUIRE(run_until(v.io, [&] { return received.done(); }));
  CHECK(received.ec == error::peer_closed);
}

TEST_CASE("async_connect fails with handshake_timeout when the server does not answer")
{
  for (const bool half : {false, true})
  {
    rdma::queue_pair_options options;
    options.connect_timeout = std::chrono::milliseconds(50);
    plain_server server;
    bad_server_client v(options);
    v.connect(server.endpoint());
    plain_peer peer = server.accept();
    if (half)
      peer.send("HTTP/1.1 101 Switch");
    REQUIRE(v.done());
    CHECK(v.connected.ec == error::handshake_timeout);
  }
}

TEST_CASE("async_connect returns the error of the TCP connect unchanged")
{
  bad_server_client v;
  tcp::endpoint nobody;
  {
    plain_server gone;
    nobody = gone.endpoint();
  }
  v.connect(nobody);
  CHECK(v.connected.calls == 0);
  REQUIRE(v.done());
  CHECK(v.connected.ec == asio::error::connection_refused);

  plain_record again;
  v.client->async_connect(nobody, again.handler());
  REQUIRE(run_until(v.io, [&] { return again.done(); }));
  // A queue pair connects only once, regardless of the result.
  CHECK(again.ec == error::already_connected);
}

TEST_CASE("each cancellation type ends async_connect at each step")
{
  for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
         asio::cancellation_type::total})
  {
    for (const int step : {0, 1, 2})
    {
      plain_server server;
      bad_server_client v;
      asio::cancellation_signal signal;
      v.client->async_connect(
        server.endpoint(), asio::bind_cancellation_slot(signal.slot(), v.connected.handler()));
      std::optional<plain_peer> peer;
      if (step > 0)
      {
        peer.emplace(server.accept());
        peer->read_header();
      }
      if (step > 1)
        peer->send("HTTP/1.1 101 Switch");
      signal.emit(type);
      CHECK(v.connected.calls == 0);
      REQUIRE(v.done());
      CHECK(v.connected.ec == asio::error::operation_aborted);
      CHECK(!v.client->is_connected());
      v.client->close();
      CHECK(run_out(v.io));
      CHECK(v.connected.calls == 1);
    }
  }
}

TEST_CASE("cancellation after the connection is established has no effect")
{
  plain_server server;
  bad_server_client v;
  asio::cancellation_signal signal;
  v.client->async_connect(
    server.endpoint(), asio::bind_cancellation_slot(signal.slot(), v.connected.handler()));
  plain_peer peer = server.accept();
  REQUIRE(confirm_as_server(peer, v.peer_queue_pair, peer.read_header()));
  REQUIRE(v.done());
  REQUIRE(!v.connected.ec);
  signal.emit(asio::cancellation_type::terminal);
  // The bye frame of this close arrives, so nothing had ended before.
  v.client->close();
  CHECK(peer.read_frames() == std::vector{frame_type::bye});
}

TEST_CASE("async_connect fails with operation_aborted when its queue pair is closed or destroyed")
{
  for (const bool destroy : {false, true})
  {
    for (const bool answered : {false, true})
    {
      plain_server server;
      bad_server_client v;
      v.connect(server.endpoint());
      plain_peer peer = server.accept();
      if (answered)
        peer.send("HTTP/1.1 101 Switch");
      if (destroy)
        v.client.reset();
      else
        v.client->close();
      CHECK(v.connected.calls == 0);
      REQUIRE(run_out(v.io));
      CHECK(v.connected.calls == 1);
      CHECK(v.connected.ec == asio::error::operation_aborted);
      peer.read_header();
      CHECK(peer.read_end());
    }
  }
}

TEST_CASE("async_connect calls no handler when the io_context is destroyed")
{
  const auto handler_token = std::make_shared<int>();
  for (int step = 0; step < 3; ++step)
  {
    plain_server server;
    std::optional<plain_peer> peer;
    {
      rdma::context context = make_context();
      asio::io_context io;
      auto client = std::make_shared<rdma::queue_pair>(io, context);
      client->async_connect(
        server.endpoint(), [handler_token, client](error_code) { FAIL("called"); });
      client.reset();
      if (step > 0)
      {
        peer.emplace(server.accept());
        peer->read_header();
      }
      if (step > 1)
      {
        rdma::queue_pair other(io, context);
        peer->send(good_answer(other.local_endpoint()));
      }
    }
    CHECK(handler_token.use_count() == 1);
    if (peer)
      CHECK(peer->read_end());
  }
}
