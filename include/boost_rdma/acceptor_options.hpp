//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_ACCEPTOR_OPTIONS_HPP
#define BOOST_RDMA_ACCEPTOR_OPTIONS_HPP

#include <boost_rdma/authorisation.hpp>
#include <boost_rdma/queue_pair_options.hpp>

#include <boost/asio/socket_base.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>

namespace rdma {

/// How an acceptor listens, and how the queue pairs are made that it accepts.
struct acceptor_options
{
  /// For every accepted queue pair. A shared receive queue fits here: queue_pair.receive_from().
  queue_pair_options queue_pair;

  /// How long a client may take from connecting until both sides are connected.
  /** It has to leave room for queue_pair.confirm_timeout, and for falling back after it. */
  std::chrono::milliseconds handshake_timeout{5'000};

  /// Handshakes at a time, and finished ones that wait for an async_accept.
  /**
   * When there are as many, those who come wait in the backlog until one is over. Clients that said
   * nothing for half a second give way to them, the oldest first, so that those which only sit
   * there cannot keep others out.
   */
  std::size_t handshakes_max = 64;

  /// Handshakes at a time with clients of one address; from handshakes_max on, as by default, there
  /// is no such limit.
  /**
   * One more is hung up on (its client sees error::peer_lost), unless one of that address's gives
   * way to it as above. With no such limit it waits its turn, and so do all others meanwhile: one
   * address can take all places, each for at most handshake_timeout. Lower it, to a half of
   * handshakes_max for instance, where strangers reach the port. Leave it where many clients come
   * from one address: through a proxy or NAT, or from a host with many processes.
   */
  std::size_t handshakes_per_address_max = std::numeric_limits<std::size_t>::max();

  /// What clients ask for, as connect_options::target; others get 404.
  std::string target = "/rdma";

  /// Decides who is let in, before a queue pair is made; without it everybody is.
  /**
   * Called on the library's thread, one client at a time: it must not block, and must not throw
   * (500 is answered if it does).
   */
  std::function<authorisation(const upgrade_request_view&)> authorise;

  /// Clients that the system lets wait while no async_accept is outstanding (listen(2)).
  int backlog = boost::asio::socket_base::max_listen_connections;

  /// Whether the address may be used again at once after the program has ended (SO_REUSEADDR).
  bool reuse_address = true;

  /// Whether several acceptors, of this or other processes of this user, may listen at the address
  /// (SO_REUSEPORT).
  /** The kernel shares the clients out between them: a way to have one acceptor for each
   * io_context. */
  bool reuse_port = false;
};

} // namespace rdma

#endif // BOOST_RDMA_ACCEPTOR_OPTIONS_HPP
