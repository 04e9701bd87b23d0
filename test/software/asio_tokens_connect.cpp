//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"
#include "software/connect_fixture.hpp"

namespace {

using namespace test;

// The result of an accept, for any type of queue pair.
struct accepted_peer
{
  accepted_peer() = default;
  template <class Executor>
  accepted_peer(rdma::basic_queue_pair<Executor> peer)
    : connected(peer.is_connected())
    , kept(std::make_shared<rdma::basic_queue_pair<Executor>>(std::move(peer)))
  {
  }

  bool connected = false;
  std::shared_ptr<void> kept;
};

// A server and an unconnected client, both with the executor type of `QueuePair`.
template <class QueuePair>
struct connecting_fixture
{
  using acceptor_type = rdma::basic_acceptor<typename QueuePair::executor_type>;

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  acceptor_type acceptor{io, server_context, loopback()};
  QueuePair client{io, client_context};
  result<accepted_peer> accepted; // used if the acceptor is not under test
  plain_record connected;         // used if the client is not under test
};

struct connect_operation
{
  using result = std::monostate;
  template <class QueuePair>
  using fixture = connecting_fixture<QueuePair>;

  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.acceptor.async_accept([&f](auto... a) { f.accepted.set(std::move(a)...); });
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.client.async_connect(f.acceptor.local_endpoint(), std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::monostate)
  {
    CHECK(f.client.is_connected());
    REQUIRE(run_until(f.io, [&] { return f.accepted.calls != 0; }));
    CHECK(f.accepted.ec == error_code());
    CHECK(f.accepted.value.connected);
  }
};

struct accept_operation
{
  using result = accepted_peer;
  template <class QueuePair>
  using fixture = connecting_fixture<QueuePair>;

  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.client.async_connect(f.acceptor.local_endpoint(), f.connected.handler());
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.acceptor.async_accept(std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, const accepted_peer& peer)
  {
    CHECK(peer.connected);
    REQUIRE(run_until(f.io, [&] { return f.connected.done(); }));
    CHECK(f.connected.ec == error_code());
    CHECK(f.client.is_connected());
  }
};

} // namespace

TEST_CASE("async_connect accepts every kind of token")
{
  with_every_token<connect_operation>();
}

TEST_CASE("async_accept accepts every kind of token")
{
  with_every_token<accept_operation>();
}
