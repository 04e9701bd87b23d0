//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_CONNECTED_PEER_HPP
#define BOOST_RDMA_DETAIL_CONNECTED_PEER_HPP

#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace rdma::detail {

class queue_pair_core;

// A client of an acceptor, or the server of a client: a queue pair, or only a socket.
struct connected_peer
{
  std::shared_ptr<queue_pair_core> queue_pair;
  std::optional<boost::asio::ip::tcp::socket> socket; // of the program's execution context
  std::string why;                                    // there is no queue pair
  boost::asio::ip::tcp::endpoint local;
  boost::asio::ip::tcp::endpoint remote;

  // For acceptors of queue pairs.
  operator std::shared_ptr<queue_pair_core>() && noexcept { return std::move(queue_pair); }
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_CONNECTED_PEER_HPP
