//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// What a stranger or a peer gone mad may send: nothing of it may do more than end its connection.

#include "software/verbs_fixture.hpp"

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/protocol/packet.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace test;
namespace protocol = rdma::software::protocol;

namespace {

/// A plain TCP connection to a device's port.
class stranger
{
public:
  explicit stranger(std::uint16_t port)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
  {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  }
  ~stranger() { ::close(fd_); }
  stranger(const stranger&) = delete;
  stranger& operator=(const stranger&) = delete;

  bool connected() const noexcept { return connected_; }
  void say(const void* what, std::size_t size) const
  {
    // The other end may have hung up already.
    [[maybe_unused]] const ssize_t n = ::send(fd_, what, size, MSG_NOSIGNAL);
  }
  /// Says no more.
  void finish() const { ::shutdown(fd_, SHUT_WR); }
  /// What is answered before the end of the connection, up to `size` bytes.
  std::vector<std::byte> hear(std::size_t size) const
  {
    std::vector<std::byte> bytes(size);
    timeval limit{patience.count(), 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::size_t got = 0;
    while (got != size)
    {
      const ssize_t n = ::recv(fd_, bytes.data() + got, size - got, 0);
      if (n <= 0)
        break;
      got += static_cast<std::size_t>(n);
    }
    bytes.resize(got);
    return bytes;
  }

private:
  int fd_;
  bool connected_ = false;
};

/// A queue pair that waits for a peer which a test plays. The smaller name connects: the test's.
struct victim
{
  explicit victim(const rdma::software::connection_secret* secret = nullptr)
    : m(device, 4096)
    , e(device)
  {
    std::fill(m.bytes().begin(), m.bytes().end(), std::uint8_t{0x5a});
    if (secret != nullptr)
      REQUIRE(rdma::software::set_connection_secret(e.qp(), *secret) == 0);
    REQUIRE(e.to_init() == 0);
    for (unsigned i = 0; i < 8; ++i)
      REQUIRE(e.receive(i, m.sge(1024, 512)) == 0);
    end_name peer = e.name();
    peer.lid = 1;
    peer.qp = 5;
    REQUIRE(e.to_ready_to_receive(peer) == 0);
    REQUIRE(e.to_ready_to_send() == 0);
  }

  protocol::hello hello() const
  {
    protocol::hello h;
    const ibv_gid gid = device.gid();
    std::memcpy(h.from.gid.data(), gid.raw, 16);
    h.to.gid = h.from.gid;
    h.from.lid = 1;
    h.from.qp = 5;
    h.to.lid = device.lid();
    h.to.qp = e.qp()->qp_num;
    h.expected_psn = endpoint::first_psn;
    h.first_psn = endpoint::first_psn;
    h.segment = 256 * 1024;
    return h;
  }

  std::vector<std::byte> greet(const stranger& s, const protocol::hello& h) const
  {
    protocol::hello_bytes bytes;
    encode(h, bytes);
    s.say(bytes.data(), bytes.size());
    return s.hear(bytes.size());
  }

  bool welcome(const stranger& s, const protocol::hello& h) const
  {
    const auto answer = greet(s, h);
    return answer.size() == protocol::hello_size &&
           protocol::decode_hello(
             std::span<const std::byte, protocol::hello_size>(answer.data(), protocol::hello_size))
             .has_value();
  }

