//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/connection.hpp"

#include "sockets/system.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

// Bytes of a connection.

namespace rdma::sockets {

namespace asio = boost::asio;

namespace {

std::size_t size_of(std::span<const iovec> buffers) noexcept
{
  std::size_t size = 0;
  for (const iovec& each : buffers)
    size += each.iov_len;
  return size;
}

// The errors of TCP that programs know.
int errno_of(const error_code& ec) noexcept
{
  if (ec == asio::error::would_block)
    return EAGAIN;
  if (ec == asio::error::broken_pipe)
    return EPIPE;
  if (ec == asio::error::no_memory)
    return ENOMEM;
  return ECONNRESET;
}

} // namespace

ssize_t connection::fail(const error_code& ec) noexcept
{
  errno = errno_of(ec);
  if (errno == EAGAIN)
    return -1;
  error_ = 0;
  if (has_failed_.exchange(true) && errno == ECONNRESET)
    errno = EPIPE;
  return -1;
}

namespace {

// Calls move(buffers) for parts of the list that a stream takes at once.
template <class Buffers, class Move>
std::size_t in_parts(std::span<const iovec> list, error_code& ec, Move move)
{
  std::size_t done = 0;
  while (!list.empty() && !ec)
  {
    const auto part = list.first(std::min(list.size(), Buffers::most));
    list = list.subspan(part.size());
    std::array<typename Buffers::value_type, Buffers::most> buffers;
    for (std::size_t i = 0; i != part.size(); ++i)
      buffers[i] = {part[i].iov_base, part[i].iov_len};
    std::span<typename Buffers::value_type> rest(buffers.data(), part.size());
    for (std::size_t left = size_of(part); left != 0;)
    {
      const std::size_t moved = move(Buffers(rest), ec);
      if (ec)
        break;
      done += moved;
      left -= moved;
      for (std::size_t skip = moved; skip != 0;)
      {
        const std::size_t step = std::min(skip, rest.front().size());
        rest.front() += step;
        skip -= step;
        if (rest.front().size() == 0)
          rest = rest.subspan(1);
      }
    }
  }
  return done;
}

} // namespace

ssize_t connection::receive(std::span<const iovec> to, int flags) noexcept
{
  const internal_call internal;
  if (reads_nothing_)
    return 0;
  switch (current())
  {
  case state::rdma:
    break;
  case state::deciding:
    errno = EAGAIN;
    return -1;
  case state::ended:
    if (ended_unused_)
      return 0;
    errno = ECONNRESET; // at each call, so that no program takes it for the end of the bytes
    return -1;
  default:
    errno = EAGAIN; // the kernel's, since a moment ago
    return -1;
  }
  if ((flags & MSG_PEEK) != 0)
    return peek(to);
  error_code ec;
  const auto read = [&]
  {
    ec = {};
    return in_parts<detail::stream_core::targets>(to, ec,
      [&](const auto& buffers, error_code& error) { return stream_->read_now(buffers, error); });
  };
  std::size_t size = read();
  if (size == 0 && ec == asio::error::would_block && runtime::of_process().poll())
    size = read();
  if (size != 0 || !ec || ec == asio::error::eof)
    return static_cast<ssize_t>(size);
  errno = errno_of(ec);
  if (errno != EAGAIN)
    has_failed_ = true;
  return -1;
}

ssize_t connection::peek(std::span<const iovec> to) noexcept
{
  const auto found = stream_->peek();
  std::size_t size = 0;
  std::size_t skipped = 0; // of the first buffer
  auto from = found.begin();
  for (const iovec& each : to)
    for (std::size_t filled = 0; filled != each.iov_len && from != found.end();)
    {
      const std::size_t part = std::min(each.iov_len - filled, from->size() - skipped);
      std::memcpy(static_cast<char*>(each.iov_base) + filled,
        static_cast<const char*>(from->data()) + skipped, part);
      filled += part;
      size += part;
      skipped += part;
      if (skipped == from->size())
      {
        ++from;
        skipped = 0;
      }
    }
  if (size != 0 || size_of(to) == 0)
    return static_cast<ssize_t>(size);
  const auto now = stream_->look();
  if (now.peer_has_finished)
    return 0;
  return fail(now.failure ? now.failure : make_error_code(asio::error::would_block));
}

std::size_t connection::write(std::span<const iovec> from, error_code& ec)
{
  return in_parts<detail::stream_core::sources>(from, ec,
    [&](const auto& buffers, error_code& error) { return stream_->write_now(buffers, error); });
}

// Returns true if no bytes are left.
bool connection::flush(const lock_type&) noexcept
{
  if (pending_.empty() || is_foreign())
    return true;
  error_code ec;
  const iovec all{pending_.data(), pending_.size()};
  const std::size_t size = write({&all, 1}, ec);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(size));
  if (ec && ec != asio::error::would_block)
    pending_.clear(); // the next call of the program fails
  return pending_.empty();
}

// The same, and what the program has done after it sent them.
bool connection::flush_and_end(const lock_type& lock) noexcept
{
  if (!flush(lock))
    return false;
  error_code ignored;
  if (closed_)
    finish(lock);
  else if (writes_nothing_)
    stream_->shut_down(ignored);
  return true;
}

bool connection::flush() noexcept
{
  const lock_type lock(mutex_);
  return flush_and_end(lock);
}

ssize_t connection::send(std::span<const iovec> from) noexcept
try
{
  const internal_call internal;
  if (writes_nothing_)
    return fail(asio::error::broken_pipe);
  const lock_type lock(mutex_);
  const state now = current();
  if (now == state::ended)
    return fail(ended_unused_ ? asio::error::broken_pipe : asio::error::connection_reset);
  if (now == state::kernel)
    return fail(asio::error::would_block); // since a moment ago
  if (now != state::rdma || !flush(lock))
  {
    const std::size_t room = pending_max - std::min(pending_max, pending_.size());
    std::size_t size = 0;
    if (is_connected_)
      for (const iovec& each : from)
      {
        const auto* const bytes = static_cast<const char*>(each.iov_base);
        const std::size_t part = std::min(each.iov_len, room - size);
        pending_.insert(pending_.end(), bytes, bytes + part);
        size += part;
      }
    if (size == 0 && size_of(from) != 0)
      return fail(asio::error::would_block);
    return static_cast<ssize_t>(size);
  }
  error_code ec;
  const std::size_t size = write(from, ec); // the caller polls: that may call flush()
  if (ec == asio::error::connection_reset && stream_->look().peer_has_finished)
    ec = asio::error::broken_pipe; // the peer has closed its end
  return size != 0 || !ec ? static_cast<ssize_t>(size) : fail(ec);
}
catch (const std::bad_alloc&)
{
  errno = ENOMEM;
  return -1;
}

} // namespace rdma::sockets
