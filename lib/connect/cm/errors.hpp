//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CM_ERRORS_HPP
#define BOOST_RDMA_LIB_CONNECT_CM_ERRORS_HPP

#include "connect/cm/event_channel.hpp"

#include <boost/asio/ip/tcp.hpp>

// Conversion of librdmacm's errors and events.

namespace rdma::cm::detail {

// Returns the error in errno after a failed call of librdmacm.
error_code last_cm_error();

// The same after resolving an address or binding to one; it may have no RDMA device.
error_code error_of_resolving();
error_code error_of_binding();

// Returns the reason of an event that ended an attempt to connect.
error_code error_of_failure(const event& what);

// Converts an address of an id.
boost::asio::ip::tcp::endpoint endpoint_of(const sockaddr_storage& address);

} // namespace rdma::cm::detail

#endif // BOOST_RDMA_LIB_CONNECT_CM_ERRORS_HPP
