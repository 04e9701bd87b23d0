//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_PATH_HPP
#define BOOST_RDMA_LIB_CONNECT_PATH_HPP

#include "connect/connection.hpp"
#include "connect/endpoint_choice_fsm.hpp"
#include "connect/handshake_parameters.hpp"

#include <boost/asio/ip/address.hpp>

#include <memory>
#include <string>

namespace rdma::detail {

// Performs the actions of endpoint_choice_fsm and path_fsm on a connection and its queue pair.
class path
{
public:
  // `own` is the address of this host that the peer sees.
  path(
    connection& link, std::shared_ptr<queue_pair_core> core, const boost::asio::ip::address& own);

  // Returns the parameters that a client sends, or a server that received `client`.
  handshake_parameters offer(error_code& ec);
  handshake_parameters choose(const handshake_parameters& client, error_code& ec);

  // Continues after both sides have sent their parameters. The result is path_not_confirmed,
  // another error of the connection, or success.
  service_awaitable<error_code> negotiate(handshake_parameters peer);

  // Adds a transport, or the peer, that is not used for this reason.
  void decline(std::string transport, std::string reason);

  // Returns the reasons against all better transports as text for an error.
  [[nodiscard]] std::string declined_text(const error_code& ec) const;

private:
  handshake_parameters run(endpoint_choice_fsm machine, error_code& ec);
  path_outcome perform(const path_action& what);
  void enter(declined_transports declined, error_code& ec);
  [[nodiscard]] own_side describe_self() const;
  service_awaitable<error_code> confirm();
  [[nodiscard]] std::chrono::milliseconds peer_patience() const;

  connection& link_;
  const std::shared_ptr<queue_pair_core> core_;
  const boost::asio::ip::address own_;
  path_role role_ = path_role::client;
  handshake_parameters parameters_;
  std::string transport_;
  declined_transports declined_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_PATH_HPP
