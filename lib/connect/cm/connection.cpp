//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/cm/connection.hpp"

#include "connect/cm/errors.hpp"
#include "connect/log.hpp"
#include "resource/device_impl.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace rdma::cm::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using rdma::detail::log_line;
using steady_clock = std::chrono::steady_clock;

namespace {

// How long, and at which interval, an end waits for acknowledgements that are in transit.
constexpr std::chrono::milliseconds drain_time_max{250};
constexpr std::chrono::milliseconds drain_step{2};

// How long an id waits for the answer to a disconnect request: the id repeats a lost DREQ (IBA
// 12.9.8).
constexpr std::chrono::seconds linger_time_max{1};

} // namespace

// Passes events of the queue pair from any thread.
class connection::guard final : public rdma::detail::connection_guard
{
public:
  guard(std::shared_ptr<rdma::detail::inbox> to_service, std::weak_ptr<connection> link)
    : inbox_(std::move(to_service))
    , link_(std::move(link))
  {
  }
  // A queue pair may end without close().
  ~guard() override
  {
    post(&connection::stop);
    post(&connection::release);
  }
  void close() noexcept override { post(&connection::stop); }
  void finish() noexcept override { post(&connection::finish); }

private:
  void post(void (connection::*step)())
  {
    inbox_->post(
      [link = link_, step]
      {
        if (const auto self = link.lock())
          ((*self).*step)();
      });
  }

  const std::shared_ptr<rdma::detail::inbox> inbox_;
  const std::weak_ptr<connection> link_;
};

int id_transitions::fill(ibv_qp_attr& attributes, int& mask)
{
  errno = 0;
  if (id_.api().init_qp_attr(id_.get(), &attributes, &mask) == 0)
    return 0;
  peer_left_ = errno == EINVAL;
  return errno != 0 ? errno : EIO;
}

connection::connection(event_channel& channel)
  : channel_(channel)
  , timer_(channel.io())
{
}

bool connection::adopt(const std::shared_ptr<queue_pair_core>& core)
{
  core_ = core;
  return core->attach(std::make_shared<guard>(channel_.service_inbox(), weak_from_this()));
}

void connection::post_cancel(const std::weak_ptr<connection>& link)
{
  if (const auto self = link.lock(); self && !self->channel_.forked())
    asio::post(self->channel_.io(),
      [self]
      {
        if (self->in_handshake())
          self->fail(asio::error::operation_aborted);
      });
}

bool connection::in_handshake() const noexcept
{
  return stage_ == stage::connecting || stage_ == stage::accepting;
}

