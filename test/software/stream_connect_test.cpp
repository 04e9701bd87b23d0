//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/inventory.hpp"
#include "connect/discovery_message.hpp"
#include "software/connect_fixture.hpp"
#include "software/stream_fixture.hpp"

#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <list>
#include <optional>
#include <string>

// Streams that connect and are accepted, with RDMA and without.

namespace test::stream_connecting {
namespace {

using rdma::detail::discovery_message;
using rdma::detail::discovery_type;

constexpr auto socket_wire = rdma::wire::socket;

struct accepted
{
  int calls = 0;
  error_code ec;
  std::optional<rdma::stream> stream;

  auto handler()
  {
    return [this](error_code result, rdma::stream made)
    {
      ++calls;
      ec = result;
      stream.emplace(std::move(made));
    };
  }
};

rdma::stream_acceptor_options with(rdma::stream_transports transports)
{
  rdma::stream_acceptor_options options;
  options.stream.transports = transports;
  return options;
}

struct acceptor_fixture
{
  explicit acceptor_fixture(const rdma::stream_acceptor_options& options = {})
    : acceptor(io, server_context, loopback(), options)
  {
    need(feature::endpoint_descriptions);
  }

  /// Connects a stream, and returns it with the server's.
  void connect(rdma::stream& client, accepted& server)
  {
    plain_record connected;
    acceptor.async_accept(server.handler());
    client.async_connect(acceptor.local_endpoint(), connected.handler());
    CHECK_FALSE(connected.done());
    REQUIRE(run_until(io, [&] { return connected.done() && server.calls != 0; }));
    REQUIRE(connected.ec == error_code());
    REQUIRE(server.ec == error_code());
  }

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  rdma::stream_acceptor acceptor;
};

template <class To>
error_code write_all(asio::io_context& io, To& to, const std::string& text)
{
  bytes_record written;
  asio::async_write(to, asio::buffer(text), written.handler());
  REQUIRE(run_until(io, [&] { return written.done(); }));
  return written.ec;
}

/// Reads as many bytes, and more than there were is an error.
template <class From>
std::string read_text(asio::io_context& io, From& from, std::size_t size, error_code& ec)
{
  std::string text(size, '\0');
  bytes_record got;
  asio::async_read(from, asio::buffer(text), got.handler());
  REQUIRE(run_until(io, [&] { return got.done(); }));
  ec = got.ec;
  text.resize(got.value());
  return text;
}

template <class A, class B>
void talk(asio::io_context& io, A& a, B& b)
{
  const std::string text(100'000, 'x');
  error_code ec;
  for (const std::string& each : {std::string("hello"), text})
  {
    bytes_record written;
    asio::async_write(a, asio::buffer(each), written.handler());
    CHECK(read_text(io, b, each.size(), ec) == each);
    CHECK(ec == error_code());
    REQUIRE(run_until(io, [&] { return written.done(); }));
    CHECK(written.ec == error_code());
  }
  CHECK(write_all(io, b, "back") == error_code());
  CHECK(read_text(io, a, 4, ec) == "back");
}

/// Asks as a client does, and waits for the answer.
void ask(asio::io_context& io, const tcp::endpoint& server)
{
  asio::ip::udp::socket socket(io, asio::ip::udp::v4());
  socket.connect({server.address(), server.port()});
  socket.send(asio::buffer(discovery_message{discovery_type::question, {}}.encode()));
  std::array<char, discovery_message::size> answer{};
  CHECK(socket.receive(asio::buffer(answer)) == answer.size());
}

std::string preamble()
{
  const auto bytes = discovery_message{discovery_type::preamble, {}}.encode();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace

TEST_CASE("streams connect by RDMA")
{
  acceptor_fixture f;
  for (int i = 0; i != 3; ++i)
  {
    rdma::stream client(f.io, f.client_context);
    accepted server;
    f.connect(client, server);
    CHECK(client.transport().wire != socket_wire);
    CHECK(server.stream->transport().wire == client.transport().wire);
    CHECK(client.remote_endpoint() == f.acceptor.local_endpoint());
    CHECK(server.stream->local_endpoint() == f.acceptor.local_endpoint());
    CHECK(server.stream->remote_endpoint() == client.local_endpoint());
    talk(f.io, client, *server.stream);
    talk(f.io, *server.stream, client);
    plain_record again;
    client.async_connect(f.acceptor.local_endpoint(), again.handler());
    REQUIRE(run_until(f.io, [&] { return again.done(); }));
    CHECK(again.ec == error::already_connected);
    client.shutdown(rdma::stream::shutdown_type::shutdown_send);
    error_code ec;
    CHECK(read_text(f.io, *server.stream, 1, ec).empty());
    CHECK(ec == asio::error::eof);
  }
}

TEST_CASE("streams connect by RDMA at each address of a server that listens on all")
{
  need(feature::endpoint_descriptions);
  const auto [listens, connects] = GENERATE(table<const char*, const char*>({{"::1", "::1"},
    {"::", "::1"}, {"::", "127.0.0.1"}, {"0.0.0.0", "127.0.0.1"}, {"0.0.0.0", "127.0.0.2"}}));
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::stream_acceptor acceptor(io, context, {asio::ip::make_address(listens), 0});
  rdma::stream client(io, make_context());
  plain_record connected;
  accepted server;
  acceptor.async_accept(server.handler());
  client.async_connect(
    {asio::ip::make_address(connects), acceptor.local_endpoint().port()}, connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done() && server.calls != 0; }));
  CHECK(connected.ec == error_code());
  CHECK(client.transport().text().find(name_of(socket_wire)) == std::string::npos);
}

TEST_CASE("a stream acceptor serves plain TCP clients that speak first")
{
  acceptor_fixture f;
  accepted server;
  f.acceptor.async_accept(server.handler());
  tcp::socket client(f.io);
  client.connect(f.acceptor.local_endpoint());
  asio::write(client, asio::buffer("GET", 3));
  REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
  REQUIRE(server.ec == error_code());
  CHECK(server.stream->transport().wire == socket_wire);
  CHECK(server.stream->transport().text()
    == "TCP socket without RDMA; not RDMA: the client has not asked for RDMA");
  CHECK(server.stream->remote_endpoint() == client.local_endpoint());
  error_code ec;
  CHECK(read_text(f.io, *server.stream, 3, ec) == "GET");
  talk(f.io, client, *server.stream);
  client.shutdown(tcp::socket::shutdown_send);
  CHECK(read_text(f.io, *server.stream, 1, ec).empty());
  CHECK(ec == asio::error::eof);
  CHECK(write_all(f.io, *server.stream, "bye") == error_code());
  server.stream->close();
  CHECK_FALSE(server.stream->is_open());
  CHECK(read_text(f.io, client, 4, ec) == "bye");
  CHECK(ec == asio::error::eof);
}

TEST_CASE("a stream acceptor serves plain TCP clients that wait for its first bytes")
{
  acceptor_fixture f;
  // The second one has the address of a client that has asked for RDMA and has not connected.
  for (const bool asked : {false, true})
  {
    if (asked)
      ask(f.io, f.acceptor.local_endpoint());
    accepted server;
    f.acceptor.async_accept(server.handler());
    tcp::socket client(f.io);
    client.connect(f.acceptor.local_endpoint());
    REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
    CHECK(write_all(f.io, *server.stream, "220") == error_code());
    error_code ec;
    CHECK(read_text(f.io, client, 3, ec) == "220");
  }
}

TEST_CASE("a stream goes on over TCP with a server that has no RDMA, which sees none of it")
{
  acceptor_fixture f; // for the contexts
  tcp::acceptor plain(f.io, loopback());
  // The server's host may also ignore the datagrams. The second time it is not asked.
  const std::string ignores = GENERATE("", "once", "twice");
  asio::ip::udp::socket silent(f.io);
  if (!ignores.empty())
  {
    silent.open(asio::ip::udp::v4());
    silent.bind({plain.local_endpoint().address(), plain.local_endpoint().port()});
  }
  for (int i = 0; i != (ignores == "twice" ? 2 : 1); ++i)
  {
    rdma::stream client(f.io, f.client_context);
    plain_record connected;
    client.async_connect(plain.local_endpoint(), connected.handler());
    tcp::socket server = plain.accept();
    REQUIRE(run_until(f.io, [&] { return connected.done(); }));
    REQUIRE(connected.ec == error_code());
    CHECK(client.transport().wire == socket_wire);
    CHECK(client.transport().declined.at(0).reason
      == (ignores.empty() ? "the server does not accept RDMA: Connection refused"
                          : "the server does not answer UDP"));
    talk(f.io, client, server);
    client.close();
    error_code ec;
    CHECK(read_text(f.io, server, 1, ec).empty());
    if (ignores.empty())
      continue;
    silent.non_blocking(true);
    std::array<char, 100> bytes{};
    std::size_t datagrams = 0;
    for (error_code none; !none; datagrams += none ? 0 : 1)
      silent.receive(asio::buffer(bytes), 0, none);
    CHECK((datagrams != 0) == (i == 0));
  }
}

TEST_CASE("streams that allow only RDMA or only TCP do so")
{
  using enum rdma::stream_transports;
  need(feature::endpoint_descriptions);
  {
    acceptor_fixture f(with(rdma));
    accepted server;
    f.acceptor.async_accept(server.handler());
    tcp::socket plain(f.io);
    plain.connect(f.acceptor.local_endpoint());
    asio::write(plain, asio::buffer("GET", 3));
    error_code ec;
    CHECK(read_text(f.io, plain, 1, ec).empty());
    CHECK(server.calls == 0);
    rdma::stream client(f.io, f.client_context, with(rdma).stream);
    plain_record connected;
    client.async_connect(f.acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls != 0; }));
    CHECK(client.transport().wire != socket_wire);
  }
  {
    acceptor_fixture f(with(tcp));
    rdma::stream client(f.io, f.client_context);
    accepted server;
    f.connect(client, server);
    CHECK(client.transport().wire == socket_wire);
    rdma::stream only(f.io, f.client_context, with(rdma).stream);
    plain_record refused;
    f.acceptor.async_accept(server.handler());
    only.async_connect(f.acceptor.local_endpoint(), refused.handler());
    REQUIRE(run_until(f.io, [&] { return server.calls == 2; }));
    server.stream->close();
    REQUIRE(run_until(f.io, [&] { return refused.done(); }));
    CHECK(refused.ec);
    CHECK(only.is_open());
  }
  acceptor_fixture f;
  rdma::stream client(f.io, f.client_context, with(tcp).stream);
  accepted server;
  f.connect(client, server);
  CHECK(
    client.transport().text() == "TCP socket without RDMA; not RDMA: not allowed by the program");
}

