//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/local_socket.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace rdma::software::wire {

bool is_of_this_host(const ibv_gid& gid) noexcept
{
  const address at = to_address(gid, 0);
  if (at.storage.ss_family == AF_INET && gid.raw[12] == 127)
    return true;
  // Whether one may bind to it (ip(7)) tells without a list of all addresses.
  const descriptor probe(::socket(at.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return probe && ::bind(probe.get(), at.get(), at.size) == 0;
}

address to_abstract_address(std::string_view text) noexcept
{
  constexpr std::string_view prefix{"\0boost_rdma/", 12}; // the zero makes it an abstract name
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  static_assert(prefix.size() + 64 <= sizeof un.sun_path);
  text = text.substr(0, 64);
  std::memcpy(un.sun_path, prefix.data(), prefix.size());
  std::memcpy(un.sun_path + prefix.size(), text.data(), text.size());
  address to;
  std::memcpy(&to.storage, &un, sizeof un);
  to.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + prefix.size() + text.size());
  return to;
}

address to_local_address(const ibv_gid& gid, std::uint16_t port) noexcept
{
  char text[64];
  std::size_t size = 0;
  for (const std::uint8_t byte : gid.raw)
    size += static_cast<std::size_t>(std::snprintf(text + size, sizeof text - size, "%02x", byte));
  size += static_cast<std::size_t>(
    std::snprintf(text + size, sizeof text - size, "/%u", static_cast<unsigned>(port)));
  return to_abstract_address({text, size});
}

descriptor make_local_socket() noexcept
{
  return descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool is_same_user(int socket) noexcept
{
  constexpr uid_t overflow_uid = 65534; // /proc/sys/kernel/overflowuid
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid()
    && peer.uid != overflow_uid; // of users that this user namespace has no name for
}

bool has_seals(const descriptor& fd, int wanted) noexcept
{
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  return seals >= 0 && (seals & wanted) == wanted; // -1 would be all of them
}

pid_t peer_process(int socket) noexcept
{
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

ssize_t send_with_descriptor(int socket, std::span<const std::byte> bytes, int with) noexcept
{
  iovec what{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &what;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &with, sizeof with);
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t receive_with_descriptor(int socket, std::span<std::byte> bytes, descriptor& with) noexcept
{
  iovec where{bytes.data(), bytes.size()};
  // The kernel closes what there is no room for.
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &where;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0)
    return n;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header))
  {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS
      || header->cmsg_len < CMSG_LEN(sizeof(int)))
      continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i != count; ++i)
    {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      with = descriptor(fd); // the last one; alignment may leave room for a second
    }
  }
  return n;
}

} // namespace rdma::software::wire
