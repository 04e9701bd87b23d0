//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_PLAIN_PEER_CLIENT_HPP
#define BOOST_RDMA_TEST_SOFTWARE_PLAIN_PEER_CLIENT_HPP

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace test {

/// A connected client, in its own io_context. Its peer completes the handshake and then sends only
/// what the test sends.
struct plain_peer_client
{
  explicit plain_peer_client(const rdma::queue_pair_options& options,
    std::chrono::milliseconds heartbeat_limit_of_peer = std::chrono::milliseconds(0))
    : client(io, context, options)
  {
    plain_record connected;
    client.async_connect(server.endpoint(), connected.handler());
    peer.emplace(server.accept());
    request = peer->read_header();
    rdma::detail::handshake_parameters self =
      handshake_parameters_of(peer_queue_pair.local_endpoint());
    self.heartbeat_limit = heartbeat_limit_of_peer;
    connect_as_server(peer_queue_pair, endpoint_in(request));
    peer->send(http_text(rdma::detail::make_upgrade_response(self)));
    REQUIRE(peer->await(rdma::detail::frame_type::confirmed));
    peer->send(rdma::detail::frame_type::confirmed);
    REQUIRE(run_until(io, [&] { return connected.done(); }));
    REQUIRE(!connected.ec);
    client.async_wait_close(ended.handler());
  }

  plain_server server;
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair peer_queue_pair{io, context};
  rdma::queue_pair client;
  std::optional<plain_peer> peer;
  std::string request;
  plain_record ended;
};

/// Waits until a new connection with this heartbeat limit has lost its silent peer. The library's
/// thread has then checked the shorter limits of all earlier connections.
[[nodiscard]] inline bool lose_silent_peer(std::chrono::milliseconds heartbeat_limit)
{
  rdma::queue_pair_options options;
  options.heartbeat_limit = heartbeat_limit;
  plain_peer_client silent(options);
  return run_until(silent.io, [&] { return silent.ended.done(); })
    && silent.ended.ec == error::peer_lost;
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_PLAIN_PEER_CLIENT_HPP
