//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/mapped_handler.hpp"
#include "boost_rdma/detail/stream_acceptor_core.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/log.hpp"
#include "resource/domain_impl.hpp"

#include <boost/asio/error.hpp>

#include <exception>
#include <new>
#include <utility>

namespace rdma::detail {

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

} // namespace

std::shared_ptr<stream_acceptor_core> stream_acceptor_core::make(
  const boost::asio::any_io_executor& executor, const boost::asio::any_io_executor& inner,
  const protection_domain& domain, const boost::asio::ip::tcp::endpoint& endpoint,
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

void stream_acceptor_core::accept(
  const boost::asio::any_io_executor& executor, handler_type handler)
{
  clients_->accept(executor,
    map_handler(
      [self = shared_from_this(), executor](auto own, const error_code& ec, connected_peer peer)
      {
        std::shared_ptr<stream_core> made;
        try
        {
          if (!ec)
            made = stream_core::make(std::move(peer), self->options_, self->devices_);
        }
        catch (const std::bad_alloc&)
        {
          // To accept the next client needs memory, too.
          return std::move(own)(boost::asio::error::no_memory, nullptr);
        }
        catch (const std::exception& e) // of the system
        {
          log_line(spdlog::level::warn, "cannot make a stream of a client: {}", e.what());
          return self->accept(executor, std::move(own)); // the next client
        }
        std::move(own)(ec, std::move(made));
      },
      std::move(handler)));
}

void start_accept_stream(const boost::asio::any_io_executor& executor, stream_acceptor_core* core,
  stream_acceptor_core::handler_type handler)
{
  start_or_refuse(core, executor, std::move(handler), &stream_acceptor_core::accept);
}

} // namespace rdma::detail
