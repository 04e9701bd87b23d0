//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests foreign and malicious peers: no input may do more than end its own connection.

#include "software/raw_peer.hpp"
#include "software/verbs_failure.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

using namespace test;

namespace {

std::ptrdiff_t count_open_files()
{
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// Waits until the device has accepted the connections that were made before, and read from them.
void await_accepts(std::uint16_t port)
{
  const raw_peer garbage(port);
  const std::array<std::byte, rdma::software::wire::tcp_attach_size> zeros{};
  garbage.send(zeros.data(), zeros.size());
  CHECK(garbage.receive(1).empty());
}

} // namespace

TEST_CASE("a device listens only when a queue pair waits and accepts only its peer")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  const endpoint quiet(device);
  CHECK_FALSE(raw_peer(rdma::software::port_of(quiet.qp()->qp_num)).connected());
  target_endpoint v;
  auto refused = [&](auto change)
  {
    protocol::hello h = v.hello();
    change(h);
    const raw_peer s(v.port());
    REQUIRE(s.connected());
    return !v.handshake(s, h);
  };
  CHECK(refused([](protocol::hello& h) { h.from.qp = 6; }));
  CHECK(refused([](protocol::hello& h) { h.from.gid[15] = 2; }));
  CHECK(refused([](protocol::hello& h) { h.to.qp ^= 1; }));
  CHECK(refused([](protocol::hello& h) { h.to.gid[15] ^= 1; }));
  CHECK(refused([](protocol::hello& h) { h.first_psn = 7; }));
  CHECK(refused([](protocol::hello& h) { h.expected_psn = 7; }));
  CHECK(refused([](protocol::hello& h) { h.segment = 0; }));
  CHECK(refused([](protocol::hello& h) { h.proof[3] = std::byte{1}; }));
  CHECK_FALSE(v.handshake(raw_peer(v.port(), 0, INADDR_LOOPBACK + 1), v.hello()));
  const raw_peer s(v.port());
  CHECK(v.handshake(s, v.hello()));
  // Until the confirmation is read, another hello of the peer says that it has given this one up.
  REQUIRE(until(
    [&]
    {
      (void)v.e.received().poll();
      return std::string_view(rdma::software::wire_name(v.e.qp())) == "tcp";
    }));
  const raw_peer second(v.port());
  CHECK_FALSE(v.handshake(second, v.hello())); // the queue pair is connected
}

TEST_CASE("a connection secret is required")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  rdma::software::connection_secret secret{};
  secret.fill(std::byte{0x77});
  target_endpoint v(&secret);
  protocol::hello h = v.hello();
  CHECK_FALSE(v.handshake(raw_peer(v.port()), h));
  rdma::software::connection_secret other = secret;
  other[0] ^= std::byte{1};
  protocol::sign(h, other, 0);
  CHECK_FALSE(v.handshake(raw_peer(v.port()), h));
  protocol::sign(h, secret, 0);
  {
    // Somebody who repeats a hello that he has seen cannot confirm it.
    const raw_peer s(v.port());
    REQUIRE(v.send_hello(s, h).has_value());
    v.say(s, protocol::confirmation(other, h.nonce, h.nonce));
    CHECK(s.is_left());
  }
  const raw_peer s(v.port());
  CHECK(v.handshake(s, h, secret));
  CHECK(rdma::software::set_connection_secret(v.e.qp(), secret) == EINVAL); // too late
}

TEST_CASE("garbage and silence on the port end only the foreign connection")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  std::mt19937 random(1);
  std::vector<std::unique_ptr<raw_peer>> silent;
  for (unsigned i = 0; i < 200; ++i)
  {
    silent.push_back(std::make_unique<raw_peer>(v.port()));
    raw_peer s(v.port());
    std::vector<std::uint8_t> bytes(random() % 300);
    for (std::uint8_t& b : bytes)
      b = static_cast<std::uint8_t>(random());
    s.send(bytes.data(), bytes.size());
  }
  const raw_peer s(v.port());
  CHECK(v.handshake(s, v.hello()));
  CHECK(v.e.state() == IBV_QPS_RTS);
}

