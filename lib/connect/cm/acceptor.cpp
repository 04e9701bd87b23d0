//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/cm/acceptor_impl.hpp"

#include "completion/handler_slot.hpp"
#include "completion/shared_receive_core.hpp"
#include "connect/cm/errors.hpp"
#include "connect/log.hpp"
#include "resource/domain_impl.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

namespace rdma::cm::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using rdma::detail::connection_service;
using rdma::detail::device_impl;
using rdma::detail::log_if_possible;
using rdma::detail::log_line;
using rdma::detail::unclaimed_queue_pair;

namespace {

// Returns the devices to listen on: on all addresses also the software device beside a NIC, unless
// the program has chosen one.
std::vector<const device_impl*> devices_of(
  const protection_domain& domain, const tcp::endpoint& endpoint, const queue_pair_options& options)
{
  if (options.receives)
    return {&options.receives->completions().device()};
  const auto& impl = *domain.impl();
  std::vector<const device_impl*> found{
    &impl.find_device(options.device, "cannot listen by RDMA-CM")};
  const device_impl* const software = impl.device_at(rdma::detail::software_index);
  if (options.device.empty() && endpoint.address().is_unspecified() && software != nullptr
    && software != found.front())
    found.push_back(software);
  return found;
}

} // namespace

std::shared_ptr<acceptor_core> acceptor_core::make(const asio::any_io_executor& executor,
  const asio::any_io_executor& inner, const protection_domain& domain,
  const tcp::endpoint& endpoint, const acceptor_options& options, error_code& ec)
{
  ec = {};
  try
  {
    auto made = std::make_shared<acceptor_impl>(options);
    connection_service& service = connection_service::of(inner);
    for (const device_impl* device : devices_of(domain, endpoint, options.queue_pair))
    {
      event_channel* channel = event_channel::of(service, device->kind(), ec);
      if (channel == nullptr)
        return nullptr;
      acceptor_settings settings{inner, inner == executor, domain, options, *device};
      if (!options.queue_pair.receives)
        settings.options.queue_pair.device = device->name();
      made->add(std::make_shared<const acceptor_settings>(std::move(settings)), *channel);
    }
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

acceptor_impl::acceptor_impl(const acceptor_options& options)
  : accept_queue(std::numeric_limits<std::size_t>::max()) // at most one for each withdrawn accept
  , options_(options)
{
}

void acceptor_impl::add(std::shared_ptr<const acceptor_settings> settings, event_channel& channel)
{
  listeners_.emplace_back(*this, std::move(settings), channel);
}

void acceptor_impl::listen(const tcp::endpoint& endpoint, error_code& ec)
{
  std::lock_guard lock(mutex_);
  for (int attempt = 0; attempt != port_attempts_max; ++attempt)
  {
    ec = {};
    tcp::endpoint wanted = endpoint;
    for (listener& each : listeners_)
    {
      try_listen(each, wanted, ec);
      if (ec)
        break;
      if (&each == &listeners_.front())
        local_ = endpoint_of(each.id->route.addr.src_storage);
      wanted.port(local_.port());
    }
    open_ = !ec;
    if (endpoint.port() != 0 || ec != asio::error::address_in_use)
      return;
  }
}

void acceptor_impl::try_listen(listener& at, const tcp::endpoint& endpoint, error_code& ec)
{
  const acceptor_settings& settings = *at.settings;
  unique_id& id = at.id;
  id = at.channel.make_id(at, ec);
  if (ec)
    return;
  int reuse = settings.options.reuse_address ? 1 : 0;
  errno = 0;
  if (id.api().set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof reuse)
    != 0)
    ec = last_cm_error();
  tcp::endpoint wanted = endpoint; // librdmacm requires it writable
  if (!ec && id.api().bind_addr(id.get(), wanted.data()) != 0)
    ec = error_of_binding();
  // An id that is bound to an address has its device. Otherwise each client's id has one.
  if (!ec && id->verbs != nullptr
    && std::strcmp(id->verbs->device->name, settings.device.native()->device->name) != 0)
    ec = error::other_device;
  if (!ec && id.api().listen(id.get(), static_cast<int>(settings.options.requests_max)) != 0)
    ec = last_cm_error();
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
    std::list<unclaimed_queue_pair> unclaimed; // closed without the mutex
    const lock_type lock(mutex_);
    unclaimed = close_queue(lock);
    // On the service's thread, because an event of the id may be on its way to this acceptor.
    const bool listens =
      std::ranges::any_of(listeners_, [](const listener& each) { return bool(each.id); });
    if (listens && !std::exchange(stops_, true))
      asio::post(io(),
        asio::bind_allocator(rdma::detail::slot_allocator<void>(stop_slot_),
          [self = self()] { self->stop_listening(); }));
  }
  cancel();
}

