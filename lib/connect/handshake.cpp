//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/handshake.hpp"

#include "connect/log.hpp"
#include "connect/path.hpp"

#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

struct refusal
{
  http::status status = http::status::service_unavailable;
  std::string reason;
};

// Sends a refusal and waits until the peer has read it: closing a socket that has unread data sends
// a reset, which may destroy the answer in transit. The deadline and drain_max limit the wait.
service_awaitable<void> refuse(connection& link, const refusal& why)
{
  constexpr std::size_t drain_max = 64 * 1024;
  link.expect_peer({}); // only to read the reason
  const std::string answer = text_of(make_upgrade_refusal(why.status, why.reason));
  control_stream_ref stream = link.reference();
  error_code ec;
  co_await asio::async_write(stream, asio::buffer(answer), into(ec));
  if (!ec)
    link.stream().shutdown_send();
  std::array<char, 1024> waste;
  for (std::size_t drained = 0; !ec && !link.stopped() && drained < drain_max;)
    drained += co_await stream.async_read_some(asio::buffer(waste), into(ec));
}

// Returns the answer to a client for which there is no path.
refusal refusal_of(const error_code& ec, const path& negotiation)
{
  if (ec == error::no_common_transport)
    return {http::status::conflict, "no transport in common: " + negotiation.declined_text(ec)};
  return {http::status::service_unavailable, "cannot create a queue pair: " + ec.message()};
}

} // namespace

std::string name_of(const connection& link)
{
  const auto peer = link.stream().remote_endpoint();
  return peer.port() == 0 ? "a client"
                          : peer.address().to_string() + ' ' + std::to_string(peer.port());
}

unclaimed_queue_pair queue_pair_settings::make_queue_pair() const
{
  return unclaimed_queue_pair(queue_pair_core::make(inner, same_context, domain, queue_pair));
}

service_awaitable<error_code> admit_request(
  connection& link, const http::request_header<>& request, admitted_client& client)
{
  upgrade_verdict verdict = judge_upgrade(request, {});
  if (verdict.accepted())
  {
    client.self = std::move(verdict.client);
    co_return error_code();
  }
  const refusal why{verdict.status, verdict.reason};
  log_line(spdlog::level::info, "refused {}: {}", name_of(link), why.reason);
  co_await refuse(link, why);
  co_return error::refused;
}

service_awaitable<error_code> read_request(connection& link, std::string_view target,
  const client_admission& admission, admitted_client& client)
{
  error_code ec;
  http::request_parser<http::empty_body> parser;
  parser.header_limit(upgrade_header_size_max);
  link.buffer.max_size(2 * upgrade_header_size_max);
  control_stream_ref stream = link.reference();
  link.expect_peer();
  const std::size_t size = co_await http::async_read_header(stream, link.buffer, parser, into(ec));
  link.expect_nothing();
  limit_header(size, ec);
  if (ec && (link.stopped() || error_of_unreadable(ec) != error::not_an_acceptor))
  {
    // The peer cannot read an answer.
    log_line(spdlog::level::debug, "{} disconnected before its request: {}", name_of(link),
      link.failure(ec).message());
    co_return link.failure(error_of_unreadable(ec));
  }
  refusal why;
  if (ec)
    why = {status_of_unreadable(ec), "malformed HTTP request: " + ec.message()};
  else
  {
    const http::request_header<>& request = parser.get();
    upgrade_verdict verdict = judge_upgrade(request, target);
    if (verdict.accepted() && admission)
    {
      auto asked = std::make_shared<client_request::contents>();
      asked->from = link.stream().remote_endpoint();
      asked->target = std::string(request.target().data(), request.target().size());
      asked->data = verdict.client.data;
      asked->fields = request;
      authorisation decision = co_await admission.ask(link, client_request(std::move(asked)));
      if (link.stopped())
      {
        log_line(spdlog::level::info, "{} was not admitted: {}", name_of(link),
          link.failure(ec).message());
        co_return link.failure(ec);
      }
      if (decision.status != 0)
      {
        verdict.status = static_cast<http::status>(decision.status);
        verdict.reason = std::move(decision.reason);
      }
      client.answer = std::move(decision.data);
    }
    if (verdict.accepted())
    {
      client.self = std::move(verdict.client);
      co_return error_code();
    }
    why = {verdict.status, std::move(verdict.reason)};
  }
  log_line(spdlog::level::info, "refused {}: {}; untrusted target {}", name_of(link), why.reason,
    untrusted(std::string_view(parser.get().target().data(), parser.get().target().size())));
  co_await refuse(link, why);
  co_return error::refused;
}

service_awaitable<error_code> answer_request(connection& link, const queue_pair_settings& settings,
  admitted_client client, unclaimed_queue_pair& made, heartbeat_times& times)
{
  error_code ec;
  refusal why;
  try
  {
    made = settings.make_queue_pair();
  }
  catch (const system_error& e)
  {
    ec = e.code(); // usually not caused by the client
    why.reason = "cannot create a queue pair: " + ec.message();
  }
  if (!ec)
  {
    path negotiation(link, made.get(), link.stream().local_endpoint().address());
    handshake_parameters self = negotiation.choose(client.self, ec);
    if (ec)
      why = refusal_of(ec, negotiation);
    // After adopt(), closing the queue pair ends the connection, which a refusal still needs.
    else if (!link.adopt(made.get()))
      ec = error::closed;
    if (!ec)
    {
      made->set_peer_data(std::move(client.self.data));
      times = agree_on_heartbeats(made->options(), client.self.heartbeat_limit);
      self.data = std::move(client.answer);
      const std::string answer = text_of(make_upgrade_response(self));
      control_stream_ref stream = link.reference();
      // The client sends as soon as it has this answer if nobody confirms the path.
      if (!self.confirms)
        ec = co_await negotiation.negotiate(std::move(client.self));
      if (!ec)
        co_await asio::async_write(stream, asio::buffer(answer), into(ec));
      if (!ec && self.confirms)
        ec = co_await negotiation.negotiate(std::move(client.self));
      if (ec)
      {
        const std::string declined = negotiation.declined_text(ec);
        log_line(spdlog::level::info, "the handshake with {} failed: {}{}{}", name_of(link),
          link.failure(ec).message(), declined.empty() ? "" : "; ", declined);
      }
      else
        log_line(spdlog::level::debug, "{} connected: {}", name_of(link), made->transport().text());
      co_return link.failure(ec);
    }
  }
  log_line(spdlog::level::warn, "cannot connect {}: {}", name_of(link), why.reason);
  made = unclaimed_queue_pair();
  co_await refuse(link, why);
  co_return ec;
}

} // namespace rdma::detail
