//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CM_CONNECT_HPP
#define BOOST_RDMA_CM_CONNECT_HPP

#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/cm/detail/cm_core.hpp>
#include <boost_rdma/cm/options.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <utility>

namespace rdma::cm {

/// Connects a queue pair by RDMA-CM (librdmacm) to any program that listens by RDMA-CM.
/**
 * Resolves the address and the route, connects, and moves the queue pair to RTS
 * (rdma_resolve_addr(3), rdma_resolve_route(3), rdma_connect(3)).
 *
 * If the peer disconnects or its process ends, the queue pair's operations end with
 * error::peer_closed: RDMA-CM does not distinguish the two. RDMA-CM does not detect the loss of the
 * peer's host. The next operation does (wc_status::retry_exceeded); on iWARP TCP's timeout ends the
 * connection.
 *
 * @param queue_pair An unconnected queue pair of a NIC. On iWARP, the connecting side must send
 * first (RFC 5044, 7.1.2). It must also have receives posted for the listener's messages, because
 * iWARP has no RNR NAK.
 * @param peer Endpoint of the listener (RDMA_PS_TCP).
 * @param options Data for the listener, and the local address.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code, rdma::cm::private_data) @endcode
 * The data that the listener sent when it accepted or, with error::refused, rejected the
 * connection.
 *
 * @par Errors
 * @li error::no_connection_manager: the system's RDMA-CM is not available for a NIC.
 * @li error::unreachable: no RDMA device, or no route from one, leads to the address.
 * @li error::other_device: the route uses another RDMA device than the queue pair.
 * @li connection_refused: no program listens at the endpoint. On iWARP also: the listener rejected
 *     the connection without data.
 * @li error::refused: the listener rejected the connection.
 * @li error::message_too_large: the private data is too large.
 * @li error::handshake_timeout: options().connect_timeout expired.
 * @li error::closed: the queue pair was closed or moved from.
 * @li error::already_connected: the queue pair was connected before, or a previous attempt failed.
 *     Create a new queue pair.
 * @li operation_aborted: the queue pair was closed during the operation.
 * @li the error of librdmacm or ibv_modify_qp.
 *
 * @par Per-operation cancellation
 * terminal, partial and total. After a cancellation the queue pair can only be closed.
 *
 * @par Thread safety
 * The same as that of a member function of the queue pair.
 */
template <class Executor,
  boost::asio::completion_token_for<void(error_code, private_data)> CompletionToken =
    boost::asio::default_completion_token_t<Executor>>
auto async_connect(basic_queue_pair<Executor>& queue_pair,
  const boost::asio::ip::tcp::endpoint& peer, const connect_options& options,
  CompletionToken&& token = boost::asio::default_completion_token_t<Executor>())
{
  return boost::asio::async_initiate<CompletionToken, void(error_code, private_data)>(
    rdma::detail::initiation(queue_pair.get_executor(),
      [core = queue_pair.core()](
        const auto& executor, auto&& handler, const auto& to, const connect_options& how) {
        detail::start_connect(executor, core, to, how, std::forward<decltype(handler)>(handler));
      }),
    token, peer, options);
}

/// Connects by RDMA-CM without private data, from the local address that the route selects.
/**
 * @param queue_pair See the overload with options.
 * @param peer Endpoint of the listener.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code, rdma::cm::private_data) @endcode
 *
 * @par Per-operation cancellation
 * terminal, partial and total. After a cancellation the queue pair can only be closed.
 *
 * @par Thread safety
 * The same as that of a member function of the queue pair.
 */
template <class Executor,
  boost::asio::completion_token_for<void(error_code, private_data)> CompletionToken =
    boost::asio::default_completion_token_t<Executor>>
auto async_connect(basic_queue_pair<Executor>& queue_pair,
  const boost::asio::ip::tcp::endpoint& peer,
  CompletionToken&& token = boost::asio::default_completion_token_t<Executor>())
{
  return async_connect(queue_pair, peer, connect_options(), std::forward<CompletionToken>(token));
}

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_CONNECT_HPP
