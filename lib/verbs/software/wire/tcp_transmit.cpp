//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The sending half of a link: frames to the socket, payload straight from where it is registered.

#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/tcp_link.hpp"
#include "verbs/software/wire/unordered_access.hpp"

#include <algorithm>
#include <cerrno>

#include <sys/epoll.h>

namespace rdma::software::wire {

using protocol::frame;

namespace {

constexpr unsigned batches_max = 16; // of one call, see reads_max

} // namespace

void tcp_link::writable()
{
  if (state_ != state::established || !blocked_)
    return;
  blocked_ = false;
  // Asked for again when the socket fills up again.
  engine_.rewatch(fd_.get(), with_.qp, unwatched_ ? 0u : std::uint32_t{EPOLLIN});
}

void tcp_link::transmit(bool acknowledge)
{
  if (local_.is_open())
  {
    if (state_ == state::established && !local_.transmit(acknowledge))
      lose();
    return;
  }
  for (unsigned i = 0; i < batches_max; ++i)
  {
    if (state_ != state::established || blocked_ || deaf_)
      return;
    drop_superseded();
    fill(acknowledge);
    if (outbox_count_ == 0 || !send_batch())
      return;
  }
  // More is left: the engine or the next poller goes on, woken by a socket that has room.
  blocked_ = true;
  engine_.rewatch(fd_.get(), with_.qp, unwatched_ ? EPOLLOUT : EPOLLIN | EPOLLOUT);
}

bool tcp_link::fill_one()
{
  frame& to = box(outbox_count_);
  turn_ = !turn_;
  const bool found =
    turn_ ? responder_.next(to) || requester_.next(to) : requester_.next(to) || responder_.next(to);
  if (found)
    ++outbox_count_;
  return found;
}

void tcp_link::fill(bool acknowledge)
{
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < outbox_count_; ++i)
    bytes += box(i).size() - box(i).sent;
  // The last place is kept for an acknowledgement.
  while (outbox_count_ + 1 < outbox_size && bytes < batch_bytes && fill_one())
    bytes += box(outbox_count_ - 1).size();
  // One that is due rides along with anything else; alone it leaves when the caller says so.
  if (outbox_count_ != outbox_size && (outbox_count_ != 0 || acknowledge)
    && responder_.next_acknowledgement(box(outbox_count_), outbox_count_ == 0))
    ++outbox_count_;
}

void tcp_link::drop_superseded() noexcept
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

std::size_t tcp_link::gather_batch(pinned_buffers& to, std::size_t limit, bool& blocked_by_key)
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

bool tcp_link::send_batch()
{
  std::size_t total = 0;
  ssize_t n = 0;
  bool blocked_by_key = false;
  {
    pinned_buffers from;
    total = gather_batch(from, outbox_count_, blocked_by_key);
    if (total != 0)
    {
      // gather_batch() may have added pieces of a frame that is not to leave: count bytes, not
      // pieces.
      std::size_t vectors = 0;
      for (std::size_t bytes = 0; bytes < total; ++vectors)
        bytes += from.view()[vectors].iov_len;
      msghdr message{};
      message.msg_iov = from.data();
      message.msg_iovlen = vectors;
      const unordered_access overlooked(from.unordered());
      n = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
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
    // The peer may have said something before it went; receive() notices the end.
    deaf_ = true;
    return false;
  }
  const std::size_t went = n > 0 ? static_cast<std::size_t>(n) : 0;
  consume(went);
  if (went == total)
    return true;
  blocked_ = true;
  engine_.rewatch(fd_.get(), with_.qp, unwatched_ ? EPOLLOUT : EPOLLIN | EPOLLOUT);
  return false;
}

void tcp_link::consume(std::size_t n) noexcept
{
  moved_ += n;
  while (n != 0)
  {
    frame& f = box(0);
    const std::size_t part = std::min<std::size_t>(n, f.size() - f.sent);
    f.sent += static_cast<std::uint32_t>(part);
    n -= part;
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

bool tcp_link::find_fault()
{
  // Memory that is registered but not mapped. The kernel does not say whose; frame by frame it
  // does.
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
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    from.clear();
    if (n < 0 && errno == EFAULT)
    {
      unreadable(protocol::detail_local_fault);
      return true;
    }
    if (n < 0)
      return true; // full, or gone: the next batch tells
    consume(static_cast<std::size_t>(n));
    if (static_cast<std::size_t>(n) != total)
      return true;
  }
  return true;
}

void tcp_link::unreadable(protocol::detail why)
{
  frame bad = box(0);
  if (bad.response)
    responder_.unreadable(bad, why);
  else
    requester_.unreadable(bad, why);
  if (bad.sent != 0)
  {
    // Its headers are out and its payload cannot follow: nothing sensible can be said on this
    // connection any more. The peer finds it gone.
    lose();
    return;
  }
  // Nothing that came after it leaves either, on its side: it is a refusal, or the end.
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

} // namespace rdma::software::wire
