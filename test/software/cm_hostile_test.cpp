//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests hostile datagrams at the UDP port of a listener of RDMA-CM while honest clients connect.

#include "common/allocations.hpp"
#include "common/inventory.hpp"
#include "software/cm_fixture.hpp"
#include "software/raw_cm_peer.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <random>
#include <span>

namespace test::cm_hostile_test {
namespace {
using rdma::software::cm::message;
using rdma::software::cm::message_type;
namespace bytes = rdma::software::cm; // encode, decode

constexpr message_type all_types[] = {message_type::request, message_type::receipt,
  message_type::reject, message_type::reply, message_type::ready, message_type::disconnect,
  message_type::disconnected, message_type::datagram_request, message_type::datagram_reply};

/// A message of this type with random ids.
message forged(message_type type, const raw_cm_peer& by, std::minstd_rand& random)
{
  message m = by.request(static_cast<std::uint32_t>(random()));
  m.type = type;
  m.remote_id = static_cast<std::uint32_t>(random());
  m.queue_pair = random() & 0xffffff;
  return m;
}

cm::acceptor_options impatient()
{
  cm::acceptor_options result;
  result.handshake_timeout = std::chrono::milliseconds(200); // of the attackers' connections
  return result;
}

struct besieged : cm_fixture
{
  static constexpr unsigned accepts = 100;

  besieged()
    : cm_fixture(impatient())
  {
    CAPTURE(seed);
    // A client that does not complete the handshake occupies an accept until the time limit.
    for (unsigned i = 0; i != accepts; ++i)
      serve();
  }

  /// Accepts everyone, and ends connections that fail.
  void serve()
  {
    acceptor.async_accept(
      [this](error_code ec, rdma::queue_pair accepted)
      {
        if (ec)
          return;
        const auto entry =
          clients.insert(clients.end(), {server_context.allocate(8), std::move(accepted)});
        entry->second.async_receive(entry->first,
          [this, entry](error_code failed, std::size_t)
          {
            if (failed)
              return asio::post(io, [this, entry] { clients.erase(entry); });
            entry->second.async_send(entry->first,
              [this, entry](error_code, std::size_t)
              { asio::post(io, [this, entry] { clients.erase(entry); }); });
          });
        serve();
      });
  }

  /// An honest client connects and gets an echo. It begins again if it is refused, because the
  /// listener has a limit of waiting requests, or if its handshake was over the time limit.
  void connect_honestly()
  {
    rdma::registered_buffer answer = client_context.allocate(8);
    REQUIRE(until(
      [&]
      {
        rdma::queue_pair one(io, client_context, of_depth(2));
        data_record connected;
        cm::async_connect(one, acceptor.local_endpoint(), connected.handler());
        REQUIRE(run_until(io, [&] { return connected.done(); }));
        if (connected.ec == error::refused)
          return false;
        REQUIRE(connected.ec == error_code());
        bytes_record sent;
        bytes_record received;
        one.async_receive(answer, received.handler());
        one.async_send(buffer_of(client_context, "honest"), sent.handler());
        REQUIRE(run_until(io, [&] { return sent.done() && received.done(); }));
        if (sent.ec || received.ec) // the listener's thread was late for the handshake's time limit
          return false;
        CHECK(text_of(answer).starts_with("honest"));
        return true;
      }));
  }

