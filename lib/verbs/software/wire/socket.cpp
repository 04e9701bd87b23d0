//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/socket.hpp"

#include <chrono>
#include <cstring>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace rdma::software::wire {

namespace {

constexpr std::uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

} // namespace

address to_address(const ibv_gid& gid, std::uint16_t port) noexcept
{
  address to;
  if (std::memcmp(gid.raw, mapped_prefix, sizeof mapped_prefix) == 0)
  {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, gid.raw + 12, 4);
    std::memcpy(&to.storage, &in, sizeof in);
    to.size = sizeof in;
  }
  else
  {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    std::memcpy(&in.sin6_addr, gid.raw, 16);
    std::memcpy(&to.storage, &in, sizeof in);
    to.size = sizeof in;
  }
  return to;
}

ibv_gid to_gid(const address& from) noexcept
{
  ibv_gid gid{};
  if (from.storage.ss_family == AF_INET)
  {
    sockaddr_in in;
    std::memcpy(&in, &from.storage, sizeof in);
    std::memcpy(gid.raw, mapped_prefix, sizeof mapped_prefix);
    std::memcpy(gid.raw + 12, &in.sin_addr, 4);
  }
  else
  {
    sockaddr_in6 in;
    std::memcpy(&in, &from.storage, sizeof in);
    std::memcpy(gid.raw, &in.sin6_addr, 16);
  }
  return gid;
}

descriptor make_socket(int family) noexcept
{
  descriptor fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd)
  {
    set_no_delay(fd.get());
    if (family == AF_INET6)
    {
      const int on = 1;
      ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
  }
  return fd;
}

void set_no_delay(int fd) noexcept
{
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// BBR, if it is the host's default, paces by timers and regularly drains the connection to measure
// the round trip time. Reno exists in every kernel, and every user may select it
// (tcp_allowed_congestion_control).
void set_no_pacing(int fd) noexcept
{
  constexpr char name[] = "reno";
  ::setsockopt(
    fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof name - 1); // a failure costs only speed
}

void set_route(int fd, const route& to) noexcept
{
  int family = 0;
  socklen_t size = sizeof family;
  if ((to.traffic_class == 0 && to.hop_limit == 0)
    || ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0)
    return;
  const auto set = [&](int value, int v4, int v6)
  {
    if (value != 0 && family == AF_INET)
      ::setsockopt(fd, IPPROTO_IP, v4, &value, sizeof value);
    else if (value != 0 && family == AF_INET6)
      ::setsockopt(fd, IPPROTO_IPV6, v6, &value, sizeof value);
  };
  set(to.traffic_class, IP_TOS, IPV6_TCLASS);
  set(to.hop_limit, IP_TTL, IPV6_UNICAST_HOPS);
}

std::int64_t now() noexcept
{
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
    std::chrono::steady_clock::now().time_since_epoch())
    .count();
}

} // namespace rdma::software::wire
