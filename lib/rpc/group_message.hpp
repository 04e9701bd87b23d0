//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_GROUP_MESSAGE_HPP
#define BOOST_RDMA_LIB_RPC_GROUP_MESSAGE_HPP

#include "rpc/group_call.hpp"
#include "rpc/message.hpp"
#include "rpc/swim.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

// The bytes of the calls between members of a group (doc/rpc_protocol.md).

namespace rdma::detail::rpc {

enum class group_request_kind : std::uint32_t
{
  call = 1,    // a description of the method and its request follow
  inquiry = 2, // the callee has them
  bulk = 3,    // a call with content: its size, and then the same as in a call
  part = 4,    // of the content: its offset; the call exposes the bytes
};

struct group_request
{
  static constexpr std::size_t header_size = 64;
  // Calls of a root between its oldest that has not ended and the newest.
  static constexpr std::uint64_t calls_max = 4096;
  static constexpr std::chrono::microseconds time_max{std::int64_t{1} << 40};

  group_request_kind kind{};
  std::uint32_t root = 0;    // rank
  std::uint32_t members = 0; // of the group
  group_range range;         // of the callee; never has the root's place
  std::uint32_t fan_out = 0;
  std::uint64_t incarnation = 0;    // of the root
  std::uint64_t sequence = 0;       // of the call, from 1 on
  std::uint64_t oldest = 0;         // all calls of the root before this one have ended
  std::chrono::microseconds left{}; // time of the callee
  std::chrono::microseconds patience{};
  std::uint64_t bytes = 0;            // of a bulk call: size of its content; of a part: offset
  method_description method;          // of a call; refers to the bytes that were decoded
  std::span<const std::byte> content; // of a call, likewise: the request of the method
};

// The method and its request are appended if the kind is call or bulk.
void append_group_request(std::vector<std::byte>& to, const group_request& what);
// A time of a message: at least 1.
inline std::chrono::microseconds rounded_time(std::chrono::steady_clock::duration time)
{
  using std::chrono::microseconds;
  return std::max(std::chrono::duration_cast<microseconds>(time), microseconds(1));
}
// Changes an encoded call for one callee. The header of an inquiry is the whole message.
void set_group_callee(std::span<std::byte> request, group_request_kind kind, group_range range,
  std::chrono::microseconds left) noexcept;
// Returns nothing for bytes that are no request.
std::optional<group_request> decode_group_request(std::span<const std::byte> from);

struct group_answer
{
  bool is_pending = false;
  group_part part{}; // otherwise
};

void append_pending(std::vector<std::byte>& to);
void append_part(std::vector<std::byte>& to, const group_part& part);
// Returns nothing for bytes that are no answer for this range.
std::optional<group_answer> decode_group_answer(std::span<const std::byte> from, group_range range);

// The answer to a part: the callee has so many bytes, from the first on.
void append_progress(std::vector<std::byte>& to, std::uint64_t bytes);
// Returns nothing for bytes that are no such answer.
std::optional<std::uint64_t> decode_progress(std::span<const std::byte> from);

// Absences, each of 12 bytes, of places that ascend and are inside the range.
void append_absences(std::vector<std::byte>& to, std::span<const group_absence> what);
std::optional<std::vector<group_absence>> decode_absences(
  std::span<const std::byte> from, group_range range);

// A message of the failure detection. A request is a ping if the target is the callee. Another
// callee is asked to ping the target, and answers when this has answered.
struct gossip_request
{
  std::uint32_t members = 0;     // of the group
  std::uint32_t sender = 0;      // rank
  std::uint32_t target = 0;      // rank
  std::uint64_t incarnation = 0; // of the sender
  std::vector<swim_report> reports;
};

struct gossip_answer
{
  std::uint64_t incarnation = 0; // of the target
  std::vector<swim_report> reports;
};

void append_gossip_request(std::vector<std::byte>& to, const gossip_request& what);
void append_gossip_answer(std::vector<std::byte>& to, const gossip_answer& what);
// Return nothing for bytes that are no message of a member of a group with so many members.
std::optional<gossip_request> decode_gossip_request(
  std::span<const std::byte> from, std::uint32_t members);
std::optional<gossip_answer> decode_gossip_answer(
  std::span<const std::byte> from, std::uint32_t members);

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_GROUP_MESSAGE_HPP
