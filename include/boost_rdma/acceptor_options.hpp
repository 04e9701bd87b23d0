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
#include <string>

namespace rdma {

/// Options of an acceptor and of the queue pairs that it accepts.
struct acceptor_options
{
  /// Options of every accepted queue pair, including a shared receive queue:
  /// queue_pair.receive_from().
  queue_pair_options queue_pair;

  /// Time that a client has, from its TCP connection until both sides are connected.
  /** It must be longer than the client's and the server's queue_pair_options::confirm_timeout
   * together, because they verify the transport one after the other. Falling back takes further
   * time. */
  std::chrono::milliseconds handshake_timeout{5'000};

  /// Maximum number of concurrent handshakes, including finished ones that wait for an
  /// async_accept.
  /**
   * At this limit new clients wait until a handshake ends: as many as this in the acceptor, the
   * others in the backlog. A client that has not sent for half a second what the acceptor waits for
   * (its request, or its part of the agreement on a transport) is silent; on a NIC,
   * queue_pair_options::confirm_timeout is added. The oldest silent client is disconnected if
   * another one waits for its place.
   */
  std::size_t handshakes_max = 64;

  /// Maximum number of concurrent handshakes with clients of one address. 0, the default, is half
  /// of handshakes_max, and at least 1. Values of at least handshakes_max set no limit.
  /**
   * At this limit a further client of the address waits, or takes the place of a silent client of
   * the same address. Clients of other addresses overtake it.
   *
   * An address of which as many clients as this limit (or 64) were disconnected for their silence
   * within ten seconds can be an attacker's. If handshakes_max clients wait, the oldest of such an
   * address is disconnected for each new client, and its connect fails with error::peer_lost.
   */
  std::size_t handshakes_per_address_max = 0;

  /// Target that clients must request (connect_options::target). Other targets are answered with
  /// 404.
  std::string target = "/rdma";

  /// Decides whether a client is admitted, before a queue pair is created; if it holds no function,
  /// every client is admitted.
  /**
   * The function decides at once, as a coroutine, or by a handler: see authoriser.
   *
   * It is called on the acceptor's executor and therefore needs no mutex for data that only this
   * executor uses. If the executor runs on several threads, use a strand. Several clients may be
   * examined at the same time if the function is asynchronous.
   *
   * The time for the decision is part of handshake_timeout. The executor must run meanwhile: if the
   * io_context does not run, the handshake ends by the time-out.
   *
   * After close() on the acceptor's executor, or destruction there, the function is not called any
   * more. A coroutine or an asynchronous operation that has begun is not cancelled; its decision
   * has no effect.
   *
   * Status 500 is sent in these cases:
   * - the function or the coroutine throws an exception: it is caught and logged;
   * - the handler is destroyed without a call;
   * - the decision has a status or data that cannot be sent.
   */
  authoriser authorise;

  /// Maximum number of clients in the system's queue while no async_accept is outstanding
  /// (listen(2)).
  int backlog = boost::asio::socket_base::max_listen_connections;

  /// If true, the address can be reused immediately after the program has ended (SO_REUSEADDR).
  bool reuse_address = true;

  /// If true, several acceptors, of this process or other processes of this user, may listen on the
  /// address (SO_REUSEPORT).
  /** The kernel distributes the clients among the acceptors. A program can thus have one acceptor
   * for each io_context. */
  bool reuse_port = false;
};

} // namespace rdma

#endif // BOOST_RDMA_ACCEPTOR_OPTIONS_HPP
