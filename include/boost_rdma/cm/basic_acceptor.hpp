//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CM_BASIC_ACCEPTOR_HPP
#define BOOST_RDMA_CM_BASIC_ACCEPTOR_HPP

#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/cm/basic_connection_request.hpp>
#include <boost_rdma/cm/detail/cm_core.hpp>
#include <boost_rdma/cm/options.hpp>
#include <boost_rdma/detail/basic_listener.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/mapped_handler.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <utility>

namespace rdma::cm {

/// Listens by RDMA-CM (librdmacm) for any program that connects by RDMA-CM: cm::async_connect(),
/// rdma_connect(3).
/**
 * The acceptor is opened on an address of an RDMA device's network interface, or on the unspecified
 * address (0.0.0.0). With the latter it listens on the same port of the domain's NIC and of its
 * software device, unless queue_pair_options::device names one or there is a shared receive queue.
 * Clients that arrive through another NIC are rejected.
 *
 * @par Opening and closing
 * @code
 * basic_acceptor(executor, domain, endpoint, options = cm::acceptor_options())
 * basic_acceptor(executor, domain, endpoint, options, ec)
 * @endcode
 * The executor may also be an execution context (an io_context), and the domain a context. Port 0
 * selects a free port; local_endpoint() returns it. On failure the constructor throws system_error,
 * or sets ec and leaves the acceptor in the state of a closed one.
 *
 * @par
 * close() and the destructor reject the clients that have not been accepted, except clients whose
 * request is held by the program. Accepts end with operation_aborted. cancel() ends only the
 * accepts, and the clients continue to wait.
 *
 * @par Errors of opening
 * @li error::no_connection_manager: the system's RDMA-CM is not available for a NIC.
 * @li error::unreachable: no RDMA device has the address.
 * @li error::other_device: the address belongs to another RDMA device than the domain's.
 * @li the error of librdmacm (rdma_bind_addr(3), rdma_listen(3)).
 *
 * @par Threads
 * A thread of the library handles the events of RDMA-CM, as it does for the TCP connections of
 * rdma::basic_acceptor. Handlers are never called on it.
 *
 * @par iWARP
 * The client must send first (RFC 5044, 7.1.2), and its first message requires a posted receive.
 * Accept it into a queue pair that has one, by async_get_request() and
 * basic_connection_request::async_accept(), or use a shared receive queue. For a basic_stream set
 * queue_pair_options::for_stream.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe. The context may run on any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_acceptor
  : public rdma::detail::basic_listener<Executor, detail::acceptor_core, acceptor_options>
{
public:
  /// The executor type, for handlers without an associated executor and for accepted queue pairs.
  using executor_type = Executor;

  /// The queue pair type of accepted clients.
  using queue_pair_type = basic_queue_pair<Executor>;

  /// Result of async_get_request().
  using request_type = basic_connection_request<Executor>;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_acceptor<OtherExecutor>;
  };

  using rdma::detail::basic_listener<Executor, detail::acceptor_core,
    acceptor_options>::basic_listener;

  /// Accepts the next client and answers with acceptor_options::data.
  /**
   * Any number of accepts may be outstanding; the oldest one receives the next client. Outstanding
   * async_get_request() operations take precedence.
   *
   * A failure of a client does not end the accept. It is logged (see rdma::basic_acceptor).
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::basic_queue_pair<Executor>) @endcode
   * The queue pair has the acceptor's executor. If there is an error, it is in the state of an
   * object that was moved from.
   *
   * @par Errors
   * @li operation_aborted: the accept was cancelled, or the acceptor was closed during it.
   * @li error::closed: the acceptor was closed or moved from before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the accept. No client is lost.
   */
  template <boost::asio::completion_token_for<void(error_code, queue_pair_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_accept(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, queue_pair_type)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler)
        {
          detail::start_accept(executor, core.get(),
            rdma::detail::handler_of_object<queue_pair_type>(
              executor, std::forward<decltype(handler)>(handler)));
        }),
      token);
  }

  /// Waits for the next client and leaves the answer to the program
  /// (RDMA_CM_EVENT_CONNECT_REQUEST).
  /**
   * Any number of these operations may be outstanding; the oldest one receives the next client.
   * They take precedence over accepts.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::cm::basic_connection_request<Executor>) @endcode
   * If there is an error, the request is in the state of an answered one.
   *
   * @par Errors
   * @li operation_aborted: the operation was cancelled, or the acceptor was closed during it.
   * @li error::closed: the acceptor was closed or moved from before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the operation. No client is lost.
   */
  template <boost::asio::completion_token_for<void(error_code, request_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_get_request(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, request_type)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler)
        {
          detail::start_get_request(executor, core.get(),
            rdma::detail::handler_of_object<request_type>(
              executor, std::forward<decltype(handler)>(handler)));
        }),
      token);
  }
};

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_BASIC_ACCEPTOR_HPP
