//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/client_stream.hpp"

#include "boost_rdma/detail/mapped_handler.hpp"
#include "completion/queue_pair_core.hpp"
#include "completion/waiting_handler.hpp"
#include "resource/domain_impl.hpp"

#include <boost/asio/error.hpp>

#include <new>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

std::shared_ptr<stream_core> stream_core::make_client(const io_executor& executor,
  const io_executor& inner, const protection_domain& domain, const stream_options& options,
  const queue_pair_options& queue_pair)
{
  const bool uses_rdma = options.transports != stream_transports::tcp;
  if (const error_code ec = check(options, queue_pair); ec && uses_rdma)
    throw system_error(ec, "cannot make a stream");
  return std::make_shared<client_stream>(
    stream_client{executor, inner,
      [made = queue_pair_settings{inner, inner == executor, domain, queue_pair}] { return made; },
      options.transports != stream_transports::tcp, options.transports != stream_transports::rdma},
    domain.impl()->devices(), options);
}

client_stream::client_stream(
  stream_client with, std::shared_ptr<device_set> devices, const stream_options& options)
  : with_(std::move(with))
  , devices_(std::move(devices))
  , options_(options)
{
}

// Returns null with an error.
std::shared_ptr<stream_connect> client_stream::begin(error_code& ec)
try
{
  ec = error::forked;
  if (process_.foreign())
    return nullptr;
  const std::lock_guard lock(mutex_);
  ec = {};
  if (closed_)
    ec = error::closed;
  else if (stream_ || attempt_)
    ec = error::already_connected;
  else
    attempt_ = std::make_shared<stream_connect>(with_);
  return ec ? nullptr : attempt_;
}
catch (const system_error& e)
{
  ec = e.code();
  return nullptr;
}

void client_stream::connect(const endpoint_type& server, error_code& ec)
{
  const std::shared_ptr<stream_connect> attempt = begin(ec);
  if (ec)
    return;
  connected_peer made;
  try
  {
    made = attempt->run(server, ec);
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  ec = connected(ec, std::move(made));
}

void client_stream::connect(
  const io_executor& executor, const endpoint_type& server, plain_handler handler)
{
  error_code ec;
  const std::shared_ptr<stream_connect> attempt = begin(ec);
  if (ec)
    return waiting_handler<>(executor, std::move(handler)).complete(ec);
  try
  {
    attempt->start(server,
      map_handler(
        [self = shared_from_this()](auto own, const error_code& failure, connected_peer peer)
        { std::move(own)(self->connected(failure, std::move(peer))); },
        std::move(handler)));
  }
  catch (...)
  {
    const std::lock_guard lock(mutex_);
    attempt_ = nullptr;
    throw;
  }
}

error_code client_stream::connected(const error_code& ec, connected_peer peer)
{
  const std::lock_guard lock(mutex_);
  attempt_ = nullptr; // after an error, the program may try again
  if (ec || closed_)
  {
    if (peer.queue_pair)
      peer.queue_pair->close();
    return ec ? ec : make_error_code(asio::error::operation_aborted);
  }
  try
  {
    stream_ = make(std::move(peer), options_, devices_);
    ready_.store(stream_.get(), std::memory_order_release);
    return {};
  }
  catch (const system_error& e)
  {
    return e.code();
  }
  catch (const std::bad_alloc&)
  {
    return asio::error::no_memory;
  }
}

void client_stream::read_some(
  const io_executor& executor, const targets& to, size_handler handler, bool on_executor)
{
  if (stream_core* const made = stream())
    return made->read_some(executor, to, std::move(handler), on_executor);
  waiting_handler<std::size_t>(executor, std::move(handler)).complete(why_not(), 0);
}

void client_stream::write_some(
  const io_executor& executor, const sources& from, size_handler handler, bool on_executor)
{
  if (stream_core* const made = stream())
    return made->write_some(executor, from, std::move(handler), on_executor);
  waiting_handler<std::size_t>(executor, std::move(handler)).complete(why_not(), 0);
}

void client_stream::wait(
  const io_executor& executor, wait_type what, plain_handler handler, bool on_executor)
{
  if (stream_core* const made = stream())
    return made->wait(executor, what, std::move(handler), on_executor);
  waiting_handler<>(executor, std::move(handler)).complete(why_not());
}

std::size_t client_stream::read_some(const targets& to, bool waits, error_code& ec)
{
  if (stream_core* const made = stream())
    return made->read_some(to, waits, ec);
  ec = why_not();
  return 0;
}

std::size_t client_stream::write_some(const sources& from, bool waits, error_code& ec)
{
  if (stream_core* const made = stream())
    return made->write_some(from, waits, ec);
  ec = why_not();
  return 0;
}

void client_stream::wait(wait_type what, bool waits, error_code& ec)
{
  if (stream_core* const made = stream())
    return made->wait(what, waits, ec);
  ec = why_not();
}

stream_core::sources client_stream::peek()
{
  stream_core* const made = stream();
  return made != nullptr ? made->peek() : sources();
}

std::shared_ptr<queue_pair_core> client_stream::queue_pair() const
{
  const stream_core* const made = stream();
  return made != nullptr ? made->queue_pair() : nullptr;
}

void client_stream::consume(std::size_t size)
{
  if (stream_core* const made = stream())
    made->consume(size);
}

std::size_t client_stream::available() const
{
  const stream_core* const made = stream();
  return made != nullptr ? made->available() : 0;
}

bool client_stream::is_open() const
{
  const stream_core* const made = stream();
  return made != nullptr ? made->is_open() : !closed_;
}

transport_choice client_stream::transport() const
{
  const stream_core* const made = stream();
  return made != nullptr ? made->transport() : transport_choice();
}

stream_core::endpoint_type client_stream::local_endpoint() const
{
  const stream_core* const made = stream();
  return made != nullptr ? made->local_endpoint() : endpoint_type();
}

stream_core::endpoint_type client_stream::remote_endpoint() const
{
  const stream_core* const made = stream();
  return made != nullptr ? made->remote_endpoint() : endpoint_type();
}

void client_stream::shut_down(error_code& ec)
{
  if (stream_core* const made = stream())
    made->shut_down(ec);
  else
    ec = why_not();
}

error_code client_stream::why_not() const noexcept
{
  return closed_.load(std::memory_order_relaxed) ? error::closed : error::not_connected;
}

std::shared_ptr<stream_connect> client_stream::take_attempt(bool closes)
{
  if (process_.foreign())
    return nullptr; // a thread of the parent may hold the mutex
  const std::lock_guard lock(mutex_);
  if (closes)
    closed_.store(true, std::memory_order_relaxed);
  return attempt_;
}

void client_stream::cancel()
{
  if (const auto attempt = take_attempt(false))
    attempt->cancel();
  if (stream_core* const made = stream())
    made->cancel();
}

void client_stream::close()
{
  if (const auto attempt = take_attempt(true))
    attempt->cancel();
  if (stream_core* const made = stream())
    made->close();
}

void client_stream::abort()
{
  if (stream_core* const made = stream())
    made->abort();
  close();
}

} // namespace rdma::detail
