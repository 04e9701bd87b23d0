//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/loopback_wire.hpp"

#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/protocol/packet.hpp"
#include "verbs/software/wire/checked_copy.hpp"
#include "verbs/software/wire/hostile_copy.hpp"
#include "verbs/software/wire/unordered_access.hpp"

#include <cstddef>
#include <utility>

namespace rdma::software::wire {

using protocol::frame;

namespace {

// The bound on one call: up to 2 MiB of payload.
constexpr unsigned frames_max = 32;

} // namespace

void loopback_wire::transmit() noexcept
{
  staging_pool& pool = staging_pool::of_process();
  staging bytes = pool.take();
  unfinished_ = true;
  frame f;
  for (unsigned i = 0; bytes && unfinished_ && i != frames_max; ++i)
  {
    // Answers first: they complete requests, and the requester may wait for them.
    unfinished_ =
      responder_.next(f) || requester_.next(f) || responder_.next_acknowledgement(f, false);
    if (unfinished_)
      carry(f, bytes.get());
  }
  if (bytes)
    pool.give_back(std::move(bytes));
}

// The frames are this end's own, so they are well-formed.
void loopback_wire::carry(const frame& which, std::byte* staged) noexcept
{
  protocol::detail why = protocol::detail_none;
  if (!gather(which, staged, why))
    return which.response ? responder_.unreadable(which, why) : requester_.unreadable(which, why);
  const auto header = protocol::decode({which.bytes.data(), which.header_size});
  const bool accepted = header
    && (which.response ? requester_.receive(*header) : responder_.receive(*header))
      == protocol::verdict::accept;
  if (!which.response)
    requester_.sent(which);
  if (!accepted)
    return;
  if (!place(which, staged, why))
    which.response ? requester_.unplaceable(why) : responder_.unplaceable(why);
  else if (which.response)
    requester_.finish();
  else
    responder_.finish();
}

bool loopback_wire::gather(const frame& which, std::byte* to, protocol::detail& why) noexcept
{
  if (hostile_memory* const hostile = responder_.hostile_source(which)) [[unlikely]]
    return gather_frame(*hostile, responder_, which, to, why);
  std::uint64_t done = 0;
  const std::uint32_t size = which.source != frame::origin::none ? which.payload : 0;
  for (std::uint32_t offset = 0; offset != size; offset += static_cast<std::uint32_t>(done))
  {
    pinned_buffers from;
    done = 0;
    why = protocol::detail_local_key;
    if (!(which.response ? responder_.gather(which, offset, size - offset, from, done)
                         : requester_.gather(which, offset, size - offset, from, done)))
      return false;
    why = protocol::detail_local_fault;
    const unordered_access overlooked(from.unordered());
    for (const iovec& each : from.view())
    {
      if (!checked_copy(to, each.iov_base, each.iov_len, program_side::source))
        return false;
      to += each.iov_len;
    }
  }
  return true;
}

bool loopback_wire::place(const frame& which, const std::byte* from, protocol::detail& why) noexcept
{
  hostile_memory* const hostile = which.response ? nullptr : responder_.hostile_target();
  if (hostile != nullptr) [[unlikely]]
    return place_frame(*hostile, responder_, from, which.payload, why);
  std::uint64_t done = 0;
  const std::uint32_t size = which.payload;
  for (std::uint32_t offset = 0; offset != size; offset += static_cast<std::uint32_t>(done))
  {
    pinned_buffers to;
    done = 0;
    why = protocol::detail_local_key;
    if (!(which.response ? requester_.place(offset, size - offset, to, done)
                         : responder_.place(offset, size - offset, to, done)))
      return false;
    why = protocol::detail_local_fault;
    const unordered_access overlooked(to.unordered());
    for (const iovec& each : to.view())
    {
      if (!checked_copy(each.iov_base, from, each.iov_len, program_side::target))
        return false;
      from += each.iov_len;
    }
  }
  return true;
}

} // namespace rdma::software::wire
