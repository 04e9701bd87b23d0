//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/stream_connect.hpp"
#include "software/connect_fixture.hpp"
#include "software/stream_fixture.hpp"
#include "stream/message.hpp"
#include "stream/stream_fsm.hpp"

#include <boost_rdma/detail/acceptor_core.hpp>
#include <boost_rdma/detail/connected_peer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Tests streams whose peer is connected as a stream is, and then sends messages of its own.

namespace test::stream_hostile_peers {
namespace {

using rdma::detail::connected_peer;
using rdma::detail::stream_message;
using type = rdma::detail::stream_message_type;

constexpr std::uint32_t ring = 1024;

/// A queue pair of a connection for a stream, whose messages the test sends.
class raw_peer
{
public:
  raw_peer(asio::io_context& io, std::shared_ptr<rdma::detail::queue_pair_core> core)
    : queue_pair_(io.get_executor(), std::move(core))
  {
    for (unsigned i = 0; i != rdma::detail::stream_fsm::receives_min; ++i)
      queue_pair_.async_receive(
        buffer_of(queue_pair_.context(), std::string(stream_message::size_max, '\0')),
        [](const error_code&, auto&&...) {});
  }

  void send(std::string bytes)
  {
    queue_pair_.async_send(
      buffer_of(queue_pair_.context(), bytes), [](const error_code&, std::size_t) {});
  }
  void send(const stream_message& m, std::size_t data = 0)
  {
    std::vector<std::byte> bytes(m.size() + data);
    m.encode(bytes);
    send(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }

  static stream_message hello()
  {
    stream_message m;
    m.type = type::hello;
    m.count = rdma::detail::stream_fsm::receives_min;
    m.ring = rdma::remote_buffer(rdma::device_kind::software, 4096, ring, 77);
    return m;
  }

  void close() { queue_pair_.close(); }

private:
  rdma::queue_pair queue_pair_;
};

stream_message message(type which, std::uint32_t count = 0)
{
  stream_message m;
  m.type = which;
  m.count = count;
  return m;
}

struct attack
{
  const char* name;
  std::function<void(raw_peer&)> run;
};

const std::vector<attack>& attacks()
{
  static const std::vector<attack> all{
    {"no hello", [](raw_peer& p) { p.send(message(type::data, 4), 4); }},
    {"fewer bytes than stated",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        p.send(message(type::data, 5), 4);
      }},
    {"more bytes than stated",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        p.send(message(type::data, 4), 5);
      }},
    {"part of a header", [](raw_peer& p) { p.send(std::string(7, '\1')); }},
    {"a hello without receives",
      [](raw_peer& p)
      {
        stream_message m = raw_peer::hello();
        m.count = 1;
        p.send(m);
      }},
    {"a ring that is too large",
      [](raw_peer& p)
      {
        stream_message m = raw_peer::hello();
        m.ring = rdma::remote_buffer(rdma::device_kind::software, 0, UINT64_MAX, 77);
        p.send(m);
      }},
    {"two hellos",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        p.send(raw_peer::hello());
      }},
    {"more written than the ring has",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        p.send(message(type::written, 1u << 31));
      }},
    {"bytes in a ring that was not offered",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        stream_message m = message(type::written, 1);
        m.odd_ring = true;
        p.send(m);
      }},
    {"credits for messages that were not sent",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        stream_message m = message(type::credit);
        m.received = 100;
        p.send(m);
      }},
    {"credits that go back",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        stream_message m = message(type::credit);
        m.received = UINT32_MAX;
        p.send(m);
      }},
    {"bytes read that were not written",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        stream_message m = message(type::credit);
        m.read = 1u << 30;
        p.send(m);
      }},
    {"an unknown type",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        p.send(message(static_cast<type>(8)));
      }},
    {"bytes after the end",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        p.send(message(type::finish));
        p.send(message(type::data, 4), 4);
      }},
    {"two ends",
      [](raw_peer& p)
      {
        p.send(raw_peer::hello());
        p.send(message(type::finish));
        p.send(message(type::finish));
      }},
    {"a ring that cannot be written to", [](raw_peer& p) { p.send(raw_peer::hello()); }},
    {"no word before the end", [](raw_peer& p) { p.close(); }},
  };
  return all;
}

