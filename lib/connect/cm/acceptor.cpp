//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/cm/acceptor_impl.hpp"

#include "completion/shared_receive_core.hpp"
#include "connect/cm/errors.hpp"
#include "connect/log.hpp"
#include "resource/domain_impl.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace rdma::cm::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using rdma::detail::connection_service;
using rdma::detail::log_line;
using rdma::detail::unclaimed_queue_pair;

std::shared_ptr<acceptor_core> acceptor_core::make(const asio::any_io_executor& executor,
  const asio::any_io_executor& inner, const protection_domain& domain,
  const tcp::endpoint& endpoint, const acceptor_options& options, error_code& ec)
{
  ec = {};
  try
  {
    const auto& receives = options.queue_pair.receives;
    const auto& device = receives
      ? receives->completions().device()
      : domain.impl()->find_device(options.queue_pair.device, "cannot listen by RDMA-CM");
    connection_service& service = connection_service::of(inner);
    event_channel* channel = event_channel::of(service, device.kind(), ec);
    if (channel == nullptr)
      return nullptr;
    auto made = std::make_shared<acceptor_impl>(
      std::make_shared<const acceptor_settings>(
        acceptor_settings{inner, inner == executor, domain, options, device}),
      *channel);
    service.add(made);
    made->listen(endpoint, ec);
    if (!ec)
      return made;
    made->close();
  }
  catch (const system_error& e)
  {
    ec = e.code(); // no such device, or no thread could be started
  }
  return nullptr;
}

acceptor_impl::acceptor_impl(
  std::shared_ptr<const acceptor_settings> settings, event_channel& channel)
  : accept_queue(std::numeric_limits<std::size_t>::max()) // at most one for each withdrawn accept
  , settings_(std::move(settings))
  , channel_(channel)
{
}

void acceptor_impl::listen(const tcp::endpoint& endpoint, error_code& ec)
{
  std::lock_guard lock(mutex_);
  for (int attempt = 0; attempt != port_attempts_max; ++attempt)
  {
    ec = {};
    try_listen(endpoint, ec);
    if (endpoint.port() != 0 || ec != asio::error::address_in_use)
      return;
  }
}

void acceptor_impl::try_listen(const tcp::endpoint& endpoint, error_code& ec)
{
  id_ = channel_.make_id(*this, ec);
  if (ec)
    return;
  int reuse = settings_->options.reuse_address ? 1 : 0;
  errno = 0;
  if (id_.api().set_option(
        id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof reuse)
    != 0)
    ec = last_cm_error();
  tcp::endpoint wanted = endpoint; // librdmacm requires it writable
  if (!ec && id_.api().bind_addr(id_.get(), wanted.data()) != 0)
    ec = error_of_binding();
  // An id that is bound to an address has its device. Otherwise each client's id has one.
  if (!ec && id_->verbs != nullptr
    && std::strcmp(id_->verbs->device->name, settings_->device.native()->device->name) != 0)
    ec = error::other_device;
  if (!ec && id_.api().listen(id_.get(), static_cast<int>(settings_->options.requests_max)) != 0)
    ec = last_cm_error();
  if (!ec)
    local_ = endpoint_of(id_->route.addr.src_storage);
  open_ = !ec;
}

void acceptor_impl::get_request(const asio::any_io_executor& executor, request_handler_type handler)
{
  start<std::shared_ptr<request_core>>(executor, std::move(handler));
}

void acceptor_impl::close()
{
  if (process_.foreign())
    return; // it belongs to the parent
  {
    std::deque<unclaimed_queue_pair> unclaimed; // closed without the mutex
    const lock_type lock(mutex_);
    unclaimed = close_queue(lock);
    // On the service's thread, because an event of the id may be on its way to this acceptor.
    if (id_)
      asio::post(channel_.io(),
        [self = self(), id = std::move(id_), pending = std::exchange(pending_, {})]
        {
          for (const auto& each : pending)
            each->reject({});
        });
  }
  cancel();
}

void acceptor_impl::abandon() noexcept
{
  contents operations; // destroyed without the mutex
  const lock_type lock(mutex_);
  operations = abandon_queue(lock);
  id_.reset();
  pending_.clear();
}

void acceptor_impl::post_serve()
{
  asio::post(channel_.io(), [self = self()] { self->serve(); });
}

void acceptor_impl::on_event(const event& what)
{
  if (what.type != RDMA_CM_EVENT_CONNECT_REQUEST)
  {
    log_line(spdlog::level::warn, "RDMA-CM: event on listening port {}: {}", local_.port(),
      channel_.api().event_str(what.type));
    if (what.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
      close(); // the device's removal waits for it
    return;
  }
  unique_id id = channel_.adopt(what.id); // first, as the allocation below may fail
  auto link = std::make_shared<connection>(channel_);
  link->requested(what, std::move(id));
  {
    std::lock_guard lock(mutex_);
    std::erase_if(pending_, [](const auto& each) { return !each->is_waiting(); });
    if (open_ && pending_.size() < settings_->options.requests_max)
      pending_.push_back(std::exchange(link, nullptr));
  }
  if (link)
  {
    log_line(spdlog::level::info, "RDMA-CM: too many requests on port {}: rejected {}",
      local_.port(), link->peer().address().to_string());
    return link->reject({});
  }
  serve();
}

// Matches clients with waiting operations.
void acceptor_impl::serve()
{
  using request = std::shared_ptr<request_core>;
  for (;;)
  {
    lock_type lock(mutex_);
    if (pending_.empty() || (waiting<request>(lock) == 0 && accepting_ >= waiting<accepted>(lock)))
      return;
    const auto link = std::move(pending_.front());
    pending_.pop_front();
    if (!link->is_waiting())
      continue; // the client did not wait
    if (auto operation = take_first<request>(lock); !operation.empty())
    {
      lock.unlock();
      std::move(operation.front().handler)
        .complete(error_code{}, std::make_shared<held_request>(link, settings_, channel_));
      continue;
    }
    accepting_++;
    lock.unlock();
    error_code ec;
    unclaimed_queue_pair made = settings_->make_queue_pair(ec);
    const auto core = made.get();
    connection_outcome outcome;
    try
    {
      if (!ec)
        connection_outcome(
          [weak = std::weak_ptr(self()), made = std::move(made)](
            const error_code& failure, const private_data&) mutable
          {
            if (const auto acceptor = weak.lock())
              acceptor->finished(std::move(made), failure);
          })
          .swap(outcome);
    }
    catch (const std::bad_alloc&)
    {
      ec = asio::error::no_memory;
    }
    if (ec)
    {
      log_line(spdlog::level::warn, "RDMA-CM: cannot create a queue pair for {}: {}",
        link->peer().address().to_string(), ec.message());
      link->reject({});
      finished({}, ec);
      continue;
    }
    link->accept(
      core, settings_->options.data, settings_->options.handshake_timeout, std::move(outcome));
  }
}

void acceptor_impl::finished(unclaimed_queue_pair queue_pair, const error_code& ec)
{
  lock_type lock(mutex_);
  accepting_--;
  if (!ec)
    return deliver(std::move(lock), queue_pair);
  lock.unlock();
  log_line(
    spdlog::level::info, "RDMA-CM: cannot accept on port {}: {}", local_.port(), ec.message());
  post_serve(); // the operation gets the next client
}

} // namespace rdma::cm::detail
