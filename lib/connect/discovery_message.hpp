//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_DISCOVERY_MESSAGE_HPP
#define BOOST_RDMA_LIB_CONNECT_DISCOVERY_MESSAGE_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// By these messages the two ends of a stream agree on RDMA (doc/stream_protocol.md, "Discovery").
// No I/O.

namespace rdma::detail {

enum class discovery_type : std::uint8_t
{
  question = 1, // by UDP: does the program at this port accept streams?
  answer = 2,   // by UDP: yes
  preamble = 3, // the first bytes of a TCP connection that asks for RDMA
};

struct discovery_message
{
  static constexpr std::size_t size = 40;
  using bytes_type = std::array<std::byte, size>;
  using token_type = std::array<std::byte, 16>;

  discovery_type type{};
  token_type token{}; // random, chosen by the client for one connection

  [[nodiscard]] bytes_type encode() const noexcept;

  // Returns nothing for bytes that are no message.
  static std::optional<discovery_message> decode(std::span<const std::byte> bytes) noexcept;

  // Returns true if bytes can be the beginning of a message.
  static bool is_beginning(std::span<const std::byte> bytes) noexcept;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_DISCOVERY_MESSAGE_HPP
