//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/stream_acceptor_core.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/log.hpp"
#include "resource/domain_impl.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>

#include <memory>
#include <new>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

acceptor_core::clients clients_of(stream_transports transports)
{
  switch (transports)
  {
  case stream_transports::rdma:
    return acceptor_core::clients::rdma_streams;
  case stream_transports::tcp:
    return acceptor_core::clients::plain;
  case stream_transports::rdma_or_tcp:
    break;
  }
  return acceptor_core::clients::streams;
}

// An operation. It owns the handler until its end, so that it ends also if there is no memory to
// wait for another client.
struct accepting : std::enable_shared_from_this<accepting>
{
  accepting(std::shared_ptr<stream_acceptor_core> by, acceptor_core& of,
    const std::shared_ptr<device_set>& with_devices, const stream_options& with,
    const asio::any_io_executor& on, stream_acceptor_core::handler_type handler)
    : acceptor(std::move(by))
    , clients(of)
    , devices(with_devices)
    , options(with)
    , executor(on)
    , slot(asio::get_associated_cancellation_slot(handler))
    , waiting(on, std::move(handler))
  {
  }

  void start()
  {
    clients.accept(executor,
      asio::bind_cancellation_slot(slot,
        [self = shared_from_this()](const error_code& ec, connected_peer peer)
        { self->on_client(ec, std::move(peer)); }));
  }

  void on_client(error_code ec, connected_peer peer)
  {
    std::shared_ptr<stream_core> made;
    try
    {
      if (!ec && !make(made, std::move(peer)))
        return start(); // the next client
    }
    catch (const std::bad_alloc&)
    {
      ec = asio::error::no_memory;
    }
    std::move(waiting).complete_here(ec, std::move(made));
  }

  // Returns false if the client cannot be served. Throws std::bad_alloc.
  [[nodiscard]] bool make(std::shared_ptr<stream_core>& to, connected_peer peer) const
  try
  {
    to = stream_core::make(std::move(peer), options, devices);
    return true;
  }
  catch (const system_error& e)
  {
    log_line(spdlog::level::warn, "cannot make a stream of a client: {}", e.what());
    return false;
  }

  const std::shared_ptr<stream_acceptor_core> acceptor; // owns the next three
  acceptor_core& clients;
  const std::shared_ptr<device_set>& devices;
  const stream_options& options;
  const asio::any_io_executor executor;
  const asio::cancellation_slot slot;
  waiting_handler<std::shared_ptr<stream_core>> waiting;
};

} // namespace

std::shared_ptr<stream_acceptor_core> stream_acceptor_core::make(
  const asio::any_io_executor& executor, const asio::any_io_executor& inner,
  const protection_domain& domain, const asio::ip::tcp::endpoint& endpoint,
  const stream_acceptor_options& options, error_code& ec)
{
  ec = {};
  if (options.stream.transports != stream_transports::tcp)
    ec = stream_core::check(options.stream, options.queue_pair);
  if (ec)
    return nullptr;
  auto clients = acceptor_core::make(
    executor, inner, domain, endpoint, options, ec, clients_of(options.stream.transports));
  return clients ? std::make_shared<stream_acceptor_core>(
           std::move(clients), domain.impl()->devices(), options.stream)
                 : nullptr;
}

void stream_acceptor_core::accept(const asio::any_io_executor& executor, handler_type handler)
{
  std::make_shared<accepting>(
    shared_from_this(), *clients_, devices_, options_, executor, std::move(handler))
    ->start();
}

void start_accept_stream(const asio::any_io_executor& executor, stream_acceptor_core* core,
  stream_acceptor_core::handler_type handler)
{
  start_or_refuse(core, executor, std::move(handler), &stream_acceptor_core::accept);
}

} // namespace rdma::detail
