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

// What the peer's agent sent, as doc/agent_protocol.md has it.

using namespace rdma::detail;
using test::require;

namespace {

void require_memory(const agent_message& m)
{
  const rdma::remote_buffer& memory = m.memory;
  const bool exposed = m.type == message_type::lend || m.type == message_type::granted;
  const bool any = exposed || m.type == message_type::allocate;
  require(any == (memory.size() != 0), "memory has bytes, and nothing else has");
  require(any == (memory.rights() != rdma::access::local_read),
    "memory has rights, and nothing else has");
  require(exposed == (memory.keys() != device_keys{}),
    "memory that is reachable has a key, and no other has");
  require(exposed || memory.address() == 0, "memory that is only asked for is nowhere yet");
  require(rdma::permits(rdma::remote_access, memory.rights()), "only remote rights are given away");
  require(memory.size() <= UINT64_MAX - memory.address(), "memory ends within the address space");
}

void require_lifetime(std::uint64_t wire)
{
  const std::chrono::milliseconds lifetime = from_wire(wire);
  require(lifetime >= std::chrono::milliseconds::zero(), "no lifetime is negative");
  const std::uint64_t again = to_wire(lifetime);
  require(again == wire || again == agent_message::no_limit,
    "lifetimes stay as they are, or have no limit");
  require(from_wire(again) == lifetime, "a lifetime means the same again");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::optional<agent_message> read = agent_message::decode(bytes);
  if (!read)
    return 0;
  const agent_message& m = *read;
  require(size == agent_message::encoded_size, "messages have one size");
  require(std::ranges::equal(m.encode(), bytes), "what is read is written as it was");

  require(
    m.type >= message_type::allocate && m.type <= message_type::refused, "no other types are read");
  const bool wants_no_answer =
    (m.type == message_type::release && m.id == 0) || m.type == message_type::recall;
  require(m.is_request() + m.is_answer() + wants_no_answer == 1, "a message is of one kind");
  require(wants_no_answer == (m.id == 0), "requests and their answers have ids");

  const bool of_lease = m.type != message_type::allocate && m.type != message_type::done
    && m.type != message_type::refused;
  require(of_lease == (m.lease != 0), "what is about a lease says which");
  require((m.type == message_type::allocate) == (m.alignment != 0),
    "alignments are asked for, and not given");
  const bool of_time = m.type == message_type::allocate || m.type == message_type::renew
    || m.type == message_type::lend || m.type == message_type::done
    || m.type == message_type::granted;
  require(of_time || m.lifetime == 0, "nothing else has a lifetime");
  require_lifetime(m.lifetime);
  require_memory(m);

  require(m.status <= refusal_status_last, "no other statuses are read");
  require((m.type == message_type::refused) == (m.status != refusal_status::none),
    "refusals have a reason");
  require(
    bool(error_of(m.status)) == (m.type == message_type::refused), "every reason is an error");
  return 0;
}
