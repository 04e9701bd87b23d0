//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The receiving half of the TCP wire: copies bytes from the socket to their destinations.

#include "verbs/software/wire/hostile_copy.hpp"
#include "verbs/software/wire/tcp_wire.hpp"
#include "verbs/software/wire/unordered_access.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace rdma::software::wire {

void tcp_wire::open(tcp_link& by, unsigned lane) noexcept
{
  link_ = &by;
  lane_ = lane;
  malformed_ = placing_ = false;
  outbox_count_ = 0;
}

void tcp_wire::close() noexcept
{
  link_ = nullptr;
  placing_ = false;
  outbox_count_ = 0;
}

bool tcp_wire::receive()
{
  if (!is_open())
    return true;
  frame_stream& in = link_->stream();
  if (in.left() != 0 && !placing_)
    return true; // a frame of an earlier user of this queue pair number
  link_->claim();
  const std::uint32_t before = responder_.receives();
  while (in.left() != 0 ? read_payload(in) : begin_frame(in))
  {
  }
  link_->expect_answers(responder_.receives() - before);
  return !malformed_;
}

// Returns false if there is nothing to read for now.
bool tcp_wire::read_payload(frame_stream& in)
{
  if (in.skips())
    return false;
  if (const auto staged = in.staged(); !staged.empty())
  {
    const auto part = std::min<std::size_t>(staged.size(), in.left());
    if (!place_staged(staged.first(part)))
    {
      unplaceable(in, protocol::detail_local_key);
      return true;
    }
    in.use(part);
    use_payload(in, static_cast<std::uint32_t>(part));
    return true;
  }
  if (in.dry())
    return false;
  pinned_buffers to;
  std::uint64_t direct = 0;
  const bool ok = place(payload_done_, in.left(), to, direct);
  if (!ok)
  {
    to.clear();
    unplaceable(in, protocol::detail_local_key);
    return true;
  }
  std::size_t asked = direct;
  if (direct == in.left() && to.room() != 0)
  {
    to.add(in.behind(), lookahead);
    asked += lookahead;
  }
  msghdr message{};
  message.msg_iov = to.data();
  message.msg_iovlen = to.count();
  const unordered_access overlooked(to.unordered());
  const ssize_t n = ::recvmsg(in.socket(), &message, MSG_DONTWAIT);
  if (n < 0 && errno == EFAULT)
  {
    to.clear();
    unplaceable(in, protocol::detail_local_fault);
    return true;
  }
  if (!in.take(n, asked, direct))
    return false;
  use_payload(
    in, static_cast<std::uint32_t>(std::min<std::size_t>(static_cast<std::size_t>(n), direct)));
  return true;
}

// Adds the memory for this part of the frame's payload. Returns false if a key forbids it.
bool tcp_wire::place(
  std::uint32_t offset, std::uint32_t size, pinned_buffers& to, std::uint64_t& done) noexcept
{
  if (!request_)
    return requester_.place(offset, size, to, done);
  hostile_memory* const hostile = responder_.hostile_target();
  if (hostile == nullptr) [[likely]]
    return responder_.place(offset, size, to, done);
  // end_frame() copies the whole frame.
  std::byte* const frame = hostile->arriving(offset + size);
  if (frame == nullptr)
    return false;
  to.add(frame + offset, size);
  done = size;
  return true;
}

void tcp_wire::use_payload(frame_stream& in, std::uint32_t size)
{
  in.use_payload(size);
  payload_done_ += size;
  if (!request_)
    moved_ += size;
  if (in.left() == 0)
    end_frame();
}

// Returns false if the next frame has not arrived, or is another queue pair's.
bool tcp_wire::begin_frame(frame_stream& in)
{
  const auto staged = in.staged();
  if (staged.empty())
    return false;
  const auto op = static_cast<std::uint8_t>(staged.front());
  const std::size_t size = protocol::header_size(op);
  if (size == 0 || staged.size() < size)
    return false;
  const auto h = protocol::decode(staged.first(size));
  if (!h || h->dest_qp != with_.qp)
    return false;
  in.use(size);
  in.begin_payload(with_.qp, h->payload, true);
  if (h->payload > with_.segment || h->kind != with_.kind)
  {
    malformed_ = true;
    return false;
  }
  request_ = (protocol::traits_of(h->op) & protocol::trait_request) != 0;
  const protocol::verdict what = request_ ? responder_.receive(*h) : requester_.receive(*h);
  if (what == protocol::verdict::malformed)
  {
    malformed_ = true;
    return false;
  }
  placing_ = what == protocol::verdict::accept;
  payload_done_ = 0;
  in.begin_payload(with_.qp, h->payload, !placing_);
  if (h->payload == 0)
    end_frame();
  return true;
}

void tcp_wire::end_frame()
{
  if (!placing_)
    return;
  placing_ = false;
  hostile_memory* const hostile = request_ ? responder_.hostile_target() : nullptr;
  protocol::detail why = protocol::detail_none;
  if (hostile != nullptr
    && !place_frame(*hostile, responder_, hostile->arriving(0), payload_done_, why)) [[unlikely]]
    responder_.unplaceable(why);
  else if (request_)
    responder_.finish();
  else
    requester_.finish();
}

bool tcp_wire::place_staged(std::span<const std::byte> bytes)
{
  const auto size = static_cast<std::uint32_t>(bytes.size());
  std::uint32_t copied = 0;
  while (copied != size)
  {
    pinned_buffers to;
    std::uint64_t done = 0;
    if (!place(payload_done_ + copied, size - copied, to, done) || done == 0)
      return false;
    const unordered_access overlooked(to.unordered());
    const std::byte* from = bytes.data() + copied;
    for (const iovec& v : to.view())
    {
      std::memcpy(v.iov_base, from, v.iov_len);
      from += v.iov_len;
    }
    copied += static_cast<std::uint32_t>(done);
  }
  return true;
}

// Reports that the payload cannot be placed, and skips the rest of the frame.
void tcp_wire::unplaceable(frame_stream& in, protocol::detail why)
{
  placing_ = false;
  in.skip();
  if (request_)
    responder_.unplaceable(why);
  else
    requester_.unplaceable(why);
}

} // namespace rdma::software::wire
