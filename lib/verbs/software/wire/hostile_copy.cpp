//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/hostile_copy.hpp"

#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/wire/checked_copy.hpp"
#include "verbs/software/wire/unordered_access.hpp"

namespace rdma::software::wire {
namespace {

// Calls find(offset, size, buffers, done) for the memory of a payload, and then for each part of it
// copy(memory, offset, size), or checked() with the same arguments if the kernel must make the
// copy.
template <class Find, class Copy, class Checked>
bool copy_frame(std::uint32_t size, program_side side, protocol::detail& why, Find find, Copy copy,
  Checked checked) noexcept
{
  for (std::uint32_t offset = 0; offset != size;)
  {
    pinned_buffers memory;
    std::uint64_t done = 0;
    why = protocol::detail_local_key;
    if (!find(offset, size - offset, memory, done) || done == 0)
      return false;
    why = protocol::detail_local_fault;
    const unordered_access overlooked;
    for (std::size_t i = 0; i != memory.count(); ++i)
    {
      const iovec& v = memory.view()[i];
      auto* const at = static_cast<std::byte*>(v.iov_base);
      if (memory.is_shared(i) || is_accessible(at, v.iov_len, side))
        copy(at, offset, v.iov_len);
      else if (!checked(at, offset, v.iov_len))
        return false;
      offset += static_cast<std::uint32_t>(v.iov_len);
    }
  }
  return true;
}

} // namespace

bool place_frame(hostile_memory& by, protocol::responder& to, const std::byte* payload,
  std::uint32_t size, protocol::detail& why) noexcept
{
  return copy_frame(
    size, program_side::target, why,
    [&](std::uint32_t offset, std::uint32_t left, pinned_buffers& memory, std::uint64_t& done)
    { return to.place(offset, left, memory, done); },
    [&](std::byte* at, std::uint32_t offset, std::size_t part)
    { by.write(at, payload + offset, part); },
    [&](std::byte* at, std::uint32_t offset, std::size_t part)
    { return checked_copy(at, payload + offset, part, program_side::target); });
}

bool gather_frame(hostile_memory& by, protocol::responder& from, const protocol::frame& which,
  std::byte* payload, protocol::detail& why) noexcept
{
  return copy_frame(
    which.payload, program_side::source, why,
    [&](std::uint32_t offset, std::uint32_t left, pinned_buffers& memory, std::uint64_t& done)
    { return from.gather(which, offset, left, memory, done); },
    [&](const std::byte* at, std::uint32_t offset, std::size_t part)
    { by.read(payload + offset, at, part); },
    [&](const std::byte* at, std::uint32_t offset, std::size_t part)
    { return checked_copy(payload + offset, at, part, program_side::source); });
}

} // namespace rdma::software::wire
