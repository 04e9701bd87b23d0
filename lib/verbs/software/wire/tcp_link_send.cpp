//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/wire/checked_copy.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/tcp_link.hpp"
#include "verbs/software/wire/unordered_access.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

// The sending half of a link over TCP.

namespace rdma::software::wire {
namespace {

// Frames up to this size together are copied: the copy costs less than a system call of their own.
constexpr std::size_t copied_max = 8 * 1024;

// So many buffers, or so few bytes, cost more in sendmsg() than their copy and send().
constexpr std::size_t vectors_copied_min = 8;
constexpr std::size_t copied_alone_max = 1024;

// The empty buffer keeps at most this capacity.
constexpr std::size_t out_kept = 512 * 1024;

} // namespace

void tcp_link::break_off(bool malformed) noexcept
{
  if (malformed)
    malformed_.store(true, std::memory_order_release);
  const std::lock_guard lock(out_mutex_);
  abandon();
  lanes_.end();
}

void tcp_link::end() noexcept
{
  lanes_.end();
  if (inherited())
    return;
  std::vector<std::byte> rest;
  {
    const std::lock_guard lock(out_mutex_);
    if (!broken_)
    {
      compact();
      rest = std::move(out_);
    }
    broken_ = true;
  }
  try
  {
    engine_.linger(std::move(socket_), std::move(rest));
  }
  catch (const std::bad_alloc&)
  {
    // The peer sees a closed connection, as after a crash of this host.
  }
}

// Makes the link unusable; reading detects the end. The caller holds out_mutex_, as in the
// functions below.
void tcp_link::abandon() noexcept
{
  broken_ = true;
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void tcp_link::rewatch(bool blocked) noexcept
{
  if (std::exchange(blocked_, blocked) != blocked && socket_)
    engine_.rewatch(
      socket_.get(), number(), std::uint32_t{EPOLLIN} | (blocked ? std::uint32_t{EPOLLOUT} : 0u));
}

// Sends the appended bytes.
void tcp_link::flush() noexcept
{
  while (!blocked_ && !broken_ && out_begin_ != out_.size())
  {
    const ssize_t n = ::send(socket_.get(), out_.data() + out_begin_, out_.size() - out_begin_,
      MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)
      broken_ = true; // the peer may have sent bytes before it ended; reading detects the end
    else
      sent(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }
}

// Removes sent bytes. If some are left, the socket had no room for them.
void tcp_link::sent(std::size_t size) noexcept
{
  out_begin_ += size;
  if (out_begin_ > out_max)
    compact();
  if (out_begin_ != out_.size())
    return rewatch(true);
  out_begin_ = 0;
  out_.clear();
  if (out_.capacity() > out_kept)
    std::vector<std::byte>().swap(out_); // was enlarged by the rest of a large frame
}

void tcp_link::compact() noexcept
{
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_begin_));
  out_begin_ = 0;
}

// Appends [begin, end) of these bytes. Returns false if they cannot be read or memory is short.
bool tcp_link::append(std::span<const iovec> what, std::size_t begin, std::size_t end) noexcept
try
{
  const std::size_t before = out_.size();
  std::size_t place = before;
  out_.resize(place + end - begin);
  std::size_t at = 0; // position in the buffer
  for (const iovec& each : what)
  {
    const std::size_t first = std::clamp(begin, at, at + each.iov_len) - at;
    const std::size_t last = std::clamp(end, at, at + each.iov_len) - at;
    if (!checked_copy(out_.data() + place, static_cast<const std::byte*>(each.iov_base) + first,
          last - first, program_side::source))
    {
      out_.resize(before);
      return false;
    }
    place += last - first;
    at += each.iov_len;
  }
  return true;
}
catch (const std::bad_alloc&)
{
  return false;
}

std::ptrdiff_t tcp_link::send(unsigned lane, std::span<const iovec> what,
  std::span<const std::size_t> ends, bool unordered) noexcept
{
  const unordered_access overlooked(unordered);
  const std::lock_guard lock(out_mutex_);
  const std::size_t size = ends.back();
  const std::size_t before = out_.size() - out_begin_;
  if (broken_)
  {
    errno = EPIPE;
    return -1;
  }
  const bool copied =
    working_ || blocked_ || what.size() >= vectors_copied_min || size <= copied_alone_max;
  if (copied && size <= copied_max && before + size <= out_max && append(what, 0, size))
  {
    if (!working_)
      flush();
    return static_cast<std::ptrdiff_t>(size);
  }
  if (blocked_)
    return refuse(lane);
  std::array<iovec, pinned_buffers::capacity + 1> all;
  std::size_t count = 0;
  if (before != 0)
    all[count++] = {out_.data() + out_begin_, before};
  for (const iovec& each : what)
    all[count++] = each;
  msghdr message{};
  message.msg_iov = all.data();
  message.msg_iovlen = count;
  ssize_t n = 0;
  do
    n = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EFAULT)
    return -1;
  if (n < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)
  {
    broken_ = true;
    errno = EPIPE;
    return -1;
  }
  const auto went = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  if (before != 0)
    sent(std::min(went, before));
  const std::size_t taken = went - std::min(went, before);
  if (taken == size)
    return static_cast<std::ptrdiff_t>(size);
  refuse(lane);
  if (taken == 0)
    return -1;
  // The rest of a frame that has begun is sent next, even if its queue pair ends.
  const std::size_t end = *std::lower_bound(ends.begin(), ends.end(), taken);
  if (!append(what, taken, end))
    abandon(); // memory that is registered but not mapped
  return static_cast<std::ptrdiff_t>(end);
}

