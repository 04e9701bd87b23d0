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
  // Binding succeeds only at addresses of this host (ip(7)), so no list of all addresses is needed.
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
    && peer.uid != overflow_uid; // users without a mapping in this user namespace
}

bool has_seals(const descriptor& fd, int wanted) noexcept
{
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  return seals >= 0 && (seals & wanted) == wanted; // -1 has all bits set
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

ssize_t receive_with_descriptor(
  int socket, std::span<std::byte> bytes, descriptor& with, attached& count) noexcept
{
  iovec where{bytes.data(), bytes.size()};
  // Alignment leaves room for a second descriptor. The kernel closes descriptors for which there is
  // no room.
  constexpr std::size_t room = 2;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(room * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &where;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  count = attached::none;
  const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0)
    return n;
  std::array<descriptor, room> all;
  std::size_t found = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header))
  {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
      continue;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len && found != room;
         at += sizeof(int))
    {
      int fd = -1;
      std::memcpy(&fd, reinterpret_cast<const std::byte*>(header) + at, sizeof fd);
      all[found++] = descriptor(fd);
    }
  }
  const bool cut = (message.msg_flags & MSG_CTRUNC) != 0;
  if (found > 1 || (found == 1 && cut))
    count = attached::several;
  else if (found == 1)
    count = attached::one;
  else if (cut)
    count = attached::lost;
  if (count == attached::one)
    with = std::move(all[0]);
  return n;
}

} // namespace rdma::software::wire
