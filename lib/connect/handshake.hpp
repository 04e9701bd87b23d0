//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_HANDSHAKE_HPP
#define BOOST_RDMA_LIB_CONNECT_HANDSHAKE_HPP

#include "boost_rdma/protection_domain.hpp"
#include "connect/client_admission.hpp"
#include "connect/connection.hpp"
#include "connect/handshake_parameters.hpp"
#include "connect/unclaimed_queue_pair.hpp"
#include "connect/upgrade.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <string>
#include <string_view>

// The server's side of the bootstrap.

namespace rdma::detail {

// Settings of the queue pairs for peers.
struct queue_pair_settings
{
  boost::asio::any_io_executor inner; // without strands
  bool same_context;                  // the acceptor's executor has no strand
  protection_domain domain;
  queue_pair_options queue_pair;

  [[nodiscard]] unclaimed_queue_pair make_queue_pair() const; // throws system_error
};

// A client whose request is valid.
struct admitted_client
{
  handshake_parameters self;
  std::string answer; // data for the client's program
};

// Reads the request. Answers a request that cannot be accepted and returns error::refused.
service_awaitable<error_code> read_request(connection& link, std::string_view target,
  const client_admission& admission, admitted_client& client);

// The same for a request that the program has read.
service_awaitable<error_code> admit_request(
  connection& link, const boost::beast::http::request_header<>& request, admitted_client& client);

// Answers the request, and agrees on a path with the client.
service_awaitable<error_code> answer_request(connection& link, const queue_pair_settings& settings,
  admitted_client client, unclaimed_queue_pair& made, heartbeat_times& times);

// The peer's address, for a log.
std::string name_of(const connection& link);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_HANDSHAKE_HPP