// Lets the lane be served again when there is room.
std::ptrdiff_t tcp_link::refuse(unsigned lane) noexcept
{
  waiting_[lane / 64].fetch_or(std::uint64_t{1} << lane % 64, std::memory_order_relaxed);
  rewatch(true);
  errno = EAGAIN;
  return -1;
}

void tcp_link::wait_for_turn(unsigned lane) noexcept
{
  const std::lock_guard lock(out_mutex_);
  waiting_[lane / 64].fetch_or(std::uint64_t{1} << lane % 64, std::memory_order_relaxed);
  if (!makes_room_)
    rewatch(true);
}

bool tcp_link::has_others_waiting(unsigned lane) const noexcept
{
  for (std::size_t i = 0; i != waiting_.size(); ++i)
  {
    const std::uint64_t own = i == lane / 64 ? std::uint64_t{1} << lane % 64 : 0;
    if ((waiting_[i].load(std::memory_order_relaxed) & ~own) != 0)
      return true;
  }
  return false;
}

// Appends these bytes, unless more than `most` bytes are already unsent.
bool tcp_link::put(std::span<const iovec> what, std::size_t most) noexcept
{
  if (inherited())
    return false;
  std::size_t size = 0;
  for (const iovec& each : what)
    size += each.iov_len;
  const std::lock_guard lock(out_mutex_);
  if (broken_)
    return false;
  if (out_.size() - out_begin_ > most || !append(what, 0, size))
  {
    if (most == out_broken)
      abandon();
    return false;
  }
  if (!working_)
    flush();
  return true;
}

// Sends the appended bytes when the socket has room, then serves the waiting queue pairs in turn.
void tcp_link::use_room(mover by)
{
  {
    const std::lock_guard lock(out_mutex_);
    rewatch(false);
    flush();
    makes_room_ = true;
  }
  const unsigned first = next_turn_;
  for (unsigned i = 0; i != lanes_max; ++i)
  {
    const unsigned lane = (first + i) % lanes_max;
    const std::uint64_t bit = std::uint64_t{1} << lane % 64;
    if (!is_waiting(lane))
      continue;
    {
      const std::lock_guard lock(out_mutex_);
      if (blocked_)
      {
        next_turn_ = lane;
        break;
      }
    }
    waiting_[lane / 64].fetch_and(~bit, std::memory_order_relaxed);
    if (const std::uint32_t qp = lanes_.user_of(lane); qp != 0)
      engine_.serve(qp, by);
    next_turn_ = lane + 1;
  }
  const std::lock_guard lock(out_mutex_);
  makes_room_ = false;
  if (has_others_waiting(lanes_max))
    rewatch(true);
}

} // namespace rdma::software::wire
