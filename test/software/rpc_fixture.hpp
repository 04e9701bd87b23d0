//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_RPC_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_RPC_FIXTURE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace test {

struct numbers
{
  std::int32_t a;
  std::int32_t b;
};

using add = rdma::rpc::method<"add/1", numbers, std::int32_t>;
using echo = rdma::rpc::method<"echo/1", std::string_view, std::string_view>;
/// A method whose handler answers when the test does.
using wait_for_test = rdma::rpc::method<"wait/1", std::uint64_t, std::uint64_t>;

inline rdma::rpc::server_options served_by(rdma::stream_transports transports)
{
  rdma::rpc::server_options options;
  options.acceptor.stream.transports = transports;
  return options;
}

inline rdma::rpc::client_options client_by(rdma::stream_transports transports)
{
  rdma::rpc::client_options options;
  options.stream.transports = transports;
  return options;
}

/// A port that no other program gets, even while nobody listens there.
class reserved_port
{
public:
  explicit reserved_port(asio::io_context& io)
    : socket_(io)
  {
    socket_.open(asio::ip::tcp::v4());
    socket_.set_option(asio::socket_base::reuse_address(true));
    socket_.bind({asio::ip::address_v4::loopback(), 0});
  }

  [[nodiscard]] asio::ip::tcp::endpoint endpoint() const { return socket_.local_endpoint(); }

private:
  asio::ip::tcp::socket socket_;
};

/// A server and a client that is not connected, as on two hosts.
struct rpc_pair
{
  explicit rpc_pair(const rdma::rpc::server_options& server_options = {},
    const rdma::rpc::client_options& client_options = {})
    : server(io, far_context, {asio::ip::address_v4::loopback(), 0}, server_options)
    , client(io, near_context, client_options)
  {
  }

  [[nodiscard]] error_code connect(rdma::rpc::client& by)
  {
    plain_record r;
    by.async_connect(server.local_endpoint(), r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return r.ec;
  }

  /// Starts the server and connects the client.
  void start()
  {
    server.start();
    REQUIRE(connect(client) == error_code());
  }

  template <class Method>
  auto call(
    const typename Method::request_type& request, const rdma::rpc::call_options& options = {})
  {
    record<typename Method::result_type> r;
    client.async_call<Method>(request, options, r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return std::pair(r.ec, r.value());
  }

  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  rdma::rpc::server server;
  rdma::rpc::client client;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_RPC_FIXTURE_HPP
