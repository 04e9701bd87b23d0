//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/tcp_link.hpp"

#include "verbs/software/wire/engine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

namespace rdma::software::wire {

namespace {

constexpr std::int64_t backoff_min = 1'000'000;
constexpr std::int64_t backoff_max = 100'000'000;
constexpr std::int64_t greeting_wait = 2'000'000'000;
constexpr std::uint32_t segment_min = 1024;

// Wakes nobody before so many bytes are there, or the end.
bool await_bytes(int fd, int bytes) noexcept
{
  return ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0;
}

// Whether no more will come: what is there wakes us again and again.
bool ended(int fd) noexcept
{
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
         info.tcpi_state != TCP_ESTABLISHED;
}

ibv_gid gid_of(const protocol::endpoint_name& name)
{
  ibv_gid gid;
  std::copy(name.gid.begin(), name.gid.end(), gid.raw);
  return gid;
}

} // namespace

tcp_link::~tcp_link() { hang_up(); }

// Closing alone is not enough: a child of fork() may have the socket, too.
void tcp_link::hang_up() noexcept
{
  if (!fd_)
    return;
  engine_.unwatch(fd_.get());
  ::shutdown(fd_.get(), SHUT_RDWR);
  fd_.reset();
}

void tcp_link::open(const protocol::hello& mine, std::int64_t now)
{
  mine_ = mine;
  mine_.segment = segment;
  with_.segment = segment;
  malformed_ = deaf_ = blocked_ = in_frame_ = held_ = unwatched_ = false;
  held_frame_ = UINT64_MAX;
  begin_ = end_ = 0;
  outbox_count_ = 0;
  payload_left_ = 0;
  // Exactly one end connects; which one, both can tell.
  if (mine_.from < mine_.to)
  {
    state_ = state::connecting;
    backoff_ = backoff_min;
    connect(now);
  }
  else
  {
    state_ = state::waiting;
  }
}

void tcp_link::connect(std::int64_t now)
{
  retry_at_ = 0;
  state_ = state::connecting;
  const address local = to_address(gid_of(mine_.from), 0);
  const address remote = to_address(gid_of(mine_.to), mine_.to.lid);
  fd_ = make_socket(remote.storage.ss_family);
  const int on = 1;
  if (fd_)
    ::setsockopt(fd_.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  // From the address that the GID names: the peer admits no other.
  if (!fd_ || local.storage.ss_family != remote.storage.ss_family ||
      ::bind(fd_.get(), local.get(), local.size) != 0 ||
      (::connect(fd_.get(), remote.get(), remote.size) != 0 && errno != EINPROGRESS) ||
      !engine_.watch(fd_.get(), with_.qp, EPOLLOUT))
  {
    fd_.reset(); // which is not being watched
    retry(now);
    return;
  }
  retry_at_ = now + greeting_wait;
}

void tcp_link::retry(std::int64_t now) noexcept
{
  hang_up();
  state_ = state::connecting;
  retry_at_ = now + backoff_;
  backoff_ = std::min(backoff_ * 2, backoff_max);
}

void tcp_link::timer(std::int64_t now)
{
  if (retry_at_ == 0 || now < retry_at_)
    return;
  // It may have been us who did not look in time.
  if (state_ == state::greeting)
    read_greeting(now);
  if (state_ != state::connecting && state_ != state::greeting)
    return;
  if (fd_)
    retry(now); // neither accepted nor answered in time
  else if (now >= retry_at_)
    connect(now);
}

void tcp_link::check_connected(std::int64_t now)
{
  if (!fd_)
    return;
  tcp_info info{};
  socklen_t size = sizeof info;
  ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size);
  if (info.tcpi_state == TCP_SYN_SENT)
    return;
  int error = 0;
  size = sizeof error;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  protocol::hello_bytes mine;
  encode(mine_, mine);
  if (error != 0 || !await_bytes(fd_.get(), protocol::hello_size) || !say(mine) ||
      !engine_.rewatch(fd_.get(), with_.qp, EPOLLIN))
  {
    retry(now);
    return;
  }
  state_ = state::greeting;
  retry_at_ = now + greeting_wait;
}

bool tcp_link::say(const protocol::hello_bytes& bytes) noexcept
{
  // A fresh socket has room for this.
  return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

void tcp_link::read_greeting(std::int64_t now)
{
  // Left in the socket until it is there as a whole.
  protocol::hello_bytes bytes;
  const ssize_t n = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_PEEK);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  const bool whole = n == static_cast<ssize_t>(bytes.size());
  if (n > 0 && !whole && !ended(fd_.get()))
    return;
  const auto theirs = whole ? protocol::decode_hello(bytes) : std::nullopt;
  if (!theirs || theirs->from != mine_.to || theirs->to != mine_.from ||
      !protocol::equal(theirs->secret, mine_.secret) || theirs->segment < segment_min ||
      theirs->segment > mine_.segment)
  {
    // Not ready yet, or not the one: the peer may be about to leave RESET, so go on trying. What is
    // waiting for it is bounded by the retry timer of the queue pair.
    retry(now);
    return;
  }
  ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
  if (!say(protocol::confirmation()))
  {
    retry(now);
    return;
  }
  with_.segment = theirs->segment;
  establish();
}

void tcp_link::read_confirmation()
{
  protocol::hello_bytes bytes;
  const ssize_t n = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_PEEK);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  const bool whole = n == static_cast<ssize_t>(bytes.size());
  if (n > 0 && !whole && !ended(fd_.get()))
    return;
  if (!whole || !protocol::is_confirmation(bytes))
  {
    // The peer gave this connection up, for we were slow to answer, and tries another.
    hang_up();
    state_ = state::waiting;
    return;
  }
  ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
  establish();
}

