//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The sending half of the TCP wire: frames to the socket, payload straight from registered memory.

#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/tcp_wire.hpp"
#include "verbs/software/wire/unordered_access.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include <sys/epoll.h>

namespace rdma::software::wire {

using protocol::frame;

namespace {

constexpr unsigned batches_max = 16; // of one call, see reads_max

} // namespace

// Requests the events that are awaited: bytes, and room for what is blocked.
void tcp_wire::rewatch() noexcept
{
  engine_.rewatch(
    socket_, with_.qp, std::uint32_t{EPOLLIN} | (blocked_ ? std::uint32_t{EPOLLOUT} : 0u));
}

void tcp_wire::writable() noexcept
{
  if (!is_open() || !blocked_)
    return;
  blocked_ = false;
  rewatch();
}

tcp_wire::condition tcp_wire::transmit(bool acknowledge)
{
  for (unsigned i = 0; i < batches_max; ++i)
  {
    if (!is_open() || blocked_ || deaf_)
      return condition_;
    drop_superseded();
    if (!fill(acknowledge) || !send_batch())
      return condition_;
  }
  // The engine or the next poller sends the rest, after an event of the socket.
  blocked_ = true;
  rewatch();
  return condition_;
}

bool tcp_wire::fill_one()
{
  frame& to = box(outbox_count_);
  turn_ = !turn_;
  const bool found =
    turn_ ? responder_.next(to) || requester_.next(to) : requester_.next(to) || responder_.next(to);
  if (found)
    ++outbox_count_;
  return found;
}

bool tcp_wire::fill(bool acknowledge)
{
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < outbox_count_; ++i)
    bytes += box(i).size() - box(i).sent;
  // The last place is reserved for an acknowledgement.
  while (outbox_count_ + 1 < outbox_size && bytes < batch_bytes && fill_one())
    bytes += box(outbox_count_ - 1).size();
  // Behind other frames it is sent whenever one is due; alone only if the caller permits.
  if (outbox_count_ != outbox_size && (outbox_count_ != 0 || acknowledge)
    && responder_.next_acknowledgement(box(outbox_count_), outbox_count_ == 0))
    ++outbox_count_;
  return outbox_count_ != 0;
}

void tcp_wire::drop_superseded() noexcept
{
  std::size_t kept = 0;
  for (std::size_t i = 0; i < outbox_count_; ++i)
  {
    frame& f = box(i);
    if (!f.response && f.sent == 0 && f.generation != requester_.generation())
      continue;
    if (kept != i)
      box(kept) = f;
    ++kept;
  }
  outbox_count_ = kept;
}

std::size_t tcp_wire::gather_batch(pinned_buffers& to, std::size_t limit, bool& blocked_by_key)
{
  std::size_t total = 0;
  blocked_by_key = false;
  for (std::size_t i = 0; i < limit && to.room() >= 2; ++i)
  {
    frame& f = box(i);
    const std::size_t before = total;
    if (f.sent < f.header_size)
    {
      to.add(f.bytes.data() + f.sent, f.header_size - f.sent);
      total += f.header_size - f.sent;
    }
    if (f.source == frame::origin::none)
      continue;
    const std::uint32_t offset = f.sent > f.header_size ? f.sent - f.header_size : 0;
    const std::uint32_t wanted = f.payload - offset;
    std::uint64_t done = 0;
    const bool ok = f.response ? responder_.gather(f, offset, wanted, to, done)
                               : requester_.gather(f, offset, wanted, to, done);
    if (!ok)
    {
      // Nothing of this frame, so that its headers do not leave alone.
      blocked_by_key = true;
      return before;
    }
    total += done;
    if (done != wanted)
      break;
  }
  return total;
}

