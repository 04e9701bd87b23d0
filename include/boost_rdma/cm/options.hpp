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

/// Options of cm::async_connect(). Depths, retries and the time limit are in the queue pair's
/// options.
/**
 * RDMA-CM selects the GID, the port and the path MTU by the route. queue_pair_options::path_mtu_max
 * is ignored.
 */
struct connect_options
{
  /// Data for the listener: at most private_data::connect_size_max bytes, except on iWARP.
  private_data data;

  /// Local address to connect from. Without it the route decides.
  std::optional<boost::asio::ip::address> source;
};

/// Options of a cm::acceptor and of the queue pairs that it accepts.
struct acceptor_options
{
  /// Options of every accepted queue pair, including a shared receive queue:
  /// queue_pair.receive_from().
  queue_pair_options queue_pair;

  /// Data that async_accept sends to the client: at most private_data::accept_size_max bytes,
  /// except on iWARP.
  private_data data;

  /// Time that an accepted client has to report that its queue pair is ready.
  std::chrono::milliseconds handshake_timeout{5'000};

  /// Limit of requests that wait for an async_accept or async_get_request. Further requests are
  /// rejected.
  std::size_t requests_max = 64;

  /// If true, the address can be reused immediately after the program has ended
  /// (RDMA_OPTION_ID_REUSEADDR).
  bool reuse_address = true;
};

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_OPTIONS_HPP
