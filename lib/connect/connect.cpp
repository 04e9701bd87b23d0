//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/connector.hpp"
#include "connect/connection.hpp"
#include "connect/connection_service.hpp"
#include "connect/log.hpp"
#include "connect/upgrade.hpp"
#include "connect/waiting_handler.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include <exception>
#include <new>
#include <string>

// The client's side of the bootstrap.

namespace rdma::detail {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

std::string host_field(const tcp::endpoint& peer)
{
  const std::string address = peer.address().to_string();
  return (peer.address().is_v6() ? '[' + address + ']' : address) + ':' + std::to_string(peer.port());
}

// The user closed the queue pair, and the guard's word has not come yet.
error_code unless_closed(const error_code& ec)
{
  return ec == error::closed ? error_code(asio::error::operation_aborted) : ec;
}

asio::awaitable<error_code> shake_hands(connection& link, const tcp::endpoint& peer)
{
  error_code ec;
  if (!link.stopped()) // connecting would open the socket again
    co_await link.socket.async_connect(peer, into(ec));
  if (ec || link.stopped())
    co_return link.failure(ec);

  endpoint_description local;
  const tcp::endpoint own = link.socket.local_endpoint(ec);
  if (ec)
    co_return ec;
  if (const auto core = link.core())
  {
    local = core->local_endpoint(own.address(), ec);
    ec = unless_closed(ec);
  }
  else
    ec = asio::error::operation_aborted;
  if (ec)
    co_return link.failure(ec);

  const upgrade_request request = make_upgrade_request(host_field(peer), local);
  co_await http::async_write(link.socket, request, into(ec));
  if (ec)
    co_return link.failure(error_of_unreadable(ec));

  http::response_parser<http::empty_body> answer;
  answer.header_limit(upgrade_header_size_max);
  link.buffer.max_size(2 * upgrade_header_size_max);
  co_await http::async_read_header(link.socket, link.buffer, answer, into(ec));
  if (ec)
    co_return link.failure(error_of_unreadable(ec));
  link.progress = connection::stage::negotiating;

  const endpoint_description remote = judge_answer(answer.get(), ec);
  if (ec)
  {
    log_line(spdlog::level::info, "connecting to {}:{}: {}: status {}, untrusted reason {}",
      peer.address().to_string(), peer.port(), ec.message(), answer.get().result_int(),
      untrusted(refusal_reason(answer.get())));
    co_return ec;
  }
  if (const auto core = link.core())
  {
    core->connect(remote, ec);
    ec = unless_closed(ec);
  }
  else
    ec = asio::error::operation_aborted;
  if (ec)
    co_return link.failure(ec);
  co_return co_await link.send(frame_type::ready);
}

asio::awaitable<void> run_client(
  std::shared_ptr<connection> link, tcp::endpoint peer, waiting_handler<> handler)
{
  error_code ec;
  try
  {
    ec = co_await shake_hands(*link, peer);
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  if (!ec)
    link->establish();
  else
  {
    if (const auto core = link->core())
      core->disconnect(ec); // it connects once
    link->stop(ec);
  }
  std::move(handler).complete(ec);
  if (!ec)
    co_await link->watch();
}

} // namespace

void start_connect(const asio::any_io_executor& executor, std::shared_ptr<queue_pair_core> core,
  const tcp::endpoint& peer, asio::any_completion_handler<void(error_code)> handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<> waiting(executor, std::move(handler));
  if (core && core->forked())
    return std::move(waiting).complete(error::forked);
  if (!core || !core->is_open())
    return std::move(waiting).complete(error::closed);
  if (core->is_connected())
    return std::move(waiting).complete(error::already_connected);

  std::shared_ptr<connection> link;
  try
  {
    link = std::make_shared<connection>(connection_service::of(executor).io());
  }
  catch (const system_error& e)
  {
    return std::move(waiting).complete(e.code());
  }
  if (!link->adopt(core))
    return std::move(waiting).complete(error::already_connected);
  if (slot.is_connected())
    slot.assign([weak = std::weak_ptr(link)](asio::cancellation_type type)
      {
        if (type != asio::cancellation_type::none)
          connection::post_cancel(weak);
      });
  const auto time_limit = core->options().connect_timeout;
  asio::post(link->socket.get_executor(), [link, time_limit] { link->set_deadline(time_limit); });
  asio::co_spawn(link->socket.get_executor(), run_client(link, peer, std::move(waiting)),
    [](const std::exception_ptr& problem)
    {
      if (problem)
        std::rethrow_exception(problem); // to the service, which logs it
    });
}

} // namespace rdma::detail