TEST_CASE("a hello that arrives late or in parts is answered")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  protocol::hello_bytes hello;
  encode(v.hello(), hello);
  rdma::software::wire::tcp_attach_bytes bytes;
  encode(rdma::software::wire::attach_message{{.lane = 0, .number = 1}, hello}, bytes);
  const std::size_t first = GENERATE_COPY(std::size_t{0}, std::size_t{1}, bytes.size() - 1);
  const raw_peer s(v.port());
  s.send(bytes.data(), first);
  await_accepts(v.port());
  s.send(bytes.data() + first, bytes.size() - first);
  CHECK(s.next().is == raw_peer::item::kind::handshake);
}

TEST_CASE("connections without a hello are few, end after a time, and the oldest gives way")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  std::vector<std::unique_ptr<raw_peer>> silent;
  const auto add = [&](unsigned count)
  {
    for (unsigned i = 0; i != count; ++i)
      silent.push_back(std::make_unique<raw_peer>(v.port()));
  };
  const auto before = count_open_files();
  add(64);
  const raw_peer s(v.port());
  CHECK(silent.front()->receive(1).empty());
  CHECK(v.handshake(s, v.hello()));
  add(136);
  await_accepts(v.port());
  CHECK(count_open_files() < before + 200 + 100);
  CHECK(std::all_of(
    silent.begin(), silent.end(), [](const auto& each) { return each->receive(1).empty(); }));
}

TEST_CASE("links of peers without a queue pair are few and end after a time")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  protocol::hello unknown = v.hello();
  unknown.to.qp ^= 1;
  constexpr std::ptrdiff_t peers = 400;
  const auto before = count_open_files();
  std::vector<std::unique_ptr<raw_peer>> links;
  while (std::ssize(links) != peers)
  {
    links.push_back(std::make_unique<raw_peer>(v.port()));
    REQUIRE(v.send_hello(*links.back(), unknown));
  }
  await_accepts(v.port());
  // The device has at most 64 accepted sockets, 64 links, 64 sockets of former links that the peers
  // do not close, and what the engine's thread makes in one turn.
  CHECK(count_open_files() < before + peers + 4 * 64);
  CHECK(std::all_of(
    links.begin(), links.end(), [](const auto& each) { return each->receive(1).empty(); }));
  // The peers do not close their sockets.
  CHECK(until([&] { return count_open_files() < before + peers + 8; }));
  CHECK(v.handshake(raw_peer(v.port()), v.hello()));
}

TEST_CASE("a link that ends shows its end and still takes what its peer sends")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  protocol::hello unknown = v.hello();
  unknown.to.qp ^= 1;
  // The device closes its socket after a time. A peer that is late tries again.
  CHECK(until(
    [&]
    {
      const raw_peer peer(v.port());
      REQUIRE(v.send_hello(peer, unknown));
      REQUIRE(peer.receive(1).empty());
      return peer.takes_a_byte() && peer.takes_a_byte();
    }));
}

TEST_CASE("hellos for a queue pair that does not become ready are refused, later or at once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  namespace wire = rdma::software::wire;
  target_endpoint v;
  const endpoint idle(v.device);
  REQUIRE(idle.to_init() == 0);
  protocol::hello early = v.hello();
  early.to.qp = idle.qp()->qp_num;
  protocol::hello_bytes hello;
  encode(early, hello);
  const raw_peer s(v.port());
  const unsigned hellos = GENERATE(1u, 64u + 8u); // the first of more than 64 give way
  wire::tcp_attach_bytes bytes;
  for (unsigned lane = 0; lane != hellos; ++lane)
  {
    encode(wire::attach_message{{.lane = lane, .number = 1}, hello}, bytes);
    s.send(bytes.data(), bytes.size());
  }
  for (unsigned i = 0; i != hellos; ++i)
  {
    const auto got = s.receive(bytes.size());
    REQUIRE(got.size() == bytes.size());
    const auto answer = wire::decode_attach(std::span<const std::byte, wire::tcp_attach_size>(got));
    REQUIRE(answer);
    CHECK(protocol::is_not_ready(answer->bytes));
  }
}

