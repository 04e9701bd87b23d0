//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/cm/port.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <linux/errqueue.h>
#include <netinet/in.h>

namespace rdma::software::cm {
namespace {

// As a socket of this family takes it: an IPv6 socket takes IPv4-mapped addresses.
wire::address to_socket_address(const endpoint& from, bool is_v6) noexcept
{
  if (!is_v6)
    return wire::to_address(wire::to_gid(from.ip), from.port);
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(from.port);
  std::memcpy(&in.sin6_addr, from.ip.data(), from.ip.size());
  wire::address to;
  std::memcpy(&to.storage, &in, sizeof in);
  to.size = sizeof in;
  return to;
}

int set(int fd, int level, int option, int value) noexcept
{
  return ::setsockopt(fd, level, option, &value, sizeof value) == 0 ? 0 : errno;
}

// Room for the control messages of a received datagram or error.
struct control_room
{
  alignas(cmsghdr) std::array<std::byte, 256> bytes{};
};

} // namespace

bool endpoint::is_v4() const noexcept
{
  return std::equal(v4_any.begin(), v4_any.begin() + 12, ip.begin());
}

bool endpoint::is_unspecified() const noexcept
{
  return ip == v4_any || ip == address_bytes{};
}

bool read_endpoint(const sockaddr* from, endpoint& to) noexcept
{
  if (from == nullptr || (from->sa_family != AF_INET && from->sa_family != AF_INET6))
    return false;
  wire::address read;
  if (from->sa_family == AF_INET)
  {
    sockaddr_in in;
    std::memcpy(&in, from, sizeof in);
    std::memcpy(&read.storage, &in, sizeof in);
    to.port = ntohs(in.sin_port);
  }
  else
  {
    sockaddr_in6 in;
    std::memcpy(&in, from, sizeof in);
    std::memcpy(&read.storage, &in, sizeof in);
    to.port = ntohs(in.sin6_port);
  }
  const ibv_gid gid = wire::to_gid(read);
  std::copy(std::begin(gid.raw), std::end(gid.raw), to.ip.begin());
  return true;
}

socklen_t write_endpoint(const endpoint& from, sockaddr_storage& to) noexcept
{
  const wire::address made = wire::to_address(wire::to_gid(from.ip), from.port);
  to = made.storage;
  return made.size;
}

int port::open(const endpoint& at, const options& with) noexcept
{
  is_v6_ = !at.is_v4();
  wire::descriptor fd(
    ::socket(is_v6_ ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd)
    return errno;
  // Each datagram brings its destination, and ICMP errors are queued with theirs.
  int error = is_v6_ ? set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, with.only_v6) : 0;
  if (error == 0 && is_v6_)
    error = set(fd.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
  if (error == 0 && is_v6_)
    error = set(fd.get(), IPPROTO_IPV6, IPV6_RECVERR, 1);
  if (error == 0 && is_v6_ && with.traffic_class != 0)
    error = set(fd.get(), IPPROTO_IPV6, IPV6_TCLASS, with.traffic_class);
  if (error == 0 && (!is_v6_ || !with.only_v6))
    error = set(fd.get(), IPPROTO_IP, IP_RECVERR, 1);
  if (error == 0 && !is_v6_)
    error = set(fd.get(), IPPROTO_IP, IP_PKTINFO, 1);
  if (error == 0 && with.traffic_class != 0 && !with.only_v6)
    error = set(fd.get(), IPPROTO_IP, IP_TOS, with.traffic_class);
  if (error != 0)
    return error;
  wire::address local = to_socket_address(at, is_v6_);
  if (::bind(fd.get(), local.get(), local.size) != 0
    || ::getsockname(fd.get(), local.get(), &local.size) != 0)
    return errno;
  if (!read_endpoint(local.get(), local_))
    return EAFNOSUPPORT;
  fd_ = std::move(fd);
  return 0;
}

int port::send(const message& what, const endpoint& to, const address_bytes& from) noexcept
{
  auto bytes = encode(what);
  wire::address name = to_socket_address(to, is_v6_);
  iovec vector{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_name = name.get();
  header.msg_namelen = name.size;
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  control_room room;
  if (!endpoint{from, 0}.is_unspecified())
  {
    cmsghdr control{};
    in6_pktinfo v6{};
    in_pktinfo v4{};
    std::memcpy(&v6.ipi6_addr, from.data(), from.size());
    std::memcpy(&v4.ipi_spec_dst, from.data() + 12, 4);
    const std::size_t size = is_v6_ ? sizeof v6 : sizeof v4;
    control.cmsg_level = is_v6_ ? IPPROTO_IPV6 : IPPROTO_IP;
    control.cmsg_type = is_v6_ ? IPV6_PKTINFO : IP_PKTINFO;
    control.cmsg_len = CMSG_LEN(size);
    std::memcpy(room.bytes.data(), &control, sizeof control);
    std::memcpy(room.bytes.data() + CMSG_LEN(0),
      is_v6_ ? static_cast<const void*>(&v6) : static_cast<const void*>(&v4), size);
    header.msg_control = room.bytes.data();
    header.msg_controllen = CMSG_SPACE(size);
  }
  // With IP_RECVERR, a call also reports an error of an earlier message, which is in the error
  // queue, too. So the message is sent again.
  for (int attempt = 0; attempt != 2; ++attempt)
    if (::sendmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
      return 0;
  return errno;
}

bool port::receive(arrival& to) noexcept
{
  for (;;)
  {
    outcome found = receive_error(to);
    if (found == outcome::empty)
      found = receive_message(to);
    if (found != outcome::skipped)
      return found == outcome::taken;
  }
}

port::outcome port::receive_error(arrival& to) noexcept
{
  std::array<std::byte, message_size> bytes;
  sockaddr_storage name{};
  iovec vector{bytes.data(), bytes.size()};
  control_room room;
  msghdr header{};
  header.msg_name = &name;
  header.msg_namelen = sizeof name;
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = room.bytes.data();
  header.msg_controllen = room.bytes.size();
  if (::recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_ERRQUEUE) < 0)
    return outcome::empty;
  if (!read_endpoint(reinterpret_cast<const sockaddr*>(&name), to.peer))
    return outcome::skipped;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c))
  {
    if ((c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR)
      && (c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != IPV6_RECVERR))
      continue;
    sock_extended_err error;
    std::memcpy(&error, CMSG_DATA(c), sizeof error);
    // Others, e.g. an unreachable host or a smaller MTU, may be temporary.
    to.is_error = error.ee_errno == ECONNREFUSED;
    if (to.is_error)
      return outcome::taken;
  }
  return outcome::skipped;
}

port::outcome port::receive_message(arrival& to) noexcept
{
  std::array<std::byte, message_size + 1> bytes; // one more detects a message that is too long
  sockaddr_storage name{};
  iovec vector{bytes.data(), bytes.size()};
  control_room room;
  msghdr header{};
  header.msg_name = &name;
  header.msg_namelen = sizeof name;
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = room.bytes.data();
  header.msg_controllen = room.bytes.size();
  const ssize_t n = ::recvmsg(fd_.get(), &header, MSG_DONTWAIT);
  if (n < 0)
    return errno == EAGAIN || errno == EBADF ? outcome::empty : outcome::skipped;
  const auto read = decode({bytes.data(), static_cast<std::size_t>(n)});
  if (!read || !read_endpoint(reinterpret_cast<const sockaddr*>(&name), to.peer))
    return outcome::skipped;
  to.is_error = false;
  to.what = *read;
  to.local = local_.ip;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c))
    if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO)
    {
      in6_pktinfo info;
      std::memcpy(&info, CMSG_DATA(c), sizeof info);
      std::memcpy(to.local.data(), &info.ipi6_addr, to.local.size());
    }
    else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO)
    {
      in_pktinfo info;
      std::memcpy(&info, CMSG_DATA(c), sizeof info);
      to.local = v4_any;
      std::memcpy(to.local.data() + 12, &info.ipi_addr, 4);
    }
  return outcome::taken;
}

int find_source(const endpoint& to, address_bytes& source) noexcept
{
  const bool is_v6 = !to.is_v4();
  const wire::descriptor fd(
    ::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd)
    return errno;
  endpoint target = to;
  target.port = 9; // any: connect() sends nothing
  wire::address name = to_socket_address(target, is_v6);
  if (::connect(fd.get(), name.get(), name.size) != 0
    || ::getsockname(fd.get(), name.get(), &name.size) != 0)
    return errno;
  endpoint found;
  if (!read_endpoint(name.get(), found))
    return EAFNOSUPPORT;
  source = found.ip;
  return 0;
}

} // namespace rdma::software::cm
