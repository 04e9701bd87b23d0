//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The sending half of the TCP wire: sends frames, with payload directly from registered memory.

#include "verbs/software/wire/checked_copy.hpp"
#include "verbs/software/wire/hostile_copy.hpp"
#include "verbs/software/wire/tcp_wire.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace rdma::software::wire {

using protocol::frame;

namespace {

constexpr unsigned batches_max = 16; // in one call, see frame_stream::reads_max

// Returns false if a large buffer of the program's own memory is registered but not mapped.
bool is_mapped(const pinned_buffers& of, std::size_t count) noexcept
{
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::size_t pages_max = 128;
  std::array<unsigned char, pages_max> unused;
  for (std::size_t i = 0; i != count; ++i)
  {
    const iovec& buffer = of.view()[i];
    if (buffer.iov_len <= checked_copy_by_hand_max || of.is_shared(i))
      continue;
    const auto end = reinterpret_cast<std::uintptr_t>(buffer.iov_base) + buffer.iov_len;
    for (auto at = (end - buffer.iov_len) & ~(page - 1); at < end; at += pages_max * page)
    {
      // Other errors occur in sandboxes.
      if (::mincore(
            reinterpret_cast<void*>(at), std::min(end - at, pages_max * page), unused.data())
          != 0
        && errno == ENOMEM)
        return false;
    }
  }
  return true;
}

} // namespace

void tcp_wire::transmit(bool acknowledge)
{
  for (unsigned i = 0; i < batches_max; ++i)
  {
    if (!is_open() || link_->is_waiting(lane_))
      return;
    drop_superseded();
    if (!fill(acknowledge) || !send_batch(outbox_count_))
      return;
    if (link_->has_others_waiting(lane_))
      break;
  }
  // The engine or the next polling thread sends the rest after an event of the socket.
  link_->wait_for_turn(lane_);
}

bool tcp_wire::fill_answer()
{
  if (!responder_.next(box(outbox_count_)))
    return false;
  ++outbox_count_;
  return true;
}

bool tcp_wire::fill_request()
{
  frame& to = box(outbox_count_);
  if (!requester_.next(to))
    return false;
  ++outbox_count_;
  // Programs rely on it that a send completes before the peer's answer to it is received, as on
  // NICs, which acknowledge before the peer's program can answer.
  if (responder_.next_acknowledgement(box(outbox_count_), false))
    std::swap(to, box(outbox_count_++));
  return true;
}

bool tcp_wire::fill_one()
{
  turn_ = !turn_;
  return turn_ ? fill_answer() || fill_request() : fill_request() || fill_answer();
}

bool tcp_wire::fill(bool acknowledge)
{
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < outbox_count_; ++i)
    bytes += box(i).size();
  // The last place is reserved for an acknowledgement.
  while (outbox_count_ + 1 < outbox_size && bytes < batch_bytes && fill_one())
    bytes += box(outbox_count_ - 1).size();
  // With other frames a due acknowledgement is always sent; alone only if the caller permits.
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
    if (!f.response && f.generation != requester_.generation())
      continue;
    if (kept != i)
      box(kept) = f;
    ++kept;
  }
  outbox_count_ = kept;
}

// Gathers the payload of a frame from `offset` on. Returns false if a key forbids it.
bool tcp_wire::gather(
  const frame& of, std::uint32_t offset, pinned_buffers& to, std::uint64_t& done) noexcept
{
  return of.response ? responder_.gather(of, offset, of.payload - offset, to, done)
                     : requester_.gather(of, offset, of.payload - offset, to, done);
}

// Gathers whole frames. Returns their number, and stores the end of each.
std::size_t tcp_wire::gather_batch(pinned_buffers& to, std::span<std::size_t> ends) noexcept
{
  std::size_t total = 0;
  for (std::size_t i = 0; i < ends.size(); ++i)
  {
    frame& f = box(i);
    if (to.room() < 2 || responder_.hostile_source(f) != nullptr)
      return i;
    to.add(f.bytes.data(), f.header_size);
    std::uint64_t done = f.payload;
    if (f.source != frame::origin::none && !gather(f, 0, to, done))
      return i;
    if (done != f.payload)
      return i;
    total += f.size();
    ends[i] = total;
  }
  return ends.size();
}

