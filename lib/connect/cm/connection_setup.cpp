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

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

// The steps by which a connection is requested or accepted.

namespace rdma::cm::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using rdma::detail::log_line;

int id_transitions::fill(ibv_qp_attr& attributes, int& mask)
{
  errno = 0;
  if (id_.api().init_qp_attr(id_.get(), &attributes, &mask) == 0)
    return 0;
  peer_left_ = errno == EINVAL;
  return errno != 0 ? errno : EIO;
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
  if (!ec && !traits().private_data_of_any_size && data_.size() > size_max)
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

void connection::connect(
  const tcp::endpoint& peer, const connect_options& options, connection_outcome outcome)
{
  outcome_.swap(outcome);
  const auto core = core_.lock();
  if (released_ || !core)
    return report(asio::error::operation_aborted, {});
  stage_ = stage::connecting;
  error_code ec;
  try
  {
    channel_.hold(shared_from_this());
    if (!core->is_open())
      return fail(asio::error::operation_aborted);
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
    answer_due_ = traits().connection_manager_blocks;
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
  // EINVAL: the listener's time limit has passed, and it has rejected the connection meanwhile.
  if (!ec && id_.api().establish(id_.get()) != 0)
    ec = errno == EINVAL ? error_code(error::refused) : last_cm_error();
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
  std::chrono::milliseconds time_limit, connection_outcome outcome)
{
  outcome_.swap(outcome);
  if (stage_ != stage::requested)
    return report(error::peer_lost, {});
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
  if (!ec && !traits().connection_manager_moves)
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

} // namespace rdma::cm::detail
