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

// librdmacm's words in this library's.

namespace rdma::cm::detail {

// What errno says after a failed call of librdmacm.
error_code last_cm_error();

// The same after one that should resolve an address, or bind to one, where no RDMA device may be.
error_code error_of_resolving();
error_code error_of_binding();

// Why an event ended an attempt to connect.
error_code error_of_failure(const event& what);

// Of an id's addresses.
boost::asio::ip::tcp::endpoint endpoint_of(const sockaddr_storage& address);

} // namespace rdma::cm::detail

#endif // BOOST_RDMA_LIB_CONNECT_CM_ERRORS_HPP
