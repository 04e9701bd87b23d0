//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"
#include "software/cm_fixture.hpp"

namespace {

using namespace test;

// A listener and a client that is not connected yet, both with the executor type of `QueuePair`.
template <class QueuePair>
struct connecting_fixture
{
  using acceptor_type = cm::basic_acceptor<typename QueuePair::executor_type>;
  using request_type = typename acceptor_type::request_type;

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  acceptor_type acceptor{io, server_context, tcp::endpoint(device_address(), 0)};
  QueuePair client{io, client_context};
  QueuePair server{io, server_context};
  std::optional<request_type> request;
  result<std::shared_ptr<void>> accepted; // used if the acceptor is not under test
  data_record connected;                  // used if the client is not under test

  void start_connecting()
  {
    cm::async_connect(client, acceptor.local_endpoint(), connected.handler());
  }
  void wait_for_request()
  {
    start_connecting();
    acceptor.async_get_request(
      [this](error_code ec, request_type asked)
      {
        if (!ec)
          request.emplace(std::move(asked));
      });
    REQUIRE(run_until(io, [&] { return request.has_value(); }));
  }
  void check_client()
  {
    REQUIRE(run_until(io, [&] { return connected.done(); }));
    CHECK(connected.ec == error_code());
    CHECK(client.is_connected());
  }
};

// The result object of any operation, with any executor type.
struct any_object
{
  any_object() = default;
  template <class Executor>
  any_object(rdma::basic_queue_pair<Executor> peer)
    : good(peer.is_connected())
    , kept(std::make_shared<rdma::basic_queue_pair<Executor>>(std::move(peer)))
  {
  }
  template <class Executor>
  any_object(cm::basic_connection_request<Executor> request)
    : good(request.is_open())
    , kept(std::make_shared<cm::basic_connection_request<Executor>>(std::move(request)))
  {
  }

  bool good = false;
  std::shared_ptr<void> kept;
};

struct with_fixture
{
  template <class QueuePair>
  using fixture = connecting_fixture<QueuePair>;
};

struct connect_operation : with_fixture
{
  using result = cm::private_data;

  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.acceptor.async_accept([&f](error_code ec, auto peer)
      { f.accepted.set(ec, std::make_shared<decltype(peer)>(std::move(peer))); });
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return cm::async_connect(f.client, f.acceptor.local_endpoint(), std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, const cm::private_data&)
  {
    CHECK(f.client.is_connected());
    REQUIRE(run_until(f.io, [&] { return f.accepted.calls != 0; }));
    CHECK(f.accepted.ec == error_code());
  }
};

struct accept_operation : with_fixture
{
  using result = any_object;

  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.start_connecting();
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.acceptor.async_accept(std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, const any_object& peer)
  {
    CHECK(peer.good);
    f.check_client();
  }
};

struct get_request_operation : with_fixture
{
  using result = any_object;

  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.start_connecting();
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.acceptor.async_get_request(std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture&, const any_object& request)
  {
    CHECK(request.good);
  }
};

struct request_accept_operation : with_fixture
{
  using result = any_object;

  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.wait_for_request();
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.request->async_accept(cm::private_data(), std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, const any_object& peer)
  {
    CHECK(peer.good);
    f.check_client();
  }
};

struct accept_into_operation : with_fixture
{
  using result = std::monostate;

  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.wait_for_request();
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.request->async_accept(f.server, cm::private_data(), std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::monostate)
  {
    CHECK(f.server.is_connected());
    f.check_client();
  }
};

} // namespace

TEST_CASE("async_connect of RDMA-CM accepts every kind of token")
{
  with_every_token<connect_operation>();
}

TEST_CASE("async_accept of RDMA-CM accepts every kind of token")
{
  with_every_token<accept_operation>();
}

TEST_CASE("async_get_request of RDMA-CM accepts every kind of token")
{
  with_every_token<get_request_operation>();
}

TEST_CASE("async_accept of a connection request accepts every kind of token")
{
  with_every_token<request_accept_operation>();
  with_every_token<accept_into_operation>();
}
