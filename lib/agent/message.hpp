//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_AGENT_MESSAGE_HPP
#define BOOST_RDMA_LIB_AGENT_MESSAGE_HPP

#include "boost_rdma/error.hpp"
#include "boost_rdma/remote_buffer.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Messages between two agents (doc/agent_protocol.md). Encoding and decoding do no I/O.

namespace rdma::detail {

enum class message_type : std::uint8_t
{
  allocate = 1,  // request: allocate memory of this size, with these rights
  renew = 2,     // request: extend the lease to this lifetime from now
  release = 3,   // request, or without an id and without an answer: end the lease
  hand_over = 4, // request: end the lease; the memory with its contents goes to the program
  lend = 5,      // request: accept this lease of my memory
  recall = 6,    // without an id: the lease has ended on my side
  done = 7,      // answer
  granted = 8,   // answer to allocate
  refused = 9,   // answer
};

enum class refusal_status : std::uint8_t
{
  none = 0, // in all messages but refusals
  no_lessor = 1,
  quota_exceeded = 2,
  pool_exhausted = 3,
  bad_alignment = 4,
  right_not_granted = 5,
  unknown_lease = 6,
  inbox_full = 7,
  failed = 8,
};
inline constexpr refusal_status refusal_status_last = refusal_status::failed;

error_code error_of(refusal_status status) noexcept;

struct agent_message
{
  static constexpr std::size_t encoded_size = 64;
  using encoded = std::array<std::byte, encoded_size>;

  // The lease lasts as long as the connection.
  static constexpr std::uint64_t no_limit = UINT64_MAX;

  message_type type = message_type::done;
  refusal_status status = refusal_status::none;
  std::uint32_t id = 0;       // of the request and its answer
  std::uint64_t lease = 0;    // number chosen by the owner of the memory
  std::uint64_t lifetime = 0; // ms
  std::uint32_t alignment = 0;
  remote_buffer memory{}; // allocate: size and rights; granted, lend: the whole description

  [[nodiscard]] encoded encode() const noexcept;

  // Accepts exactly the messages that encode() produces. Returns nullopt for anything else,
  // including nonzero fields that do not belong to the type.
  static std::optional<agent_message> decode(std::span<const std::byte> bytes) noexcept;
};

// Convert lifetimes to and from the wire format. Lifetimes too long for the format become
// unlimited.
std::uint64_t to_wire(std::chrono::milliseconds lifetime) noexcept;
std::chrono::milliseconds from_wire(std::uint64_t lifetime) noexcept;

using lease_clock = std::chrono::steady_clock;

// Returns the end of a lifetime that starts now, or max() if it is unlimited.
lease_clock::time_point end_of(
  lease_clock::time_point now, std::chrono::milliseconds lifetime) noexcept;

// Returns the answer that refuses a request or, with refusal_status::none, that it is done.
agent_message answer_to(const agent_message& asked, refusal_status status) noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_MESSAGE_HPP
