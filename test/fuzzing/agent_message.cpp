//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/message.hpp"
#include "fuzzing/common/require.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Fuzzes the decoder of messages of the peer's agent (doc/agent_protocol.md).

using namespace rdma::detail;
using test::require;

namespace {

void require_memory(const agent_message& m)
{
  const rdma::remote_buffer& memory = m.memory;
  const bool exposed = m.type == message_type::lend || m.type == message_type::granted;
  const bool any = exposed || m.type == message_type::allocate;
  require(any == (memory.size() != 0), "exactly the messages with memory have a size");
  require(any == (memory.rights() != rdma::access::local_read),
    "exactly the messages with memory have rights");
  require(exposed == (memory.keys() != device_keys{}), "exactly reachable memory has a key");
  require(exposed || memory.address() == 0, "requested memory has no address");
  require(
    rdma::permits(rdma::remote_access, memory.rights()), "only remote rights are transferable");
  require(memory.size() <= UINT64_MAX - memory.address(), "memory ends within the address space");
}

void require_lifetime(std::uint64_t wire)
{
  const std::chrono::milliseconds lifetime = from_wire(wire);
  require(lifetime >= std::chrono::milliseconds::zero(), "a lifetime is not negative");
  const std::uint64_t again = to_wire(lifetime);
  require(again == wire || again == agent_message::no_limit,
    "a lifetime survives conversion or becomes unlimited");
  require(from_wire(again) == lifetime, "a converted lifetime has the same value");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::optional<agent_message> read = agent_message::decode(bytes);
  if (!read)
    return 0;
  const agent_message& m = *read;
  require(size == agent_message::encoded_size, "all messages have the same size");
  require(std::ranges::equal(m.encode(), bytes), "a decoded message encodes to the same bytes");

  require(m.type >= message_type::allocate && m.type <= message_type::refused, "the type is known");
  const bool wants_no_answer =
    (m.type == message_type::release && m.id == 0) || m.type == message_type::recall;
  require(wants_no_answer == (m.id == 0), "exactly requests and answers have ids");

  const bool of_lease = m.type != message_type::allocate && m.type != message_type::done
    && m.type != message_type::refused;
  require(of_lease == (m.lease != 0), "exactly the messages about a lease have its number");
  require((m.type == message_type::allocate) == (m.alignment != 0),
    "exactly allocate requests have an alignment");
  const bool of_time = m.type == message_type::allocate || m.type == message_type::renew
    || m.type == message_type::lend || m.type == message_type::done
    || m.type == message_type::granted;
  require(of_time || m.lifetime == 0, "other messages have no lifetime");
  require_lifetime(m.lifetime);
  require_memory(m);

  require(m.status <= refusal_status_last, "the status is known");
  require((m.type == message_type::refused) == (m.status != refusal_status::none),
    "exactly refusals have a status");
  require(bool(error_of(m.status)) == (m.type == message_type::refused),
    "exactly refusals map to an error");
  return 0;
}
