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

/// A stream that async_upgrade() takes: Beast's AsyncStream, for instance beast::tcp_stream or
/// ssl::stream of one.
template <class Stream>
concept upgradable = !std::is_reference_v<Stream> && boost::beast::is_async_stream<Stream>::value;

/// Whether a client asks for RDMA, in any version of its protocol, as websocket::is_upgrade() is
/// for WebSocket.
/** Then async_upgrade() is the answer, or refuse_upgrade(). */
template <class Allocator>
[[nodiscard]] bool is_upgrade(
  const boost::beast::http::request_header<boost::beast::http::basic_fields<Allocator>>& request)
{
  if constexpr (std::is_same_v<Allocator, std::allocator<char>>)
    return detail::asks_for_upgrade(request);
  else
    return detail::asks_for_upgrade(boost::beast::http::request_header<>(request));
}

/// What the client's program says along with its request (connect_options::data), before anything
/// is made for it.
/**
 * Not to be trusted; at most connect_options::data_size_max bytes. Empty where it says nothing.
 * What it asks for is in the request itself: its target, and the fields of connect_options::fields.
 *
 * error::malformed_description, and no data, when they cannot be read. async_upgrade() would refuse
 * such a request.
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

/// As above; throws system_error.
template <class Allocator>
[[nodiscard]] std::string upgrade_data(
  const boost::beast::http::request_header<boost::beast::http::basic_fields<Allocator>>& request)
{
  error_code ec;
  std::string result = upgrade_data(request, ec);
  if (ec)
    throw system_error(ec, "upgrade_data");
  return result;
}

/// The answer to a request for RDMA that is turned down: to be written to the stream, which is to
/// be closed then.
/**
 * @code
 * auto refusal = rdma::refuse_upgrade(http::status::unauthorized, "a token, please");
 * co_await http::async_write(stream, refusal, asio::use_awaitable);
 * @endcode
 * Connecting ends with error::refused on the client's side, whose queue_pair::diagnose() has the
 * reason. (An answer that is not made by this has no field "Upgrade: boost-rdma/1", and the client
 * sees error::not_an_acceptor.)
 *
 * @param status From 400 to 599, else 500 is sent. With 409 the client sees
 * error::no_common_transport.
 * @param reason For the client's log: one line of printable text, of which 512 bytes are sent.
 */
[[nodiscard]] boost::beast::http::response<boost::beast::http::string_body> refuse_upgrade(
  boost::beast::http::status status = boost::beast::http::status::forbidden,
  std::string_view reason = "not authorised");

/// Answers a request for RDMA that the program's own HTTP server has read: from here on the
/// connection is a queue pair's.
/**
 * The program has looked at the request and knows whether to let the client in: nothing has been
 * made for it so far. refuse_upgrade() is the other answer.
 *
 * @param stream Where the request came from, with no operation outstanding. The library keeps it
 * for as long as the queue pair is connected. What it refers to must stay (an ssl::context need
 * not).
 * @param request As it was read; copied. Its target does not count. A client sends nothing behind
 * it before it has the answer.
 * @param domain Where the queue pair belongs; a context will do.
 * @param options How it is made, and what the client's program is told.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code, rdma::basic_queue_pair<typename Stream::executor_type>) @endcode
 * The queue pair lives on the stream's executor. With an error it is as one that was moved from,
 * and the stream is closed.
 *
 * What can go wrong: error::refused when the request cannot be accepted (it is of another version,
 * or malformed), which the client has been told; error::no_common_transport and
 * error::path_not_confirmed; error::peer_lost; error::handshake_timeout after
 * options.handshake_timeout; what making a queue pair says; operation_aborted; error::forked;
 * boost::asio::error::invalid_argument for more data than connect_options::data_size_max.
 *
 * @par What is encrypted
 * RDMA data is NOT, on whatever stream: it does not go through it. Neither NICs nor the software
 * device encrypt, or authenticate, what they carry. A TLS stream protects what travels through it:
 * the request, so that passwords in it are safe and both sides know each other, the 128-bit secret
 * by which a queue pair of the software device knows its peer, data of the programs, and what the
 * queue pairs' ends say to each other. Who can read the network reads the RDMA data; who can write
 * to it may change them.
 *
 * @par The stream's executor
 * All of the stream's input and output runs there, other than with rdma::acceptor, which has a
 * thread for it. So the io_context must go on running: heartbeats are answered there, and a peer
 * takes this one for dead (error::peer_lost) when handlers keep it busy for longer than its
 * queue_pair_options::heartbeat_limit. A read is always outstanding, which keeps run() from
 * returning until the queue pair is closed and the peer has been told.
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the handshake and close the stream.
 *
 * @par Thread safety
 * To be called where the stream may be used: on its strand, or from its only thread.
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
    detail::initiate_server_upgrade<queue_pair_type>(executor), token, std::move(stream),
    boost::beast::http::request_header<>(request), domain, options);
}

/// As above, with a queue pair of no particular kind, and nothing to say to the client's program.
/**
 * @param stream As above.
 * @param request As above.
 * @param domain As above.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code, rdma::basic_queue_pair<typename Stream::executor_type>) @endcode
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the handshake and close the stream.
 *
 * @par Thread safety
 * As above.
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

/// Connects a queue pair by a stream that is connected to an rdma::acceptor, or to a server with
/// async_upgrade().
/**
 * As basic_queue_pair::async_connect(), which connects by TCP of its own, with any stream: through
 * a proxy, by TLS, or with socket options of the program's.
 *
 * @param stream Connected, its TLS handshake done, with no operation outstanding. The library keeps
 * it for as long as the queue pair is connected.
 * @param client The queue pair; not connected yet; in the same execution context as the stream.
 * @param options What to tell the server. options.host should be the server's name, as a server of
 * many names wants to know.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code) @endcode
 *
 * What can go wrong: what reading and writing the stream says; what async_connect() says of the
 * rest, with error::handshake_timeout after client.options().connect_timeout;
 * boost::asio::error::invalid_argument when the queue pair is in another execution context. The
 * stream is closed then.
 *
 * What is encrypted (RDMA data is NOT, also not with a TLS stream), and what the stream's executor
 * has to do: as above.
 *
 * @par Per-operation cancellation
 * terminal, partial and total; the queue pair can then only be closed.
 *
 * @par Thread safety
 * As above.
 */
template <upgradable Stream, class Executor,
  boost::asio::completion_token_for<void(error_code)> CompletionToken =
    boost::asio::default_completion_token_t<Executor>>
auto async_upgrade(Stream stream, basic_queue_pair<Executor>& client,
  const connect_options& options,
  CompletionToken&& token = boost::asio::default_completion_token_t<Executor>())
{
  return boost::asio::async_initiate<CompletionToken, void(error_code)>(
    detail::initiate_client_upgrade<Executor>(client.get_executor(), client.core()), token,
    std::move(stream), options);
}

/// As above, with nothing particular to say to the server.
/**
 * @param stream As above.
 * @param client As above.
 * @param token A completion token for the signature below.
 *
 * @par Completion signature
 * @code void(rdma::error_code) @endcode
 *
 * @par Per-operation cancellation
 * terminal, partial and total; the queue pair can then only be closed.
 *
 * @par Thread safety
 * As above.
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