bool connection::is_iwarp() const noexcept
{
  return id_->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
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

void connection::check_device(error_code& ec) const
{
  const auto core = core_.lock();
  if (!core)
    ec = asio::error::operation_aborted;
  else if (std::strcmp(id_->verbs->device->name, core->device().native()->device->name) != 0)
  {
    ec = error::other_device;
    log_line(spdlog::level::warn, "RDMA-CM: the route to {} uses {}, but the context opened {}",
      peer_.address().to_string(), id_->verbs->device->name, core->device().native()->device->name);
  }
}

// The limit applies to InfiniBand's messages only.
void connection::check_size(std::size_t size_max, error_code& ec) const
{
  if (!ec && !is_iwarp() && data_.size() > size_max)
    ec = error::message_too_large;
}

rdma_conn_param connection::parameters(const queue_pair_core& core) const
{
  const queue_pair_options& options = core.options();
  rdma_conn_param result{};
  result.responder_resources = options.read_atomic_depth;
  result.initiator_depth = options.read_atomic_depth;
  result.flow_control = 1;
  result.retry_count = options.retry_count;
  result.rnr_retry_count = options.rnr_retry_count;
  result.srq = options.receives ? 1 : 0;
  result.qp_num = core.number();
  if (!data_.empty())
  {
    result.private_data = data_.bytes().data();
    result.private_data_len = static_cast<std::uint8_t>(data_.size());
  }
  return result;
}

void connection::connect(const tcp::endpoint& peer, const connect_options& options,
  std::unique_ptr<connection_outcome> outcome)
{
  const auto core = core_.lock();
  if (released_ || !core)
    return outcome->done(asio::error::operation_aborted, {});
  outcome_ = std::move(outcome);
  stage_ = stage::connecting;
  channel_.hold(shared_from_this());
  if (!core->is_open())
    return fail(asio::error::operation_aborted);
  error_code ec;
  try
  {
    peer_ = peer;
    data_ = options.data;
    source_ = options.source;
    set_deadline(core->options().connect_timeout);
    resolve(ec);
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory; // fail() reports the outcome
  }
  if (ec)
    fail(ec);
}

void connection::resolve(error_code& ec)
{
  id_ = channel_.make_id(*this, ec);
  if (ec)
    return;
  tcp::endpoint to = peer_; // librdmacm requires writable addresses
  tcp::endpoint from;
  if (source_)
    from = tcp::endpoint(*source_, 0);
  errno = 0;
  if (id_.api().resolve_addr(id_.get(), source_ ? from.data() : nullptr, to.data(), remaining_ms())
    != 0)
    ec = error_of_resolving();
}

void connection::resolve_route(error_code& ec)
{
  check_device(ec);
  check_size(private_data::connect_size_max, ec);
  errno = 0;
  if (!ec && id_.api().resolve_route(id_.get(), remaining_ms()) != 0)
    ec = error_of_resolving();
}

void connection::request(error_code& ec)
{
  const auto core = core_.lock();
  if (!core)
  {
    ec = asio::error::operation_aborted;
    return;
  }
  id_transitions transitions(id_);
  core->prepare(transitions, ec);
  if (ec)
    return;
  rdma_conn_param wanted = parameters(*core);
  errno = 0;
  if (id_.api().connect(id_.get(), &wanted) == 0)
    answer_due_ = is_iwarp();
  else if (ec = last_cm_error(); ec == asio::error::address_in_use && ports_left_ > 0)
  {
    // RDMA-CM selected the port, and a TCP socket uses it: try another one.
    --ports_left_;
    id_.reset();
    ec = {};
    resolve(ec);
  }
}

// The listener has accepted and waits for the confirmation.
void connection::respond(error_code& ec)
{
  const auto core = core_.lock();
  if (!core)
  {
    ec = asio::error::operation_aborted;
    return;
  }
  id_transitions transitions(id_);
  core->connect(transitions, ec);
  errno = 0;
  if (!ec && id_.api().establish(id_.get()) != 0)
    ec = last_cm_error();
}

void connection::requested(const event& asked, unique_id id)
{
  stage_ = stage::requested;
  data_ = asked.data;
  requested_ = asked.parameters;
  id_ = std::move(id);
  id_->context = static_cast<event_sink*>(this);
  peer_ = endpoint_of(id_->route.addr.dst_storage);
  channel_.hold(shared_from_this());
}

void connection::accept(const std::shared_ptr<queue_pair_core>& core, const private_data& answer,
  std::chrono::milliseconds time_limit, std::unique_ptr<connection_outcome> outcome)
{
  outcome_ = std::move(outcome);
  if (stage_ != stage::requested)
    return std::exchange(outcome_, nullptr)->done(error::peer_lost, {});
  stage_ = stage::accepting;
  data_ = answer;
  error_code ec;
  try
  {
    answer_request(core, time_limit, ec);
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory; // fail() reports the outcome
  }
  if (ec)
    fail(ec);
}

void connection::answer_request(const std::shared_ptr<queue_pair_core>& core,
  std::chrono::milliseconds time_limit, error_code& ec)
{
  if (adopt(core))
    check_device(ec);
  else
  {
    core_.reset();
    ec = core->is_open() ? error_code(error::already_connected) : asio::error::operation_aborted;
  }
  check_size(private_data::accept_size_max, ec);
  if (ec)
    return;

  set_deadline(time_limit);
  id_transitions transitions(id_);
  core->prepare(transitions, ec);
  if (!ec && !is_iwarp())
    core->connect(transitions, ec);
  if (transitions.peer_left())
    ec = error::peer_lost;
  if (!ec)
  {
    rdma_conn_param granted = parameters(*core);
    // The values in a request are from the listener's point of view (rdma_get_cm_event(3)).
    granted.initiator_depth = std::min(granted.initiator_depth, requested_.initiator_depth);
    granted.responder_resources =
      std::min(granted.responder_resources, requested_.responder_resources);
    errno = 0;
    if (id_.api().accept(id_.get(), &granted) != 0)
      ec = last_cm_error();
    // librdmacm reports EINVAL if the client gave up meanwhile; iWARP reports the other two.
    if (ec == boost::system::errc::invalid_argument || ec == asio::error::connection_reset
      || ec == asio::error::not_connected)
      ec = error::peer_lost;
  }
}

void connection::reject(const private_data& reason)
{
  if (stage_ != stage::requested)
    return;
  stage_ = stage::ended;
  const std::size_t size =
    is_iwarp() ? reason.size() : std::min(reason.size(), private_data::reject_size_max);
  if (id_.api().reject(id_.get(), reason.bytes().data(), static_cast<std::uint8_t>(size)) != 0)
    log_line(spdlog::level::debug, "RDMA-CM: rejecting {}: {}", peer_.address().to_string(),
      last_cm_error().message());
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
    log_line(spdlog::level::debug, "RDMA-CM: {} ended its request before the answer: {}",
      peer_.address().to_string(), id_.api().event_str(what.type));
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
    if (const auto core = core_.lock(); core && is_iwarp())
      core->note_connected(endpoint_of(id_->route.addr.src_storage).address(), peer_.address());
    succeed(what.data);
    break;
  default:
    ec = error_of_failure(what);
    if (stage_ == stage::accepting && what.type == RDMA_CM_EVENT_REJECTED)
      ec = error::peer_lost; // a client rejects if it has given up
    log_line(spdlog::level::info, "RDMA-CM: {} {}: {}, status {}: {}",
      stage_ == stage::connecting ? "connecting to" : "accepting", peer_.address().to_string(),
      id_.api().event_str(what.type), what.status, ec.message());
    return fail(ec, what.data);
  }
  if (ec)
    fail(ec);
}

