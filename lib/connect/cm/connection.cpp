//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/cm/connection.hpp"

#include "completion/inbox.hpp"
#include "connect/cm/errors.hpp"
#include "connect/log.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace rdma::cm::detail {

namespace asio = boost::asio;
using rdma::detail::log_if_possible;
using rdma::detail::log_line;
using steady_clock = std::chrono::steady_clock;

namespace {

// How long, and at which interval, an end waits for acknowledgements that are in transit.
constexpr std::chrono::milliseconds drain_time_max{250};
constexpr std::chrono::milliseconds drain_step{2};

// How long an id waits for the answer to a disconnect request: the id repeats a lost DREQ (IBA
// 12.9.8).
constexpr std::chrono::seconds linger_time_max{1};

// Describes an attempt to connect for diagnose(). Without memory, the text is empty.
std::string text_of_attempt(bool accepts, const asio::ip::tcp::endpoint& peer) noexcept
try
{
  return accepts ? "accepting " + peer.address().to_string()
                 : "connecting to " + rdma::detail::text_of(peer);
}
catch (const std::bad_alloc&)
{
  return {};
}

} // namespace

// Passes orders from any thread.
class connection::sender
{
public:
  explicit sender(connection& link)
    : inbox_(link.channel_.service_inbox())
    , link_(link.weak_from_this())
    , orders_(link.orders_)
  {
  }

  void post(order what) const noexcept { post(static_cast<unsigned>(what)); }

  // acq_rel: the function sees what was written before the order, and the slot is free after it
  void post(unsigned which) const noexcept
  {
    if (orders_->pending.fetch_or(which, std::memory_order_acq_rel) != 0)
      return;
    inbox_->post(asio::bind_allocator(rdma::detail::slot_allocator<void>(orders_->slot),
      [link = link_, orders = orders_]
      {
        const unsigned all = orders->pending.exchange(0, std::memory_order_acq_rel);
        if (const auto self = link.lock())
          self->carry_out(all);
      }));
  }

private:
  const std::shared_ptr<rdma::detail::inbox> inbox_;
  const std::weak_ptr<connection> link_;
  const std::shared_ptr<orders> orders_;
};

class connection::guard final : public rdma::detail::connection_guard
{
public:
  explicit guard(connection& link)
    : to_(link)
  {
  }
  // A queue pair may end without close().
  ~guard() override
  {
    to_.post(static_cast<unsigned>(order::stop) | static_cast<unsigned>(order::release));
  }
  void close() noexcept override { to_.post(order::stop); }
  void finish() noexcept override { to_.post(order::finish); }

private:
  const sender to_;
};

connection::connection(event_channel& channel)
  : channel_(channel)
  , timer_(channel.io())
{
}

bool connection::adopt(const std::shared_ptr<queue_pair_core>& core)
{
  core_ = core;
  return core->attach(std::make_shared<guard>(*this));
}

void connection::post_cancel(connection& link)
{
  sender(link).post(order::cancel);
}

void connection::post_reject(connection& link, const private_data& reason)
{
  link.orders_->reason = reason;
  sender(link).post(order::reject);
}

void connection::carry_out(unsigned which)
{
  const auto wanted = [which](order what) { return (which & static_cast<unsigned>(what)) != 0; };
  if (wanted(order::cancel) && in_handshake())
    fail(asio::error::operation_aborted);
  if (wanted(order::reject))
    reject(orders_->reason);
  if (wanted(order::finish))
    finish();
  if (wanted(order::stop))
    stop();
  if (wanted(order::release))
    release();
}

bool connection::in_handshake() const noexcept
{
  return stage_ == stage::connecting || stage_ == stage::accepting;
}

const rdma::detail::device_traits& connection::traits() const noexcept
{
  return rdma::detail::connection_manager_traits(*id_->verbs->device);
}

int connection::remaining_ms() const
{
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - steady_clock::now());
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 1, 3'600'000));
}

void connection::set_deadline(std::chrono::milliseconds time_limit)
{
  deadline_ = steady_clock::now() + time_limit;
  timer_.expires_at(deadline_);
  timer_.async_wait(
    [link = weak_from_this()](const error_code& ec)
    {
      const auto self = link.lock();
      if (!ec && self && self->in_handshake())
        self->fail(error::handshake_timeout);
    });
}

void connection::reject(const private_data& reason)
{
  if (stage_ != stage::requested)
    return;
  stage_ = stage::ended;
  const std::size_t size = traits().private_data_of_any_size
    ? reason.size()
    : std::min(reason.size(), private_data::reject_size_max);
  if (id_.api().reject(id_.get(), reason.bytes().data(), static_cast<std::uint8_t>(size)) != 0)
    log_if_possible(
      [&]
      {
        log_line(spdlog::level::debug, "RDMA-CM: rejecting {}: {}", peer_.address().to_string(),
          last_cm_error().message());
      });
  release();
}