TEST_CASE("an invalid frame ends the connection and the queue pair")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  protocol::header h;
  h.dest_qp = v.e.qp()->qp_num;
  h.psn = endpoint::first_psn;
  protocol::header_bytes bytes;
  std::size_t size = 0;
  const int what = GENERATE(range(0, 10));
  CAPTURE(what);
  switch (what)
  {
  case 0: // invalid opcode
    h.op = protocol::opcode::send_only;
    size = encode(h, bytes);
    bytes[0] = std::byte{0x15};
    break;
  case 1: // a middle frame without a first
    h.op = protocol::opcode::send_middle;
    h.payload = 256 * 1024;
    size = encode(h, bytes);
    break;
  case 2: // a first frame that is not full
    h.op = protocol::opcode::send_first;
    h.payload = 100;
    size = encode(h, bytes);
    break;
  case 3: // above the size of a frame
    h.op = protocol::opcode::send_only;
    h.payload = 0xffffffff;
    size = encode(h, bytes);
    break;
  case 4: // for another queue pair
    h.op = protocol::opcode::send_only;
    h.dest_qp ^= 1;
    size = encode(h, bytes);
    break;
  case 5: // unexpected payload
    h.op = protocol::opcode::read_request;
    h.payload = 8;
    size = encode(h, bytes);
    break;
  case 6: // a write with less data than announced
    h.op = protocol::opcode::write_only;
    h.address = v.m.address();
    h.key = v.m.key();
    h.length = 100;
    h.payload = 50;
    size = encode(h, bytes);
    break;
  case 7: // reserved bits
    h.op = protocol::opcode::send_only;
    size = encode(h, bytes);
    bytes[1] = std::byte{0x0f};
    break;
  case 8: // of another service
    h.op = protocol::opcode::send_only;
    h.kind = protocol::service_uc;
    size = encode(h, bytes);
    break;
  case 9: // the end of a lane, with reserved bits
    bytes = {rdma::software::wire::tcp_detach};
    bytes[2] = std::byte{1};
    size = rdma::software::wire::tcp_message_size;
    break;
  }
  s.send(bytes.data(), size);
  CHECK(v.device.event() == IBV_EVENT_QP_FATAL);
  check_flushed(v.e.received(), {0, 1, 2, 3, 4, 5, 6, 7});
  check_ended(v.e);
  CHECK(s.is_left());
  CHECK_FALSE(v.device.has_event());
  CHECK(v.m.holds(0x5a));
}

TEST_CASE("a link does not reach the queue pairs of another link")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  namespace wire = rdma::software::wire;
  target_endpoint v;
  const raw_peer attached(v.port());
  REQUIRE(v.handshake(attached, v.hello()));
  const raw_peer other(v.port());
  protocol::hello unknown = v.hello();
  unknown.to.qp ^= 1;
  const auto answer = v.send_hello(other, unknown);
  REQUIRE(answer.has_value());
  CHECK(protocol::is_not_ready(*answer));
  protocol::header h;
  h.op = protocol::opcode::send_only;
  h.ack_request = true;
  h.dest_qp = v.e.qp()->qp_num;
  h.psn = endpoint::first_psn;
  protocol::header_bytes bytes;
  const std::size_t size = encode(h, bytes);
  SECTION("by a frame")
  {
    other.send(bytes.data(), size);
  }
  SECTION("by the end of its lane, and by hellos for lanes that are in use")
  {
    for (unsigned i = 0; i != 1000; ++i)
    {
      std::array<std::byte, wire::tcp_message_size> detach{wire::tcp_detach};
      detach[1] = static_cast<std::byte>(i);
      detach[7] = std::byte{1};
      other.send(detach.data(), detach.size());
    }
    protocol::hello_bytes hello;
    encode(v.hello(), hello);
    v.say(other, hello);
    const std::byte end{0xff};
    other.send(&end, 1);
  }
  CHECK(other.is_left());
  attached.send(bytes.data(), size);
  CHECK(v.e.received().next().status == IBV_WC_SUCCESS);
  CHECK(v.e.state() == IBV_QPS_RTS);
  CHECK_FALSE(v.device.has_event());
}

