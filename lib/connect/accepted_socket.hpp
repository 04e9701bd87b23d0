//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_ACCEPTED_SOCKET_HPP
#define BOOST_RDMA_LIB_CONNECT_ACCEPTED_SOCKET_HPP

#include "boost_rdma/detail/connected_peer.hpp"
#include "boost_rdma/error.hpp"
#include "connect/discovery.hpp"
#include "connect/handshake.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <functional>
#include <memory>

namespace rdma::detail {

// Decides how a socket that the program has accepted goes on (tools/rdma_sockets). `socket` is a
// copy of it, which is closed. The handler's peer has a queue pair, or the reason for which the
// program's socket goes on with TCP; after an error, neither. Throws system_error if no thread can
// be started.
//
// `settings` is called if the client asks for RDMA, and may throw system_error. A client that has
// asked and sends nothing may do so later: after a second TCP goes on only if goes_on() returns
// true.
void decide_accepted(const boost::asio::ip::tcp& protocol, int socket,
  std::shared_ptr<discovery_server> asked, const boost::asio::any_io_executor& executor,
  std::function<queue_pair_settings()> settings, std::function<bool()> goes_on,
  boost::asio::any_completion_handler<void(error_code, connected_peer)> handler);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_ACCEPTED_SOCKET_HPP
