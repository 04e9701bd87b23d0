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

/// Connects a queue pair by RDMA-CM (librdmacm), to any program that listens by it.
/**
 * Resolves the address and the route, connects, and takes the queue pair to RTS
 * (rdma_resolve_addr(3), rdma_resolve_route(3), rdma_connect(3)).
 *
 * @param queue_pair Of a NIC, not connected. On iWARP its side must send first (RFC 6581, 4.1), and
 * it must have receives posted for what the listener sends: there is no RNR NAK.
 * @param peer Where the other side listens (RDMA_PS_TCP).
 * @param options What to tell the listener, and where to connect from.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code, rdma::cm::private_data) @endcode
 * What the listener sent along when it accepted, or, with error::refused, when it rejected.
 *
 * What can go wrong: error::no_connection_manager, also on the software device; error::unreachable;
 * error::other_device; connection_refused when nobody listens, and on iWARP also for a rejection
 * without a word; error::refused when the listener rejected; error::message_too_large for too many
 * bytes of private data; error::handshake_timeout after options().connect_timeout; error::closed;
 * error::already_connected, also after an attempt that failed: make another queue pair;
 * operation_aborted when the queue pair is closed; and what librdmacm or ibv_modify_qp said.
 *
 * When the peer disconnects, or its process ends, the queue pair's operations end with
 * error::peer_closed: RDMA-CM does not tell one from the other. A host that is lost it does not
 * notice; an operation does (wc_status::retry_exceeded; on iWARP TCP's time-out ends the
 * connection).
 *
 * @par Per-operation cancellation
 * terminal, partial and total; the queue pair can then only be closed.
 *
 * @par Thread safety
 * As a member of the queue pair: to be called where that may be used.
 */
template <class Executor,
  boost::asio::completion_token_for<void(error_code, private_data)> CompletionToken =
    boost::asio::default_completion_token_t<Executor>>
auto async_connect(basic_queue_pair<Executor>& queue_pair,
  const boost::asio::ip::tcp::endpoint& peer, const connect_options& options,
  CompletionToken&& token = boost::asio::default_completion_token_t<Executor>())
{
  return boost::asio::async_initiate<CompletionToken, void(error_code, private_data)>(
    detail::initiate_connect<Executor>(queue_pair.get_executor(), queue_pair.core()), token, peer,
    options);
}

/// As above, without private data, from whichever address the route takes.
/**
 * @param queue_pair As above.
 * @param peer Where the other side listens.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code, rdma::cm::private_data) @endcode
 *
 * @par Per-operation cancellation
 * terminal, partial and total; the queue pair can then only be closed.
 *
 * @par Thread safety
 * As above.
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
