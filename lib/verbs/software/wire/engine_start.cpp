//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/random.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/staging.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>

// The start of the engine: its port, its thread, and the addresses that it listens on.

namespace rdma::software::wire {
namespace {

constexpr int backlog = 1024;

bool permits(const device_settings& settings, std::string_view wire)
{
  return settings.wires.empty()
    || std::find(settings.wires.begin(), settings.wires.end(), wire) != settings.wires.end();
}

} // namespace

engine::engine(const device_settings& settings)
  : settings_(settings)
  , has_local_wire_(permits(settings, "local"))
  , has_tcp_wire_(permits(settings, "tcp"))
{
}

// Binds one port on all addresses. Nothing listens yet: connections are refused.
int engine::bind(std::vector<ibv_gid>& gids, bool all)
{
  constexpr unsigned attempts_max = 32;
  int error = EADDRINUSE;
  for (unsigned attempt = 0; attempt < attempts_max && error == EADDRINUSE; ++attempt)
  {
    std::vector<ibv_gid> usable;
    bound_.clear();
    port_ = 0;
    error = 0;
    for (const ibv_gid& gid : gids)
    {
      address at = to_address(gid, port_);
      descriptor fd = make_socket(at.storage.ss_family);
      if (!fd || ::bind(fd.get(), at.get(), at.size) != 0)
      {
        error = errno;
        // An IPv6 address that is not known to be unique yet, or a disabled address family.
        if (all || (error != EADDRNOTAVAIL && error != EAFNOSUPPORT))
          break;
        error = 0;
        continue;
      }
      if (port_ == 0)
      {
        if (::getsockname(fd.get(), at.get(), &at.size) != 0)
        {
          error = errno;
          break;
        }
        port_ = port_of(at);
      }
      bound_.push_back(std::move(fd));
      usable.push_back(gid);
    }
    if (error == 0 && usable.empty())
      error = EADDRNOTAVAIL;
    if (error == 0)
      gids = std::move(usable);
  }
  return error;
}

int engine::start(std::vector<ibv_gid>& gids, bool all)
{
  sockets_ = descriptor(::epoll_create1(EPOLL_CLOEXEC));
  events_ = descriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!sockets_ || !events_ || !wake_)
    return errno;
  if (!await(subject::sockets, sockets_.get(), EPOLLIN, EPOLL_CTL_ADD)
    || !await(subject::wake, wake_.get(), EPOLLIN, EPOLL_CTL_ADD))
    return errno;

  if (!staging_pool::of_process().fill())
    return ENOMEM;
  if (const int error = bind(gids, all); error != 0)
    return error;
  listening_.assign(bound_.size(), false);
  accepted_sockets_.reserve(64);
  resting_.reserve(2 * bound_.size());
  local_listeners_.reserve(bound_.size());
  fill_random(&next_number_, sizeof next_number_);

  // Signals are delivered to the program's own threads.
  sigset_t every;
  sigset_t before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  int error = 0;
  try
  {
    thread_ = std::thread([this] { run(); });
  }
  catch (const std::system_error& e)
  {
    error = e.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

int engine::listen(const ibv_gid& gid, std::size_t gid_index)
{
  const std::lock_guard lock(listen_mutex_);
  if (gid_index >= bound_.size())
    return EINVAL;
  if (listening_[gid_index])
    return 0;
  if (has_local_wire_)
  {
    // If another process has the name, the TCP wire remains.
    if (const int error = listen_locally(gid); error != 0 && !has_tcp_wire_)
      return error;
  }
  if (has_tcp_wire_)
  {
    const int fd = bound_[gid_index].get();
    if (::listen(fd, backlog) != 0 || !watch_listener(fd, false))
      return errno;
  }
  listening_[gid_index] = true;
  return 0;
}

int engine::listen_locally(const ibv_gid& gid)
{
  const address at = to_local_address(gid, port_);
  descriptor fd = make_local_socket();
  if (!fd || ::bind(fd.get(), at.get(), at.size) != 0 || ::listen(fd.get(), backlog) != 0)
    return errno;
  local_listeners_.push_back(std::move(fd));
  if (watch_listener(local_listeners_.back().get(), true))
    return 0;
  const int error = errno;
  local_listeners_.pop_back(); // without events nothing would be accepted
  return error;
}

bool engine::watch_listener(int fd, bool is_local) noexcept
{
  return await(is_local ? subject::local_listener : subject::listener, fd, EPOLLIN, EPOLL_CTL_ADD);
}

} // namespace rdma::software::wire
