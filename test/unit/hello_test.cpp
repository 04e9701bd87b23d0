//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/protocol/siphash.hpp"
#include "verbs/software/wire/tcp_link.hpp"

#include "common/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

using namespace rdma::software::protocol;

TEST_CASE("two hellos agree on packet sequence numbers unless a known one differs")
{
  hello a;
  hello b;
  a.expected_psn = 10;
  b.expected_psn = 20;
  CHECK(agree_on_psns(a, b));
  a.first_psn = 20;
  b.first_psn = 10;
  CHECK(agree_on_psns(a, b));
  SECTION("the first end's")
  {
    a.first_psn = 21;
  }
  SECTION("the second end's, while the first end's is not known")
  {
    a.first_psn = std::nullopt;
    b.first_psn = 9;
  }
  CHECK_FALSE(agree_on_psns(a, b));
}

TEST_CASE("decode_hello refuses a value that this protocol does not use")
{
  hello h;
  h.first_psn = 0x123456;
  hello_bytes bytes;
  encode(h, bytes);
  REQUIRE(decode_hello(bytes).has_value());
  for (std::size_t at = 0; at != bytes.size(); ++at)
    for (unsigned bit = 0; bit != 8; ++bit)
    {
      hello_bytes changed = bytes;
      changed[at] ^= static_cast<std::byte>(1u << bit);
      CAPTURE(at, bit);
      const bool is_fixed = at <= 10 // magic, version, kind
        || (at == 11 && bit != 0)    // flags
        || at == 16 || at == 20      // above packet sequence numbers
        || (at >= 40 && at <= 44)    // behind a GID, and above a queue pair number
        || (at >= 64 && at <= 68);
      CHECK(decode_hello(changed).has_value() == !is_fixed);
    }
}

TEST_CASE("a handshake message over TCP has an opcode and reserved bits that are checked")
{
  namespace wire = rdma::software::wire;
  wire::attach_message message;
  message.lane.lane = 0xab;
  message.lane.number = 0x123456;
  wire::tcp_attach_bytes bytes;
  encode(message, bytes);
  const auto decoded = wire::decode_attach(bytes);
  REQUIRE(decoded.has_value());
  CHECK(decoded->lane.lane == message.lane.lane);
  CHECK(decoded->lane.number == message.lane.number);
  for (std::size_t at = 0; at != wire::tcp_message_size; ++at)
    for (unsigned bit = 0; bit != 8; ++bit)
    {
      wire::tcp_attach_bytes changed = bytes;
      changed[at] ^= static_cast<std::byte>(1u << bit);
      CAPTURE(at, bit);
      const bool is_fixed = at == 0 || at == 2 || at == 3 || at == 4;
      CHECK(wire::decode_attach(changed).has_value() == !is_fixed);
    }
}

TEST_CASE("siphash returns the values of its reference implementation")
{
  siphash::bytes key;
  std::array<std::byte, 1> message{};
  for (std::size_t i = 0; i != key.size(); ++i)
    key[i] = static_cast<std::byte>(i);
  const auto is = [](const siphash::bytes& what, const std::array<std::uint8_t, 16>& expected)
  {
    return std::equal(what.begin(), what.end(), expected.begin(),
      [](std::byte a, std::uint8_t b) { return a == std::byte{b}; });
  };
  CHECK(is(siphash::of(key, {}),
    {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02,
      0x93}));
  CHECK(is(siphash::of(key, message),
    {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
      0x45}));
}

TEST_CASE("a hello proves the secret without containing it")
{
  rdma::software::connection_secret secret;
  secret.fill(std::byte{0x77});
  hello h;
  h.to.qp = 5;
  sign(h, secret, 0);
  CHECK(is_signed(h, secret, 0));
  hello_bytes bytes;
  encode(h, bytes);
  CHECK(std::search(bytes.begin(), bytes.end(), secret.begin(), secret.end()) == bytes.end());
  const auto received = decode_hello(bytes);
  REQUIRE(received.has_value());
  CHECK(is_signed(*received, secret, 0));
  CHECK_FALSE(is_signed(h, secret, 1)); // for another nonce
  hello again = h;
  sign(again, secret, 0);
  CHECK(again.nonce != h.nonce);
  CHECK(again.proof != h.proof);
  again = h;
  ++again.to.qp;
  CHECK_FALSE(is_signed(again, secret, 0));
  again = h;
  again.nonce ^= 1;
  CHECK_FALSE(is_signed(again, secret, 0));
  CHECK_FALSE(is_signed(h, {}, 0));
  CHECK_FALSE(is_signed(hello(), secret, 0));
  CHECK(is_signed(hello(), {}, 0));
  CHECK(is_confirmation(confirmation(secret, 1, 2), secret, 1, 2));
  CHECK_FALSE(is_confirmation(confirmation(secret, 1, 2), secret, 1, 3));
  CHECK_FALSE(is_confirmation(confirmation(secret, 1, 2), secret, 3, 2));
  CHECK_FALSE(is_confirmation(confirmation({}, 1, 2), secret, 1, 2));
  again = h;
  again.proof[0] ^= std::byte{1};
  CHECK_FALSE(is_signed(again, secret, 0));
}