bool tcp_link::adopt(descriptor& fd, const protocol::hello& theirs)
{
  if (state_ == state::confirming)
    read_confirmation(); // which may be there
  // All that is known must agree; the PSNs are known to this end when it is in RTS.
  if ((state_ != state::waiting && state_ != state::confirming) || theirs.from != mine_.to ||
      theirs.to != mine_.from || !protocol::equal(theirs.secret, mine_.secret) || theirs.segment < segment_min ||
      (theirs.first_psn && *theirs.first_psn != mine_.expected_psn) ||
      (mine_.first_psn && *mine_.first_psn != theirs.expected_psn))
    return false;
  hang_up(); // of an attempt that the peer has given up
  fd_ = std::move(fd);
  mine_.segment = std::min(mine_.segment, theirs.segment);
  with_.segment = mine_.segment;
  protocol::hello_bytes mine;
  encode(mine_, mine);
  if (!await_bytes(fd_.get(), protocol::hello_size) || !say(mine) ||
      !engine_.watch(fd_.get(), with_.qp, EPOLLIN))
  {
    fd_.reset(); // the peer tries again
    state_ = state::waiting;
    return true;
  }
  // It may have given this connection up already, for we were slow: nothing is sent before it is sure.
  state_ = state::confirming;
  return true;
}

void tcp_link::establish()
{
  retry_at_ = 0;
  await_bytes(fd_.get(), 1);
  if (!staging_)
    staging_.reset(new (std::nothrow) std::byte[staging_size]);
  state_ = state::established;
  if (!staging_)
    lose();
}

void tcp_link::receive(std::int64_t now)
{
  switch (state_)
  {
  case state::connecting:
    check_connected(now);
    break;
  case state::greeting:
    read_greeting(now);
    break;
  case state::confirming:
    read_confirmation();
    if (state_ == state::established)
      read_frames();
    break;
  case state::established:
    if (!still_held(now))
      read_frames();
    break;
  default:
    break;
  }
}

void tcp_link::lose() noexcept
{
  held_ = false;
  state_ = state::lost;
  retry_at_ = 0;
  outbox_count_ = 0;
  hang_up();
}

void tcp_link::abandon_malformed() noexcept
{
  malformed_ = true;
  lose();
}

void tcp_link::close() noexcept
{
  const bool established = state_ == state::established;
  state_ = state::closed;
  held_ = false;
  retry_at_ = 0;
  if (!fd_)
    return;
  if (!established)
  {
    hang_up();
    return;
  }
  engine_.unwatch(fd_.get());
  try
  {
    // Answers to what was carried out, before the end: the peer has a right to its completion. What
    // is left of a frame that has begun must go first.
    std::vector<std::byte> bytes;
    bool whole = true;
    for (std::size_t i = 0; i < outbox_count_ && whole; ++i)
    {
      if (box(i).response || box(i).sent != 0)
        whole = append(box(i), bytes);
    }
    protocol::frame extra;
    if (whole && responder_.next_acknowledgement(extra, false))
      append(extra, bytes);
    outbox_count_ = 0;
    if (whole)
      engine_.linger(std::move(fd_), std::move(bytes));
  }
  catch (const std::bad_alloc&)
  {
    // The peer finds the connection gone, as if this host had crashed.
  }
  outbox_count_ = 0;
  if (fd_)
    ::shutdown(fd_.get(), SHUT_RDWR);
  fd_.reset();
}

bool tcp_link::append(protocol::frame& from, std::vector<std::byte>& to)
{
  if (from.sent < from.header_size)
    to.insert(to.end(), from.bytes.begin() + from.sent, from.bytes.begin() + from.header_size);
  std::uint32_t offset = from.sent > from.header_size ? from.sent - from.header_size : 0;
  while (offset < from.payload && from.source != protocol::frame::origin::none)
  {
    protocol::pieces some;
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
