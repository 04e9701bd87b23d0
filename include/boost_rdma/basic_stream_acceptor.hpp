//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BASIC_STREAM_ACCEPTOR_HPP
#define BOOST_RDMA_BASIC_STREAM_ACCEPTOR_HPP

#include <boost_rdma/basic_stream.hpp>
#include <boost_rdma/detail/basic_listener.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/mapped_handler.hpp>
#include <boost_rdma/detail/stream_acceptor_core.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <utility>

namespace rdma {

/// Accepts streams of clients with RDMA, and of plain TCP clients, on the same TCP port.
/**
 * @code
 * rdma::stream_acceptor acceptor(io, context, {asio::ip::tcp::v4(), 7471});
 * rdma::stream client = co_await acceptor.async_accept(asio::use_awaitable);
 * std::cout << client.transport().text() << '\n';
 * @endcode
 * Clients that connect by basic_stream::async_connect() use RDMA. They find out by a datagram to
 * the UDP port with the same number (doc/stream_protocol.md). If another program has that UDP port,
 * a warning is logged, and all clients use TCP. Every other client is a plain TCP client, and its
 * first byte is the first one that the program reads.
 *
 * @par Opening and closing
 * As with basic_acceptor: the constructors, close(), cancel(), is_open() and local_endpoint().
 *
 * @par Clients that do not speak first
 * A plain client is accepted at once, unless a client with its address has asked for RDMA shortly
 * before. Then the accept waits until bytes arrive, for at most one second. With
 * acceptor_options::reuse_port it always waits in this way.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe, as with Asio's acceptors. The context may run on
 * any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_stream_acceptor
  : public detail::basic_listener<Executor, detail::stream_acceptor_core, stream_acceptor_options>
{
public:
  /// The executor type, for handlers without an associated executor and for accepted streams.
  using executor_type = Executor;

  /// The type of accepted streams.
  using stream_type = basic_stream<Executor>;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_stream_acceptor<OtherExecutor>;
  };

  using detail::basic_listener<Executor, detail::stream_acceptor_core,
    stream_acceptor_options>::basic_listener;

  /// Accepts the next client.
  /**
   * Any number of accepts may be outstanding; the oldest one receives the next client. A client
   * whose handshake fails is logged and does not end the accept.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::basic_stream<Executor>) @endcode
   * If there is an error, the stream is in the state of an object that was moved from.
   *
   * @par Errors
   * @li operation_aborted: the accept was cancelled, or the acceptor was closed during it.
   * @li error::closed: the acceptor was closed or moved from before.
   * @li boost::asio::error::no_memory: there was no memory for the stream of a client, which is
   *     lost. The acceptor is open.
   * @li error::forked: the call was made in a child of the process that made the acceptor.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the accept. No client is lost.
   */
  template <boost::asio::completion_token_for<void(error_code, stream_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_accept(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, stream_type)>(
      detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler)
        {
          detail::start_accept_stream(executor, core.get(),
            detail::handler_of_object<stream_type>(
              executor, std::forward<decltype(handler)>(handler)));
        }),
      token);
  }
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_STREAM_ACCEPTOR_HPP
