//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/system.hpp"
#include "sockets/table.hpp"
#include "sockets/transfer.hpp"
#include "sockets/waiting.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>

// Calls that make connections and end them.

namespace rdma::sockets {
namespace {

int option(int fd, int level, int name) noexcept
{
  const kept_errno kept;
  int value = -1;
  socklen_t size = sizeof value;
  return original::getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

// Not MPTCP or SCTP.
bool is_tcp(int fd) noexcept
{
  const int domain = option(fd, SOL_SOCKET, SO_DOMAIN);
  return (domain == AF_INET || domain == AF_INET6)
    && option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
}

bool has_limit(int fd, int name) noexcept
{
  const kept_errno kept;
  timeval value{};
  socklen_t size = sizeof value;
  return original::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0
    && (value.tv_sec != 0 || value.tv_usec != 0);
}

// Without memory for it, the connection stays the kernel's.
void enter(
  int fd, std::shared_ptr<socket> connection, const sockaddr* peer, socklen_t size) noexcept
{
  const kept_errno kept;
  guarded<int>(
    [&]
    {
      const auto d = std::make_shared<description>();
      d->connection = std::move(connection);
      d->has_timeouts = has_limit(fd, SO_RCVTIMEO) || has_limit(fd, SO_SNDTIMEO);
      if (peer != nullptr && size <= sizeof d->peer)
        std::memcpy(&d->peer, peer, size);
      table::enter(fd, d, table::kind::ours);
      return 0;
    });
}

bool is_same_file(int a, int b) noexcept
{
  struct stat of_a;
  struct stat of_b;
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev
    && of_a.st_ino == of_b.st_ino;
}

// A server may have accepted a connection and executed this program, as inetd does.
[[gnu::constructor]] void adopt_standard_streams()
{
  const internal_call here;
  const kept_errno kept;
  for (int fd = 0; fd != 3; ++fd)
  {
    if (!is_tcp(fd))
      continue;
    int same = 0;
    while (!is_same_file(same, fd))
      ++same;
    if (same != fd)
      guarded<int>([&] { return table::share(same, fd, false), 0; });
    else if (std::shared_ptr<socket> connection = socket::inherited(fd))
    {
      connection->non_blocking = (original::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
      enter(fd, std::move(connection), reinterpret_cast<const sockaddr*>(&address), size);
    }
  }
}

int accept_from(int fd, sockaddr* peer, socklen_t* peer_size, int flags, bool has_flags)
{
  const auto in_kernel = [=](sockaddr* address, socklen_t* size)
  {
    return has_flags ? original::accept4(fd, address, size, flags)
                     : original::accept(fd, address, size);
  };
  if (is_internal() || !table::has(fd))
    return in_kernel(peer, peer_size);
  const std::shared_ptr<description> d = table::find(fd);
  if (!d || !d->listening)
    return in_kernel(peer, peer_size);
  {
    const internal_call here;
    d->listening->use();
    make_progress();
  }
  // getpeername(2) does not have the address of a client that has reset the connection.
  sockaddr_storage address{};
  auto* const client = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  const int accepted = in_kernel(client, &size);
  if (accepted == -1)
    return -1;
  if (peer != nullptr)
  {
    std::memcpy(peer, client, std::min(*peer_size, size));
    *peer_size = size;
  }
  const internal_call here;
  std::shared_ptr<socket> connection = socket::accepted(client, size, *d->listening);
  if (!connection)
    return accepted;
  connection->non_blocking = (flags & SOCK_NONBLOCK) != 0;
  enter(accepted, std::move(connection), client, size);
  return accepted;
}

} // namespace

BOOST_RDMA_SOCKETS_EXPORT(int, connect, (int fd, const sockaddr* to, socklen_t size))
{
  if (is_internal() || to == nullptr || size < sizeof to->sa_family
    || (to->sa_family != AF_INET && to->sa_family != AF_INET6) || !is_tcp(fd)
    || !is_unconnected_tcp(fd)) // connect(2) again: the program asks for the result
    return original::connect(fd, to, size);
  std::shared_ptr<socket> connection;
  {
    const internal_call here;
    connection = socket::connecting(fd, to, size);
  }
  const int result = original::connect(fd, to, size);
  if (!connection)
    return result;
  const internal_call here;
  if (result == 0 || errno == EINPROGRESS || errno == EINTR)
  {
    const kept_errno kept;
    connection->non_blocking = (original::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
    enter(fd, std::move(connection), to, size);
    // At once: the server waits for the decision of a client that has asked.
    static_cast<void>(taken(fd));
  }
  else
  {
    const kept_errno kept;
    connection->close(false);
  }
  return result;
}

BOOST_RDMA_SOCKETS_EXPORT(int, bind, (int fd, const sockaddr* to, socklen_t size))
{
  if (!is_internal() && to != nullptr && size >= sizeof to->sa_family
    && (to->sa_family == AF_INET || to->sa_family == AF_INET6)
    && option(fd, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM)
  {
    const internal_call here;
    yield_udp_port(to, size);
  }
  return original::bind(fd, to, size);
}

BOOST_RDMA_SOCKETS_EXPORT(int, listen, (int fd, int backlog))
{
  if (is_internal() || table::has(fd) || !is_tcp(fd))
    return original::listen(fd, backlog);
  const internal_call here;
  // First, so that no client connects before it can ask. Without bind(2), there is no port yet.
  std::shared_ptr<listener> made = listener::open(fd);
  const int result = original::listen(fd, backlog);
  const kept_errno kept;
  if (result != 0)
  {
    if (made)
      made->close();
    return result;
  }
  if (!made)
    made = listener::open(fd);
  if (made)
    guarded<int>(
      [&]
      {
        const auto d = std::make_shared<description>();
        d->listening = std::move(made);
        table::enter(fd, d, table::kind::ours);
        return 0;
      });
  return result;
}

BOOST_RDMA_SOCKETS_EXPORT(int, accept, (int fd, sockaddr* peer, socklen_t* peer_size))
{
  return accept_from(fd, peer, peer_size, 0, false);
}

BOOST_RDMA_SOCKETS_EXPORT(int, accept4, (int fd, sockaddr* peer, socklen_t* peer_size, int flags))
{
  return accept_from(fd, peer, peer_size, flags, true);
}

BOOST_RDMA_SOCKETS_EXPORT(int, shutdown, (int fd, int how))
{
  if (!is_internal() && table::has(fd))
  {
    const internal_call here;
    if (const std::shared_ptr<description> d = taken(fd))
      return d->connection->shut_down(how);
  }
  return original::shutdown(fd, how);
}

BOOST_RDMA_SOCKETS_EXPORT(
  int, getsockopt, (int fd, int level, int name, void* value, socklen_t* size))
{
  if (level == SOL_SOCKET && name == SO_ERROR && !is_internal() && table::has(fd)
    && value != nullptr && size != nullptr)
  {
    const internal_call here;
    const std::shared_ptr<description> d = table::find(fd);
    if (d && d->connection && d->connection->current() != socket::state::undecided && takes(*d, fd))
    {
      const int error = d->connection->take_error();
      if (*size > sizeof error)
        *size = sizeof error;
      std::memcpy(value, &error, *size);
      return 0;
    }
  }
  return original::getsockopt(fd, level, name, value, size);
}

BOOST_RDMA_SOCKETS_EXPORT(
  int, setsockopt, (int fd, int level, int name, const void* value, socklen_t size))
{
  const std::shared_ptr<description> d =
    level == SOL_SOCKET && !is_internal() && table::has(fd) ? table::find(fd) : nullptr;
  // The notifications of MSG_ZEROCOPY are the kernel's; programs go on without it.
  if (d && d->connection && name == SO_ZEROCOPY)
    return fail(EOPNOTSUPP);
  const int result = original::setsockopt(fd, level, name, value, size);
  if (result == 0 && d && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
    d->has_timeouts = true;
  return result;
}

} // namespace rdma::sockets