bool tcp_wire::send_batch()
{
  std::size_t total = 0;
  ssize_t n = 0;
  bool blocked_by_key = false;
  {
    pinned_buffers from;
    total = gather_batch(from, outbox_count_, blocked_by_key);
    if (total != 0)
    {
      // gather_batch() may have added buffers of a frame that must not leave, so count bytes.
      std::size_t vectors = 0;
      for (std::size_t bytes = 0; bytes < total; ++vectors)
        bytes += from.view()[vectors].iov_len;
      msghdr message{};
      message.msg_iov = from.data();
      message.msg_iovlen = vectors;
      const unordered_access overlooked(from.unordered());
      n = ::sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  }
  if (total == 0 && blocked_by_key)
  {
    unreadable(protocol::detail_local_key);
    return true;
  }
  if (n < 0 && errno == EINTR)
    return true;
  if (n < 0 && errno == EFAULT)
    return find_fault();
  if (n < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)
  {
    // The peer may have sent something before it ended; receive() notices the end.
    deaf_ = true;
    return false;
  }
  const std::size_t went = n > 0 ? static_cast<std::size_t>(n) : 0;
  consume(went);
  if (went == total)
    return true;
  blocked_ = true;
  rewatch();
  return false;
}

void tcp_wire::consume(std::size_t n) noexcept
{
  while (n != 0)
  {
    frame& f = box(0);
    const std::size_t part = std::min<std::size_t>(n, f.size() - f.sent);
    f.sent += static_cast<std::uint32_t>(part);
    n -= part;
    if (!f.response)
      moved_ += part;
    if (!f.response && f.sent >= f.header_size)
      requester_.begun(f);
    if (f.sent != f.size())
      break;
    if (!f.response)
      requester_.sent(f);
    outbox_first_ = (outbox_first_ + 1) % outbox_size;
    --outbox_count_;
  }
}

bool tcp_wire::find_fault()
{
  // Memory that is registered but not mapped. Sending frame by frame finds the frame that it
  // belongs to.
  while (outbox_count_ != 0)
  {
    pinned_buffers from;
    bool blocked_by_key = false;
    const std::size_t total = gather_batch(from, 1, blocked_by_key);
    if (blocked_by_key)
    {
      from.clear();
      unreadable(protocol::detail_local_key);
      return true;
    }
    msghdr message{};
    message.msg_iov = from.data();
    message.msg_iovlen = from.count();
    const unordered_access overlooked(from.unordered());
    const ssize_t n = ::sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    from.clear();
    if (n < 0 && errno == EFAULT)
    {
      unreadable(protocol::detail_local_fault);
      return true;
    }
    if (n < 0)
      return true; // full or ended: the next batch finds out
    consume(static_cast<std::size_t>(n));
    if (static_cast<std::size_t>(n) != total)
      return true;
  }
  return true;
}

void tcp_wire::unreadable(protocol::detail why)
{
  frame bad = box(0);
  if (bad.response)
    responder_.unreadable(bad, why);
  else
    requester_.unreadable(bad, why);
  if (bad.sent != 0)
  {
    // Its headers have left and its payload cannot follow, so the connection is of no further use.
    end(condition::ended);
    return;
  }
  // Nothing behind it leaves either, of the same kind: a refusal follows, or the end.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < outbox_count_; ++i)
  {
    if (box(i).response == bad.response)
      continue;
    if (kept != i)
      box(kept) = box(i);
    ++kept;
  }
  outbox_count_ = kept;
}

std::optional<std::vector<std::byte>> tcp_wire::take_rest() noexcept
{
  try
  {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < outbox_count_; ++i)
      if ((box(i).response || box(i).sent != 0) && !append(box(i), bytes))
        return std::nullopt;
    if (frame extra; responder_.next_acknowledgement(extra, false))
      append(extra, bytes);
    return bytes;
  }
  catch (const std::bad_alloc&)
  {
    return std::nullopt;
  }
}

// Returns false when a key does not permit it.
bool tcp_wire::append(frame& from, std::vector<std::byte>& to)
{
  if (from.sent < from.header_size)
    to.insert(to.end(), from.bytes.begin() + from.sent, from.bytes.begin() + from.header_size);
  std::uint32_t offset = from.sent > from.header_size ? from.sent - from.header_size : 0;
  while (offset < from.payload && from.source != frame::origin::none)
  {
    pinned_buffers some;
    std::uint64_t done = 0;
    const bool ok = from.response
      ? responder_.gather(from, offset, from.payload - offset, some, done)
      : requester_.gather(from, offset, from.payload - offset, some, done);
    if (!ok || done == 0)
      return false;
    for (const iovec& v : some.view())
    {
      const auto* at = static_cast<const std::byte*>(v.iov_base);
      to.insert(to.end(), at, at + v.iov_len);
    }
    offset += static_cast<std::uint32_t>(done);
  }
  return true;
}

} // namespace rdma::software::wire
