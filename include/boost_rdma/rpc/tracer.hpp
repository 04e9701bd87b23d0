//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_TRACER_HPP
#define BOOST_RDMA_RPC_TRACER_HPP

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/trace_context.hpp>

#include <chrono>
#include <cstdint>
#include <string_view>

namespace rdma::rpc {

/// The side of a call that a tracer sees.
enum class call_side : std::uint8_t
{
  client, ///< makes the call
  server, ///< answers it
};

/// A call as a tracer sees it: a span of a trace.
struct traced_call
{
  /// This process's side.
  call_side side;

  /// Name of the method; valid during the call of the tracer's function.
  std::string_view method;

  /// At the client call_options::trace, at the server what the client has sent; not valid: none.
  trace_context parent;

  /// The result of tracer::start().
  trace_context context;

  /// Time of making the call, at the server of its arrival.
  std::chrono::steady_clock::time_point started;
};

/// Sees the calls of clients and servers, for the program's tracing, for example OpenTelemetry.
/**
 * client_options::tracer and server_options::tracer refer to it. One object can serve any number of
 * clients and servers, which share its ownership.
 *
 * The functions must not throw, must not call functions of clients, servers and responders, and
 * must not wait: a mutex of the connection is held during some of their calls.
 *
 * @par Thread safety
 * Threads that make, answer or cancel calls, and those of their executors, call the functions, also
 * at the same time.
 */
class tracer
{
public:
  /// Destroys the tracer.
  virtual ~tracer() = default;

  /// A call begins. Returns the trace that goes on with it.
  /**
   * That is usually a context with the trace_id of call.parent, and a new parent_id that identifies
   * the call's own span. The client sends it to the server, and the server passes it to the handler
   * (call_info::trace()). Return call.parent to add no span.
   *
   * @param call The call, without its context.
   */
  [[nodiscard]] virtual trace_context start(const traced_call& call) noexcept = 0;

  /// The call has ended. It is called once for each call that has begun.
  /**
   * @param call The same call.
   * @param outcome No error: the client has the reply, or the server has answered with one.
   * Otherwise the error that the client gets. At the server, operation_aborted or the error of the
   * connection if the client does not wait any more.
   */
  virtual void end(const traced_call& call, const error_code& outcome) noexcept = 0;
};

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_TRACER_HPP
