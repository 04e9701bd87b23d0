//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/udp_port.hpp"

#include "verbs/software/queue_pair_number.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/uio.h>

namespace rdma::software::wire {
namespace {

constexpr std::size_t buffer_size = protocol::max_header_size + datagram_payload_max;
constexpr unsigned receive_batches_max =
  4; // in one call, so that one busy port does not delay the others

// Reads the control messages of IP_RECVTOS, IP_RECVTTL and their IPv6 counterparts.
route route_of(const msghdr& with) noexcept
{
  route by;
  auto& headers = const_cast<msghdr&>(with); // CMSG_NXTHDR() modifies nothing
  for (cmsghdr* c = CMSG_FIRSTHDR(&headers); c != nullptr; c = CMSG_NXTHDR(&headers, c))
  {
    const bool v4 = c->cmsg_level == IPPROTO_IP;
    int value = 0;
    if (v4 && c->cmsg_type == IP_TOS)
      by.traffic_class = *CMSG_DATA(c); // a byte (ip(7)); all others are of type int
    else
      std::memcpy(
        &value, CMSG_DATA(c), std::min<std::size_t>(sizeof value, c->cmsg_len - CMSG_LEN(0)));
    if (v4 ? c->cmsg_type == IP_TTL : c->cmsg_type == IPV6_HOPLIMIT)
      by.hop_limit = static_cast<std::uint8_t>(value);
    else if (!v4 && c->cmsg_type == IPV6_TCLASS)
      by.traffic_class = static_cast<std::uint8_t>(value);
  }
  return by;
}

// Enlarges a queue of the kernel, which holds datagrams while no thread polls, as far as the kernel
// permits.
void widen(int fd, int privileged, int plain, int size) noexcept
{
  if (::setsockopt(fd, SOL_SOCKET, privileged, &size, sizeof size) != 0)
    ::setsockopt(fd, SOL_SOCKET, plain, &size, sizeof size);
}

} // namespace

route_options::route_options(const route& to, int family) noexcept
{
  const bool v4 = family == AF_INET;
  const auto add = [&](int value, int type)
  {
    if (value == 0)
      return;
    cmsghdr header{};
    header.cmsg_level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    header.cmsg_type = type;
    header.cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(bytes.data() + size, &header, sizeof header);
    std::memcpy(bytes.data() + size + CMSG_LEN(0), &value, sizeof value);
    size += CMSG_SPACE(sizeof value);
  };
  add(to.traffic_class, v4 ? IP_TOS : IPV6_TCLASS);
  add(to.hop_limit, v4 ? IP_TTL : IPV6_HOPLIMIT);
}

int udp_port::open(engine& by, const ibv_gid& at, std::uint16_t port)
{
  constexpr int queue_bytes = 8 * 1024 * 1024;
  const address local = to_address(at, port);
  descriptor fd(::socket(local.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd)
    return errno;
  // Each datagram brings the fields of its route.
  const int on = 1;
  if (local.storage.ss_family == AF_INET6)
  {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on);
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on);
  }
  else
  {
    ::setsockopt(fd.get(), IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
    ::setsockopt(fd.get(), IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
  }
  widen(fd.get(), SO_RCVBUFFORCE, SO_RCVBUF, queue_bytes);
  widen(fd.get(), SO_SNDBUFFORCE, SO_SNDBUF, queue_bytes);
  if (::bind(fd.get(), local.get(), local.size) != 0)
    return errno;
  buffers_.reset(new (std::nothrow) std::byte[batch_size * buffer_size]);
  if (!buffers_)
    return ENOMEM;
  fd_ = std::move(fd);
  std::uint32_t number = 0;
  try
  {
    number = by.add_socket(*this);
  }
  catch (const std::bad_alloc&)
  {
    return ENOMEM;
  }
  if (by.watch(fd_.get(), number, EPOLLIN))
    return 0;
  const int error = errno;
  by.remove(*this);
  return error;
}

int udp_port::send(std::span<mmsghdr> what) noexcept
{
  return ::sendmmsg(
    fd_.get(), what.data(), static_cast<unsigned>(what.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void udp_port::serve(mover by, std::uint32_t)
{
  if (by != mover::poster)
    receive();
}

void udp_port::receive() noexcept
{
  // The thread that holds the lock receives the datagrams. The socket is level-triggered, so
  // remaining ones are reported again.
  const std::unique_lock lock(receiving_, std::try_to_lock);
  if (!lock)
    return;
  for (unsigned i = 0; i < receive_batches_max && receive_batch(); ++i)
  {
  }
}

bool udp_port::receive_batch() noexcept
{
  std::array<mmsghdr, batch_size> messages{};
  std::array<iovec, batch_size> vectors;
  std::array<sockaddr_storage, batch_size> names;
  std::array<route_options, batch_size> routes;
  for (unsigned i = 0; i < batch_size; ++i)
  {
    vectors[i] = {buffers_.get() + i * buffer_size, buffer_size};
    messages[i].msg_hdr.msg_iov = &vectors[i];
    messages[i].msg_hdr.msg_iovlen = 1;
    messages[i].msg_hdr.msg_name = &names[i];
    messages[i].msg_hdr.msg_namelen = sizeof names[i];
    messages[i].msg_hdr.msg_control = routes[i].bytes.data();
    messages[i].msg_hdr.msg_controllen = routes[i].bytes.size();
  }
  const int n = ::recvmmsg(fd_.get(), messages.data(), batch_size, MSG_DONTWAIT, nullptr);
  for (int i = 0; i < n; ++i)
  {
    const auto at = static_cast<unsigned>(i);
    if ((messages[at].msg_hdr.msg_flags & MSG_TRUNC) == 0)
      take({buffers_.get() + at * buffer_size, messages[at].msg_len}, messages[at].msg_hdr);
  }
  return n == static_cast<int>(batch_size);
}

// Anybody can send datagrams, so nothing in them is trusted. Invalid ones are dropped silently
// (IBA 9.8.3.2).
void udp_port::take(std::span<const std::byte> bytes, const msghdr& with) noexcept
{
  if (bytes.empty())
    return;
  const auto op = static_cast<std::uint8_t>(bytes[0]);
  const std::size_t size = protocol::header_size(op);
  if (size == 0 || protocol::service_of(op) != protocol::service_ud || bytes.size() < size)
    return;
  const auto headers = protocol::decode(bytes.first(size));
  if (!headers || headers->payload != bytes.size() - size
    || headers->payload > datagram_payload_max)
    return;
  address sender;
  std::memcpy(&sender.storage, with.msg_name, sizeof sender.storage);
  ports_.deliver({*headers, to_gid(sender), route_of(with), *this, bytes.subspan(size)});
}

int udp_ports::open(engine& by, std::uint32_t qp, std::span<const ibv_gid> gids, at_addresses*& to)
{
  const std::lock_guard lock(opening_);
  try
  {
    at_addresses& ports = ports_[port_of(qp)];
    for (std::size_t i = ports.size(); i < gids.size(); ++i)
    {
      auto port = std::make_unique<udp_port>(*this, i);
      if (const int error = port->open(by, gids[i], port_of(qp)); error != 0)
        return error;
      ports.push_back(std::move(port));
    }
    to = &ports;
    return 0;
  }
  catch (const std::bad_alloc&)
  {
    return ENOMEM;
  }
}

void udp_ports::join(std::uint32_t qp, datagram_sink& sink)
{
  const std::lock_guard lock(sinks_mutex_);
  sinks_[qp] = &sink;
}

void udp_ports::leave(std::uint32_t qp) noexcept
{
  const std::lock_guard lock(sinks_mutex_);
  sinks_.erase(qp);
}

void udp_ports::deliver(const datagram& what) noexcept
{
  const std::lock_guard lock(sinks_mutex_);
  if (const auto found = sinks_.find(what.headers.dest_qp); found != sinks_.end())
    found->second->arrive(what);
}

} // namespace rdma::software::wire
