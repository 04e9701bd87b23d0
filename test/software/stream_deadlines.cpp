//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"
#include "software/stream_fixture.hpp"

#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/stream_traits.hpp>

#include <array>
#include <string>
#include <vector>

// Time limits of a stream, as those of boost::beast::tcp_stream, and lists of servers.

namespace test::stream_limits {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

const error_code timeout = boost::beast::error::timeout;

} // namespace

TEST_CASE("an operation of a stream ends with a time-out, and the stream closes")
{
  connected_pair pair(GENERATE(true, false));
  std::array<char, 8> bytes{};
  bytes_record ended;
  pair.b.expires_after(milliseconds(20));
  SECTION("a read")
  {
    pair.b.async_read_some(asio::buffer(bytes), ended.handler());
  }
  SECTION("a write for which there is no room")
  {
    const std::string text(24 * 1024 * 1024, 'x');
    asio::async_write(pair.b, asio::buffer(text), ended.handler());
    REQUIRE(run_until(pair.io, [&] { return ended.done(); }));
  }
  SECTION("a wait")
  {
    pair.b.async_wait(rdma::stream::wait_read, [&](error_code ec) { ended.handler()(ec, 0); });
  }
  REQUIRE(run_until(pair.io, [&] { return ended.done(); }));
  CHECK(ended.ec == timeout);
  CHECK_FALSE(pair.b.is_open());
  bytes_record peer;
  std::vector<char> rest(24 * 1024 * 1024);
  asio::async_read(pair.a(), asio::buffer(rest), peer.handler());
  REQUIRE(run_until(pair.io, [&] { return peer.done(); }));
  CHECK((peer.ec == asio::error::eof || peer.ec == asio::error::connection_reset));
}

TEST_CASE("a time limit of a stream that has passed ends the next operation")
{
  connected_pair pair(GENERATE(true, false));
  pair.b.expires_at(std::chrono::steady_clock::now() - hours(1));
  pair.io.poll(); // nothing waits yet
  CHECK(pair.b.is_open());
  bytes_record ended;
  std::array<char, 8> bytes{};
  pair.b.async_read_some(asio::buffer(bytes), ended.handler());
  CHECK_FALSE(ended.done());
  REQUIRE(run_until(pair.io, [&] { return ended.done(); }));
  CHECK(ended.ec == timeout);
}

TEST_CASE(
  "operations within the time limit of a stream are not affected, and it keeps nothing running")
{
  connected_pair pair(GENERATE(true, false));
  const std::string text = random_text(300'000, 1);
  std::string received(text.size(), '\0');
  for (int i = 0; i != 3; ++i)
  {
    boost::beast::get_lowest_layer(pair.b).expires_after(hours(1));
    bytes_record written;
    bytes_record read;
    asio::async_write(pair.a(), asio::buffer(text), written.handler());
    asio::async_read(pair.b, asio::buffer(received), read.handler());
    REQUIRE(run_until(pair.io, [&] { return written.done() && read.done(); }));
    CHECK(read.ec == error_code());
    CHECK(received == text);
  }
  pair.acceptor.close();
  pair.a().close();
  bytes_record ended;
  std::array<char, 8> bytes{};
  SECTION("an error that is none of the limit")
  {
    pair.b.async_read_some(asio::buffer(bytes), ended.handler());
    REQUIRE(run_until(pair.io, [&] { return ended.done(); }));
    CHECK(ended.ec == asio::error::eof);
  }
  SECTION("a limit that was lifted")
  {
    pair.b.expires_after(nanoseconds(1));
    pair.b.expires_never();
    pair.b.async_read_some(asio::buffer(bytes), ended.handler());
    REQUIRE(run_until(pair.io, [&] { return ended.done(); }));
    CHECK(ended.ec == asio::error::eof);
  }
  pair.b.close();
  pair.io.restart();
  pair.io.run(); // returns
}

TEST_CASE("connecting a stream has a time limit")
{
  need(feature::endpoint_descriptions);
  asio::io_context io;
  // A listener without room, which answers no further connection (tcp(7)).
  tcp::acceptor full(io, loopback());
  full.listen(0);
  std::vector<tcp::socket> others;
  rdma::stream client(io, make_context());
  plain_record ended;
  client.expires_after(milliseconds(50));
  for (int i = 0; i != 2; ++i)
  {
    others.emplace_back(io);
    others.back().async_connect(full.local_endpoint(), [](error_code) {});
  }
  client.async_connect(full.local_endpoint(), ended.handler());
  REQUIRE(run_until(io, [&] { return ended.done(); }));
  CHECK(ended.ec == timeout);
  CHECK_FALSE(client.is_open());
}

TEST_CASE("a stream connects to the first server of a list that accepts it")
{
  need(feature::endpoint_descriptions);
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::stream_acceptor acceptor(io, context, loopback());
  std::optional<rdma::stream> server;
  acceptor.async_accept([&](error_code, rdma::stream made) { server.emplace(std::move(made)); });
  tcp::acceptor closed(io, loopback());
  const tcp::endpoint nobody = closed.local_endpoint();
  closed.close();

  rdma::stream client(io, context);
  std::vector<tcp::endpoint> servers;
  int calls = 0;
  error_code ec;
  tcp::endpoint connected;
  const auto connect = [&]
  {
    calls = 0;
    client.async_connect(servers,
      [&](error_code result, const tcp::endpoint& to)
      {
        ++calls;
        ec = result;
        connected = to;
      });
    CHECK(calls == 0);
    REQUIRE(run_until(io, [&] { return calls != 0; }));
  };
  connect();
  CHECK(ec == asio::error::not_found);
  CHECK(client.connect(servers, ec) == tcp::endpoint());
  CHECK(ec == asio::error::not_found);
  servers = {nobody, nobody};
  connect();
  CHECK(ec == asio::error::connection_refused);
  CHECK_THROWS_AS(client.connect(servers), rdma::system_error);
  servers = {nobody, acceptor.local_endpoint(), nobody};
  const bool waits = GENERATE(false, true);
  if (waits)
    CHECK(client.connect(servers) == acceptor.local_endpoint());
  else
  {
    connect();
    CHECK(ec == error_code());
    CHECK(connected == acceptor.local_endpoint());
  }
  CHECK(client.transport().wire != rdma::wire::socket);
  CHECK(run_until(io, [&] { return server.has_value(); }));
}

TEST_CASE("connecting a stream to a list of servers can be cancelled")
{
  need(feature::endpoint_descriptions);
  asio::io_context io;
  tcp::acceptor closed(io, loopback());
  const std::vector<tcp::endpoint> servers(1000, closed.local_endpoint());
  closed.close();
  rdma::stream client(io, make_context());
  asio::cancellation_signal signal;
  int calls = 0;
  error_code ec;
  client.async_connect(servers,
    asio::bind_cancellation_slot(signal.slot(),
      [&](error_code result, const tcp::endpoint&)
      {
        ++calls;
        ec = result;
      }));
  signal.emit(asio::cancellation_type::total);
  REQUIRE(run_until(io, [&] { return calls != 0; }));
  CHECK(ec == asio::error::operation_aborted);
}

} // namespace test::stream_limits
