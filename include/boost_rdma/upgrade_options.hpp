//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_UPGRADE_OPTIONS_HPP
#define BOOST_RDMA_UPGRADE_OPTIONS_HPP

#include <boost_rdma/queue_pair_options.hpp>

#include <chrono>
#include <string>

namespace rdma {

/// Options of async_upgrade() on a server.
struct upgrade_options
{
  /// Options of the queue pair that is created for the client, including a shared receive queue:
  /// queue_pair.receive_from().
  queue_pair_options queue_pair;

  /// Time that the client has to report that its queue pair is ready.
  std::chrono::milliseconds handshake_timeout{5'000};

  /// Data for the client's program (queue_pair::peer_data()): any bytes, at most
  /// connect_options::data_size_max.
  std::string data;
};

} // namespace rdma

#endif // BOOST_RDMA_UPGRADE_OPTIONS_HPP