void acceptor_impl::stop_listening()
{
  std::list<waiting_client> pending; // rejected without the mutex
  {
    const lock_type lock(mutex_);
    pending.swap(pending_);
  }
  for (const waiting_client& each : pending)
    each.link->reject({});
  for (listener& each : listeners_)
  {
    unique_id id; // destroyed without the mutex
    const lock_type lock(mutex_);
    id = std::move(each.id);
  }
}

void acceptor_impl::abandon() noexcept
{
  contents operations; // destroyed without the mutex
  const lock_type lock(mutex_);
  operations = abandon_queue(lock);
  for (listener& each : listeners_)
    each.id.reset();
  pending_.clear();
}

void acceptor_impl::post_serve()
{
  asio::post(io(), [self = self()] { self->serve(); });
}

void acceptor_impl::on_event(listener& at, const event& what)
{
  if (what.type != RDMA_CM_EVENT_CONNECT_REQUEST)
  {
    log_line(spdlog::level::warn, "RDMA-CM: event on listening port {}: {}", local_.port(),
      at.channel.api().event_str(what.type));
    if (what.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
      close(); // the device's removal waits for it
    return;
  }
  unique_id id = at.channel.adopt(what.id); // first, as the allocations below may fail
  std::list<waiting_client> arrived;
  arrived.push_back({std::make_shared<connection>(at.channel), &at});
  connection& link = *arrived.front().link;
  link.requested(what, std::move(id));
  {
    std::lock_guard lock(mutex_);
    std::erase_if(pending_, [](const auto& each) { return !each.link->is_waiting(); });
    if (open_ && pending_.size() < options_.requests_max)
      pending_.splice(pending_.end(), arrived);
  }
  if (!arrived.empty())
  {
    log_if_possible(
      [&]
      {
        log_line(spdlog::level::info, "RDMA-CM: too many requests on port {}: rejected {}",
          local_.port(), link.peer().address().to_string());
      });
    return link.reject({});
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
    const auto [link, at] = std::move(pending_.front());
    pending_.pop_front();
    if (!link->is_waiting())
      continue; // the client did not wait
    if (auto operation = take_first<request>(lock); !operation.empty())
    {
      lock.unlock();
      std::move(operation.front().handler)
        .complete(error_code{}, std::make_shared<held_request>(link, at->settings, at->channel));
      continue;
    }
    accepting_++;
    lock.unlock();
    error_code ec;
    unclaimed_queue_pair made = at->settings->make_queue_pair(ec);
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
      log_if_possible(
        [&]
        {
          log_line(spdlog::level::warn, "RDMA-CM: cannot create a queue pair for {}: {}",
            link->peer().address().to_string(), ec.message());
        });
      link->reject({});
      finished({}, ec);
      continue;
    }
    link->accept(core, options_.data, options_.handshake_timeout, std::move(outcome));
  }
}

void acceptor_impl::finished(unclaimed_queue_pair queue_pair, const error_code& ec)
{
  lock_type lock(mutex_);
  accepting_--;
  if (!ec)
    return deliver(std::move(lock), queue_pair);
  lock.unlock();
  log_if_possible(
    [&]
    {
      log_line(
        spdlog::level::info, "RDMA-CM: cannot accept on port {}: {}", local_.port(), ec.message());
    });
  post_serve(); // the operation gets the next client
}

} // namespace rdma::cm::detail
