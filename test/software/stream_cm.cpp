//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Streams over queue pairs that RDMA-CM has connected.

#include "completion/early_receive.hpp"
#include "completion/queue_pair_core.hpp"
#include "software/cm_fixture.hpp"
#include "software/stream_fixture.hpp"

#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace test::stream_cm {
namespace {

cm::acceptor_options accept_for_streams()
{
  cm::acceptor_options options;
  options.queue_pair.for_stream = true;
  return options;
}

/// A queue pair connected by RDMA-CM to one that the acceptor has made.
struct accepted_pair : cm_fixture
{
  explicit accepted_pair(const cm::acceptor_options& options = accept_for_streams())
    : cm_fixture(options)
  {
    accept_record accepted;
    data_record connected;
    acceptor.async_accept(accepted.handler());
    cm::async_connect(client, acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(io, [&] { return accepted.done() && connected.done(); }));
    REQUIRE(connected.ec == error_code());
    REQUIRE(accepted.ec == error_code());
    server = std::move(*accepted.object);
  }
};

void exchange(asio::io_context& io, rdma::stream& from, rdma::stream& to, std::size_t size)
{
  const std::string text = random_text(size, 1);
  std::string got(size, '\0');
  bytes_record written;
  bytes_record read;
  asio::async_write(from, asio::buffer(text), written.handler());
  asio::async_read(to, asio::buffer(got), read.handler());
  REQUIRE(run_until(io, [&] { return written.done() && read.done(); }));
  CHECK(written.ec == error_code());
  CHECK(read.ec == error_code());
  CHECK(got == text);
}

/// Takes longer than the delivery of a message that was sent before.
void let_others_exchange()
{
  stream_pair others;
  exchange(others.io, others.a, others.b, 1000);
}

} // namespace

TEST_CASE("streams of queue pairs that RDMA-CM has connected carry bytes in both directions")
{
  accepted_pair f;
  rdma::stream client(std::move(f.client));
  // The first message of the client may arrive before the server has a stream.
  bytes_record early;
  asio::async_write(client, asio::buffer("early", 5), early.handler());
  let_others_exchange();
  f.io.poll();
  rdma::stream server(std::move(f.server));
  std::string got(5, '\0');
  bytes_record read;
  asio::async_read(server, asio::buffer(got), read.handler());
  REQUIRE(run_until(f.io, [&] { return early.done() && read.done(); }));
  CHECK(got == "early");
  exchange(f.io, server, client, 300'000);
  exchange(f.io, client, server, 300'000);
  CHECK(client.transport().device == device_name());
}

TEST_CASE("a stream of RDMA-CM is closed before its peer has made one, and the peer reads the end")
{
  accepted_pair f;
  std::optional<rdma::stream> first(std::in_place, std::move(f.client));
  first.reset();
  let_others_exchange();
  f.io.poll();
  rdma::stream server(std::move(f.server));
  char byte = 0;
  bytes_record got;
  server.async_read_some(asio::buffer(&byte, 1), got.handler());
  REQUIRE(run_until(f.io, [&] { return got.done(); }));
  CHECK(got.ec == asio::error::eof);
}

TEST_CASE("streams of RDMA-CM deliver all that was written before they close")
{
  const std::string text = random_text(200'000, 3);
  for (int i = 0; i != 20; ++i)
  {
    accepted_pair f;
    rdma::stream server(std::move(f.server));
    std::optional<rdma::stream> client(std::in_place, std::move(f.client));
    if (i % 2 == 0)
      std::swap(*client, server);
    bytes_record written;
    asio::async_write(*client, asio::buffer(text),
      [&](const error_code& ec, std::size_t n)
      {
        client.reset();
        written.handler()(ec, n);
      });
    std::string got;
    bytes_record read;
    asio::async_read(server, asio::dynamic_buffer(got), read.handler());
    REQUIRE(run_until(f.io, [&] { return read.done() && written.done(); }));
    CHECK(written.ec == error_code());
    CHECK(read.ec == asio::error::eof);
    CHECK(got == text);
  }
}

TEST_CASE("async_connect of a stream does not use iWARP, and transport() has the reason")
{
  asio::io_context io;
  const rdma::context server_context = make_context();
  const rdma::context client_context = make_context();
  rdma::stream_acceptor acceptor(io, server_context, tcp::endpoint(device_address(), 0));
  rdma::stream client(io, client_context);
  plain_record connected;
  std::optional<rdma::stream> server;
  acceptor.async_accept([&](error_code, rdma::stream made) { server.emplace(std::move(made)); });
  client.async_connect(acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done() && server; }));
  REQUIRE(connected.ec == error_code());
  const std::string text = client.transport().text();
  INFO(text);
  const bool names_manager = text.find("connects by RDMA-CM only") != std::string::npos;
  CHECK(names_manager == !missing(feature::endpoint_descriptions).empty());
  CHECK(client.transport().wire != rdma::wire::iwarp);
}

TEST_CASE("a stream of a queue pair that iWARP has accepted needs queue_pair_options::for_stream")
{
  accepted_pair f{cm::acceptor_options()};
  const bool is_iwarp = f.server.transport().wire == rdma::wire::iwarp;
  std::string complaint;
  try
  {
    const rdma::stream server(std::move(f.server));
  }
  catch (const rdma::system_error& e)
  {
    CHECK(e.code() == asio::error::operation_not_supported);
    complaint = e.what();
  }
  CHECK((complaint.find("for_stream") != std::string::npos) == is_iwarp);
}

TEST_CASE("an early receive passes its message to a taker that comes before it or after it")
{
  asio::io_context io;
  const rdma::context near_context = make_context();
  const rdma::context far_context = make_context();
  rdma::queue_pair near(io, near_context);
  rdma::queue_pair far(io, far_context);
  const auto early = std::make_shared<rdma::detail::early_receive>(far_context);
  early->post(*far.core());
  far.core()->count_as_work(true); // as a stream with an operation does
  const auto room = far_context.allocate(8);
  bytes_record second;
  far.async_receive(room, second.handler());
  connect_for_streams(io, far_context, near, far);
  const bool before = GENERATE(true, false);
  std::string got;
  const auto take = [&]
  {
    early->hand_over([&](const error_code& ec, const rdma::const_buffer& message)
      { got = ec ? ec.message() : text_of(message); });
  };
  if (before)
    take();
  bytes_record sent;
  near.async_send(buffer_of(near_context, "hello"), sent.handler());
  near.async_send(buffer_of(near_context, "more"), [](const error_code&, std::size_t) {});
  REQUIRE(run_until(io, [&] { return second.done(); }));
  if (!before)
    take();
  CHECK(got == "hello");
  CHECK(text_of(room.first(second.value())) == "more");
}

} // namespace test::stream_cm
