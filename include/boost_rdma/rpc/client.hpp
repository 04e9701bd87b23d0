//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_CLIENT_HPP
#define BOOST_RDMA_RPC_CLIENT_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/detail/rpc/client_core.hpp>
#include <boost_rdma/rpc/flow.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/options.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdma::rpc {

/// Calls methods of a server (basic_server).
/**
 * @code
 * using add = rdma::rpc::method<"add/1", numbers, int>;
 *
 * rdma::rpc::client client(io, context);
 * co_await client.async_connect({address, 7471}, asio::use_awaitable);
 * int sum = co_await client.async_call<add>({1, 2}, {.timeout = 1s}, asio::use_awaitable);
 * @endcode
 * Calls are answered in any order. Those that are made while others are being sent leave together.
 * The connection is a stream: by RDMA if both sides can, otherwise by TCP.
 *
 * @par Deadlines
 * A call with call_options::timeout ends in that time whatever the server does. The server learns
 * that it has ended, and a late reply is dropped.
 *
 * @par Lifetime
 * Destroying or closing a client ends its calls with operation_aborted. A client without calls does
 * not keep its execution context running.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe. The context may run on any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_client : public rdma::detail::io_object<Executor, rdma::detail::rpc::client_core>
{
  using core_type = rdma::detail::rpc::client_core;
  using base = rdma::detail::io_object<Executor, core_type>;

public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// The endpoint type of the server.
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_client<OtherExecutor>;
  };

  /// Makes a client that is not connected. Throws system_error.
  /**
   * @param executor Executor for handlers.
   * @param domain Protection domain of the queue pair; a context converts to one.
   * @param options Options of the client.
   *
   * @throws system_error
   * @li boost::asio::error::invalid_argument: an option is out of range.
   * @li the error of starting the thread of connections.
   */
  basic_client(const executor_type& executor, const protection_domain& domain,
    const client_options& options = client_options())
    : base(
      executor, core_type::make(executor, rdma::detail::inner_executor(executor), domain, options))
  {
  }

  /// Makes a client in the context's own protection domain. Throws system_error.
  basic_client(const executor_type& executor, const rdma::context& context,
    const client_options& options = client_options())
    : basic_client(executor, protection_domain(context), options)
  {
  }

  /// Makes a client with the executor of an execution context. Throws system_error.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_client(ExecutionContext& owner, const rdma::context& context,
    const client_options& options = client_options())
    : basic_client(executor_type(owner.get_executor()), context, options)
  {
  }

  /// Connects to a server, and learns its methods.
  /**
   * @param server Address and port of a basic_server.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * After an error of basic_stream::async_connect() the client may connect again. After another
   * error it is closed.
   *
   * @par Errors
   * @li those of basic_stream::async_connect().
   * @li error::version_mismatch, error::malformed_message: the peer has another version of the
   *     protocol, or is no server.
   * @li error::handshake_timeout: the server has not answered within
   *     queue_pair_options::connect_timeout.
   * @li error::already_connected: the client connects, or is connected.
   * @li error::closed: the client was closed or moved from.
   *
   * @par Per-operation cancellation
   * terminal, partial and total close the client.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_connect(const endpoint_type& server,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler, const endpoint_type& to)
        {
          rdma::detail::rpc::start_connect(
            executor, core.get(), to, std::forward<decltype(handler)>(handler));
        }),
      token, server);
  }

  /// Calls a method.
  /**
   * @tparam Method A method.
   * @param request Is encoded in the initiating call. A span or a view in it is not used later,
   * unless the token starts the operation later, as use_awaitable does.
   * @param options The time limit, and the memory that the server may access.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, typename Method::result_type) @endcode
   *
   * @par Errors
   * @li boost::asio::error::timed_out: the time limit was exceeded.
   * @li error::overloaded: there are more calls than client_options or server_options permit.
   * @li error::no_such_method, error::method_mismatch: the server has no such method, or one with
   *     other types.
   * @li error::call_failed: the handler has thrown an exception or has not answered. If it threw a
   *     system_error with a code of this library or of the system, and takes no responder, it is
   *     that code.
   * @li error::message_too_large: the encoded request has more than 1 GiB.
   * @li error::malformed_message: the codec of the server or of this side has not accepted the
   *     value.
   * @li boost::asio::error::invalid_argument: call_options::exposed has too many elements, one
   *     without bytes, or one with other rights.
   * @li error::not_connected: async_connect() has not completed.
   * @li error::peer_closed, error::peer_lost and others of basic_stream: the connection has ended.
   *     The method was called or not.
   * @li operation_aborted: the call was cancelled, or the client was closed. The method was called
   *     or not.
   * @li boost::asio::error::no_memory: there was no memory for a step of the call, or of the
   *     connection, which has then ended. The method was called or not.
   * @li error::forked: the call was made in a child of the process that made the client.
   * @li error::closed: the client was closed or moved from before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the call at once, and the server is told. A call with exposed
   * memory ends when the server has answered that it does not use the memory, or after half a
   * millisecond. Then a transfer that is still under way ends the connection.
   */
  template <class Method,
    boost::asio::completion_token_for<void(error_code, typename Method::result_type)>
      CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_call(const typename Method::request_type& request, const call_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    static_assert(!detail::streaming<Method>, "a streaming_method is called by open()");
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

  /// Calls a method whose types the program does not have, for example for a gateway.
  /**
   * @param what A method with its types, as methods() returns it. Not a streaming_method: the call
   * would fail, or end the connection.
   * @param request The bytes of the request, as its codec encodes them. Are copied in the
   * initiating call.
   * @param options The time limit, and the memory that the server may access.
   * @param token A completion token for the signature below. The result is the bytes of the reply.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::vector<std::byte>) @endcode
   *
   * @par Errors
   * @li those of async_call().
   *
   * @par Per-operation cancellation
   * As of async_call().
   */
  template <boost::asio::completion_token_for<void(error_code, std::vector<std::byte>)>
              CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_call_bytes(const offered_method& what, std::span<const std::byte> request,
    const call_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    using bytes = std::span<const std::byte>;
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::vector<std::byte>)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler, const offered_method& of,
          bytes content, const call_options& how)
        {
          const detail::method_description description{of.name, of.request, of.reply};
          rdma::detail::rpc::start_call<std::vector<std::byte>>(executor, core,
            std::forward<decltype(handler)>(handler),
            {&content,
              [](const void* value, output& to) { to.append(*static_cast<const bytes*>(value)); },
              &description},
            how);
        }),
      token, what, request, options);
  }

  /// Calls a streaming_method, and returns its items.
  /**
   * The call ends with its reply, its time limit, an error, or when the client_flow is destroyed.
   * The errors of async_call() are reported by the operations of the client_flow.
   *
   * @param request Is encoded in this call. A span or a view in it is not used later.
   * @param options The time limit, and the memory that the server may access.
   *
   * Throws what the codec throws, and std::bad_alloc.
   */
  template <detail::streaming Method>
  client_flow<Method> open(
    const typename Method::request_type& request, const call_options& options = call_options())
  {
    using request_type = typename Method::request_type;
    constexpr bool reads = !std::is_same_v<typename Method::to_client_type, nothing>;
    return {this->executor_,
      rdma::detail::rpc::open_flow(this->core_.get(),
        {&request,
          [](const void* value, output& to)
          { detail::codec_of<request_type>::encode(*static_cast<const request_type*>(value), to); },
          &detail::description_of<Method>},
        options, reads)};
  }

  /// Returns the transport of the connection, and the reason for it.
  /** Precondition: connected and not moved from. */
  [[nodiscard]] transport_choice transport() const { return this->core_->transport(); }

  /// Returns the methods of the server in the order of their names; none before it is connected.
  /** Precondition: not moved from. */
  [[nodiscard]] std::vector<offered_method> methods() const { return this->core_->methods(); }
};

/// A client for any executor.
using client = basic_client<>;

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_CLIENT_HPP
