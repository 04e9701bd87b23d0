//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/tcp_output.hpp"

#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/wire/checked_copy.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace rdma::software::wire {
namespace {

// Larger than the usual output of several queue pairs, small enough for thousands of links.
constexpr std::size_t reserved = 16 * 1024;

// Frames up to this size together are copied: the copy costs less than a system call of their own.
constexpr std::size_t copied_max = 8 * 1024;

// So many buffers, or so few bytes, cost more in sendmsg() than their copy and send().
constexpr std::size_t vectors_copied_min = 8;
constexpr std::size_t copied_alone_max = 1024;

// The empty buffer keeps at most this capacity.
constexpr std::size_t kept = 512 * 1024;

// Without memory in the kernel the socket has no room, either.
bool is_lack_of_room(int error) noexcept
{
  return error == EAGAIN || error == ENOBUFS || error == ENOMEM;
}

} // namespace

tcp_output::tcp_output(output_socket& to)
  : to_(to)
{
  stored_.reserve(reserved);
}

// Reading detects the end.
void tcp_output::break_off() noexcept
{
  broken_ = true;
  to_.shut_down();
}

void tcp_output::abandon() noexcept
{
  const std::lock_guard lock(mutex_);
  break_off();
}

std::vector<std::byte> tcp_output::end() noexcept
{
  const std::lock_guard lock(mutex_);
  std::vector<std::byte> rest;
  if (!broken_)
  {
    compact();
    rest = std::move(stored_);
  }
  broken_ = true;
  return rest;
}

void tcp_output::rewatch(bool blocked) noexcept
{
  if (std::exchange(blocked_, blocked) != blocked)
    to_.watch_for_room(blocked);
}

// Sends the stored bytes.
void tcp_output::flush() noexcept
{
  while (!blocked_ && !broken_ && begin_ != stored_.size())
  {
    const iovec all{stored_.data() + begin_, stored_.size() - begin_};
    const std::ptrdiff_t n = to_.write({&all, 1});
    if (n < 0 && !is_lack_of_room(errno))
      broken_ = true; // the peer may have sent bytes before it ended; reading detects the end
    else
      sent(static_cast<std::size_t>(std::max<std::ptrdiff_t>(n, 0)));
  }
}

// Removes sent bytes. If some are left, the socket had no room for them.
void tcp_output::sent(std::size_t size) noexcept
{
  begin_ += size;
  if (begin_ > stored_max)
    compact();
  if (begin_ != stored_.size())
    return rewatch(true);
  begin_ = 0;
  stored_.clear();
  if (stored_.capacity() > kept)
    std::vector<std::byte>().swap(stored_); // was enlarged by the rest of a large frame
}

void tcp_output::compact() noexcept
{
  stored_.erase(stored_.begin(), stored_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
}

// Stores [begin, end) of these bytes. Returns false if they cannot be read or memory is short.
bool tcp_output::append(std::span<const iovec> what, std::size_t begin, std::size_t end) noexcept
try
{
  const std::size_t before = stored_.size();
  std::size_t place = before;
  stored_.resize(place + end - begin);
  std::size_t at = 0; // position in the buffer
  for (const iovec& each : what)
  {
    const std::size_t first = std::clamp(begin, at, at + each.iov_len) - at;
    const std::size_t last = std::clamp(end, at, at + each.iov_len) - at;
    if (!checked_copy(stored_.data() + place, static_cast<const std::byte*>(each.iov_base) + first,
          last - first, program_side::source))
    {
      stored_.resize(before);
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

std::ptrdiff_t tcp_output::send(
  unsigned lane, std::span<const iovec> what, std::span<const std::size_t> ends) noexcept
{
  const std::lock_guard lock(mutex_);
  const std::size_t size = ends.back();
  const std::size_t before = stored_.size() - begin_;
  if (broken_)
  {
    errno = EPIPE;
    return -1;
  }
  const bool copied =
    in_turn_ || blocked_ || what.size() >= vectors_copied_min || size <= copied_alone_max;
  if (copied && size <= copied_max && before + size <= stored_max && append(what, 0, size))
  {
    if (!in_turn_)
      flush();
    was_used_ = true;
    return static_cast<std::ptrdiff_t>(size);
  }
  if (blocked_)
    return refuse(lane);
  std::array<iovec, pinned_buffers::capacity + 1> all;
  std::size_t count = 0;
  if (before != 0)
    all[count++] = {stored_.data() + begin_, before};
  for (const iovec& each : what)
    all[count++] = each;
  const std::ptrdiff_t n = to_.write(std::span(all).first(count));
  if (n < 0 && errno == EFAULT)
    return -1;
  if (n < 0 && !is_lack_of_room(errno))
  {
    broken_ = true;
    errno = EPIPE;
    return -1;
  }
  const auto went = static_cast<std::size_t>(std::max<std::ptrdiff_t>(n, 0));
  if (before != 0)
    sent(std::min(went, before));
  const std::size_t taken = went - std::min(went, before);
  was_used_ = was_used_ || taken != 0;
  if (taken == size)
    return static_cast<std::ptrdiff_t>(size);
  refuse(lane);
  if (taken == 0)
    return -1;
  // The rest of a frame that has begun is sent next, even if its queue pair ends.
  const std::size_t end = *std::lower_bound(ends.begin(), ends.end(), taken);
  if (!append(what, taken, end))
    break_off(); // memory that is registered but not mapped
  return static_cast<std::ptrdiff_t>(end);
}

std::ptrdiff_t tcp_output::refuse(unsigned lane) noexcept
{
  waiting_.add(lane, std::memory_order_relaxed);
  rewatch(true);
  errno = EAGAIN;
  return -1;
}

void tcp_output::wait_for_turn(unsigned lane) noexcept
{
  const std::lock_guard lock(mutex_);
  waiting_.add(lane, std::memory_order_relaxed);
  if (!makes_room_)
    rewatch(true);
}

bool tcp_output::put(std::span<const iovec> what, std::size_t most) noexcept
{
  std::size_t size = 0;
  for (const iovec& each : what)
    size += each.iov_len;
  const std::lock_guard lock(mutex_);
  if (broken_)
    return false;
  if (stored_.size() - begin_ > most || !append(what, 0, size))
  {
    if (most == stored_broken)
      break_off();
    return false;
  }
  if (!in_turn_)
    flush();
  return true;
}

void tcp_output::begin_turn() noexcept
{
  const std::lock_guard lock(mutex_);
  in_turn_ = true;
}

void tcp_output::end_turn() noexcept
{
  const std::lock_guard lock(mutex_);
  in_turn_ = false;
  flush();
}

bool tcp_output::begin_room() noexcept
{
  const std::lock_guard lock(mutex_);
  rewatch(false);
  flush();
  makes_room_ = true;
  was_used_ = false;
  return !blocked_;
}

bool tcp_output::look_for_room(bool& was_used) noexcept
{
  const std::lock_guard lock(mutex_);
  was_used = std::exchange(was_used_, false);
  return !blocked_;
}

void tcp_output::end_room() noexcept
{
  const std::lock_guard lock(mutex_);
  makes_room_ = false;
  if (waiting_.contains_others(lanes_max))
    rewatch(true);
}

} // namespace rdma::software::wire
