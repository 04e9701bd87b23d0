//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_CONNECTOR_HPP
#define BOOST_RDMA_DETAIL_CONNECTOR_HPP

#include <boost_rdma/connect_options.hpp>
#include <boost_rdma/error.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <utility>

namespace rdma::detail {

class queue_pair_core;

// Defined in layer 3 (lib/connect), which connects queue pairs. async_connect is nevertheless a
// member of the queue pair because users of Asio expect it there. `core` is null if the queue pair
// was moved from.
void start_connect(const boost::asio::any_io_executor& executor,
  std::shared_ptr<queue_pair_core> core, const boost::asio::ip::tcp::endpoint& peer,
  const connect_options& options, boost::asio::any_completion_handler<void(error_code)> handler);

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_CONNECTOR_HPP