TEST_CASE("an answer without a request ends the queue pair")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  REQUIRE(v.e.read(1, v.m.sge(0, 64), 0x1000, 0x2000) == 0);
  REQUIRE(s.receive(32).size() == 32);
  protocol::header h;
  h.dest_qp = v.e.qp()->qp_num;
  h.psn = endpoint::first_psn;
  h.syndrome = protocol::syndrome_ack;
  const int what = GENERATE(range(0, 6));
  CAPTURE(what);
  switch (what)
  {
  case 0: // for a request that was not sent yet
    h.op = protocol::opcode::acknowledge;
    h.psn = 100;
    break;
  case 1: // a read is answered, not acknowledged
    h.op = protocol::opcode::acknowledge;
    break;
  case 2:
    h.op = protocol::opcode::atomic_acknowledge;
    break;
  case 3: // too much data
    h.op = protocol::opcode::read_response_only;
    h.payload = 65;
    break;
  case 4: // announces more data than requested
    h.op = protocol::opcode::read_response_first;
    h.payload = 256 * 1024;
    break;
  case 5: // unknown syndrome
    h.op = protocol::opcode::acknowledge;
    h.syndrome = 0x7f;
    break;
  }
  protocol::header_bytes bytes;
  const std::size_t size = encode(h, bytes);
  s.send(bytes.data(), size);
  check_error(v.e.sent(), 1, IBV_WC_BAD_RESP_ERR);
  check_flushed(v.e.received(), {0, 1, 2, 3, 4, 5, 6, 7});
  check_ended(v.e);
  CHECK(s.is_left()); // the other side finds its connection closed
  CHECK_FALSE(v.device.has_event());
  CHECK(v.m.holds(0x5a));
}

TEST_CASE("messages that answer nothing do not keep a request waiting")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  protocol::header h;
  h.dest_qp = v.e.qp()->qp_num;
  h.psn = protocol::psn_add(endpoint::first_psn, protocol::psn_mask); // the one before
  SECTION("old acknowledgements")
  {
    h.op = protocol::opcode::acknowledge;
    h.syndrome = protocol::syndrome_ack;
  }
  SECTION("duplicates of requests")
  {
    h.op = protocol::opcode::write_only;
  }
  protocol::header_bytes bytes;
  const std::size_t size = encode(h, bytes);
  REQUIRE(v.e.send(1, v.m.sge(0, 8)) == 0);
  std::optional<ibv_wc> ended;
  CHECK(until(
    [&]
    {
      s.send(bytes.data(), size);
      ended = v.e.sent().poll();
      return ended.has_value();
    }));
  REQUIRE(ended.has_value());
  CHECK(ended->status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("random frames neither crash the device nor access protected memory")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const unsigned seed = GENERATE(range(1u, 120u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  target_endpoint v;
  // Memory with and without a remote right.
  memory window(v.device, 256);
  memory outside(v.device, 4096, IBV_ACCESS_LOCAL_WRITE);
  outside.fill(kept_byte);
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  for (unsigned i = 0; i < 4; ++i)
    (void)v.e.read(i, v.m.sge(2048, 64), random(), random());
  std::uint32_t psn = endpoint::first_psn;
  std::vector<std::uint8_t> stream;
  for (unsigned i = 0; i < 200; ++i)
  {
    protocol::header h;
    h.op = static_cast<protocol::opcode>(random() % 0x18);
    h.dest_qp = v.e.qp()->qp_num;
    h.psn = random() % 8 == 0 ? random() & 0xffffff : psn;
    h.ack_request = random() % 2 != 0;
    h.address = window.address(random() % 300) - 20;
    h.key = random() % 4 == 0 ? outside.key() : window.key();
    h.payload = random() % 16 == 0 ? 256 * 1024 : random() % 300;
    h.length = random() % 3 == 0 ? random() : h.payload;
    h.syndrome = static_cast<std::uint8_t>(random());
    protocol::header_bytes bytes;
    if (protocol::header_size(static_cast<std::uint8_t>(h.op)) == 0)
      continue;
    if ((protocol::traits_of(h.op) & protocol::trait_payload) == 0)
      h.payload = 0;
    const std::size_t size = encode(h, bytes);
    if (random() % 64 == 0)
      bytes[random() % size] ^= static_cast<std::byte>(1u << random() % 8);
    const auto* at = reinterpret_cast<const std::uint8_t*>(bytes.data());
    stream.insert(stream.end(), at, at + size);
    stream.insert(stream.end(), h.payload, 0xee);
    if (random() % 2 != 0)
      psn = protocol::psn_add(psn, 1);
  }
  s.send(stream.data(), std::min<std::size_t>(stream.size(), 1 << 20));
  s.finish();
  // The device processes the stream up to an error or to the end.
  REQUIRE(until(
    [&]
    {
      (void)v.e.received().poll();
      (void)v.e.sent().poll();
      return v.e.state() == IBV_QPS_ERR;
    }));
  CHECK(outside.holds(kept_byte));
  CHECK(v.m.holds(0x5a, 0, 1024));
  while (v.device.has_event())
    (void)v.device.event();
}
