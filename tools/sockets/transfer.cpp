//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/transfer.hpp"

#include "sockets/progress.hpp"
#include "sockets/system.hpp"
#include "sockets/waiting.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <optional>
#include <vector>

#include <pthread.h>
#include <signal.h>

namespace rdma::sockets {
namespace {

// A wait for events of one connection.
class connection_wait final : public wait
{
public:
  connection_wait(socket& connection, short events) noexcept
    : source_{.connection = &connection}
    , events_(static_cast<short>(events | POLLERR | POLLHUP))
  {
  }

private:
  bool ready() override
  {
    return (source_.connection->events() & events_) != 0
      || source_.connection->current() == socket::state::kernel;
  }
  std::span<const source> sources() override { return {&source_, 1}; }

  const source source_;
  const short events_;
};

// The buffers of a call, from some byte on.
class buffers
{
public:
  explicit buffers(std::span<const iovec> all) noexcept
    : left_(all)
  {
    for (const iovec& each : all)
      size_ += each.iov_len;
  }
  [[nodiscard]] std::span<const iovec> left() const noexcept { return left_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t done() const noexcept { return done_; }
  [[nodiscard]] bool empty() const noexcept { return done_ == size_; }

  void advance(std::size_t bytes)
  {
    done_ += bytes;
    if (done_ == size_)
      return;
    if (own_.empty())
      own_.assign(left_.begin(), left_.end());
    std::size_t full = own_.size() - left_.size();
    for (; bytes >= own_[full].iov_len; ++full)
      bytes -= own_[full].iov_len;
    own_[full].iov_base = static_cast<std::byte*>(own_[full].iov_base) + bytes;
    own_[full].iov_len -= bytes;
    left_ = std::span<const iovec>(own_).subspan(full);
  }

  /// For system calls.
  [[nodiscard]] msghdr message() const noexcept
  {
    msghdr m{};
    m.msg_iov = const_cast<iovec*>(left_.data());
    m.msg_iovlen = std::min<std::size_t>(left_.size(), IOV_MAX);
    return m;
  }

private:
  std::span<const iovec> left_;
  std::vector<iovec> own_; // empty until the first advance()
  std::size_t size_ = 0;
  std::size_t done_ = 0;
};

// The blocking of one call. The program's limit is asked for when it first waits.
class blocking
{
public:
  blocking(description& d, int fd, int flags, int option) noexcept
    : description_(d)
    , fd_(fd)
    , option_(option)
    , is_blocking_((flags & MSG_DONTWAIT) == 0 && !d.connection->non_blocking)
  {
  }

  /// Returns false with errno: EAGAIN or EINTR.
  bool wait_for(short events)
  {
    if (!is_blocking_)
    {
      errno = EAGAIN;
      return false;
    }
    if (!has_begun_)
      begin();
    connection_wait here(*description_.connection, events);
    // A call with a limit is never restarted (signal(7)).
    switch (deadline_ ? here.run(deadline_, nullptr) : here.run_restarting(deadline_))
    {
    case wait::outcome::ready:
      return true;
    case wait::outcome::timed_out:
      errno = EAGAIN;
      return false;
    case wait::outcome::interrupted:
      break;
    }
    errno = EINTR;
    return false;
  }

private:
  void begin() noexcept
  {
    has_begun_ = true;
    timeval limit{};
    socklen_t size = sizeof limit;
    if (!description_.has_timeouts
      || original::getsockopt(fd_, SOL_SOCKET, option_, &limit, &size) != 0
      || (limit.tv_sec == 0 && limit.tv_usec == 0))
      return;
    const timespec time{.tv_sec = limit.tv_sec, .tv_nsec = limit.tv_usec * 1000};
    deadline_ = deadline_after(&time);
  }

