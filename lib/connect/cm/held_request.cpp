//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/cm/held_request.hpp"

#include "completion/shared_receive_core.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/cm/event_channel.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <new>
#include <utility>

namespace rdma::cm::detail {

namespace asio = boost::asio;
using rdma::detail::unclaimed_queue_pair;
using rdma::detail::waiting_handler;

namespace {

template <class Handler>
void assign_slot(Handler& handler, const std::shared_ptr<connection>& link)
{
  if (link)
    rdma::detail::on_cancellation(asio::get_associated_cancellation_slot(handler),
      std::weak_ptr(link), &connection::post_cancel);
}

} // namespace

unclaimed_queue_pair acceptor_settings::make_queue_pair(error_code& ec) const
{
  try
  {
    return unclaimed_queue_pair(
      queue_pair_core::make(inner, same_context, domain, options.queue_pair));
  }
  catch (const system_error& e)
  {
    ec = e.code();
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  return {};
}

held_request::held_request(const std::shared_ptr<connection>& link,
  std::shared_ptr<const acceptor_settings> settings, event_channel& channel)
  : link_(link)
  , settings_(std::move(settings))
  , channel_(channel)
  , data_(link->data())
  , peer_(link->peer())
{
}

held_request::~held_request()
{
  if (const auto link = take_link())
    connection::post_reject(*link);
}

void held_request::accept(
  const asio::any_io_executor& executor, const private_data& answer, handler_type handler)
{
  const bool answered = std::exchange(answered_, true);
  const auto link = take_link();
  assign_slot(handler, link);
  waiting_handler<std::shared_ptr<queue_pair_core>> waiting(executor, std::move(handler));
  if (!link || channel_.forked())
    return std::move(waiting).complete(link ? error::forked
        : answered                          ? error::closed
                                            : error::peer_lost,
      nullptr);
  asio::post(channel_.io(),
    [link, answer, settings = settings_, waiting = std::move(waiting)]() mutable
    {
      error_code ec;
      unclaimed_queue_pair made = settings->make_queue_pair(ec);
      if (ec)
      {
        link->reject({});
        return std::move(waiting).complete(ec, nullptr);
      }
      const auto core = made.get();
      link->accept(core, answer, settings->options.handshake_timeout,
        [made = std::move(made), waiting = std::move(waiting)](
          const error_code& failure, const private_data&) mutable
        { std::move(waiting).complete(failure, failure ? nullptr : made.release()); });
    });
}

void held_request::accept(const asio::any_io_executor& executor,
  std::shared_ptr<queue_pair_core> core, const private_data& answer,
  asio::any_completion_handler<void(error_code)> handler)
{
  const bool answered = std::exchange(answered_, true);
  const auto link = take_link();
  assign_slot(handler, link);
  waiting_handler<> waiting(executor, std::move(handler));
  error_code ec;
  if (!link)
    ec = answered ? error::closed : error::peer_lost;
  else if (channel_.forked())
    ec = error::forked;
  else if (!core || !core->is_open())
    ec = error::closed;
  else if (core->is_connected())
    ec = error::already_connected;
  if (!ec)
    return asio::post(channel_.io(),
      [link, core, answer, settings = settings_, waiting = std::move(waiting)]() mutable
      {
        link->accept(core, answer, settings->options.handshake_timeout,
          [waiting = std::move(waiting)](const error_code& failure, const private_data&) mutable
          { std::move(waiting).complete(failure); });
      });
  if (link && !channel_.forked())
    connection::post_reject(*link);
  std::move(waiting).complete(ec);
}

void held_request::reject(const private_data& reason)
{
  answered_ = true;
  if (const auto link = take_link(); link && !channel_.forked())
    connection::post_reject(*link, reason);
}

// Only the first call returns the connection, which the channel owns.
std::shared_ptr<connection> held_request::take_link()
{
  auto link = link_.lock();
  link_.reset();
  return link;
}

} // namespace rdma::cm::detail
