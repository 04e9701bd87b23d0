//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_OPTIONS_HPP
#define BOOST_RDMA_RPC_OPTIONS_HPP

#include <boost_rdma/queue_pair_options.hpp>
#include <boost_rdma/rpc/exposure.hpp>
#include <boost_rdma/rpc/trace_context.hpp>
#include <boost_rdma/rpc/tracer.hpp>
#include <boost_rdma/stream_acceptor_options.hpp>
#include <boost_rdma/stream_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rdma::rpc {

/// Options of a client (basic_client).
struct client_options
{
  /// Number of calls that the server has at a time: 1 to 65,535.
  std::uint32_t calls = 1024;

  /// Size in bytes of the requests that the server has at a time.
  /** A larger request is sent when no other one is under way. */
  std::size_t bytes = 4 * 1024 * 1024;

  /// Number of further calls that wait for room; error::overloaded beyond it.
  std::uint32_t queue = 4096;

  /// Size in bytes of the largest reply: up to 1 GiB.
  /** A larger one ends the connection with error::malformed_message. */
  std::size_t reply_max = 16 * 1024 * 1024;

  /// Size in bytes of the items of a streaming_method that one call keeps for the program to read:
  /// 1 KiB to 1 GiB. Each item counts 16 more.
  /** The server does not send more. An item has at most half of it. */
  std::uint32_t flow_bytes = 256 * 1024;

  /// Sees the calls; null: nothing does.
  std::shared_ptr<rdma::rpc::tracer> tracer;

  /// Options of the stream that carries the calls.
  stream_options stream;

  /// Options of its queue pair.
  queue_pair_options queue_pair;
};

/// Options of a call.
struct call_options
{
  /// Time after which the call ends with boost::asio::error::timed_out; 0 or less: no limit.
  /** The server's handler learns how much of it is left. */
  std::chrono::nanoseconds timeout{0};

  /// Memory that the server may access during the call: at most 16 elements with bytes.
  /** See expose(). */
  exposure_list exposed{};

  /// The trace that the call belongs to, for the server's handler; without identifiers: none.
  trace_context trace{};

  /// The server may carry out the call twice, with the same result as once.
  /** A pool (basic_client_pool) repeats the call then if a connection ends. A client repeats no
   * call. */
  bool idempotent = false;
};

/// Options of a pool of clients (basic_client_pool).
struct client_pool_options
{
  /// Number of connections to each server: at least 1.
  std::uint32_t connections = 1;

  /// Number of connections that take a call, one after the other, before the call fails with the
  /// error of the last one: at least 1.
  std::uint32_t attempts = 3;

  /// Number of calls that wait for a connection; error::overloaded beyond it.
  std::uint32_t queue = 4096;

  /// Time between the first and the second attempt to connect to a server: more than 0.
  /** It doubles with each further attempt. The pool waits for a random time between half of it and
   * all of it. */
  std::chrono::milliseconds backoff_min{100};

  /// The largest such time.
  std::chrono::milliseconds backoff_max{10'000};

  /// Time without calls after which the pool closes its connections; 0: never.
  std::chrono::milliseconds idle_timeout{60'000};

  /// Options of each connection.
  client_options client;
};

/// Options of a server (basic_server).
struct server_options
{
  /// Number of calls of one client whose handlers have not ended: at least 1.
  /** Handlers that return a value end at once. */
  std::uint32_t calls = 1024;

  /// Number of further calls of one client that wait; error::overloaded beyond it.
  std::uint32_t queue = 1024;

  /// Size in bytes of the requests of one client whose handlers have not ended, or that wait.
  /** Beyond it the server does not read calls of the client. While it waits for an answer to a
   * transfer by messages, it reads, and calls fail with error::overloaded. */
  std::size_t bytes = 64 * 1024 * 1024;

  /// Number of clients: at least 1. A further one is disconnected.
  std::uint32_t clients = 65'536;

  /// Size in bytes of the largest request: up to 1 GiB. A larger one ends the connection.
  std::size_t request_max = 16 * 1024 * 1024;

  /// Size in bytes of replies that a client has not read, beyond which the server does not read
  /// its calls.
  std::size_t unread_max = 4 * 1024 * 1024;

  /// Size in bytes of the items of a streaming_method that one call keeps for its handler to read:
  /// 1 KiB to 1 GiB. Each item counts 16 more.
  /** The client must not send more. An item has at most half of it. */
  std::uint32_t flow_bytes = 256 * 1024;

  /// Sees the calls of all clients; null: nothing does.
  std::shared_ptr<rdma::rpc::tracer> tracer;

  /// Options of the acceptor, of streams and of queue pairs.
  stream_acceptor_options acceptor;
};

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_OPTIONS_HPP