  description& description_;
  const int fd_;
  const int option_;
  const bool is_blocking_;
  bool has_begun_ = false;
  std::optional<time_point> deadline_;
};

// A call that has transferred bytes succeeds, whatever comes then.
ssize_t together(std::size_t done, ssize_t last) noexcept
{
  if (done == 0)
    return last;
  return static_cast<ssize_t>(done) + std::max<ssize_t>(last, 0);
}

bool is_still_taken(description& d, int fd) noexcept
{
  const kept_errno kept;
  return takes(d, fd);
}

// MSG_TRUNC of TCP (tcp(7)): the bytes are discarded.
ssize_t discard(socket& from, std::size_t bytes) noexcept
{
  std::array<std::byte, 16 * 1024> unused; // NOLINT: only written
  const iovec to{.iov_base = unused.data(), .iov_len = std::min(bytes, unused.size())};
  return from.receive({&to, 1}, 0);
}

} // namespace

ssize_t receive(description& d, int fd, std::span<const iovec> to, int flags)
{
  if ((flags & MSG_OOB) != 0)
    return fail(EINVAL);
  if ((flags & MSG_ERRQUEUE) != 0)
    return fail(EAGAIN);
  socket& connection = *d.connection;
  const bool peeks = (flags & MSG_PEEK) != 0;
  const bool discards = (flags & MSG_TRUNC) != 0 && !peeks;
  buffers left(to);
  if (left.empty())
    return 0;
  blocking block(d, fd, flags, SO_RCVTIMEO);
  bool has_polled = false;
  for (;;)
  {
    // With MSG_PEEK, the bytes before these are not taken, so it waits until all are there.
    const ssize_t got = discards ? discard(connection, left.size() - left.done())
                                 : connection.receive(left.left(), flags & MSG_PEEK);
    if (got == 0)
      return static_cast<ssize_t>(left.done());
    if (got > 0)
    {
      if (discards && left.done() + static_cast<std::size_t>(got) < left.size())
        flags &= ~MSG_WAITALL; // no buffers to advance in
      if ((flags & MSG_WAITALL) == 0 || peeks)
        return together(left.done(), got);
      left.advance(static_cast<std::size_t>(got));
      if (left.empty())
        return static_cast<ssize_t>(left.done());
      continue;
    }
    // Not if the state has changed to kernel before the call.
    if (errno != EAGAIN && is_still_taken(d, fd))
      return together(left.done(), -1);
    if (!has_polled)
    {
      has_polled = true;
      if (progress::poll())
        continue;
    }
    if (takes(d, fd) && !block.wait_for(POLLIN | POLLRDHUP))
      return together(left.done(), -1);
    if (!takes(d, fd))
    {
      msghdr rest = left.message();
      return together(left.done(), original::recvmsg(fd, &rest, flags));
    }
  }
}

ssize_t send(description& d, int fd, std::span<const iovec> from, int flags)
{
  if ((flags & MSG_OOB) != 0)
    return fail(EOPNOTSUPP);
  socket& connection = *d.connection;
  buffers left(from);
  blocking block(d, fd, flags, SO_SNDTIMEO);
  bool has_polled = false;
  do
  {
    const ssize_t sent = connection.send(left.left());
    if (sent >= 0)
    {
      left.advance(static_cast<std::size_t>(sent));
      has_polled = false;
      if (left.size() == 0)
        return 0;
      continue;
    }
    if (errno != EAGAIN && !is_still_taken(d, fd))
      errno = EAGAIN; // the state has changed to kernel before the call
    if (errno == EPIPE && left.done() == 0 && (flags & MSG_NOSIGNAL) == 0)
    {
      const external_call handler;
      ::pthread_kill(::pthread_self(), SIGPIPE);
      errno = EPIPE;
    }
    if (errno != EAGAIN)
      return together(left.done(), -1);
    if (!has_polled)
    {
      // Tried again after the count, because a waiting thread may have seen the room before it.
      has_polled = true;
      d.times_full.fetch_add(1);
      progress::poll();
      continue;
    }
    if (takes(d, fd) && !block.wait_for(POLLOUT))
      return together(left.done(), -1);
    if (!takes(d, fd))
    {
      const msghdr rest = left.message();
      return together(left.done(), original::sendmsg(fd, &rest, flags));
    }
  } while (!left.empty());
  return static_cast<ssize_t>(left.done());
}

} // namespace rdma::sockets
