//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SOCKET_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SOCKET_HPP

#include <infiniband/verbs.h>

#include <cstdint>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace rdma::software::wire {

/// Owns a file descriptor.
class descriptor
{
public:
  descriptor() = default;
  explicit descriptor(int fd) noexcept
    : fd_(fd)
  {
  }
  descriptor(descriptor&& other) noexcept
    : fd_(other.release())
  {
  }
  descriptor& operator=(descriptor&& other) noexcept
  {
    if (this != &other)
    {
      reset();
      fd_ = other.release();
    }
    return *this;
  }
  ~descriptor() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept
  {
    if (fd_ >= 0)
      ::close(std::exchange(fd_, -1));
  }

private:
  int fd_ = -1;
};

/// A socket address of either family.
struct address
{
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

/// The address that a GID stands for: IPv4 for an IPv4-mapped one.
address to_address(const ibv_gid& gid, std::uint16_t port) noexcept;

std::uint16_t port_of(const address& of) noexcept;

/// The GID that stands for an address.
ibv_gid to_gid(const address& from) noexcept;

/// A stream socket that does not block and is closed by exec, without Nagle's delay; or none, with
/// errno set.
descriptor make_socket(int family) noexcept;

void set_no_delay(int fd) noexcept;

/// For a connection within the host, where nothing gets congested: no pacing, no probing for
/// bandwidth.
void set_no_pacing(int fd) noexcept;

/// Nanoseconds of the monotonic clock.
std::int64_t now() noexcept;

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SOCKET_HPP
