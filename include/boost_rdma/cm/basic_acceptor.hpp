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
#include <boost_rdma/detail/object_handler.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <utility>

namespace rdma::cm {

/// Listens by RDMA-CM (librdmacm) for any program that connects by it: cm::async_connect(),
/// rdma_connect(3).
/**
 * It is opened on an address of an RDMA device's network interface, or the unspecified one
 * (0.0.0.0): then clients that come by another device than the domain's are rejected. What can go
 * wrong: error::no_connection_manager, also for a domain that has the software device alone;
 * error::unreachable for an address that no RDMA device has; error::other_device; or what librdmacm
 * said (rdma_bind_addr(3), rdma_listen(3)).
 *
 * @par Opening and closing
 * @code
 * basic_acceptor(executor, domain, endpoint, options = cm::acceptor_options())
 * basic_acceptor(executor, domain, endpoint, options, ec)
 * @endcode
 * For the executor an execution context will do (an io_context), and for the domain a context. Port
 * 0 takes one that is free; local_endpoint() returns it. Opening one throws system_error, or sets
 * ec; then it is as one that was closed.
 *
 * close(), as destruction, rejects the clients that have not been accepted, but for those whose
 * request somebody holds, and ends accepts with operation_aborted; cancel() ends the accepts alone,
 * and has the clients wait.
 *
 * The device's events are handled on a thread of the library's own, as rdma::basic_acceptor's TCP
 * is; handlers are never called there.
 *
 * On iWARP the client has to send first (RFC 6581, 4.1), and its first message must find a receive:
 * accept it into a queue pair that has one, by async_get_request() and
 * basic_connection_request::async_accept(), or have receives come from a shared receive queue.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe. The context may run on any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_acceptor
  : public rdma::detail::basic_listener<Executor, detail::acceptor_core, acceptor_options>
{
public:
  /// What handlers run on that have no executor of their own, and accepted queue pairs.
  using executor_type = Executor;

  /// What clients are accepted as.
  using queue_pair_type = basic_queue_pair<Executor>;

  /// What async_get_request() gives.
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

  /// Accepts the next client, with acceptor_options::data for an answer.
  /**
   * Any number of accepts may be outstanding; the oldest is served first. Where a request is waited
   * for as well, that comes first.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::basic_queue_pair<Executor>) @endcode
   * The queue pair lives on the acceptor's executor. With an error it is as one that was moved
   * from.
   *
   * What can go wrong: operation_aborted; error::closed. A client's failure is no error of the
   * accept; it is logged (see rdma::basic_acceptor).
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the accept. No client is lost by it.
   */
  template <boost::asio::completion_token_for<void(error_code, queue_pair_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_accept(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, queue_pair_type)>(
      rdma::detail::initiate_object<queue_pair_type, executor_type, detail::acceptor_core,
        start_accept>(this->executor_, this->core_, {}),
      token);
  }

  /// Waits for the next client and leaves the answer to the program
  /// (RDMA_CM_EVENT_CONNECT_REQUEST).
  /**
   * Any number may be outstanding; the oldest is served first, and all before accepts.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::cm::basic_connection_request<Executor>) @endcode
   * With an error the request is as one that was answered.
   *
   * What can go wrong: operation_aborted; error::closed.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the operation. No client is lost by it.
   */
  template <boost::asio::completion_token_for<void(error_code, request_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_get_request(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, request_type)>(
      rdma::detail::initiate_object<request_type, executor_type, detail::acceptor_core,
        start_get_request>(this->executor_, this->core_, {}),
      token);
  }

private:
  struct start_accept
  {
    template <class Handler>
    void operator()(
      detail::acceptor_core* core, const executor_type& executor, Handler&& handler) const
    {
      if (core != nullptr)
        core->accept(executor, std::forward<Handler>(handler));
      else
        detail::refuse_accept(
          executor, detail::request_core::handler_type(std::forward<Handler>(handler)));
    }
  };
  struct start_get_request
  {
    template <class Handler>
    void operator()(
      detail::acceptor_core* core, const executor_type& executor, Handler&& handler) const
    {
      if (core != nullptr)
        core->get_request(executor, std::forward<Handler>(handler));
      else
        detail::refuse_request(executor, std::forward<Handler>(handler));
    }
  };
};

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_BASIC_ACCEPTOR_HPP
