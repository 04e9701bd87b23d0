//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/hello.hpp"

#include "verbs/software/protocol/bytes.hpp"
#include "verbs/software/protocol/siphash.hpp"
#include "verbs/software/random.hpp"

#include <algorithm>
#include <cstring>

namespace rdma::software::protocol {

namespace {

constexpr std::uint64_t magic = 0x424c'5244'4d41'3031; // "BLRDMA01"
constexpr std::uint32_t version = 5;

enum kind : std::uint8_t
{
  kind_hello = 1,
  kind_not_ready = 2,
  kind_confirmation = 3,
};

// Layout: magic 8, version 2, kind 1, flags 1, segment 4, expected psn 4, first psn 4,
// from: gid 16 zero 4 qp 4, to: the same, proof 16, nonce 8. 24 + 24 + 24 + 16 + 8 = 96.
constexpr std::uint32_t flag_first_psn = 1;
constexpr std::size_t proof_at = 72;

void put_name(byte_writer& out, const endpoint_name& name)
{
  for (std::uint8_t b : name.gid)
    out.put(b, 1);
  out.put(0, 4);
  out.put(name.qp, 4);
}

bool get_name(byte_reader& in, endpoint_name& name)
{
  for (std::uint8_t& b : name.gid)
    b = static_cast<std::uint8_t>(in.get(1));
  const bool zero = in.get(4) == 0;
  name.qp = in.get32();
  return zero && name.qp <= 0xffffff;
}

} // namespace

void encode(const hello& from, hello_bytes& to) noexcept
{
  to.fill(std::byte{});
  byte_writer out(to.data());
  out.put(magic, 8);
  out.put(version, 2);
  out.put(kind_hello, 1);
  out.put(from.first_psn ? flag_first_psn : 0, 1);
  out.put(from.segment, 4);
  out.put(from.expected_psn, 4);
  out.put(from.first_psn.value_or(0), 4);
  put_name(out, from.from);
  put_name(out, from.to);
  for (std::byte b : from.proof)
    out.put(static_cast<std::uint8_t>(b), 1);
  out.put(from.nonce, 8);
}

std::optional<hello> decode_hello(std::span<const std::byte, hello_size> from) noexcept
{
  byte_reader in(from.data());
  if (in.get(8) != magic || in.get(2) != version || in.get(1) != kind_hello)
    return std::nullopt;
  hello h;
  const std::uint32_t flags = in.get32(1);
  h.segment = in.get32();
  h.expected_psn = in.get32();
  const std::uint32_t first = in.get32();
  if (flags > flag_first_psn || h.expected_psn > 0xffffff || first > 0xffffff)
    return std::nullopt;
  if (flags & flag_first_psn)
    h.first_psn = first;
  if (!get_name(in, h.from) || !get_name(in, h.to))
    return std::nullopt;
  for (std::byte& b : h.proof)
    b = static_cast<std::byte>(in.get(1));
  h.nonce = in.get(8);
  return h;
}

namespace {

// Takes the same time wherever the bytes differ.
bool equal(std::span<const std::byte> a, std::span<const std::byte> b) noexcept
{
  unsigned difference = 0;
  for (std::size_t i = 0; i != a.size(); ++i)
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

// The keyed hash of a message, without a proof, and of nonces. The message contains the kind and
// the names of its sender and receiver, so that no proof can be used for another message.
connection_proof prove(const hello_bytes& of, const connection_secret& secret, std::uint64_t first,
  std::uint64_t second) noexcept
{
  if (secret == connection_secret{})
    return {};
  std::array<std::byte, hello_size + 16> bytes{};
  std::copy(of.begin(), of.end(), bytes.begin());
  byte_writer out(bytes.data() + hello_size);
  out.put(first, 8);
  out.put(second, 8);
  return siphash::of(secret, bytes);
}

connection_proof prove(
  const hello& h, const connection_secret& secret, std::uint64_t answered) noexcept
{
  hello without = h;
  without.proof = {};
  hello_bytes bytes;
  encode(without, bytes);
  return prove(bytes, secret, answered, 0);
}

hello_bytes only_kind(kind what) noexcept
{
  hello_bytes bytes{};
  byte_writer out(bytes.data());
  out.put(magic, 8);
  out.put(version, 2);
  out.put(what, 1);
  return bytes;
}

} // namespace

hello_bytes not_ready() noexcept
{
  return only_kind(kind_not_ready);
}

hello_bytes confirmation(
  const connection_secret& secret, std::uint64_t connecting, std::uint64_t waiting) noexcept
{
  hello_bytes bytes = only_kind(kind_confirmation);
  const connection_proof proof = prove(bytes, secret, connecting, waiting);
  std::copy(proof.begin(), proof.end(), bytes.begin() + proof_at);
  return bytes;
}

bool is_not_ready(std::span<const std::byte, hello_size> from) noexcept
{
  const hello_bytes expected = not_ready();
  return std::equal(from.begin(), from.end(), expected.begin());
}

bool is_confirmation(std::span<const std::byte, hello_size> from, const connection_secret& secret,
  std::uint64_t connecting, std::uint64_t waiting) noexcept
{
  return equal(from, confirmation(secret, connecting, waiting));
}

void sign(hello& h, const connection_secret& secret, std::uint64_t answered) noexcept
{
  h.nonce = 0;
  if (secret != connection_secret{})
    fill_random(&h.nonce, sizeof h.nonce);
  h.proof = prove(h, secret, answered);
}

bool is_signed(const hello& h, const connection_secret& secret, std::uint64_t answered) noexcept
{
  return equal(h.proof, prove(h, secret, answered));
}

bool agree_on_psns(const hello& a, const hello& b) noexcept
{
  return (!a.first_psn || *a.first_psn == b.expected_psn)
    && (!b.first_psn || *b.first_psn == a.expected_psn);
}

} // namespace rdma::software::protocol
