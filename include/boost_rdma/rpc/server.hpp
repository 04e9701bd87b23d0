//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_SERVER_HPP
#define BOOST_RDMA_RPC_SERVER_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/detail/rpc/flow_handler.hpp>
#include <boost_rdma/detail/rpc/server_core.hpp>
#include <boost_rdma/detail/rpc/typed_handler.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/options.hpp>
#include <boost_rdma/rpc/responder.hpp>
#include <boost_rdma/rpc/server_statistics.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace rdma::rpc {

/// Offers methods to clients (basic_client).
/**
 * @code
 * using add = rdma::rpc::method<"add/1", numbers, int>;
 *
 * asio::io_context io;
 * rdma::context context;
 * rdma::rpc::server server(io, context, {tcp::v4(), 7471});
 * server.handle<add>([](const numbers& n) { return n.a + n.b; });
 * server.start();
 * io.run();
 * @endcode
 *
 * @par Handlers
 * A handler is called with a `const Request&`, and optionally with a `const call_info&`, on the
 * server's executor. It
 * @li returns the reply,
 * @li or an asio::awaitable of it, which gets a terminal cancellation when the client does not wait
 *     any more,
 * @li or returns void and takes a responder<Method> as its last argument, to answer later.
 *
 * The handler of a streaming_method is a coroutine, and takes a `server_flow<Method>&` as its last
 * argument.
 *
 * A view in a request is valid until the handler has answered. An exception fails the call.
 *
 * @par Threads
 * The executor must call one handler at a time: if several threads run the context, use a strand.
 *
 * @par Lifetime
 * Destroying or closing a server ends its connections. Handlers that have not answered then go on;
 * their answers have no effect. A server that was started keeps its execution context running.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_server : public rdma::detail::io_object<Executor, rdma::detail::rpc::server_core>
{
  using core_type = rdma::detail::rpc::server_core;
  using base = rdma::detail::io_object<Executor, core_type>;

public:
  /// The executor type of handlers.
  using executor_type = Executor;

  /// Address and TCP port.
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_server<OtherExecutor>;
  };

  /// Opens a server; clients wait until start().
  /**
   * @param executor Executor for handlers.
   * @param domain Protection domain of the queue pairs; a context converts to one.
   * @param endpoint Address and port to listen on. Port 0 selects a free port: see
   * local_endpoint().
   * @param options Options of the server.
   *
   * @throws system_error
   * @li boost::asio::error::invalid_argument: an option is out of range.
   * @li the errors of opening a basic_stream_acceptor.
   */
  basic_server(const executor_type& executor, const protection_domain& domain,
    const endpoint_type& endpoint, const server_options& options = server_options())
    : base(executor,
      core_type::make(executor, rdma::detail::inner_executor(executor), domain, endpoint, options))
  {
  }

  /// Opens a server in the context's own protection domain. Throws system_error.
  basic_server(const executor_type& executor, const rdma::context& context,
    const endpoint_type& endpoint, const server_options& options = server_options())
    : basic_server(executor, protection_domain(context), endpoint, options)
  {
  }

  /// Opens a server with the executor of an execution context. Throws system_error.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_server(ExecutionContext& owner, const rdma::context& context, const endpoint_type& endpoint,
    const server_options& options = server_options())
    : basic_server(executor_type(owner.get_executor()), context, endpoint, options)
  {
  }

  /// Sets the handler of a method.
  /**
   * @tparam Method A method.
   * @param handler See the description of the class.
   *
   * Precondition: start() was not called, and the method has no handler.
   */
  template <class Method, class Handler>
  void handle(Handler&& handler)
  {
    using function = std::decay_t<Handler>;
    if constexpr (detail::streaming<Method>)
      this->core_->add(
        std::make_unique<rdma::detail::rpc::flow_handler<Method, Executor, function>>(
          this->executor_, std::forward<Handler>(handler)));
    else
      this->core_->add(
        std::make_unique<rdma::detail::rpc::typed_handler<Method, Executor, function>>(
          this->executor_, std::forward<Handler>(handler)));
  }

  /// Begins to accept clients.
  /** Precondition: not called before. */
  void start() { this->core_->start(); }

  /// Ends without interrupting calls.
  /**
   * New clients are not accepted, and clients are told to make no more calls, which fail with
   * error::peer_closed. When the calls that had arrived are answered, the server closes. To limit
   * the time, cancel the operation, or close the server.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li operation_aborted: the operation was cancelled, or the server was closed.
   * @li error::forked: the call was made in a child of the process that made the server.
   * @li error::closed: the server was closed or moved from before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total close the server.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_shutdown(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler)
        {
          rdma::detail::rpc::start_shut_down(
            executor, core.get(), std::forward<decltype(handler)>(handler));
        }),
      token);
  }

  /// Returns the local address and port, also after close().
  /** Precondition: not moved from. */
  [[nodiscard]] endpoint_type local_endpoint() const { return this->core_->local_endpoint(); }

  /// Returns clients and calls of each method, also after close().
  /**
   * Precondition: not moved from. A child of the process that made the server gets zeros.
   *
   * @par Thread safety
   * Safe after start(), if no other thread moves, assigns or destroys the server.
   */
  [[nodiscard]] server_statistics statistics() const { return this->core_->statistics(); }
};

/// A server for any executor.
using server = basic_server<>;

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_SERVER_HPP
