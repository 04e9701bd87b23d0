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

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace rdma::cm::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using rdma::detail::connection_service;
using rdma::detail::log_line;
using rdma::detail::unclaimed_queue_pair;
using rdma::detail::waiting_handler;

namespace {

// For the acceptor's own accepts.
class accept_outcome final : public connection_outcome
{
public:
  accept_outcome(std::weak_ptr<acceptor_impl> acceptor, unclaimed_queue_pair queue_pair)
    : acceptor_(std::move(acceptor))
    , queue_pair_(std::move(queue_pair))
  {
  }
  void done(const error_code& ec, const private_data&) override
  {
    if (const auto acceptor = acceptor_.lock())
      acceptor->finished(std::move(queue_pair_), ec);
  }

private:
  std::weak_ptr<acceptor_impl> acceptor_;
  unclaimed_queue_pair queue_pair_;
};

} // namespace

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
    if (device.kind() == device_kind::software)
    {
      ec = error::no_connection_manager;
      return nullptr;
    }
    connection_service& service = connection_service::of(inner);
    event_channel* channel = event_channel::of(service, ec);
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
    ec = e.code(); // no such device, or no thread to be had
  }
  return nullptr;
}

acceptor_impl::acceptor_impl(
  std::shared_ptr<const acceptor_settings> settings, event_channel& channel)
  : settings_(std::move(settings))
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
  tcp::endpoint wanted = endpoint; // librdmacm wants it writable
  if (!ec && id_.api().bind_addr(id_.get(), wanted.data()) != 0)
    ec = error_of_binding();
  // Bound to an address, it has the address's device; bound to none, each client brings one.
  if (!ec && id_->verbs != nullptr
    && std::strcmp(id_->verbs->device->name, settings_->device.native()->device->name) != 0)
    ec = error::other_device;
  if (!ec && id_.api().listen(id_.get(), static_cast<int>(settings_->options.requests_max)) != 0)
    ec = last_cm_error();
  if (!ec)
    local_ = endpoint_of(id_->route.addr.src_storage);
}

bool acceptor_impl::is_open() const
{
  std::lock_guard lock(mutex_);
  return static_cast<bool>(id_);
}

template <class Handler>
void acceptor_impl::assign_slot(Handler& handler, std::uint64_t number)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  if (slot.is_connected())
    slot.assign(
      [weak = weak_from_this(), number](asio::cancellation_type type)
      {
        if (const auto self = weak.lock(); self && type != asio::cancellation_type::none)
          self->withdraw(number);
      });
}

void acceptor_impl::accept(const asio::any_io_executor& executor, accept_handler_type handler)
{
  if (process_.foreign()) // before the mutex: the parent's thread may have held it
    return waiting_handler<std::shared_ptr<queue_pair_core>>(executor, std::move(handler))
      .complete(error::forked, nullptr);
  std::unique_lock lock(mutex_);
  const std::uint64_t number = ++last_number_;
  // Before anybody else can see the accept: slots are for the thread that initiates.
  assign_slot(handler, number);
  waiting_handler<std::shared_ptr<queue_pair_core>> waiting(executor, std::move(handler));
  if (!id_)
  {
    lock.unlock();
    return std::move(waiting).complete(error::closed, nullptr);
  }
  while (!finished_.empty())
  {
    unclaimed_queue_pair next = std::move(finished_.front());
    finished_.pop_front();
    if (!next->is_connected())
      continue; // the client did not wait
    lock.unlock();
    return std::move(waiting).complete(error_code{}, next.release());
  }
  post_serve(); // first, as it may throw; serve() waits for the mutex
  accepts_.add(number, std::move(waiting));
}

void acceptor_impl::get_request(const asio::any_io_executor& executor, request_handler_type handler)
{
  if (process_.foreign())
    return waiting_handler<std::shared_ptr<request_core>>(executor, std::move(handler))
      .complete(error::forked, nullptr);
  std::unique_lock lock(mutex_);
  const std::uint64_t number = ++last_number_;
  assign_slot(handler, number);
  waiting_handler<std::shared_ptr<request_core>> waiting(executor, std::move(handler));
  if (!id_)
  {
    lock.unlock();
    return std::move(waiting).complete(error::closed, nullptr);
  }
  post_serve();
  requests_.add(number, std::move(waiting));
}

void acceptor_impl::withdraw(std::uint64_t number)
{
  std::unique_lock lock(mutex_);
  auto accepts = accepts_.take(number);
  auto requests = requests_.take(number);
  lock.unlock();
  for (auto& each : accepts)
    std::move(each.handler).complete(asio::error::operation_aborted, nullptr);
  for (auto& each : requests)
    std::move(each.handler).complete(asio::error::operation_aborted, nullptr);
}

