//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/connector.hpp"
#include "boost_rdma/detail/upgrade_start.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/connection.hpp"
#include "connect/connection_service.hpp"
#include "connect/log.hpp"
#include "connect/path.hpp"
#include "connect/tcp_control_stream.hpp"
#include "connect/upgrade.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <utility>

// The client's side of the bootstrap.

namespace rdma::detail {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

// The arguments of async_connect; they outlive the initiating call.
struct client_side
{
  std::shared_ptr<connection> link;
  std::shared_ptr<queue_pair_core> core;
  tcp_control_stream* to_connect = nullptr; // the link's stream if it is not connected yet
  tcp::endpoint peer;
  connect_options options;
};

service_awaitable<error_code> exchange_parameters(
  client_side& client, path& negotiation, heartbeat_times& times)
{
  connection& link = *client.link;
  error_code ec;
  handshake_parameters self = negotiation.offer(ec);
  if (ec)
    co_return link.failure(ec);
  self.data = client.options.data;
  const std::string request =
    text_of(make_upgrade_request(text_of(client.peer), client.options, self, ec));
  if (ec)
    co_return ec;
  control_stream_ref stream = link.reference();
  co_await asio::async_write(stream, asio::buffer(request), into(ec));
  if (ec)
    co_return link.failure(error_of_unreadable(ec));

  http::response_parser<http::empty_body> answer;
  answer.header_limit(upgrade_header_size_max);
  link.buffer.max_size(2 * upgrade_header_size_max);
  const std::size_t size = co_await http::async_read_header(stream, link.buffer, answer, into(ec));
  limit_header(size, ec);
  if (ec)
    co_return link.failure(error_of_unreadable(ec));

  handshake_parameters server = judge_answer(answer.get(), ec);
  if (ec)
  {
    const std::string_view reason = refusal_reason(answer.get());
    log_line(spdlog::level::info, "cannot connect to {}: {}: status {}, untrusted reason {}",
      text_of(client.peer), ec.message(), answer.get().result_int(),
      untrusted(reason, untrusted_reason_size_max));
    negotiation.decline("the peer",
      "HTTP status " + std::to_string(answer.get().result_int())
        + (reason.empty() ? "" : ", " + untrusted(reason, untrusted_reason_size_max)));
    co_return ec;
  }
  client.core->set_peer_data(std::move(server.data));
  times = agree_on_heartbeats(client.core->options(), server.heartbeat_limit);
  co_return co_await negotiation.negotiate(std::move(server));
}

service_awaitable<void> run_client(client_side client, waiting_handler<> handler)
{
  connection& link = *client.link;
  error_code ec = link.failure({});
  std::string why;
  heartbeat_times times;
  try
  {
    if (!ec && client.to_connect != nullptr) // connecting would open a closed socket again
    {
      client.to_connect->open(client.peer.protocol(), ec);
      if (!ec)
      {
        co_await client.to_connect->socket.async_connect(client.peer, into(ec));
        client.to_connect->set_options();
      }
      ec = link.failure(ec);
    }
    if (!ec)
    {
      path negotiation(link, client.core, link.stream().local_endpoint().address());
      ec = co_await exchange_parameters(client, negotiation, times);
      why = negotiation.declined_text(ec);
    }
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  catch (const std::exception& e)
  {
    log_line(spdlog::level::err, "cannot connect: {}", e.what());
    ec = asio::error::fault; // a defect of the library
  }
  if (ec == error::closed)
    ec = asio::error::operation_aborted; // by the user; the guard calls stop() later
  if (!ec)
    link.establish(times);
  else
  {
    client.core->disconnect(ec, why, "connecting to " + text_of(client.peer)); // it connects once
    link.stop(ec);
  }
  client.core.reset(); // only the user owns it now
  std::move(handler).complete(ec);
  if (!ec)
    co_await link.watch();
}

// `owner` is the queue pair's executor, or one of its context.
void start_client(const asio::any_io_executor& executor, const asio::any_io_executor& owner,
  std::shared_ptr<queue_pair_core> core, std::unique_ptr<control_stream> user_stream,
  const tcp::endpoint& peer, const connect_options& options,
  asio::any_completion_handler<void(error_code)> handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<> waiting(executor, std::move(handler));
  if (core && core->forked())
    return std::move(waiting).complete(error::forked);
  if (!core || !core->is_open())
    return std::move(waiting).complete(error::closed);
  if (core->is_connected())
    return std::move(waiting).complete(error::already_connected);

  client_side client{nullptr, core, nullptr, peer, options};
  try
  {
    connection_service& service = connection_service::of(owner);
    if (user_stream)
      client.link = service.make_connection(std::move(user_stream));
    else
    {
      auto made =
        std::make_unique<tcp_control_stream>(tcp_control_stream::socket_type(service.io()));
      client.to_connect = made.get();
      client.link =
        std::make_shared<connection>(service.io(), service.service_inbox(), std::move(made));
    }
  }
  catch (const system_error& e)
  {
    return std::move(waiting).complete(e.code());
  }
  const std::shared_ptr<connection> link = client.link;
  if (!link->adopt(core))
  {
    const error_code failed = core->diagnose().code;
    return std::move(waiting).complete(
      failed == error::device_lost ? failed : error::already_connected);
  }
  on_cancellation(slot, [handle = connection::handle(*link)] { handle.cancel_handshake(); });
  const auto time_limit = core->options().connect_timeout;
  link->run(time_limit, run_client(std::move(client), std::move(waiting)));
}

} // namespace

void start_connect(const asio::any_io_executor& executor, std::shared_ptr<queue_pair_core> core,
  const tcp::endpoint& peer, const connect_options& options,
  asio::any_completion_handler<void(error_code)> handler)
{
  start_client(executor, executor, std::move(core), nullptr, peer, options, std::move(handler));
}

void start_upgrade(const asio::any_io_executor& executor, std::shared_ptr<queue_pair_core> core,
  upgradable_stream stream, const connect_options& options,
  asio::any_completion_handler<void(error_code)> handler)
{
  // The connection's thread must not outlive the execution context of the queue pair.
  const auto context_of = [](const asio::any_io_executor& each)
  { return &asio::query(each, asio::execution::context); };
  if (!stream.ec && core && context_of(core->io_executor()) != context_of(stream.executor))
    stream.ec = asio::error::invalid_argument;
  if (stream.ec)
    return waiting_handler<>(executor, std::move(handler)).complete(stream.ec);
  const tcp::endpoint peer = stream.stream->remote_endpoint();
  start_client(executor, stream.executor, std::move(core), std::move(stream.stream), peer, options,
    std::move(handler));
}

} // namespace rdma::detail