TEST_CASE("a stream goes on over TCP after a handshake that failed")
{
  rdma::stream_acceptor_options options;
  options.authorise = [](const rdma::client_request&)
  { return rdma::authorisation::refuse(403, "no"); };
  acceptor_fixture f(options);
  rdma::stream client(f.io, f.client_context);
  accepted server;
  f.connect(client, server);
  CHECK(client.transport().wire == socket_wire);
  CHECK(client.transport().declined.at(0).reason.starts_with("the handshake failed: "));
  talk(f.io, client, *server.stream);
}

TEST_CASE("a preamble that comes late, in parts or without end does no harm")
{
  acceptor_fixture f;
  accepted server;
  tcp::socket client(f.io);
  client.connect(f.acceptor.local_endpoint());
  error_code ec;
  SECTION("after the decision for TCP")
  {
    f.acceptor.async_accept(server.handler());
    REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
    asio::write(client, asio::buffer(preamble()));
    CHECK(read_text(f.io, *server.stream, 1, ec).empty());
    CHECK(ec == asio::error::connection_reset);
    CHECK(read_text(f.io, client, 1, ec).empty());
    CHECK(ec);
  }
  SECTION("a part of it and the end")
  {
    asio::write(client, asio::buffer(preamble().substr(0, 20)));
    client.shutdown(tcp::socket::shutdown_send);
    f.acceptor.async_accept(server.handler());
    REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
    CHECK(read_text(f.io, *server.stream, 21, ec) == preamble().substr(0, 20));
    CHECK(ec == asio::error::eof);
  }
  SECTION("without a request")
  {
    ask(f.io, f.acceptor.local_endpoint());
    asio::write(client, asio::buffer(preamble() + "GET / HTTP/1.1\r\n\r\n"));
    f.acceptor.async_accept(server.handler());
    CHECK(read_text(f.io, client, 12, ec) == "HTTP/1.1 426");
    CHECK(server.calls == 0);
    rdma::stream good(f.io, f.client_context);
    plain_record connected;
    good.async_connect(f.acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls != 0; }));
    CHECK(good.transport().wire != socket_wire);
  }
}