/// Runs operations of the stream beside the attack. They end with errors, each once, and so do
/// those that follow.
void check_ends(asio::io_context& io, rdma::stream& s, raw_peer& peer, const attack& by)
{
  std::string text(2 * ring, 'x');
  std::string got(64, '\0');
  bytes_record written;
  bytes_record read;
  asio::async_write(s, asio::buffer(text), written.handler());
  asio::async_read(s, asio::buffer(got), read.handler());
  by.run(peer);
  REQUIRE(run_until(io, [&] { return written.done() && read.done(); }));
  CHECK(written.ec);
  CHECK(read.ec);
  bytes_record late;
  asio::async_write(s, asio::buffer(text), late.handler());
  REQUIRE(run_until(io, [&] { return late.done(); }));
  CHECK(late.ec);
}

/// Checks that a stream of the acceptor serves an honest client.
void check_alive(asio::io_context& io, rdma::stream_acceptor& acceptor, rdma::context& context)
{
  std::optional<rdma::stream> accepted;
  rdma::stream client(io, context);
  plain_record connected;
  acceptor.async_accept([&](error_code, rdma::stream made) { accepted.emplace(std::move(made)); });
  client.async_connect(acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done() && accepted; }));
  const std::string text = random_text(5000, 1);
  std::string got(text.size(), '\0');
  bytes_record written;
  bytes_record read;
  asio::async_write(client, asio::buffer(text), written.handler());
  asio::async_read(*accepted, asio::buffer(got), read.handler());
  REQUIRE(run_until(io, [&] { return written.done() && read.done(); }));
  CHECK(got == text);
}

rdma::detail::queue_pair_settings settings_of(asio::io_context& io, const rdma::context& context)
{
  const asio::any_io_executor executor = io.get_executor();
  return {executor, true, rdma::protection_domain(context), for_stream()};
}

} // namespace

TEST_CASE("a stream acceptor ends the stream of a client that violates the protocol")
{
  need(feature::endpoint_descriptions);
  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  rdma::stream_acceptor acceptor(io, server_context, loopback());
  for (const attack& each : attacks())
  {
    CAPTURE(each.name);
    std::optional<rdma::stream> accepted;
    std::optional<connected_peer> connected;
    const auto client =
      std::make_shared<rdma::detail::stream_connect>(rdma::detail::stream_client{io.get_executor(),
        io.get_executor(), [&] { return settings_of(io, client_context); }, true, false});
    acceptor.async_accept(
      [&](error_code, rdma::stream made) { accepted.emplace(std::move(made)); });
    client->start(acceptor.local_endpoint(),
      [&](error_code, connected_peer made) { connected.emplace(std::move(made)); });
    REQUIRE(run_until(io, [&] { return connected && accepted; }));
    raw_peer peer(io, std::move(connected->queue_pair));
    check_ends(io, *accepted, peer, each);
    accepted.reset();
    check_alive(io, acceptor, client_context);
  }
}

TEST_CASE("a client's stream ends when its server violates the protocol")
{
  need(feature::endpoint_descriptions);
  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  rdma::acceptor_options options;
  options.queue_pair = for_stream();
  error_code ec;
  const auto server = rdma::detail::acceptor_core::make(io.get_executor(), io.get_executor(),
    rdma::protection_domain(server_context), loopback(), options, ec,
    rdma::detail::acceptor_core::clients::rdma_streams);
  REQUIRE(server != nullptr);
  for (const attack& each : attacks())
  {
    CAPTURE(each.name);
    std::optional<connected_peer> accepted;
    rdma::stream client(io, client_context);
    plain_record connected;
    server->accept(io.get_executor(),
      [&](error_code, connected_peer made) { accepted.emplace(std::move(made)); });
    client.async_connect(server->local_endpoint(), connected.handler());
    REQUIRE(run_until(io, [&] { return connected.done() && accepted; }));
    REQUIRE(connected.ec == error_code());
    raw_peer peer(io, std::move(accepted->queue_pair));
    check_ends(io, client, peer, each);
  }
  server->close();
  rdma::stream_acceptor acceptor(io, server_context, loopback());
  check_alive(io, acceptor, client_context);
}

} // namespace test::stream_hostile_peers