  verbs_device device;
  memory m;
  endpoint e;
};

} // namespace

TEST_CASE("a device listens only when a queue pair waits, and only for that peer")
{
  verbs_device quiet;
  CHECK_FALSE(stranger(quiet.lid()).connected());
  victim v;
  auto refused = [&](auto change)
  {
    protocol::hello h = v.hello();
    change(h);
    const stranger s(v.device.lid());
    REQUIRE(s.connected());
    return !v.welcome(s, h);
  };
  CHECK(refused([](protocol::hello& h) { h.from.lid = 2; }));
  CHECK(refused([](protocol::hello& h) { h.from.qp = 6; }));
  CHECK(refused([](protocol::hello& h) { h.from.gid[15] = 2; }));
  CHECK(refused([](protocol::hello& h) { h.to.qp ^= 1; }));
  CHECK(refused([](protocol::hello& h) { h.to.lid ^= 1; }));
  CHECK(refused([](protocol::hello& h) { h.first_psn = 7; }));
  CHECK(refused([](protocol::hello& h) { h.expected_psn = 7; }));
  CHECK(refused([](protocol::hello& h) { h.segment = 0; }));
  CHECK(refused([](protocol::hello& h) { h.secret[3] = std::byte{1}; }));
  const stranger s(v.device.lid());
  CHECK(v.welcome(s, v.hello()));
  const stranger second(v.device.lid());
  CHECK_FALSE(v.welcome(second, v.hello())); // it has its peer
}

TEST_CASE("a secret is demanded and shown")
{
  rdma::software::connection_secret secret{};
  secret.fill(std::byte{0x77});
  victim v(&secret);
  protocol::hello h = v.hello();
  CHECK_FALSE(v.welcome(stranger(v.device.lid()), h));
  h.secret = secret;
  const stranger s(v.device.lid());
  CHECK(v.welcome(s, h));
  CHECK(rdma::software::set_connection_secret(v.e.qp(), secret) == EINVAL); // too late
}

TEST_CASE("garbage and silence on the port cost a stranger's connection and nothing else")
{
  victim v;
  std::mt19937 random(1);
  std::vector<std::unique_ptr<stranger>> silent;
  for (unsigned i = 0; i < 200; ++i)
  {
    silent.push_back(std::make_unique<stranger>(v.device.lid()));
    stranger s(v.device.lid());
    std::vector<std::uint8_t> bytes(random() % 300);
    for (std::uint8_t& b : bytes)
      b = static_cast<std::uint8_t>(random());
    s.say(bytes.data(), bytes.size());
  }
  const stranger s(v.device.lid());
  CHECK(v.welcome(s, v.hello()));
  CHECK(v.e.state() == IBV_QPS_RTS);
}

TEST_CASE("a frame that is not this protocol ends the connection and the queue pair")
{
  victim v;
  const stranger s(v.device.lid());
  REQUIRE(v.welcome(s, v.hello()));
  protocol::header h;
  h.dest_qp = v.e.qp()->qp_num;
  h.psn = endpoint::first_psn;
  protocol::header_bytes bytes;
  std::size_t size = 0;
  const int what = GENERATE(range(0, 8));
  CAPTURE(what);
  switch (what)
  {
  case 0: // no such opcode
    h.op = protocol::opcode::send_only;
    size = encode(h, bytes);
    bytes[0] = std::byte{0x15};
    break;
  case 1: // a middle without a first
    h.op = protocol::opcode::send_middle;
    h.payload = 256 * 1024;
    size = encode(h, bytes);
    break;
  case 2: // a first that is not full
    h.op = protocol::opcode::send_first;
    h.payload = 100;
    size = encode(h, bytes);
    break;
  case 3: // more than a frame holds
    h.op = protocol::opcode::send_only;
    h.payload = 0xffffffff;
    size = encode(h, bytes);
    break;
  case 4: // another queue pair's
    h.op = protocol::opcode::send_only;
    h.dest_qp ^= 1;
    size = encode(h, bytes);
    break;
  case 5: // a payload where none belongs
    h.op = protocol::opcode::read_request;
    h.payload = 8;
    size = encode(h, bytes);
    break;
  case 6: // a write that brings less than it announced
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
  }
  s.say(bytes.data(), size);
  CHECK(v.device.event() == IBV_EVENT_QP_FATAL);
  CHECK(v.e.received().next().status == IBV_WC_WR_FLUSH_ERR);
  CHECK(v.e.state() == IBV_QPS_ERR);
  CHECK(s.hear(1).empty());
}

TEST_CASE("answers to what was never asked end the queue pair")
{
  victim v;
  const stranger s(v.device.lid());
  REQUIRE(v.welcome(s, v.hello()));
  REQUIRE(v.e.read(1, v.m.sge(0, 64), 0x1000, 0x2000) == 0);
  REQUIRE(s.hear(32).size() == 32);
  protocol::header h;
  h.dest_qp = v.e.qp()->qp_num;
  h.psn = endpoint::first_psn;
  h.syndrome = protocol::syndrome_ack;
  const int what = GENERATE(range(0, 6));
  CAPTURE(what);
  switch (what)
  {
  case 0: // of a request that was not sent yet
    h.op = protocol::opcode::acknowledge;
    h.psn = 100;
    break;
  case 1: // a read is not acknowledged, it is answered
    h.op = protocol::opcode::acknowledge;
    break;
  case 2:
    h.op = protocol::opcode::atomic_acknowledge;
    break;
  case 3: // too much
    h.op = protocol::opcode::read_response_only;
    h.payload = 65;
    break;
  case 4: // more to come than was asked for
    h.op = protocol::opcode::read_response_first;
    h.payload = 256 * 1024;
    break;
  case 5: // a refusal that does not exist
    h.op = protocol::opcode::acknowledge;
    h.syndrome = 0x7f;
    break;
  }
  protocol::header_bytes bytes;
  const std::size_t size = encode(h, bytes);
  s.say(bytes.data(), size);
  const ibv_wc wc = v.e.sent().next();
  CHECK(wc.status == IBV_WC_BAD_RESP_ERR);
  CHECK(v.e.state() == IBV_QPS_ERR);
  CHECK(std::all_of(v.m.bytes().begin(), v.m.bytes().end(),
                    [](std::uint8_t b) { return b == 0x5a; }));
}

TEST_CASE("frames at random neither crash nor reach memory that they may not reach")
{
  const unsigned seed = GENERATE(range(1u, 120u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  victim v;
  // Bytes before and after what the key covers.
  memory window(v.device, 256);
  memory outside(v.device, 4096, IBV_ACCESS_LOCAL_WRITE);
  const stranger s(v.device.lid());
  REQUIRE(v.welcome(s, v.hello()));
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
  s.say(stream.data(), std::min<std::size_t>(stream.size(), 1 << 20));
  s.finish();
  // Served until it has had enough, or all of it.
  REQUIRE(until(
    [&]
    {
      (void)v.e.received().poll();
      (void)v.e.sent().poll();
      return v.e.state() == IBV_QPS_ERR;
    }));
  CHECK(std::count(outside.bytes().begin(), outside.bytes().end(), 0) == 4096);
  CHECK(std::all_of(v.m.bytes().begin(), v.m.bytes().begin() + 1024,
                    [](std::uint8_t b) { return b == 0x5a; }));
  while (v.device.has_event())
    (void)v.device.event();
}
