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

// What two agents say to each other (doc/agent_protocol.md). Reading and writing it does no I/O.

namespace rdma::detail {

enum class message_type : std::uint8_t
{
  allocate = 1,  // request: memory of this size, with these rights
  renew = 2,     // request: the lease is to last so much longer from now on
  release = 3,   // request, or without an id for which no answer is wanted: the lease is over
  hand_over = 4, // request: the lease is over, and the memory with what is in it for your program
  lend = 5,      // request: take this lease of my memory
  recall = 6,    // without an id: the lease has ended on my side
  done = 7,      // answer
  granted = 8,   // answer to allocate
  refused = 9,   // answer
};

enum class refusal_status : std::uint8_t
{
  none = 0, // in everything but refusals
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

  // A lifetime that is as long as the connection's.
  static constexpr std::uint64_t no_limit = UINT64_MAX;

  message_type type = message_type::done;
  refusal_status status = refusal_status::none;
  std::uint32_t id = 0;       // the request's, and its answer's
  std::uint64_t lease = 0;    // the owner's number for it
  std::uint64_t lifetime = 0; // ms
  std::uint32_t alignment = 0;
  remote_buffer memory; // allocate: size and rights; granted, lend: all of it

  [[nodiscard]] encoded encode() const noexcept;

  // Nothing for anything that encode() does not write, fields that do not belong to the type among
  // it.
  static std::optional<agent_message> decode(std::span<const std::byte> bytes) noexcept;

  [[nodiscard]] bool is_request() const noexcept;
  [[nodiscard]] bool is_answer() const noexcept;
};

// Times as they are on the wire: longer ones than can be said have no limit.
std::uint64_t to_wire(std::chrono::milliseconds lifetime) noexcept;
std::chrono::milliseconds from_wire(std::uint64_t lifetime) noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_MESSAGE_HPP
