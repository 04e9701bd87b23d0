//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_UNCLAIMED_CLIENT_HPP
#define BOOST_RDMA_LIB_CONNECT_UNCLAIMED_CLIENT_HPP

#include "boost_rdma/detail/connected_peer.hpp"
#include "connect/tcp_control_stream.hpp"
#include "connect/unclaimed_queue_pair.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <optional>
#include <utility>

#include <unistd.h>

namespace rdma::detail {

// Moves a socket to an execution context of the program. On failure the socket is closed, and the
// result has no value.
inline std::optional<boost::asio::ip::tcp::socket> move_to(
  const boost::asio::any_io_executor& executor, tcp_control_stream::socket_type from)
{
  error_code ec;
  const auto protocol = from.local_endpoint(ec).protocol();
  if (ec)
    return std::nullopt;
  std::optional<boost::asio::ip::tcp::socket> to(executor);
  const auto native = from.release(ec);
  if (ec)
    return std::nullopt;
  to->assign(protocol, native, ec);
  if (ec)
  {
    ::close(native);
    return std::nullopt;
  }
  return to;
}

// A client of an acceptor without a user: its destructor closes the connection.
struct unclaimed_client
{
  using result_type = connected_peer;

  unclaimed_queue_pair queue_pair;
  std::optional<tcp_control_stream::socket_type> socket; // if there is no queue pair
  boost::asio::any_io_executor executor;                 // for the socket
  boost::asio::ip::tcp::endpoint local;
  boost::asio::ip::tcp::endpoint remote;

  [[nodiscard]] bool is_connected() const { return socket || queue_pair.is_connected(); }

  [[nodiscard]] connected_peer release()
  {
    connected_peer peer{.queue_pair = queue_pair.release(),
      .socket = std::nullopt,
      .why = "the client has not asked for RDMA",
      .local = local,
      .remote = remote};
    if (socket)
      peer.socket = move_to(executor, std::move(*socket));
    return peer;
  }
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_UNCLAIMED_CLIENT_HPP
