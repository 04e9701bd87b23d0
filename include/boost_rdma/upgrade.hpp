//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_UPGRADE_HPP
#define BOOST_RDMA_UPGRADE_HPP

#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/connect_options.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/upgrade_start.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/upgrade_options.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace rdma {

/// A stream that async_upgrade() accepts: Beast's AsyncStream, for instance beast::tcp_stream or an
/// ssl::stream of one.
template <class Stream>
concept upgradable = !std::is_reference_v<Stream> && boost::beast::is_async_stream<Stream>::value;

/// Returns true if a request asks for RDMA, in any version of the protocol. Corresponds to
/// websocket::is_upgrade().
/** Answer the request with async_upgrade() or refuse_upgrade(). */
template <class Allocator>
[[nodiscard]] bool is_upgrade(
  const boost::beast::http::request_header<boost::beast::http::basic_fields<Allocator>>& request)
{
  if constexpr (std::is_same_v<Allocator, std::allocator<char>>)
    return detail::asks_for_upgrade(request);
  else
    return detail::asks_for_upgrade(boost::beast::http::request_header<>(request));
}

/// Returns the data that the client's program sent with its request (connect_options::data). No
/// resources have been allocated for the client yet.
/**
 * Do not trust it. It has at most connect_options::data_size_max bytes and may be empty. Further
 * parameters of the client are in the request: its target, and the fields of
 * connect_options::fields.
 *
 * @param request The client's request.
 * @param ec error::malformed_description if the data cannot be read. The result is empty then.
 * async_upgrade() would refuse such a request.
 */
template <class Allocator>
[[nodiscard]] std::string upgrade_data(
  const boost::beast::http::request_header<boost::beast::http::basic_fields<Allocator>>& request,
  error_code& ec)
{
  ec = {};
  if constexpr (std::is_same_v<Allocator, std::allocator<char>>)
    return detail::data_of_upgrade(request, ec);
  else
    return detail::data_of_upgrade(boost::beast::http::request_header<>(request), ec);
}

/// Returns the data that the client's program sent with its request; throws system_error.
template <class Allocator>
[[nodiscard]] std::string upgrade_data(
  const boost::beast::http::request_header<boost::beast::http::basic_fields<Allocator>>& request)
{
  return detail::or_throw(
    "upgrade_data", [&](error_code& ec) { return upgrade_data(request, ec); });
}

/// Returns a response that refuses a request for RDMA. Write it to the stream and close the stream.
/**
 * @code
 * auto refusal = rdma::refuse_upgrade(http::status::unauthorized, "a token, please");
 * co_await http::async_write(stream, refusal, asio::use_awaitable);
 * @endcode
 * The client's connect fails with error::refused, and its queue_pair::diagnose() contains the
 * reason. Responses from other sources lack the field "Upgrade: boost-rdma/1", and the client's
 * connect fails with error::not_an_acceptor.
 *
 * @param status From 400 to 599; other values are replaced by 500. With 409 the client's connect
 * fails with error::no_common_transport.
 * @param reason One line of printable text for the client's log. At most 512 bytes are sent.
 */
[[nodiscard]] boost::beast::http::response<boost::beast::http::string_body> refuse_upgrade(
  boost::beast::http::status status = boost::beast::http::status::forbidden,
  std::string_view reason = "not authorised");

/// Accepts a request for RDMA that the program's own HTTP server has read, and completes when the
/// connection is a queue pair.
/**
 * Before this call the program inspects the request and decides to accept the client. No resources
 * have been allocated for the client yet. Use refuse_upgrade() to refuse it.
 *
 * @param stream The stream on which the request was received, without outstanding operations. The
 * library keeps it as long as the queue pair is connected. Objects that it refers to must remain
 * valid (an ssl::context need not).
 * @param request The request; copied. Its target is ignored. A client sends nothing after it before
 * it has received the answer.
 * @param domain Protection domain of the queue pair; a context converts to one.
 * @param options Options of the queue pair, and data for the client's program.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code, rdma::basic_queue_pair<typename Stream::executor_type>) @endcode
 * The queue pair uses the stream's executor. If there is an error, it is in the state of an object
 * that was moved from, and the stream is closed.
 *
 * @par Errors
 * @li error::refused: the request is of another version or malformed. The client has been notified.
 * @li error::no_common_transport: the two sides have no transport in common.
 * @li error::path_not_confirmed: no message arrived on the chosen transport.
 * @li error::peer_lost: the client closed the stream during the handshake.
 * @li error::handshake_timeout: options.handshake_timeout expired.
 * @li operation_aborted: the operation was cancelled.
 * @li error::forked: the call was made in a child of the process that made the domain.
 * @li boost::asio::error::invalid_argument: options.data is larger than
 *     connect_options::data_size_max.
 * @li the error of creating a queue pair.
 *
 * @par Encryption
 * RDMA data is NOT encrypted, on any stream, because it does not go through the stream. Neither
 * NICs nor the software device encrypt or authenticate their data. A TLS stream protects the data
 * that goes through it:
 * @li the request: passwords in it are protected, and both sides are authenticated
 * @li the 128-bit secret by which a queue pair of the software device identifies its peer
 * @li connect data of the programs
 * @li messages of the control channel
 *
 * @par
 * An attacker who can read the network can read the RDMA data. An attacker who can write to it may
 * change the data.
 *
 * @par The stream's executor
 * All input and output of the stream runs on its executor. (rdma::acceptor has a thread for it
 * instead.) The io_context must therefore continue to run: it answers heartbeats. If handlers block
 * it for longer than the peer's queue_pair_options::heartbeat_limit, the peer considers this side
 * lost (error::peer_lost). A read is always outstanding. It keeps run() from returning until the
 * queue pair is closed and the peer has been notified.
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the handshake and close the stream.
 *
 * @par Thread safety
 * Call it only where the stream may be used: on its strand, or from its only thread.
 */
