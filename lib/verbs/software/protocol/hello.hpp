//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_HELLO_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_HELLO_HPP

#include "verbs/software/software.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rdma::software::protocol {

/// Names one end of a connection; also decides which end connects: the smaller one.
struct endpoint_name
{
  std::array<std::uint8_t, 16> gid{};
  std::uint32_t qp = 0;

  auto operator<=>(const endpoint_name&) const = default;
};

/// Shows that an end has the connection's secret, which itself is never sent.
using connection_proof = std::array<std::byte, 16>;

/// The first message of each end.
struct hello
{
  endpoint_name from;
  endpoint_name to;
  std::uint32_t expected_psn = 0;         ///< the sender's rq_psn
  std::optional<std::uint32_t> first_psn; ///< the sender's sq_psn, which it has from RTS on
  std::uint32_t segment = 0;              ///< bytes of a full frame's payload
  std::uint64_t nonce = 0;                ///< random; zero without a secret
  connection_proof proof{};
};

inline constexpr std::size_t hello_size = 96;

using hello_bytes = std::array<std::byte, hello_size>;

void encode(const hello& from, hello_bytes& to) noexcept;

/// Returns nothing if the bytes are not a hello of this version.
std::optional<hello> decode_hello(std::span<const std::byte, hello_size> from) noexcept;

/// Returns the waiting end's answer to a hello for a queue pair that is not ready.
hello_bytes not_ready() noexcept;

/// Sets nonce and proof of a hello. `answered`: the nonce of the hello that it answers, or zero.
/** The proof is a keyed hash of the hello and `answered`. It is zero if the secret is, which means
 * that there is none. */
void sign(hello& h, const connection_secret& secret, std::uint64_t answered) noexcept;

/// Returns true if the sender of a hello has the secret.
/**
 * This is not conclusive for the first hello, which may be a repeated one: only an answer to a
 * fresh nonce is.
 */
bool is_signed(const hello& h, const connection_secret& secret, std::uint64_t answered) noexcept;

/// The connecting end's answer to the waiting end's hello; frames follow. It proves the secret to
/// the nonces of both hellos.
hello_bytes confirmation(
  const connection_secret& secret, std::uint64_t connecting, std::uint64_t waiting) noexcept;

bool is_confirmation(std::span<const std::byte, hello_size> from, const connection_secret& secret,
  std::uint64_t connecting, std::uint64_t waiting) noexcept;

bool is_not_ready(std::span<const std::byte, hello_size> from) noexcept;

/// Returns true if the known PSNs of two ends match. An end has its own first PSN from RTS on.
bool agree_on_psns(const hello& a, const hello& b) noexcept;

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_HELLO_HPP
