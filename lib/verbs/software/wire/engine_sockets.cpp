//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/engine.hpp"

#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/served_link.hpp"

#include <algorithm>
#include <cerrno>
#include <span>

#include <sys/epoll.h>

// The engine's sockets that belong to no queue pair: those that have not said yet whom they want,
// and those of queue pairs that are gone.

namespace rdma::software::wire {
namespace {

constexpr std::int64_t greeting_time = 2'000'000'000;
constexpr std::int64_t leaving_time = 1'000'000'000;
constexpr std::size_t accepted_max = 64;
constexpr unsigned accepts_max = 64;
constexpr std::int64_t rest_time = 100'000'000;

} // namespace

void engine::accept_from(int listener, bool is_local)
{
  for (unsigned i = 0; i < accepts_max; ++i)
  {
    address from;
    from.size = sizeof from.storage;
    // Without Nagle's delay, as the listener is (make_socket(), tcp_create_openreq_child() in the
    // kernel).
    descriptor fd(::accept4(listener, from.get(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd)
    {
      if (errno == EINTR || errno == ECONNABORTED)
        continue;
      if (errno != EAGAIN)
        rest(listener, is_local);
      return;
    }
    accepted_socket g;
    g.fd = std::move(fd);
    g.is_local = is_local;
    if (!is_local)
      g.from = to_gid(from);
    else if (!is_same_user(g.fd.get()))
      continue;
    if (hear(g))
      continue; // most hellos are there already
    g.until = now() + greeting_time;
    if (!await(subject::accepted, g.fd.get(), EPOLLIN, EPOLL_CTL_ADD))
      continue;
    if (accepted_sockets_.size() == accepted_max)
    {
      hang_up(accepted_sockets_.front().fd); // the oldest
      accepted_sockets_.erase(accepted_sockets_.begin());
    }
    accepted_sockets_.push_back(std::move(g));
  }
}

// No descriptor is left. The listener stays readable, so it is not looked at for a while.
void engine::rest(int listener, bool is_local) noexcept
{
  try
  {
    resting_.emplace_back(listener, is_local);
  }
  catch (const std::bad_alloc&)
  {
    return; // it stays watched
  }
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener, nullptr);
  rest_until_ = now() + rest_time;
}

void engine::greet(int fd)
{
  const auto found = std::find_if(accepted_sockets_.begin(), accepted_sockets_.end(),
    [fd](const accepted_socket& g) { return g.fd.get() == fd; });
  if (found == accepted_sockets_.end() || !hear(*found))
    return;
  hang_up(found->fd); // unless it has become a pending_hello
  accepted_sockets_.erase(found);
}

// Reads a hello. Returns true if it is complete, or will never be.
bool engine::hear(accepted_socket& g)
{
  if (g.is_local)
    return hear_locally(g);
  const std::span left = std::span(g.bytes).subspan(g.size);
  const ssize_t n = ::recv(g.fd.get(), left.data(), left.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (n <= 0)
    return true;
  g.size += static_cast<std::size_t>(n);
  if (g.size < g.bytes.size())
    return false;
  adopt(g);
  return true;
}

// Closing alone is not enough: a child of fork() may have the socket, too, so that it stays
// connected and, out of our reach, in the epoll set.
void engine::hang_up(descriptor& fd) noexcept
{
  if (!fd)
    return;
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
  ::shutdown(fd.get(), SHUT_RDWR);
  fd.reset();
}

void engine::introduce(pending_hello who) noexcept
{
  progress_target* const s = pin(who.theirs.to.qp);
  if (s == nullptr)
    return refuse(who);
  who.until = now() + greeting_time;
  // It may get ready at any moment. Either it finds the pending_hello then, or is ready when it is
  // told here.
  if (auto oldest = room_.add(std::move(who)))
    refuse(*oldest);
  s->meet();
  unpin(*s);
}

void engine::refuse(pending_hello& who) noexcept
{
  // If it cannot leave, the peer's own time limit ends its wait.
  who.link->send(who.lane, protocol::not_ready());
}

void engine::expire(std::int64_t at) noexcept
{
  std::erase_if(accepted_sockets_,
    [&](accepted_socket& g)
    {
      if (g.until > at)
        return false;
      hang_up(g.fd);
      return true;
    });
  while (auto late = room_.take_late(at))
    refuse(*late);
  std::erase_if(closing_sockets_,
    [&](closing_socket& l)
    {
      if (l.until > at && !(l.unwatched && leave(l)))
        return false;
      hang_up(l.fd);
      return true;
    });
  if (resting_.empty() || at < rest_until_)
    return;
  // A listener that cannot be watched yet is tried again: nothing else would do it.
  std::erase_if(
    resting_, [this](const auto& each) { return watch_listener(each.first, each.second); });
  rest_until_ = at + rest_time;
}

void engine::linger(descriptor fd, std::vector<std::byte> bytes)
{
  closing_socket l;
  l.fd = std::move(fd);
  l.bytes = std::move(bytes);
  l.until = now() + leaving_time;
  if (leave(l))
    return;
  {
    const std::lock_guard lock(due_mutex_);
    arriving_closing_sockets_.push_back(std::move(l));
  }
  wake();
}

void engine::take_closing_sockets() noexcept
{
  const std::lock_guard lock(due_mutex_);
  for (closing_socket& l : arriving_closing_sockets_)
  {
    // One that cannot be watched is served whenever something else happens, and at its end.
    l.unwatched = !await(subject::closing, l.fd.get(),
      EPOLLIN | (l.ended ? 0u : std::uint32_t{EPOLLOUT}), EPOLL_CTL_ADD);
    try
    {
      closing_sockets_.push_back(std::move(l));
    }
    catch (const std::bad_alloc&)
    {
      break; // the rest is closed as it is
    }
  }
  arriving_closing_sockets_.clear();
}

void engine::see_off(int fd) noexcept
{
  const auto found = std::find_if(closing_sockets_.begin(), closing_sockets_.end(),
    [fd](const closing_socket& l) { return l.fd.get() == fd; });
  if (found == closing_sockets_.end() || !leave(*found))
    return;
  hang_up(found->fd);
  std::swap(*found, closing_sockets_.back());
  closing_sockets_.pop_back();
}

// Whether it is over. Closing with unread bytes would reset the connection, and with it what the
// peer has not read yet: so read to the end.
bool engine::leave(closing_socket& l) noexcept
{
  while (l.sent < l.bytes.size())
  {
    const ssize_t n = ::send(
      l.fd.get(), l.bytes.data() + l.sent, l.bytes.size() - l.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return true;
    if (n < 0)
      break; // the peer may be waiting for us to read
    l.sent += static_cast<std::size_t>(n);
  }
  if (!l.ended && l.sent == l.bytes.size())
  {
    l.ended = true;
    ::shutdown(l.fd.get(), SHUT_WR);
    await(subject::closing, l.fd.get(), EPOLLIN, EPOLL_CTL_MOD); // if it is watched already
  }
  constexpr unsigned reads_max = 64;
  std::byte waste[4096];
  for (unsigned i = 0; i < reads_max; ++i)
  {
    const ssize_t n = ::recv(l.fd.get(), waste, sizeof waste, MSG_DONTWAIT);
    if (n == 0)
      return true;
    if (n < 0)
      return errno != EAGAIN && errno != EINTR;
  }
  return false;
}

} // namespace rdma::software::wire