template <upgradable Stream, class Allocator,
  boost::asio::completion_token_for<void(
    error_code, basic_queue_pair<typename Stream::executor_type>)>
    CompletionToken = boost::asio::default_completion_token_t<typename Stream::executor_type>>
auto async_upgrade(Stream stream,
  const boost::beast::http::request_header<boost::beast::http::basic_fields<Allocator>>& request,
  const protection_domain& domain, const upgrade_options& options,
  CompletionToken&& token =
    boost::asio::default_completion_token_t<typename Stream::executor_type>())
{
  using executor_type = typename Stream::executor_type;
  using queue_pair_type = basic_queue_pair<executor_type>;
  const executor_type executor = stream.get_executor();
  return boost::asio::async_initiate<CompletionToken, void(error_code, queue_pair_type)>(
    detail::initiation(executor,
      [](const auto& own, auto&& handler, auto&&... arguments)
      {
        detail::start_server_upgrade<queue_pair_type>(own, std::forward<decltype(handler)>(handler),
          std::forward<decltype(arguments)>(arguments)...);
      }),
    token, std::move(stream), detail::copy_of_request(request), domain, options);
}

/// Accepts a request for RDMA with default upgrade_options.
/**
 * @param stream See the overload with options.
 * @param request See the overload with options.
 * @param domain See the overload with options.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code, rdma::basic_queue_pair<typename Stream::executor_type>) @endcode
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the handshake and close the stream.
 *
 * @par Thread safety
 * Call it only where the stream may be used: on its strand, or from its only thread.
 */
template <upgradable Stream, class Allocator,
  boost::asio::completion_token_for<void(
    error_code, basic_queue_pair<typename Stream::executor_type>)>
    CompletionToken = boost::asio::default_completion_token_t<typename Stream::executor_type>>
auto async_upgrade(Stream stream,
  const boost::beast::http::request_header<boost::beast::http::basic_fields<Allocator>>& request,
  const protection_domain& domain,
  CompletionToken&& token =
    boost::asio::default_completion_token_t<typename Stream::executor_type>())
{
  return async_upgrade(
    std::move(stream), request, domain, upgrade_options(), std::forward<CompletionToken>(token));
}

/// Connects a queue pair through a stream that is connected to an rdma::acceptor, or to a server
/// with async_upgrade().
/**
 * Corresponds to basic_queue_pair::async_connect(), which creates its own TCP connection. This
 * function works with any stream: through a proxy, by TLS, or with socket options of the program.
 * RDMA data is NOT encrypted, also with a TLS stream. The sections on encryption and on the
 * stream's executor of the server's overload apply.
 *
 * @param stream A connected stream without outstanding operations, after its TLS handshake. The
 * library keeps it as long as the queue pair is connected.
 * @param client An unconnected queue pair in the same execution context as the stream.
 * @param options Data and headers for the server. Set options.host to the server's name for servers
 * with several names.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code) @endcode
 * The stream is closed if there is an error.
 *
 * @par Errors
 * In addition to the errors of basic_queue_pair::async_connect(), without those of connecting the
 * TCP socket:
 * @li the error of reading or writing the stream.
 * @li error::handshake_timeout: client.options().connect_timeout expired.
 * @li boost::asio::error::invalid_argument: the queue pair is in another execution context.
 *
 * @par Per-operation cancellation
 * terminal, partial and total. After a cancellation the queue pair can only be closed.
 *
 * @par Thread safety
 * Call it only where the stream may be used: on its strand, or from its only thread.
 */
template <upgradable Stream, class Executor,
  boost::asio::completion_token_for<void(error_code)> CompletionToken =
    boost::asio::default_completion_token_t<Executor>>
auto async_upgrade(Stream stream, basic_queue_pair<Executor>& client,
  const connect_options& options,
  CompletionToken&& token = boost::asio::default_completion_token_t<Executor>())
{
  return boost::asio::async_initiate<CompletionToken, void(error_code)>(
    detail::initiation(client.get_executor(),
      [core = client.core()](
        const auto& executor, auto&& handler, auto&& from, const connect_options& how)
      {
        detail::start_upgrade(executor, core,
          detail::make_upgradable(std::forward<decltype(from)>(from)), how,
          std::forward<decltype(handler)>(handler));
      }),
    token, std::move(stream), options);
}

/// Connects a queue pair through a stream with default connect_options.
/**
 * @param stream See the overload with options.
 * @param client See the overload with options.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code) @endcode
 *
 * @par Per-operation cancellation
 * terminal, partial and total. After a cancellation the queue pair can only be closed.
 *
 * @par Thread safety
 * Call it only where the stream may be used: on its strand, or from its only thread.
 */
template <upgradable Stream, class Executor,
  boost::asio::completion_token_for<void(error_code)> CompletionToken =
    boost::asio::default_completion_token_t<Executor>>
auto async_upgrade(Stream stream, basic_queue_pair<Executor>& client,
  CompletionToken&& token = boost::asio::default_completion_token_t<Executor>())
{
  return async_upgrade(
    std::move(stream), client, connect_options(), std::forward<CompletionToken>(token));
}

} // namespace rdma

#endif // BOOST_RDMA_UPGRADE_HPP