void acceptor_impl::cancel()
{
  if (process_.foreign())
    return;
  std::unique_lock lock(mutex_);
  end_waiting(lock, asio::error::operation_aborted);
}

// Unlocks.
void acceptor_impl::end_waiting(std::unique_lock<std::mutex>& lock, const error_code& ec)
{
  auto accepts = accepts_.take_all();
  auto requests = requests_.take_all();
  lock.unlock();
  for (auto& each : accepts)
    std::move(each.handler).complete(ec, nullptr);
  for (auto& each : requests)
    std::move(each.handler).complete(ec, nullptr);
}

void acceptor_impl::end_in_child()
{
  // The parent's thread may have held it, which is not here to free it. The operations then end
  // with the io_context.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock)
    end_waiting(lock, error::forked);
}

void acceptor_impl::close()
{
  if (process_.foreign())
    return; // it is the parent's
  {
    std::lock_guard lock(mutex_);
    // On the service's thread, where an event may be on its way to us.
    if (id_)
      asio::post(channel_.io(),
        [self = shared_from_this(), id = std::move(id_), asking = std::exchange(asking_, {}),
          finished = std::exchange(finished_, {})]
        {
          for (const auto& each : asking)
            each->reject({});
        });
  }
  cancel();
}

void acceptor_impl::abandon() noexcept
{
  rdma::detail::waiting_list<std::shared_ptr<queue_pair_core>> accepts;
  rdma::detail::waiting_list<std::shared_ptr<request_core>> requests;
  std::deque<unclaimed_queue_pair> finished;
  std::lock_guard lock(mutex_); // freed before the three above are destroyed: that may call us
  id_.reset();
  std::swap(accepts, accepts_);
  std::swap(requests, requests_);
  std::swap(finished, finished_);
  asking_.clear();
}

void acceptor_impl::post_serve()
{
  asio::post(channel_.io(), [self = shared_from_this()] { self->serve(); });
}

void acceptor_impl::on_event(const event& what)
{
  if (what.type != RDMA_CM_EVENT_CONNECT_REQUEST)
  {
    log_line(spdlog::level::warn, "RDMA-CM: event on listening port {}: {}", local_.port(),
      verbs::system_cm().functions->event_str(what.type));
    if (what.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
      close(); // the device's removal waits for it
    return;
  }
  unique_id id = channel_.adopt(what.id); // first: it may not get lost for want of memory
  auto link = std::make_shared<connection>(channel_);
  link->requested(what, std::move(id));
  {
    std::lock_guard lock(mutex_);
    std::erase_if(asking_, [](const auto& each) { return !each->is_waiting(); });
    if (id_ && asking_.size() < settings_->options.requests_max)
      asking_.push_back(std::exchange(link, nullptr));
  }
  if (link)
  {
    log_line(spdlog::level::info, "RDMA-CM: too many requests on port {}: rejected {}",
      local_.port(), link->peer().address().to_string());
    return link->reject({});
  }
  serve();
}

// Matches those who ask with those who wait.
void acceptor_impl::serve()
{
  for (;;)
  {
    std::unique_lock lock(mutex_);
    if (asking_.empty() || (requests_.empty() && accepting_ >= accepts_.size()))
      return;
    const auto link = std::move(asking_.front());
    asking_.pop_front();
    if (!link->is_waiting())
      continue; // the client did not wait
    if (auto waiting = requests_.take_front(); !waiting.empty())
    {
      lock.unlock();
      std::move(waiting.front().handler)
        .complete(error_code{}, std::make_shared<held_request>(link, settings_, channel_));
      continue;
    }
    accepting_++;
    lock.unlock();
    error_code ec;
    unclaimed_queue_pair made = settings_->make_queue_pair(ec);
    const auto core = made.get();
    std::unique_ptr<accept_outcome> outcome;
    try
    {
      if (!ec)
        outcome = std::make_unique<accept_outcome>(weak_from_this(), std::move(made));
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
  std::unique_lock lock(mutex_);
  accepting_--;
  if (ec)
  {
    lock.unlock();
    log_line(
      spdlog::level::info, "RDMA-CM: cannot accept on port {}: {}", local_.port(), ec.message());
    return post_serve(); // whoever waits gets the next one
  }
  if (!id_)
    return; // closed: so is the queue pair
  auto waiting = accepts_.take_front();
  if (waiting.empty())
    return finished_.push_back(
      std::move(queue_pair)); // its accept was withdrawn; at most as many as those
  lock.unlock();
  std::move(waiting.front().handler).complete(error_code{}, queue_pair.release());
}

} // namespace rdma::cm::detail
