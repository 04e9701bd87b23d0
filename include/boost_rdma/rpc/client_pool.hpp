//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_CLIENT_POOL_HPP
#define BOOST_RDMA_RPC_CLIENT_POOL_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/detail/rpc/pool_core.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/options.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdma::rpc {

/// Calls methods of several servers, which offer the same methods (basic_server).
/**
 * @code
 * rdma::rpc::client_pool pool(io, context, {{first, 7471}, {second, 7471}});
 * int sum = co_await pool.async_call<add>({1, 2}, {.timeout = 1s, .idempotent = true},
 *   asio::use_awaitable);
 * @endcode
 * A call goes to the connection with the fewest outstanding calls. Calls open the connections that
 * are missing: client_pool_options::connections to each server. A server that cannot be reached is
 * tried again after a delay that grows (client_pool_options::backoff_min).
 *
 * @par Repeated calls
 * If a server has not started a call, the pool gives the call to another connection, of another
 * server if possible: at most client_pool_options::attempts in all. A server has not started it if
 * it was overloaded or shutting down, or if the connection has ended before the request was sent.
 * If the connection ends later, only a call with call_options::idempotent is repeated. Errors of
 * a method's handler are results: the call is not repeated. The pool keeps a copy of the encoded
 * request until the call ends.
 *
 * @par Without a connection
 * A call waits until a server is connected. It fails with the error of the last attempt to connect
 * when attempts to connect to each server have failed since it began to wait.
 *
 * @par Lifetime
 * Destroying or closing a pool ends its calls with operation_aborted. A pool without calls does not
 * keep its execution context running, except while it connects.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe. The context may run on any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_client_pool : public rdma::detail::io_object<Executor, rdma::detail::rpc::pool_core>
{
  using core_type = rdma::detail::rpc::pool_core;
  using base = rdma::detail::io_object<Executor, core_type>;

public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// The endpoint type of the servers.
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_client_pool<OtherExecutor>;
  };

  /// Makes a pool without connections. Throws system_error.
  /**
   * @param executor Executor for handlers.
   * @param domain Protection domain of the queue pairs; a context converts to one.
   * @param servers Addresses and ports of the servers.
   * @param options Options of the pool.
   *
   * @throws system_error
   * @li boost::asio::error::invalid_argument: there is no server, or an option is out of range.
   * @li the error of starting the thread of connections.
   */
  basic_client_pool(const executor_type& executor, const protection_domain& domain,
    const std::vector<endpoint_type>& servers,
    const client_pool_options& options = client_pool_options())
    : base(executor,
      core_type::make(executor, rdma::detail::inner_executor(executor), domain, servers, options))
  {
  }

  /// Makes a pool in the context's own protection domain. Throws system_error.
  basic_client_pool(const executor_type& executor, const rdma::context& context,
    const std::vector<endpoint_type>& servers,
    const client_pool_options& options = client_pool_options())
    : basic_client_pool(executor, protection_domain(context), servers, options)
  {
  }

  /// Makes a pool with the executor of an execution context. Throws system_error.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_client_pool(ExecutionContext& owner, const rdma::context& context,
    const std::vector<endpoint_type>& servers,
    const client_pool_options& options = client_pool_options())
    : basic_client_pool(executor_type(owner.get_executor()), context, servers, options)
  {
  }

  /// Calls a method.
  /**
   * @tparam Method A method.
   * @param request Is encoded in the initiating call. A span or a view in it is not used later,
   * unless the token starts the operation later, as use_awaitable does.
   * @param options The time limit, the memory that the server may access, and
   * call_options::idempotent.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, typename Method::result_type) @endcode
   *
   * @par Errors
   * @li boost::asio::error::timed_out: the time limit was exceeded. It is that of the whole call,
   *     with the time for connecting and for repeats.
   * @li error::overloaded: more calls wait than client_pool_options::queue permits, or the last
   *     server that has refused the call was overloaded.
   * @li those of basic_stream::async_connect() and basic_client::async_connect(): no server can be
   *     reached.
   * @li error::peer_closed, error::peer_lost and others of basic_stream: the connection has ended.
   *     The method was called or not.
   * @li operation_aborted: the call was cancelled, or the pool was closed. The method was called or
   *     not.
   * @li error::no_such_method, error::method_mismatch, error::call_failed,
   *     error::message_too_large, error::malformed_message and
   *     boost::asio::error::invalid_argument: see basic_client::async_call().
   * @li error::forked: the call was made in a child of the process that made the pool.
   * @li error::closed: the pool was closed or moved from before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the call as in basic_client::async_call(), and at once while it
   * waits for a connection.
   */
  template <class Method,
    boost::asio::completion_token_for<void(error_code, typename Method::result_type)>
      CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_call(const typename Method::request_type& request, const call_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    using request_type = typename Method::request_type;
    using result_type = typename Method::result_type;
    return boost::asio::async_initiate<CompletionToken, void(error_code, result_type)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](
          const auto& executor, auto&& handler, const request_type& what, const call_options& how)
        {
          rdma::detail::rpc::start_call<result_type>(executor, core,
            std::forward<decltype(handler)>(handler),
            {&what,
              [](const void* value, output& to) {
                detail::codec_of<request_type>::encode(
                  *static_cast<const request_type*>(value), to);
              },
              &detail::description_of<Method>},
            how);
        }),
      token, request, options);
  }

  /// Calls a method without a time limit.
  /**
   * @param request See the other function.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, typename Method::result_type) @endcode
   *
   * @par Per-operation cancellation
   * See the other function.
   */
  template <class Method,
    boost::asio::completion_token_for<void(error_code, typename Method::result_type)>
      CompletionToken = boost::asio::default_completion_token_t<executor_type>>
    requires(!std::convertible_to<CompletionToken, call_options>)
  auto async_call(const typename Method::request_type& request,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return async_call<Method>(request, call_options(), std::forward<CompletionToken>(token));
  }
};

/// A client pool with the default executor.
using client_pool = basic_client_pool<>;

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_CLIENT_POOL_HPP
