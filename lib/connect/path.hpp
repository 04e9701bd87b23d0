//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_PATH_HPP
#define BOOST_RDMA_LIB_CONNECT_PATH_HPP

#include "connect/connection.hpp"
#include "connect/handshake_parameters.hpp"

#include <boost/asio/ip/address.hpp>

#include <memory>
#include <string>
#include <vector>

namespace rdma::detail {

// Both sides' way from an handshake_parameters to a connected queue pair: they agree on a
// transport, let a message through each way, and fall back together when none gets through
// (doc/upgrade_protocol.md, "The path").
class path
{
public:
  // `own` is the address of this host that the peer sees.
  path(
    connection& link, std::shared_ptr<queue_pair_core> core, const boost::asio::ip::address& own);

  // What this side offers, for a request. It may have moved the queue pair to the software device.
  [[nodiscard]] handshake_parameters offer(error_code& ec);

  // What this side answers to a client's offers; its queue pair is connected if that can be.
  [[nodiscard]] handshake_parameters choose(const handshake_parameters& client, error_code& ec);

  // The rest, after the answer. The result is path_not_confirmed, what went wrong with the
  // connection, or success.
  boost::asio::awaitable<error_code> go_as_client(handshake_parameters server);
  boost::asio::awaitable<error_code> go_as_server();

  // A transport, or the peer, was not taken for this reason.
  void decline(std::string transport, std::string reason);

  // Why no better transport was taken, or none.
  [[nodiscard]] const std::vector<declined_transport>& declined() const noexcept
  {
    return declined_;
  }

  // The same as text, for an error. A host without a NIC explains only no_common_transport.
  [[nodiscard]] std::string declined_text(const error_code& ec) const;

private:
  void introduce(handshake_parameters& self) const;
  void hear(const handshake_parameters& peer);
  [[nodiscard]] std::string name_of_device(wire by) const;
  [[nodiscard]] bool may_change_over() const;
  void finish(error_code& ec);
  void connect(const endpoint_description& remote, error_code& ec);
  void leave_nic(error_code& ec);
  boost::asio::awaitable<error_code> confirm();
  boost::asio::awaitable<error_code> change_over(bool first);

  connection& link_;
  const std::shared_ptr<queue_pair_core> core_;
  const boost::asio::ip::address own_;
  std::vector<declined_transport> declined_; // by this side and, once heard, by the peer
  bool peer_falls_back_ = false;
  bool waits_for_endpoint_ = false; // nothing of this side is connected yet: software comes next
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_PATH_HPP