TEST_CASE("connecting a stream can be cancelled, and begun again")
{
  acceptor_fixture f;
  rdma::stream client(f.io, f.client_context);
  bytes_record read;
  char byte = 0;
  client.async_read_some(asio::buffer(&byte, 1), read.handler());
  REQUIRE(run_until(f.io, [&] { return read.done(); }));
  CHECK(read.ec == error::not_connected);

  // Nobody accepts, so the handshake has no end.
  plain_record connected;
  asio::cancellation_signal signal;
  const int how = GENERATE(0, 1, 2);
  client.async_connect(
    f.acceptor.local_endpoint(), asio::bind_cancellation_slot(signal.slot(), connected.handler()));
  plain_record second;
  client.async_connect(f.acceptor.local_endpoint(), second.handler());
  REQUIRE(run_until(f.io, [&] { return second.done(); }));
  CHECK(second.ec == error::already_connected);
  if (how == 0)
    signal.emit(asio::cancellation_type::total);
  else if (how == 1)
    client.cancel();
  else
    client.close();
  REQUIRE(run_until(f.io, [&] { return connected.done(); }));
  CHECK(connected.ec == asio::error::operation_aborted);
  if (how == 2)
  {
    client.async_connect(f.acceptor.local_endpoint(), second.handler());
    REQUIRE(run_until(f.io, [&] { return second.calls == 2; }));
    CHECK(second.ec == error::closed);
    return;
  }
  accepted first; // the client that has gone, unless it was noticed
  f.acceptor.async_accept(first.handler());
  accepted server;
  f.acceptor.async_accept(server.handler());
  plain_record again;
  client.async_connect(f.acceptor.local_endpoint(), again.handler());
  REQUIRE(run_until(f.io, [&] { return again.done(); }));
  CHECK(again.ec == error_code());
}