  const unsigned seed = std::random_device{}();
  std::minstd_rand random{seed};
  std::list<std::pair<rdma::registered_buffer, rdma::queue_pair>> clients;
};

} // namespace

TEST_CASE("a listener of RDMA-CM serves clients during hostile datagrams and keeps nothing of them")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  besieged f;
  raw_cm_peer by(f.io, f.acceptor.local_endpoint());
  constexpr unsigned per_round = 64; // fit into the socket's buffer
  unsigned count = 0;
  const auto attack = [&](unsigned kind)
  {
    message m = forged(all_types[f.random() % std::size(all_types)], by, f.random);
    auto raw = bytes::encode(m);
    std::array<std::byte, 2 * bytes::message_size> any;
    for (auto& each : any)
      each = static_cast<std::byte>(f.random());
    ++count;
    switch (kind)
    {
    case 0: // not a message
      return by.send(std::span(any).first(f.random() % any.size()));
    case 1: // cut
      return by.send(std::span(raw).first(f.random() % raw.size()));
    case 2: // too long
      std::copy(raw.begin(), raw.end(), any.begin());
      return by.send(any);
    case 3: // damaged
      for (unsigned i = 1 + f.random() % 4; i != 0; --i)
        raw[f.random() % raw.size()] ^= static_cast<std::byte>(1 + f.random() % 255);
      return by.send(raw);
    case 4: // ids of no connection
      while (m.type == message_type::request)
        m = forged(all_types[f.random() % std::size(all_types)], by, f.random);
      return by.send(m);
    default: // another service, an impossible queue pair
      m = by.request(static_cast<std::uint32_t>(f.random()));
      f.random() % 2 != 0 ? m.service_id ^= std::uint64_t{1} << f.random() % 48
                          : m.queue_pair = 0xffffff;
      return by.send(m);
    }
  };
  const auto round = [&]
  {
    for (unsigned i = 0; i != per_round; ++i)
      attack(f.random() % 6);
    f.connect_honestly();
    by.settle();
  };
  const auto quiet = [&] { return run_until(f.io, [&] { return f.clients.empty(); }); };
  for (unsigned i = 0; i != 20; ++i)
    round();
  REQUIRE(quiet());
  const inventory before;
  const allocation_count heap;
  count = 0;
  for (unsigned i = 0; i != 100; ++i)
    round();
  REQUIRE(quiet());
  CHECK(settled(before) <= before);
  // A datagram that leaves anything leaves at least one allocation. Containers keep room. The last
  // handshakes of damaged requests end by their time limit.
  CHECK(run_until(f.io, [&] { return heap.kept() < static_cast<std::ptrdiff_t>(count / 6); }));
  // The port does not amplify a flood. A damaged request may be accepted, and rejected later.
  CHECK(by.answers <= 2 * by.sent);
}

TEST_CASE("a connection of RDMA-CM ignores messages of others that have its ids")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  cm_fixture f;
  raw_cm_peer peer(f.io, f.acceptor.local_endpoint());
  raw_cm_peer other(f.io, f.acceptor.local_endpoint());
  request_record asked;
  f.acceptor.async_get_request(asked.handler());
  peer.send(peer.request(5));
  REQUIRE(run_until(f.io, [&] { return asked.done(); }));
  REQUIRE(asked.ec == error_code());
  // The same request again is the same connection, from another socket another one.
  request_record again;
  f.acceptor.async_get_request(again.handler());
  for (unsigned i = 0; i != 100; ++i)
    peer.send(peer.request(5));
  peer.settle();
  f.io.poll();
  CHECK_FALSE(again.done());
  other.send(other.request(5));
  REQUIRE(run_until(f.io, [&] { return again.done(); }));
  REQUIRE(again.ec == error_code());

  plain_record accepted;
  plain_record accepted_other;
  rdma::queue_pair second(f.io, f.server_context);
  asked.object->async_accept(f.server, cm::private_data(), accepted.handler());
  again.object->async_accept(second, cm::private_data(), accepted_other.handler());
  const message reply = peer.ask(peer.request(5), message_type::reply);
  const message reply_to_other = other.ask(other.request(5), message_type::reply);
  REQUIRE(reply.local_id != reply_to_other.local_id);

  // With the ids of the peer's connection from the other's socket, and with one id of each.
  for (const message_type type : all_types)
    for (const std::uint32_t id : {5u, reply_to_other.local_id})
    {
      message m = other.request(id);
      m.type = type;
      m.remote_id = reply.local_id;
      m.queue_pair = reply.queue_pair;
      if (type != message_type::request)
        other.send(m);
    }
  other.settle();
  f.io.poll();
  CHECK_FALSE(accepted.done());
  message ready = peer.request(5);
  ready.type = message_type::ready;
  ready.remote_id = reply.local_id;
  peer.send(ready);
  REQUIRE(run_until(f.io, [&] { return accepted.done(); }));
  CHECK(accepted.ec == error_code());
}

TEST_CASE("a listener of RDMA-CM serves clients during a flood of requests that nobody completes")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  besieged f;
  std::list<raw_cm_peer> flood;
  for (unsigned i = 0; i != 4; ++i)
    flood.emplace_back(f.io, f.acceptor.local_endpoint());
  std::uint32_t id = 0;
  const auto round = [&]
  {
    for (raw_cm_peer& each : flood)
      for (unsigned i = 0; i != 16; ++i)
        each.send(each.request(++id));
    f.connect_honestly();
    for (raw_cm_peer& each : flood)
      each.settle();
  };
  round(); // makes what remains
  REQUIRE(run_until(f.io, [&] { return f.clients.empty(); }));
  const inventory before;
  for (unsigned i = 0; i != 30; ++i)
    round();
  REQUIRE(run_until(f.io, [&] { return f.clients.empty(); }));
  CHECK(settled(before) <= before);
}

} // namespace test::cm_hostile_test