void connection::succeed(const private_data& data)
{
  stage_ = stage::established;
  timer_.cancel();
  if (const auto outcome = std::exchange(outcome_, nullptr))
    outcome->done({}, data);
}

void connection::fail(const error_code& ec, const private_data& data)
{
  const auto self = shared_from_this();
  const std::string operation = stage_ == stage::accepting
    ? "accepting " + peer_.address().to_string()
    : "connecting to " + rdma::detail::text_of(peer_);
  stage_ = stage::ended;
  timer_.cancel();
  if (!answer_due_)
    id_.reset();
  if (const auto core = core_.lock())
    core->disconnect(ec, {}, operation); // it connects once
  else
    release();
  if (const auto outcome = std::exchange(outcome_, nullptr))
    outcome->done(ec, data);
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
  if (!core->sends_in_flight() || steady_clock::now() >= end)
    return core->disconnect(error::peer_closed);
  timer_.expires_after(drain_step);
  timer_.async_wait(
    [self = shared_from_this(), end](const error_code& ec)
    {
      if (!ec)
        self->wait_for_sends(end);
    });
}

// The queue pair was destroyed, so the id can be destroyed (rdma_destroy_id(3)).
void connection::release()
{
  const auto self = shared_from_this();
  if (stage_ == stage::established || in_handshake())
    stop(); // the queue pair was not closed before
  if (!std::exchange(released_, true) && stage_ == stage::disconnecting)
  {
    timer_.expires_after(linger_time_max);
    timer_.async_wait([self](const error_code&) { self->release(); });
    return;
  }
  stage_ = stage::ended;
  timer_.cancel();
  if (answer_due_)
    return; // iwcm's iw_destroy_cm_id() would block this thread until the peer answers
  id_.reset();
  channel_.drop(self);
}

} // namespace rdma::cm::detail