TEST_CASE("refused connections and closed acceptors end the operations of streams")
{
  acceptor_fixture f;
  const tcp::endpoint gone = f.acceptor.local_endpoint();
  accepted server;
  f.acceptor.async_accept(server.handler());
  f.acceptor.cancel();
  REQUIRE(run_until(f.io, [&] { return server.calls == 1; }));
  CHECK(server.ec == asio::error::operation_aborted);
  f.acceptor.close();
  f.acceptor.async_accept(server.handler());
  REQUIRE(run_until(f.io, [&] { return server.calls == 2; }));
  CHECK(server.ec == error::closed);
  CHECK_FALSE(server.stream->is_open());
  rdma::stream client(f.io, f.client_context);
  plain_record connected;
  client.async_connect(gone, connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done(); }));
  CHECK(connected.ec == asio::error::connection_refused);
}

TEST_CASE("connecting a stream in vain leaves no descriptor open")
{
  acceptor_fixture f; // for the contexts
  asio::ip::udp::socket silent(f.io, {asio::ip::address_v4::loopback(), 0});
  const tcp::endpoint nobody(silent.local_endpoint().address(), silent.local_endpoint().port());
  tcp::socket taken(f.io, nobody); // no other process listens there, or connects from there
  const auto fail = [&]
  {
    rdma::stream client(f.io, f.client_context);
    plain_record connected;
    client.async_connect(nobody, connected.handler());
    REQUIRE(run_until(f.io, [&] { return connected.done(); }));
    CHECK(connected.ec == asio::error::connection_refused);
  };
  fail();
  const inventory before;
  for (int i = 0; i != 10; ++i)
    fail();
  CHECK(settled(before) <= before);
}

