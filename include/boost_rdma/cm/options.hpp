//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CM_OPTIONS_HPP
#define BOOST_RDMA_CM_OPTIONS_HPP

#include <boost_rdma/cm/private_data.hpp>
#include <boost_rdma/queue_pair_options.hpp>

#include <boost/asio/ip/address.hpp>

#include <chrono>
#include <cstddef>
#include <optional>

namespace rdma::cm {

/// How cm::async_connect goes about it. Depths, retries and the time limit are the queue pair's
/// options.
/**
 * RDMA-CM chooses the GID, the port and the path MTU by the route, so that
 * queue_pair_options::path_mtu_max has no say.
 */
struct connect_options
{
  /// For the listener; at most private_data::connect_size_max bytes but on iWARP.
  private_data data;

  /// The address of this host to connect from; without one, the route decides.
  std::optional<boost::asio::ip::address> source;
};

/// How a cm::acceptor listens, and how the queue pairs are made that it accepts.
struct acceptor_options
{
  /// For every accepted queue pair. A shared receive queue fits here: queue_pair.receive_from().
  queue_pair_options queue_pair;

  /// What async_accept sends along; at most private_data::accept_size_max bytes but on iWARP.
  private_data data;

  /// How long a client may take from being accepted until it says that its queue pair is ready.
  std::chrono::milliseconds handshake_timeout{5'000};

  /// Requests that wait for an async_accept or async_get_request; more are rejected.
  std::size_t requests_max = 64;

  /// Whether the address may be used again at once after the program has ended
  /// (RDMA_OPTION_ID_REUSEADDR).
  bool reuse_address = true;
};

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_OPTIONS_HPP
