//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/upgrade_start.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/connection.hpp"
#include "connect/connection_service.hpp"
#include "connect/handshake.hpp"
#include "connect/upgraded_stream.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>

#include <new>
#include <utility>

// The server's side of the bootstrap on a stream from which the program has read the request.

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

// The arguments of async_upgrade; they outlive the initiating call.
struct server_side
{
  queue_pair_settings settings;
  boost::beast::http::request_header<> request;
  std::string data;
};

using server_handler = waiting_handler<std::shared_ptr<queue_pair_core>>;

service_awaitable<error_code> perform_handshake(
  connection& link, server_side server, unclaimed_queue_pair& made, heartbeat_times& times)
{
  error_code ec = link.failure({}); // it may have been cancelled
  try
  {
    admitted_client client;
    if (!ec)
      ec = co_await admit_request(link, server.request, client);
    client.answer = std::move(server.data);
    if (!ec)
      ec = co_await answer_request(link, server.settings, std::move(client), made, times);
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  co_return ec;
}

// The service's io_context owns this coroutine and the handler while it waits, and destroys both.
service_awaitable<void> run_upgrade(
  std::shared_ptr<connection> link, server_side server, server_handler handler)
{
  unclaimed_queue_pair made;
  heartbeat_times times;
  if (const error_code ec = co_await perform_handshake(*link, std::move(server), made, times))
  {
    made = unclaimed_queue_pair();
    link->stop(ec);
    std::move(handler).complete(ec, nullptr);
    co_return;
  }
  link->establish(times);
  std::move(handler).complete(error_code(), made.release());
  co_await link->watch();
}

} // namespace

upgradable_stream make_upgradable(
  const asio::any_io_executor& executor, std::unique_ptr<user_stream> stream)
{
  upgradable_stream result{executor, nullptr, {}};
  try
  {
    connection_service& service = connection_service::of(executor);
    result.stream = std::make_unique<upgraded_stream>(
      service.io(), service.service_inbox(), executor, std::move(stream));
  }
  catch (const system_error& e)
  {
    result.ec = e.code(); // there is no thread, or it belongs to the parent process
  }
  return result;
}

void start_upgrade(upgradable_stream stream, upgrade_answer answer,
  asio::any_completion_handler<void(error_code, std::shared_ptr<queue_pair_core>)> handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  server_handler waiting(stream.executor, std::move(handler));
  if (!stream.ec && answer.options.data.size() > connect_options::data_size_max)
    stream.ec = asio::error::invalid_argument;
  if (stream.ec)
    return std::move(waiting).complete(stream.ec, nullptr);
  const auto link =
    connection_service::of(stream.executor).make_connection(std::move(stream.stream));
  on_cancellation(slot, [handle = connection::handle(*link)] { handle.cancel_handshake(); });
  server_side server{{std::move(answer.inner), answer.same_context, std::move(answer.domain),
                       std::move(answer.options.queue_pair)},
    std::move(answer.request), std::move(answer.options.data)};
  link->run(
    answer.options.handshake_timeout, run_upgrade(link, std::move(server), std::move(waiting)));
}

} // namespace rdma::detail