TEST_CASE("a stream acceptor and its clients refuse options with which no stream can be made")
{
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::stream_acceptor_options options;
  options.stream.receives = 1;
  CHECK_THROWS_AS(rdma::stream_acceptor(io, context, loopback(), options), rdma::system_error);
  CHECK_THROWS_AS(rdma::stream(io, context, options.stream), rdma::system_error);
  options.stream = {};
  options.queue_pair.receive_depth = 4;
  CHECK_THROWS_AS(rdma::stream_acceptor(io, context, loopback(), options), rdma::system_error);
}

TEST_CASE("many streams connect at the same time as plain TCP clients, on strands")
{
  acceptor_fixture f;
  constexpr int count = 20;
  using strand = asio::strand<asio::io_context::executor_type>;
  std::list<rdma::basic_stream<strand>> clients;
  std::list<plain_record> connected;
  std::list<accepted> servers;
  std::list<tcp::socket> plain;
  for (int i = 0; i != 2 * count; ++i)
    f.acceptor.async_accept(servers.emplace_back().handler());
  for (int i = 0; i != count; ++i)
  {
    clients.emplace_back(asio::make_strand(f.io.get_executor()), f.client_context)
      .async_connect(f.acceptor.local_endpoint(), connected.emplace_back().handler());
    plain.emplace_back(f.io).connect(f.acceptor.local_endpoint());
    asio::write(plain.back(), asio::buffer("x", 1));
  }
  REQUIRE(run_until(f.io,
    [&]
    {
      return std::all_of(connected.begin(), connected.end(), [](auto& each) { return each.done(); })
        && std::all_of(servers.begin(), servers.end(), [](auto& each) { return each.calls != 0; });
    }));
  CHECK(std::all_of(clients.begin(), clients.end(),
    [](const auto& each) { return each.transport().wire != socket_wire; }));
  CHECK(std::count_if(servers.begin(), servers.end(),
          [](const accepted& each) { return each.stream->transport().wire == socket_wire; })
    == count);
}

TEST_CASE("streams and their acceptors have default completion tokens")
{
  need(feature::endpoint_descriptions);
  using asio::use_awaitable_t;
  asio::io_context io;
  const rdma::context context = make_context();
  use_awaitable_t<>::as_default_on_t<rdma::stream_acceptor> acceptor(io, context, loopback());
  use_awaitable_t<>::as_default_on_t<rdma::stream> client(io, context);
  std::string got(5, '\0');
  run_all(
    io,
    [&]() -> asio::awaitable<void>
    {
      auto server = co_await acceptor.async_accept();
      co_await server.async_wait(client.wait_read);
      co_await asio::async_read(server, asio::buffer(got));
    },
    [&]() -> asio::awaitable<void>
    {
      co_await client.async_connect(acceptor.local_endpoint());
      co_await asio::async_write(client, asio::buffer("hello", 5));
    });
  CHECK(got == "hello");
}

TEST_CASE("a destroyed io_context destroys the operations of streams that connect")
{
  const auto owned = std::make_shared<int>(0);
  {
    acceptor_fixture f;
    std::optional<rdma::stream> client(std::in_place, f.io, f.client_context);
    f.acceptor.async_accept([owned](error_code, rdma::stream) { FAIL(); });
    rdma::stream_acceptor other(f.io, f.server_context, loopback());
    client->async_connect(other.local_endpoint(), [owned](error_code) { FAIL(); });
  }
  CHECK(owned.use_count() == 1);
}

} // namespace test::stream_connecting