void connection::on_event(const event& what)
{
  const auto self = shared_from_this();
  const bool given_up = std::exchange(answer_due_, false) && stage_ == stage::ended;
  if (given_up)
  {
    id_.reset();
    if (released_)
      release();
    return;
  }
  switch (what.type)
  {
  case RDMA_CM_EVENT_TIMEWAIT_EXIT:
  case RDMA_CM_EVENT_ADDR_CHANGE:
    return; // neither ends a connection
  case RDMA_CM_EVENT_DEVICE_REMOVAL:
    if (stage_ == stage::established || stage_ == stage::disconnecting)
    {
      stage_ = stage::ended;
      if (const auto core = core_.lock())
        core->disconnect(error::device_lost);
      id_.reset(); // the device's removal waits for it
      return;
    }
    break;
  default:
    break;
  }
  switch (stage_)
  {
  case stage::connecting:
  case stage::accepting:
    return step(what);
  case stage::requested:
    log_if_possible(
      [&]
      {
        log_line(spdlog::level::debug, "RDMA-CM: {} ended its request before the answer: {}",
          peer_.address().to_string(), id_.api().event_str(what.type));
      });
    stage_ = stage::ended;
    return release();
  case stage::established:
  case stage::disconnecting:
    if (what.type == RDMA_CM_EVENT_DISCONNECTED)
      on_disconnected();
    return;
  case stage::idle:
  case stage::ended:
    return;
  }
}

void connection::step(const event& what)
try
{
  error_code ec;
  switch (what.type)
  {
  case RDMA_CM_EVENT_ADDR_RESOLVED:
    resolve_route(ec);
    break;
  case RDMA_CM_EVENT_ROUTE_RESOLVED:
    request(ec);
    break;
  case RDMA_CM_EVENT_CONNECT_RESPONSE:
    respond(ec);
    if (!ec)
      succeed(what.data);
    break;
  case RDMA_CM_EVENT_ESTABLISHED:
    if (const auto core = core_.lock(); core && traits().connection_manager_moves)
      core->note_connected(endpoint_of(id_->route.addr.src_storage).address(), peer_.address(),
        stage_ == stage::accepting ? queue_pair_core::side::first : queue_pair_core::side::last);
    succeed(what.data);
    break;
  default:
    ec = error_of_failure(what);
    if (stage_ == stage::accepting && what.type == RDMA_CM_EVENT_REJECTED)
      ec = error::peer_lost; // a client rejects if it has given up
    log_if_possible(
      [&]
      {
        log_line(spdlog::level::info, "RDMA-CM: {} {}: {}, status {}: {}",
          stage_ == stage::connecting ? "connecting to" : "accepting", peer_.address().to_string(),
          id_.api().event_str(what.type), what.status, ec.message());
      });
    return fail(ec, what.data);
  }
  if (ec)
    fail(ec);
}
catch (const std::bad_alloc&)
{
  if (!in_handshake())
    throw;
  fail(asio::error::no_memory);
}

void connection::succeed(const private_data& data)
{
  stage_ = stage::established;
  timer_.cancel();
  report({}, data);
}

void connection::fail(const error_code& ec, const private_data& data)
{
  const auto self = shared_from_this();
  const std::string operation = text_of_attempt(stage_ == stage::accepting, peer_);
  stage_ = stage::ended;
  timer_.cancel();
  if (!answer_due_)
    id_.reset();
  if (const auto core = core_.lock())
    core->disconnect(ec, {}, operation); // it connects once
  else
    release();
  report(ec, data);
}

void connection::report(const error_code& ec, const private_data& data)
{
  if (connection_outcome outcome = std::move(outcome_))
    std::move(outcome)(ec, data);
}

// The queue pair was closed, or has ended otherwise.
void connection::stop()
{
  if (in_handshake())
  {
    const auto core = core_.lock();
    return fail(core ? core->end_reason() : asio::error::operation_aborted);
  }
  if (stage_ != stage::established)
    return;
  stage_ = stage::disconnecting;
  timer_.cancel();
  if (id_.api().disconnect(id_.get()) != 0)
    stage_ = stage::ended; // the connection has ended already
}

// All that this side sent has arrived. RDMA-CM cannot ask for the same of the peer.
void connection::finish()
{
  stop();
  if (const auto core = core_.lock())
    core->end_orderly();
}

// The peer has disconnected, or has answered the disconnect request of this side.
void connection::on_disconnected()
{
  const bool ours = stage_ == stage::disconnecting;
  stage_ = stage::ended;
  if (ours)
  {
    if (released_)
      release();
    return;
  }
  id_.api().disconnect(id_.get()); // the answer; the peer may be gone
  // The disconnect request may overtake acknowledgements of sends that the peer has received.
  wait_for_sends(steady_clock::now() + drain_time_max);
}

void connection::wait_for_sends(steady_clock::time_point end)
{
  const auto core = core_.lock();
  if (!core)
    return;
  if (!core->progress_of_sends().outstanding || steady_clock::now() >= end)
    return core->disconnect(error::peer_closed);
  timer_.expires_after(drain_step);
  try
  {
    timer_.async_wait(
      [self = shared_from_this(), end](const error_code& ec)
      {
        if (!ec)
          self->wait_for_sends(end);
      });
  }
  catch (const std::bad_alloc&)
  {
    core->disconnect(error::peer_closed); // nothing would end the wait
  }
}

// The queue pair was destroyed, so the id can be destroyed (rdma_destroy_id(3)).
void connection::release()
{
  const auto self = shared_from_this();
  if (stage_ == stage::established || in_handshake())
    stop(); // the queue pair was not closed before
  if (!std::exchange(released_, true) && stage_ == stage::disconnecting)
    try
    {
      timer_.expires_after(linger_time_max);
      return timer_.async_wait([self](const error_code&) { self->release(); });
    }
    catch (const std::bad_alloc&)
    {
      // A lost disconnect request is not repeated then.
    }
  stage_ = stage::ended;
  timer_.cancel();
  if (answer_due_)
    return; // iwcm's iw_destroy_cm_id() would block this thread until the peer answers
  id_.reset();
  channel_.drop(self);
}

} // namespace rdma::cm::detail
