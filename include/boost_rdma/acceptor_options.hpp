//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_ACCEPTOR_OPTIONS_HPP
#define BOOST_RDMA_ACCEPTOR_OPTIONS_HPP

#include <boost_rdma/queue_pair_options.hpp>

#include <boost/asio/socket_base.hpp>

#include <chrono>
#include <cstddef>

namespace rdma {

/// How an acceptor listens, and how the queue pairs are made that it accepts.
struct acceptor_options
{
  /// For every accepted queue pair. A shared receive queue fits here: queue_pair.receive_from().
  queue_pair_options queue_pair;

  /// How long a client may take from connecting until it says that its queue pair is ready.
  std::chrono::milliseconds handshake_timeout{5'000};

  /// Handshakes at a time, and finished ones that wait for an async_accept.
  /**
   * When there are as many and one more client comes, the oldest of those goes that have come least far,
   * so that clients which only sit there cannot keep others out.
   */
  std::size_t handshakes_max = 64;

  /// Clients that the system lets wait while no async_accept is outstanding (listen(2)).
  int backlog = boost::asio::socket_base::max_listen_connections;

  /// Whether the address may be used again at once after the program has ended (SO_REUSEADDR).
  bool reuse_address = true;
};

} // namespace rdma

#endif // BOOST_RDMA_ACCEPTOR_OPTIONS_HPP
