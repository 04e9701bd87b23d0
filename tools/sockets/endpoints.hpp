//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_ENDPOINTS_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_ENDPOINTS_HPP

#include <boost/asio/ip/tcp.hpp>

#include <cstring>
#include <optional>

#include <sys/socket.h>

namespace rdma::sockets {

/// Returns nothing for an address that is not of IPv4 or IPv6.
inline std::optional<boost::asio::ip::tcp::endpoint> to_endpoint(
  const sockaddr* address, socklen_t size)
{
  boost::asio::ip::tcp::endpoint result;
  if (address == nullptr || size > result.capacity()
    || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
    return std::nullopt;
  std::memcpy(result.data(), address, size);
  result.resize(size);
  return result;
}

template <class Ask>
std::optional<boost::asio::ip::tcp::endpoint> endpoint_by(Ask ask, int fd)
{
  sockaddr_storage address;
  socklen_t size = sizeof address;
  if (ask(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return std::nullopt;
  return to_endpoint(reinterpret_cast<const sockaddr*>(&address), size);
}

inline std::optional<boost::asio::ip::tcp::endpoint> local_endpoint(int fd)
{
  return endpoint_by(::getsockname, fd);
}

inline std::optional<boost::asio::ip::tcp::endpoint> remote_endpoint(int fd)
{
  return endpoint_by(::getpeername, fd);
}

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_ENDPOINTS_HPP