// Sends up to `limit` frames. Returns false if the rest must wait.
bool tcp_wire::send_batch(std::size_t limit)
{
  std::ptrdiff_t n = 0;
  std::array<std::size_t, outbox_size> ends{};
  std::size_t count = 0;
  {
    pinned_buffers from;
    count = gather_batch(from, std::span(ends).first(limit));
    if (count != 0)
    {
      // Excludes the buffers of an incomplete frame.
      std::size_t vectors = 0;
      for (std::size_t bytes = 0; bytes < ends[count - 1]; ++vectors)
        bytes += from.view()[vectors].iov_len;
      // If the socket takes only part of a frame, the rest must be readable as well.
      if (is_mapped(from, vectors))
      {
        n = link_->send(
          lane_, from.view().first(vectors), std::span(ends).first(count), from.unordered());
      }
      else
      {
        n = -1;
        errno = EFAULT;
      }
    }
  }
  if (count == 0)
    return send_copied();
  if (n < 0 && errno == EFAULT && count == 1)
  {
    unreadable(protocol::detail_local_fault);
    return true;
  }
  if (n < 0 && errno == EFAULT)
    return send_batch(1); // finds the frame whose memory is registered but not mapped
  if (n < 0)
    return false; // called again when there is room; reading detects the end
  for (std::size_t i = 0; i != count; ++i)
  {
    if (ends[i] > static_cast<std::size_t>(n))
      return false;
    leave();
  }
  return true;
}

// Copies the first frame, to `to` or to a buffer of hostile mode, and sets `whole` to it. Returns
// the reason if its payload cannot be read.
std::optional<protocol::detail> tcp_wire::copy_frame(std::vector<std::byte>& to, iovec& whole)
{
  const frame& f = box(0);
  if (hostile_memory* const hostile = responder_.hostile_source(f))
  {
    std::byte* const at = hostile->leaving(f.size());
    protocol::detail why = protocol::detail_local_fault;
    if (at == nullptr || !gather_frame(*hostile, responder_, f, at + f.header_size, why))
      return why;
    std::copy_n(f.bytes.begin(), f.header_size, at);
    whole = {at, f.size()};
    return std::nullopt;
  }
  to.assign(f.bytes.begin(), f.bytes.begin() + f.header_size);
  for (std::uint32_t offset = 0; offset != f.payload;)
  {
    pinned_buffers some;
    std::uint64_t done = 0;
    if (!gather(f, offset, some, done) || done == 0)
      return protocol::detail_local_key;
    for (const iovec& v : some.view())
    {
      to.resize(to.size() + v.iov_len);
      if (!checked_copy(
            to.data() + to.size() - v.iov_len, v.iov_base, v.iov_len, program_side::source))
        return protocol::detail_local_fault;
    }
    offset += static_cast<std::uint32_t>(done);
  }
  whole = {to.data(), to.size()};
  return std::nullopt;
}

// Sends the first frame, whose buffers exceed the limit of one call, must be copied, or have lost
// their key.
bool tcp_wire::send_copied() noexcept
try
{
  std::vector<std::byte> memory;
  iovec whole{};
  if (const auto why = copy_frame(memory, whole))
  {
    unreadable(*why);
    return true;
  }
  const std::size_t end = whole.iov_len;
  if (link_->send(lane_, {&whole, 1}, {&end, 1}, false) < 0)
    return false;
  leave();
  return true;
}
catch (const std::bad_alloc&)
{
  link_->wait_for_turn(lane_);
  return false;
}

bool tcp_wire::send_last_copied() noexcept
try
{
  std::vector<std::byte> memory;
  iovec whole{};
  if (copy_frame(memory, whole))
    return false;
  link_->send_last({&whole, 1});
  return true;
}
catch (const std::bad_alloc&)
{
  return false;
}

// Removes the first frame, which has been sent.
void tcp_wire::leave() noexcept
{
  if (const frame& f = box(0); !f.response)
  {
    moved_ += f.size();
    requester_.sent(f);
  }
  pop();
}

void tcp_wire::pop() noexcept
{
  outbox_first_ = (outbox_first_ + 1) % outbox_size;
  --outbox_count_;
}

void tcp_wire::unreadable(protocol::detail why)
{
  frame bad = box(0);
  if (bad.response)
    responder_.unreadable(bad, why);
  else
    requester_.unreadable(bad, why);
  // No frame of the same kind behind it is sent: a refusal or the end of the queue pair follows.
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

void tcp_wire::finish() noexcept
{
  for (; outbox_count_ != 0; pop())
  {
    if (!box(0).response)
      continue;
    pinned_buffers from;
    std::size_t end = 0;
    if (gather_batch(from, {&end, 1}) != 0)
      link_->send_last(from.view());
    else if (responder_.hostile_source(box(0)) == nullptr || !send_last_copied())
      break;
  }
  if (frame last; is_open() && responder_.next_acknowledgement(last, false))
  {
    const iovec all{last.bytes.data(), last.header_size};
    link_->send_last({&all, 1});
  }
  close();
}

} // namespace rdma::software::wire
