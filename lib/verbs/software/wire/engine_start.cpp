//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/staging.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>

// The start of the engine: its port, its thread, and its listening sockets.

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
  , fsm_(std::chrono::nanoseconds(settings.engine_delay).count())
{
}

// Claims the first port. Removes the addresses that cannot be used, or fails if `all` of them are
// required.
int engine::bind(std::vector<ibv_gid>& gids, bool all)
{
  std::unique_ptr<port_claim> claim;
  if (const int error = claim_port(gids, claim); error != 0)
    return error;
  for (std::size_t i = 0; i != gids.size(); ++i)
    if (claim->bound[i])
      gids_.push_back(gids[i]);
  if (gids_.empty() || (all && gids_.size() != gids.size()))
    return EADDRNOTAVAIL;
  std::erase_if(claim->bound, [](const descriptor& fd) { return !fd; });
  gids = gids_;
  claims_.push_back(std::move(claim));
  return 0;
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
  accepted_sockets_.reserve(64);

  // The engine thread blocks all signals, so the program's own threads receive them.
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

int engine::listen(std::uint32_t qp, const ibv_gid& gid, std::size_t gid_index)
{
  const std::lock_guard lock(claims_mutex_);
  const auto found = std::find_if(claims_.begin(), claims_.end(),
    [&](const auto& claim) { return claim->index == index_of(qp); });
  if (found == claims_.end() || gid_index >= gids_.size())
    return EINVAL;
  port_claim& at = **found;
  if (at.listening[gid_index])
    return 0;
  if (!at.bound[gid_index])
    return EADDRNOTAVAIL; // the address did not exist when this port was claimed
  if (has_local_wire_)
  {
    // If another process has the name, only the TCP wire can be used.
    if (const int error = listen_locally(at, gid); error != 0 && !has_tcp_wire_)
      return error;
  }
  if (has_tcp_wire_)
  {
    const int fd = at.bound[gid_index].get();
    if (::listen(fd, backlog) != 0 || !watch_listener(fd, false))
      return errno;
  }
  at.listening[gid_index] = true;
  return 0;
}

int engine::listen_locally(port_claim& at, const ibv_gid& gid)
{
  const address name = to_local_address(gid, port_of(at.index << number_bits));
  descriptor fd = make_local_socket();
  if (!fd || ::bind(fd.get(), name.get(), name.size) != 0 || ::listen(fd.get(), backlog) != 0)
    return errno;
  at.local_listeners.push_back(std::move(fd));
  if (watch_listener(at.local_listeners.back().get(), true))
    return 0;
  const int error = errno;
  at.local_listeners.pop_back(); // without events no connection would be accepted
  return error;
}

bool engine::watch_listener(int fd, bool is_local) noexcept
{
  return await(is_local ? subject::local_listener : subject::listener, fd, EPOLLIN, EPOLL_CTL_ADD);
}

} // namespace rdma::software::wire
