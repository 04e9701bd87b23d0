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

// The engine's sockets without a queue pair: those without a hello yet, and those of links that
// have ended.

namespace rdma::software::wire {
namespace {

constexpr std::int64_t greeting_time = 2'000'000'000;
constexpr std::int64_t closing_time = 1'000'000'000;
constexpr std::size_t accepted_max = 64;
constexpr std::ptrdiff_t strangers_closing_max = 64;
constexpr unsigned accepts_max = 64;
constexpr std::int64_t pause_time = 100'000'000;

} // namespace

void engine::accept_from(int listener, bool is_local)
{
  for (unsigned i = 0; i < accepts_max; ++i)
  {
    address from;
    from.size = sizeof from.storage;
    // TCP_NODELAY is inherited from the listener (make_socket(); tcp_create_openreq_child() in the
    // kernel).
    descriptor fd(::accept4(listener, from.get(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd)
    {
      if (errno == EINTR || errno == ECONNABORTED)
        continue;
      if (errno != EAGAIN)
        pause_listener(listener, is_local);
      return;
    }
    accepted_socket g;
    g.fd = std::move(fd);
    g.is_local = is_local;
    if (!is_local)
      g.from = to_gid(from);
    else if (!is_same_user(g.fd.get()))
      continue;
    if (read_hello(g))
      continue; // most hellos have already arrived
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

// Stops watching a listener for a while when no descriptor is left, because it stays readable.
void engine::pause_listener(int listener, bool is_local) noexcept
{
  try
  {
    paused_listeners_.emplace_back(listener, is_local);
  }
  catch (const std::bad_alloc&)
  {
    return; // it stays watched
  }
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener, nullptr);
  paused_until_ = now() + pause_time;
}

void engine::serve_accepted(int fd)
{
  const auto found = std::find_if(accepted_sockets_.begin(), accepted_sockets_.end(),
    [fd](const accepted_socket& g) { return g.fd.get() == fd; });
  if (found == accepted_sockets_.end() || !read_hello(*found))
    return;
  hang_up(found->fd); // closes nothing if the socket has become a link's
  accepted_sockets_.erase(found);
}

// Reads a hello. Returns true if it is complete, or cannot become complete any more.
bool engine::read_hello(accepted_socket& g)
{
  if (g.is_local)
    return read_local_hello(g);
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

// Closing alone is not enough: a child of fork() may have the socket as well. It would stay
// connected, and in the epoll set without a way to remove it.
void engine::hang_up(descriptor& fd) noexcept
{
  if (!fd)
    return;
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
  ::shutdown(fd.get(), SHUT_RDWR);
  fd.reset();
}

void engine::introduce(pending_hello hello) noexcept
{
  progress_target* const s = pin(hello.theirs.to.qp);
  if (s == nullptr)
    return refuse(hello);
  hello.until = now() + greeting_time;
  // The queue pair may become ready at any moment. Either it finds the pending hello then, or it is
  // ready for meet() here.
  if (auto oldest = hellos_.add(std::move(hello)))
    refuse(*oldest);
  s->meet();
  unpin(*s);
}

void engine::refuse(pending_hello& hello) noexcept
{
  // If the message cannot be sent, the peer's own time limit ends its wait.
  hello.link->send(hello.lane, protocol::not_ready());
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
  while (auto late = hellos_.take_late(at))
    refuse(*late);
  std::erase_if(closing_sockets_,
    [&](closing_socket& l)
    {
      if (l.until > at && !(l.unwatched && finish(l)))
        return false;
      hang_up(l.fd);
      return true;
    });
  if (paused_listeners_.empty() || at < paused_until_)
    return;
  // A listener that still cannot be watched is tried again later, because no other event would
  // trigger it.
  std::erase_if(paused_listeners_,
    [this](const auto& each) { return watch_listener(each.first, each.second); });
  paused_until_ = at + pause_time;
}

void engine::linger(descriptor fd, std::vector<std::byte> bytes, bool is_strangers)
{
  closing_socket l;
  l.is_strangers = is_strangers;
  l.fd = std::move(fd);
  l.bytes = std::move(bytes);
  l.until = now() + closing_time;
  if (finish(l))
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
    // A socket that cannot be watched is served at other events, and at its time limit.
    l.unwatched = !await(subject::closing, l.fd.get(),
      EPOLLIN | (l.ended ? 0u : std::uint32_t{EPOLLOUT}), EPOLL_CTL_ADD);
    try
    {
      closing_sockets_.push_back(std::move(l));
      limit_strangers();
    }
    catch (const std::bad_alloc&)
    {
      break; // the others are closed immediately
    }
  }
  arriving_closing_sockets_.clear();
}

// A peer that has proven nothing can open links again and again, and not close its ends. The oldest
// gives way.
void engine::limit_strangers() noexcept
{
  if (std::ranges::count_if(closing_sockets_, &closing_socket::is_strangers)
    <= strangers_closing_max)
    return;
  const auto oldest = std::ranges::find_if(closing_sockets_, &closing_socket::is_strangers);
  hang_up(oldest->fd);
  closing_sockets_.erase(oldest);
}

void engine::serve_closing(int fd) noexcept
{
  const auto found = std::find_if(closing_sockets_.begin(), closing_sockets_.end(),
    [fd](const closing_socket& l) { return l.fd.get() == fd; });
  if (found == closing_sockets_.end() || !finish(*found))
    return;
  hang_up(found->fd);
  closing_sockets_.erase(found);
}

// Returns true if the socket can be closed. Reads to the end first, because closing with unread
// bytes would reset the connection and discard the bytes that the peer has not read yet.
bool engine::finish(closing_socket& l) noexcept
{
  while (l.sent < l.bytes.size())
  {
    const ssize_t n = ::send(
      l.fd.get(), l.bytes.data() + l.sent, l.bytes.size() - l.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return true;
    if (n < 0)
      break; // the peer may first want its own bytes to be read
    l.sent += static_cast<std::size_t>(n);
  }
  if (!l.ended && l.sent == l.bytes.size())
  {
    l.ended = true;
    ::shutdown(l.fd.get(), SHUT_WR);
    await(subject::closing, l.fd.get(), EPOLLIN, EPOLL_CTL_MOD); // fails if it is not watched yet
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
