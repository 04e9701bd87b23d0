//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/cm/errors.hpp"

#include <boost/asio/error.hpp>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace rdma::cm::detail {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// The reason of a REJ message (IBA 12.6.7.2), or an errno of iWARP's.
error_code error_of_rejection(const event& what)
{
  constexpr int invalid_service_id = 8;
  constexpr int consumer_reject = 28;
  if (what.status == invalid_service_id)
    return asio::error::connection_refused;
  if (what.status == consumer_reject)
    return error::refused;
  // iWARP has one code for both. A listener that rejects by intention may send data.
  if (what.status == -ECONNREFUSED && what.data.empty())
    return asio::error::connection_refused;
  return error::refused;
}

} // namespace

error_code last_cm_error()
{
  // librdmacm does not set errno for all failures.
  return {errno != 0 ? errno : EIO, boost::system::system_category()};
}

error_code error_of_failure(const event& what)
{
  switch (what.type)
  {
  case RDMA_CM_EVENT_ADDR_ERROR:
  case RDMA_CM_EVENT_ROUTE_ERROR:
    return error::unreachable;
  case RDMA_CM_EVENT_REJECTED:
    return error_of_rejection(what);
  case RDMA_CM_EVENT_DEVICE_REMOVAL:
    return error::device_lost;
  case RDMA_CM_EVENT_DISCONNECTED:
    return error::peer_lost;
  default:
    break;
  }
  if (what.status == -ETIMEDOUT)
    return error::handshake_timeout;
  if (what.status < 0)
    return {-what.status, boost::system::system_category()};
  return error::peer_lost;
}

error_code error_of_resolving()
{
  const error_code ec = last_cm_error();
  const bool no_way =
    errno == ENODEV || errno == ENETUNREACH || errno == EHOSTUNREACH || errno == EADDRNOTAVAIL;
  return no_way ? error_code(error::unreachable) : ec;
}

error_code error_of_binding()
{
  const error_code ec = last_cm_error();
  return errno == ENODEV || errno == EADDRNOTAVAIL ? error_code(error::unreachable) : ec;
}

tcp::endpoint endpoint_of(const sockaddr_storage& address)
{
  tcp::endpoint result;
  const std::size_t size = address.ss_family == AF_INET ? sizeof(sockaddr_in)
    : address.ss_family == AF_INET6                     ? sizeof(sockaddr_in6)
                                                        : 0;
  if (size != 0)
  {
    std::memcpy(result.data(), &address, size);
    result.resize(size);
  }
  return result;
}

} // namespace rdma::cm::detail
