//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The receiving half of the TCP wire: bytes from the socket to their places.

#include "verbs/software/wire/socket.hpp"
#include "verbs/software/wire/tcp_wire.hpp"
#include "verbs/software/wire/unordered_access.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

namespace rdma::software::wire {

namespace {

// A bound on one call, so that one busy connection does not keep a poller from the others.
constexpr unsigned reads_max = 32;

} // namespace

void tcp_wire::open(int socket) noexcept
{
  socket_ = socket;
  condition_ = condition::open;
  deaf_ = blocked_ = in_frame_ = false;
  begin_ = end_ = 0;
  outbox_count_ = 0;
  payload_left_ = 0;
}

void tcp_wire::close() noexcept
{
  end(condition::closed);
  socket_ = -1;
}

void tcp_wire::end(condition with) noexcept
{
  condition_ = with;
  outbox_count_ = 0;
}

tcp_wire::condition tcp_wire::receive()
{
  if (!staging_)
    staging_ = staging_pool::of_process().take();
  if (!staging_)
  {
    end(condition::ended);
    return condition_;
  }
  read_frames();
  if (begin_ == end_ || !is_open())
  {
    begin_ = end_ = 0;
    staging_pool::of_process().give_back(std::move(staging_));
  }
  return condition_;
}

void tcp_wire::read_frames()
{
  for (unsigned i = 0; i < reads_max && is_open(); ++i)
  {
    if (!read_some())
      break;
  }
}

bool tcp_wire::read_some()
{
  ssize_t n = 0;
  std::size_t asked = 0;
  std::size_t placed = 0;
  if (payload_left_ != 0 && placing_)
  {
    // Here the staging buffer is empty: parse() has used it up.
    pinned_buffers to;
    std::uint64_t done = 0;
    const bool ok = request_ ? responder_.place(payload_done_, payload_left_, to, done)
                             : requester_.place(payload_done_, payload_left_, to, done);
    if (!ok)
    {
      to.clear();
      unplaceable(protocol::detail_local_key);
      return true;
    }
    placed = asked = done;
    if (done == payload_left_ && to.room() != 0)
    {
      to.add(staging_.get(), lookahead);
      asked += lookahead;
    }
    msghdr message{};
    message.msg_iov = to.data();
    message.msg_iovlen = to.count();
    const unordered_access overlooked(to.unordered());
    n = ::recvmsg(socket_, &message, MSG_DONTWAIT);
    if (n < 0 && errno == EFAULT)
    {
      to.clear();
      unplaceable(protocol::detail_local_fault);
      return true;
    }
  }
  else
  {
    asked = staging_size - end_;
    n = ::recv(socket_, staging_.get() + end_, asked, MSG_DONTWAIT);
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (n <= 0)
  {
    end(condition::ended);
    return false;
  }
  if (!take(n, placed))
    return false;
  // Less than there was room for: nothing is left. (More may have come since; the socket is
  // level-triggered.)
  return static_cast<std::size_t>(n) == asked;
}

bool tcp_wire::take(ssize_t n, std::size_t placed)
{
  const auto size = static_cast<std::size_t>(n);
  const std::size_t direct = std::min(size, placed);
  payload_done_ += static_cast<std::uint32_t>(direct);
  payload_left_ -= static_cast<std::uint32_t>(direct);
  if (!request_)
    moved_ += direct;
  if (placed != 0)
  {
    begin_ = 0;
    end_ = size - direct;
    if (payload_left_ == 0)
      end_frame();
  }
  else
  {
    end_ += size;
  }
  parse();
  return is_open();
}

void tcp_wire::parse()
{
  while (begin_ != end_ && is_open())
  {
    if (!in_frame_)
    {
      if (!begin_frame())
        break;
      continue;
    }
    const auto part =
      static_cast<std::uint32_t>(std::min<std::size_t>(end_ - begin_, payload_left_));
    if (placing_ && !place_staged(part))
      unplaceable(protocol::detail_local_key);
    if (placing_ && !request_)
      moved_ += part;
    begin_ += part;
    payload_done_ += part;
    payload_left_ -= part;
    if (payload_left_ == 0)
      end_frame();
  }
  if (!is_open())
    return;
  // The rest is the beginning of a header.
  if (begin_ != 0)
  {
    std::memmove(staging_.get(), staging_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
}

bool tcp_wire::begin_frame()
{
  const std::byte* at = staging_.get() + begin_;
  const std::size_t size = protocol::header_size(static_cast<std::uint8_t>(*at));
  if (size == 0)
  {
    end(condition::malformed);
    return false;
  }
  if (end_ - begin_ < size)
    return false;
  const auto h = protocol::decode({at, size});
  if (!h || h->dest_qp != with_.qp || h->payload > with_.segment
    || protocol::service_of(static_cast<std::uint8_t>(*at)) != with_.kind)
  {
    end(condition::malformed);
    return false;
  }
  request_ = (protocol::traits_of(h->op) & protocol::trait_request) != 0;
  const protocol::verdict what = request_ ? responder_.receive(*h) : requester_.receive(*h);
  begin_ += size;
  if (what == protocol::verdict::malformed)
  {
    end(condition::malformed);
    return false;
  }
  in_frame_ = true;
  placing_ = what == protocol::verdict::accept;
  payload_done_ = 0;
  payload_left_ = h->payload;
  if (payload_left_ == 0)
    end_frame();
  return true;
}

void tcp_wire::end_frame()
{
  in_frame_ = false;
  if (!placing_)
    return;
  placing_ = false;
  if (request_)
    responder_.finish();
  else
    requester_.finish();
}

bool tcp_wire::place_staged(std::uint32_t size)
{
  std::uint32_t copied = 0;
  while (copied != size)
  {
    pinned_buffers to;
    std::uint64_t done = 0;
    const bool ok = request_ ? responder_.place(payload_done_ + copied, size - copied, to, done)
                             : requester_.place(payload_done_ + copied, size - copied, to, done);
    if (!ok || done == 0)
      return false;
    const unordered_access overlooked(to.unordered());
    const std::byte* from = staging_.get() + begin_ + copied;
    for (const iovec& v : to.view())
    {
      std::memcpy(v.iov_base, from, v.iov_len);
      from += v.iov_len;
    }
    copied += static_cast<std::uint32_t>(done);
  }
  return true;
}

void tcp_wire::unplaceable(protocol::detail why)
{
  placing_ = false;
  if (request_)
    responder_.unplaceable(why);
  else
    requester_.unplaceable(why);
}

} // namespace rdma::software::wire
