//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The end of a stream while one of its two programs does not run.

#include "software/connect_fixture.hpp"
#include "software/stream_fixture.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace test::stream_ends {
namespace {

/// Two streams in different io_contexts, which have exchanged a byte each way.
struct apart
{
  explicit apart(const rdma::stream_options& options = {})
  {
    connect_fixture::accepted server;
    plain_record connected;
    rdma::acceptor acceptor(io_b, context_b, loopback());
    rdma::queue_pair client(io_a, context_a);
    acceptor.async_accept(server.handler());
    client.async_connect(acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(io_a, io_b, [&] { return connected.done() && server.calls != 0; }));
    REQUIRE(connected.ec == error_code());
    REQUIRE(server.ec == error_code());
    a.emplace(std::move(client), options);
    b.emplace(std::move(*server.peer), options);
    CHECK(transfer(io_a, *a, io_b, *b) == "x");
    CHECK(transfer(io_b, *b, io_a, *a) == "x");
  }

  static std::string transfer(
    asio::io_context& io, rdma::stream& from, asio::io_context& other, rdma::stream& to)
  {
    std::string text(1, '\0');
    bytes_record written;
    bytes_record read;
    asio::async_write(from, asio::buffer("x", 1), written.handler());
    asio::async_read(to, asio::buffer(text), read.handler());
    REQUIRE(run_until(io, other, [&] { return written.done() && read.done(); }));
    return text;
  }

  asio::io_context io_a;
  asio::io_context io_b;
  rdma::context context_a = make_context();
  rdma::context context_b = make_context();
  std::optional<rdma::stream> a;
  std::optional<rdma::stream> b;
};

/// Reads to the end. Returns the bytes; `ec`: the error that ends them.
std::string read_all(
  asio::io_context& io, asio::io_context& other, rdma::stream& from, error_code& ec)
{
  std::string text;
  bytes_record got;
  asio::async_read(from, asio::dynamic_buffer(text), got.handler());
  REQUIRE(run_until(io, other, [&] { return got.done(); }));
  ec = got.ec;
  return text;
}

} // namespace

TEST_CASE("closing a stream delivers the end although the peer's receives are in use")
{
  need(feature::endpoint_descriptions);
  rdma::stream_options options = of_ring(1024);
  options.receives = 8;
  apart f(options);

  static_cast<void>(GENERATE(range(0, 5))); // the order of events in io_a varies
  // Four quarters of the ring. The credits for them take four receives.
  const std::string from_b = random_text(1024, 1);
  for (std::size_t i = 0; i != 4; ++i)
  {
    bytes_record written;
    f.b->async_write_some(asio::buffer(from_b.data() + 256 * i, 256), written.handler());
    REQUIRE(run_until(f.io_b, [&] { return written.done(); }));
    CHECK(written.value() == 256);
  }
  // The peer's program does not run, so that it uses its receives only once.
  std::string sent;
  for (;;)
  {
    bytes_record written;
    f.a->async_write_some(asio::buffer("y", 1), written.handler());
    f.io_a.restart();
    f.io_a.poll();
    if (!written.done())
    {
      f.a->cancel();
      REQUIRE(run_until(f.io_a, [&] { return written.done(); }));
      CHECK(written.ec == asio::error::operation_aborted);
      break;
    }
    REQUIRE(written.ec == error_code());
    sent += 'y';
  }
  CHECK_FALSE(sent.empty());
  std::string got(from_b.size(), '\0');
  for (std::size_t i = 0; i != 4; ++i)
  {
    bytes_record read;
    asio::async_read(*f.a, asio::buffer(got.data() + 256 * i, 256), read.handler());
    REQUIRE(run_until(f.io_a, [&] { return read.done(); }));
  }
  CHECK(got == from_b);
  f.a->close();
  for (int i = 0; i != 1000; ++i) // it may end too early
  {
    f.io_a.restart();
    f.io_a.poll();
  }
  error_code ec;
  CHECK(read_all(f.io_b, f.io_a, *f.b, ec) == sent);
  CHECK(ec == asio::error::eof);
}

TEST_CASE("a stream delivers what has arrived although it cannot send any more")
{
  need(feature::endpoint_descriptions);
  const std::string text = random_text(1000, 1);
  for (int i = 0; i != 20; ++i) // the first of two events that io_a finds at once varies
  {
    apart f;
    bytes_record written;
    asio::async_write(*f.b, asio::buffer(text), written.handler());
    REQUIRE(run_until(f.io_b, [&] { return written.done(); }));
    f.b->close();
    CHECK(run_out(f.io_b)); // the connection has ended
    bytes_record refused;
    f.a->async_write_some(asio::buffer("x", 1), refused.handler());
    error_code ec;
    CHECK(read_all(f.io_a, f.io_b, *f.a, ec) == text);
    CHECK(ec == asio::error::eof);
    CHECK(refused.done());
  }
}

TEST_CASE("a stream whose message is lost ends although its program waits for nothing")
{
  connect_fixture f;
  connect_fixture::accepted server; // has no receive
  rdma::queue_pair_options options;
  options.rnr_retry_count = 1;
  rdma::queue_pair client(f.io, f.client_context, options);
  plain_record connected;
  f.acceptor.async_accept(server.handler());
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls != 0; }));
  REQUIRE(connected.ec == error_code());
  plain_record closed;
  server.peer->async_wait_close(closed.handler());
  const rdma::stream near(std::move(client));
  REQUIRE(run_until(f.io, [&] { return closed.done(); }));
  CHECK(closed.ec == error::peer_closed);
}

} // namespace test::stream_ends
