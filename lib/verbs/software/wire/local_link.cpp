//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/local_link.hpp"

#include "verbs/software/wire/local_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include <sys/socket.h>

namespace rdma::software::wire {
namespace {

// The bound on grants that have arrived and were not taken. Without a grant, requests travel as
// frames.
constexpr std::size_t grants_waiting_max = 64;

} // namespace

local_link::local_link(
  descriptor socket, std::shared_ptr<segment> memory, unsigned end, descriptor segment_fd) noexcept
  : socket_(std::move(socket))
  , memory_(std::move(memory))
  , end_(end)
  , lanes_(end)
  , segment_fd_(std::move(segment_fd))
{
}

local_link::~local_link()
{
  shut_down();
}

// Closing alone is not enough, because a child of fork() may have the socket as well. The child
// does not shut it down.
void local_link::shut_down() noexcept
{
  lanes_.end();
  if (!inherited())
    ::shutdown(socket_.get(), SHUT_RDWR);
}

// --- lanes ---

std::optional<lane_use> local_link::take(std::uint32_t qp) noexcept
{
  // acquire: the peer's last accesses to the lane come before its reuse
  return lanes_.take(
    qp,
    [this](unsigned lane)
    { return memory_->side(lane, 1).detached.load(std::memory_order_acquire) != 0; },
    [this](unsigned lane) { memory_->begin(lane); });
}

bool local_link::release(lane_use which) noexcept
{
  // release: all accesses of this end to the lane come before
  if (!lanes_.release(which,
        [this](unsigned lane)
        { memory_->side(lane, end_).detached.store(1, std::memory_order_release); }))
    return true;
  bool is_known = true; // the peer has received the segment
  {
    const std::lock_guard lock(mutex_);
    is_known = !segment_fd_;
  }
  // Without the lock, because closing a descriptor may take a while.
  for (descriptor memory; take_grant(which, memory);)
    memory.reset();
  if (!is_known)
    return true;
  std::atomic_thread_fence(std::memory_order_seq_cst); // see ring()
  return ring(which.lane);
}

bool local_link::is_over(lane_use which) const noexcept
{
  return ended()
    || memory_->side(which.lane, 1 - end_).detached.load(std::memory_order_acquire) != 0;
}

// --- the socket ---

bool local_link::send(lane_use to, const protocol::hello_bytes& bytes) noexcept
{
  const attach_message message{to, bytes};
  const auto all = std::as_bytes(std::span(&message, 1));
  {
    // The segment's descriptor goes first, so other messages wait for it.
    const std::lock_guard lock(mutex_);
    if (segment_fd_)
    {
      const ssize_t n = send_with_descriptor(socket_.get(), all, segment_fd_.get());
      if (n == sizeof message)
        segment_fd_.reset();
      return n == sizeof message;
    }
  }
  return ::send(socket_.get(), all.data(), all.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
    == sizeof message;
}

bool local_link::send(lane_use to, const grant_message& what, int memory) noexcept
{
  grant_answer message;
  message.lane = to;
  message.what = what;
  return send_with_descriptor(socket_.get(), std::as_bytes(std::span(&message, 1)), memory)
    == sizeof message;
}

local_link::heard local_link::end_link() noexcept
{
  shut_down();
  return heard::end;
}

local_link::heard local_link::hear(attach_message& hello) noexcept
{
  // The kinds differ in size. One byte more detects a message that is too long.
  static_assert(sizeof(attach_message) != sizeof(grant_answer));
  std::array<std::byte, std::max(sizeof(attach_message), sizeof(grant_answer)) + 1> bytes;
  descriptor with;
  attached count = attached::none;
  const ssize_t n = receive_with_descriptor(socket_.get(), bytes, with, count);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return heard::nothing;
  if (n == 1 && count == attached::none)
    return heard::wake;
  if (n == sizeof(attach_message) && count == attached::none)
  {
    std::memcpy(&hello, bytes.data(), sizeof hello);
    return receive(hello);
  }
  if (n == sizeof(grant_answer) && (count == attached::one || count == attached::lost))
  {
    grant_answer grant;
    std::memcpy(&grant, bytes.data(), sizeof grant);
    return receive(grant, std::move(with));
  }
  return end_link(); // closed by the peer, or a violation of the protocol
}

local_link::heard local_link::receive(const attach_message& what) noexcept
try
{
  switch (lanes_.receive(what))
  {
  case lane_table::purpose::hello:
    return heard::hello;
  case lane_table::purpose::user:
    ring_here(what.lane.lane);
    break;
  case lane_table::purpose::none:
    break;
  }
  return heard::message;
}
catch (const std::bad_alloc&)
{
  return heard::message; // the handshake has a time limit
}

local_link::heard local_link::receive(const grant_answer& what, descriptor memory) noexcept
{
  const std::lock_guard lock(mutex_);
  if (!lanes_.is_attached(what.lane) || !memory || grants_.size() == grants_waiting_max)
    return heard::message;
  try
  {
    grants_.push_back({what.lane, what.what, std::move(memory)});
    grant_count_.store(grants_.size(), std::memory_order_relaxed);
    ring_here(what.lane.lane);
  }
  catch (const std::bad_alloc&)
  {
    // Without the grant, requests travel as frames.
  }
  return heard::message;
}

std::optional<grant_message> local_link::take_grant(lane_use from, descriptor& memory) noexcept
{
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(grants_.begin(), grants_.end(),
    [from](const pending_grant& each)
    { return each.lane.lane == from.lane && each.lane.number == from.number; });
  if (found == grants_.end())
    return std::nullopt;
  const grant_message what = found->what;
  memory = std::move(found->memory);
  grants_.erase(found);
  grant_count_.store(grants_.size(), std::memory_order_relaxed);
  return what;
}

// --- bells ---

bool local_link::ring(unsigned lane) noexcept
{
  memory_->side(1 - end_).ring(lane);
  return wake();
}

bool local_link::wake() noexcept
{
  return wake_ups_.wake(memory_->side(1 - end_),
    [this]
    {
      const std::byte poke{};
      return ::send(socket_.get(), &poke, sizeof poke, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof poke
        || errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN; // reading reports the end
    });
}

void local_link::ring_here(unsigned lane) noexcept
{
  memory_->side(end_).bells[lane / 64].fetch_or(
    std::uint64_t{1} << lane % 64, std::memory_order_seq_cst);
}

void local_link::look(bool on) noexcept
{
  const std::lock_guard lock(mutex_);
  sleeps_.look(memory_->side(end_), on);
}

void local_link::rearm() noexcept
{
  const std::lock_guard lock(mutex_);
  sleeps_.rearm(memory_->side(end_));
}

} // namespace rdma::software::wire
