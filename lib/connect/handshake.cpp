//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/acceptor_impl.hpp"
#include "connect/log.hpp"
#include "connect/upgrade.hpp"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include <array>
#include <string>
#include <utility>

// The server's side of the bootstrap.

namespace rdma::detail {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

// Answers with a refusal, and stays until the peer has read it: closing a socket that has unread data
// sends a reset, which may destroy the answer on its way. The deadline and a bound limit the wait.
asio::awaitable<void> refuse(connection& link, http::status status, std::string_view reason)
{
  constexpr std::size_t drain_max = 64 * 1024;
  link.progress = connection::stage::refused;
  const upgrade_refusal answer = make_upgrade_refusal(status, reason);
  error_code ec;
  co_await http::async_write(link.socket, answer, into(ec));
  if (!ec)
    link.socket.shutdown(asio::socket_base::shutdown_send, ec);
  std::array<char, 1024> waste;
  for (std::size_t drained = 0; !ec && !link.stopped() && drained < drain_max;)
    drained += co_await link.socket.async_read_some(asio::buffer(waste), into(ec));
}

// The peer's address, for a log.
std::string name_of(const connection& link)
{
  error_code ec;
  const auto peer = link.socket.remote_endpoint(ec);
  return ec ? "a client that is gone" : peer.address().to_string() + ' ' + std::to_string(peer.port());
}

struct refusal
{
  http::status status = http::status::service_unavailable;
  std::string reason;
};

// A queue pair for this peer, ready to send and to receive. Without one `why` says what to answer;
// that it cannot be had is mostly our trouble, not the client's.
unclaimed_queue_pair prepare(acceptor_impl& acceptor, connection& link,
  const endpoint_description& peer, endpoint_description& local, refusal& why)
{
  error_code ec;
  try
  {
    unclaimed_queue_pair made = acceptor.make_queue_pair();
    const auto own = link.socket.local_endpoint(ec);
    if (!ec)
      local = made->local_endpoint(own.address(), ec);
    if (!ec)
      made->connect(peer, ec);
    // Last: closing a queue pair ends the connection that it was given, and a refusal needs that still.
    if (!ec && link.adopt(made.get()))
      return made;
  }
  catch (const system_error& e)
  {
    ec = e.code();
  }
  log_line(spdlog::level::warn, "no queue pair for {}: {}", name_of(link), ec.message());
  if (ec == error::no_common_transport)
    why = {http::status::conflict, "the endpoints have no transport in common"};
  else
    why.reason = "no queue pair can be had: " + ec.message();
  return {};
}

// Reads the request; what cannot be accepted is answered here.
asio::awaitable<bool> read_request(connection& link, endpoint_description& peer)
{
  error_code ec;
  http::request_parser<http::empty_body> parser;
  parser.header_limit(upgrade_header_size_max);
  link.buffer.max_size(2 * upgrade_header_size_max);
  co_await http::async_read_header(link.socket, link.buffer, parser, into(ec));
  if (ec && (link.stopped() || error_of_unreadable(ec) != error::not_an_acceptor))
  {
    // Nobody is left to read an answer.
    log_line(spdlog::level::debug, "{} left before it asked: {}", name_of(link),
      link.failure(ec).message());
    co_return false;
  }
  refusal why;
  if (ec)
    why = {status_of_unreadable(ec), "this is no HTTP request that can be read: " + ec.message()};
  else
  {
    upgrade_verdict verdict = judge_upgrade(parser.get());
    if (verdict.accepted())
    {
      peer = verdict.peer;
      link.progress = connection::stage::negotiating;
      co_return true;
    }
    why = {verdict.status, std::move(verdict.reason)};
  }
  log_line(spdlog::level::info, "refused {}: {}; untrusted target {}", name_of(link), why.reason,
    untrusted(std::string_view(parser.get().target().data(), parser.get().target().size())));
  co_await refuse(link, why.status, why.reason);
  co_return false;
}

} // namespace

asio::awaitable<void> run_server(std::shared_ptr<acceptor_impl> acceptor, std::shared_ptr<connection> link)
{
  endpoint_description peer;
  if (!co_await read_request(*link, peer))
    co_return link->stop(error::refused);

  endpoint_description local;
  refusal why;
  unclaimed_queue_pair queue_pair = prepare(*acceptor, *link, peer, local, why);
  if (!queue_pair)
  {
    co_await refuse(*link, why.status, why.reason);
    co_return link->stop(error::refused);
  }

  error_code ec;
  const upgrade_response answer = make_upgrade_response(local);
  co_await http::async_write(link->socket, answer, into(ec));
  if (!ec)
    ec = co_await link->receive(frame_type::ready);
  if (ec)
  {
    log_line(spdlog::level::info, "{} did not become ready: {}", name_of(*link),
      link->failure(ec).message());
    co_return link->stop(ec);
  }
  link->establish();
  acceptor->forget(link);
  acceptor->finished(std::move(queue_pair));
  acceptor.reset(); // which may go before its connections do
  co_await link->watch();
}

} // namespace rdma::detail
