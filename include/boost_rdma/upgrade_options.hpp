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

/// How a server answers a request for RDMA that it has read itself: see async_upgrade().
struct upgrade_options
{
  /// Of the queue pair that is made for the client. A shared receive queue fits here:
  /// queue_pair.receive_from().
  queue_pair_options queue_pair;

  /// How long the client may take until it says that its queue pair is ready.
  std::chrono::milliseconds handshake_timeout{5'000};

  /// For the client's program (queue_pair::peer_data()): any bytes, at most
  /// connect_options::data_size_max.
  std::string data;
};

} // namespace rdma

#endif // BOOST_RDMA_UPGRADE_OPTIONS_HPP
