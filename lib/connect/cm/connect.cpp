//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/cm/detail/cm_core.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/cm/connection.hpp"
#include "resource/device_impl.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <memory>
#include <utility>

namespace rdma::cm::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using rdma::detail::connection_service;
using rdma::detail::waiting_handler;

namespace {

std::shared_ptr<connection> make_connection(const asio::any_io_executor& executor,
  const std::shared_ptr<queue_pair_core>& core, event_channel*& channel, error_code& ec)
{
  try
  {
    if (core && core->forked())
      ec = error::forked;
    else if (!core || !core->is_open())
      ec = error::closed;
    else if (core->is_connected())
      ec = error::already_connected;
    else
      channel = event_channel::of(connection_service::of(executor), core->device().kind(), ec);
    if (ec)
      return nullptr;
    auto made = std::make_shared<connection>(*channel);
    if (made->adopt(core))
      return made;
    ec = error::already_connected;
  }
  catch (const system_error& e)
  {
    ec = e.code(); // no thread could be started
  }
  return nullptr;
}

} // namespace

void start_connect(const asio::any_io_executor& executor, std::shared_ptr<queue_pair_core> core,
  const tcp::endpoint& peer, const connect_options& options,
  asio::any_completion_handler<void(error_code, private_data)> handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<private_data> waiting(executor, std::move(handler));
  error_code ec;
  event_channel* channel = nullptr;
  const auto link = make_connection(executor, core, channel, ec);
  if (!link)
    return std::move(waiting).complete(ec, {});
  rdma::detail::on_cancellation(slot, std::weak_ptr(link), &connection::post_cancel);
  connection_outcome outcome(
    [waiting = std::move(waiting)](const error_code& failure, const private_data& data) mutable
    { std::move(waiting).complete(failure, data); });
  asio::post(channel->io(),
    [link, peer, options, outcome = std::move(outcome)]() mutable
    { link->connect(peer, options, std::move(outcome)); });
}

void start_accept(const asio::any_io_executor& executor, acceptor_core* core,
  acceptor_core::accept_handler_type handler)
{
  rdma::detail::start_or_refuse(core, executor, std::move(handler), &acceptor_core::accept);
}

void start_get_request(const asio::any_io_executor& executor, acceptor_core* core,
  acceptor_core::request_handler_type handler)
{
  rdma::detail::start_or_refuse(core, executor, std::move(handler), &acceptor_core::get_request);
}

void start_accept(const asio::any_io_executor& executor, request_core* core,
  const private_data& answer, request_core::handler_type handler)
{
  if (core != nullptr)
    core->accept(executor, answer, std::move(handler));
  else
    waiting_handler<std::shared_ptr<queue_pair_core>>(executor, std::move(handler))
      .complete(error::closed, nullptr);
}

void start_accept_into(const asio::any_io_executor& executor, request_core* core,
  std::shared_ptr<queue_pair_core> queue_pair, const private_data& answer,
  asio::any_completion_handler<void(error_code)> handler)
{
  if (core != nullptr)
    core->accept(executor, std::move(queue_pair), answer, std::move(handler));
  else
    waiting_handler<>(executor, std::move(handler)).complete(error::closed);
}

} // namespace rdma::cm::detail
