//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "completion/queue_pair_core.hpp"

#include "completion/native_queue_pair.hpp"
#include "resource/device_impl.hpp"
#include "verbs/software/software.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

// Connecting by a description, by an offer, or with a connection manager.

namespace rdma::detail {
namespace {

// Returns the address in the form of a RoCE v2 GID. iWARP has no GIDs.
std::array<std::uint8_t, 16> gid_of(const boost::asio::ip::address& address)
{
  namespace ip = boost::asio::ip;
  return (address.is_v4() ? ip::make_address_v6(ip::v4_mapped, address.to_v4()) : address.to_v6())
    .to_bytes();
}

} // namespace

endpoint_description queue_pair_core::local_endpoint(
  const std::optional<boost::asio::ip::address>& local, error_code& ec)
{
  ec = device_->state(); // before the mutex: in a child of fork() it may be locked for ever
  if (ec)
    return {};
  std::lock_guard lock(mutex_);
  return describe_self(local, wire::unknown, ec, lock);
}

// Stores the offer that the queue pair will connect with. It stays on its device.
endpoint_description queue_pair_core::describe_self(
  const std::optional<boost::asio::ip::address>& local, wire by, error_code& ec, mutex_held held)
{
  if (!connection_.is_initial())
  {
    if (!connection_.carries())
      ec = error::closed;
    return own_.description;
  }
  std::string lacking;
  endpoint_offer made = make_offer(*device_, options_, identity_, local, by, ec, lacking);
  if (ec)
  {
    refuse("connect", ec, std::move(lacking));
    return {};
  }
  own_ = std::move(made);
  apply(connection_event::settled, held);
  return own_.description;
}

endpoint_offer queue_pair_core::offer(
  const boost::asio::ip::address& local, wire by, error_code& ec, std::string& lacking) const
{
  ec = device_->state();
  if (ec)
    return {};
  std::lock_guard lock(mutex_);
  if (!connection_.is_initial())
  {
    ec = error::closed;
    return {};
  }
  return make_offer(*device_, options_, identity_, local, by, ec, lacking);
}

void queue_pair_core::connect(const endpoint_description& remote, error_code& ec, side which)
{
  ec = device_->state();
  if (ec)
    return;
  std::lock_guard lock(mutex_);
  establish(own_, remote, which, connection_event::connected, ec, lock);
}

void queue_pair_core::connect_unconfirmed(
  const endpoint_offer& own, const endpoint_description& remote, side which, error_code& ec)
{
  ec = device_->state();
  if (ec)
    return;
  std::lock_guard lock(mutex_);
  establish(own, remote, which, connection_event::established, ec, lock);
}

void queue_pair_core::establish(const endpoint_offer& own, const endpoint_description& remote,
  side which, connection_event next, error_code& ec, mutex_held held)
{
  ec = connection_.connect_error();
  if (!ec)
    ec = check_peer(own, remote);
  if (ec)
    return;
  ibv_qp* const native = posting_.native();
  if (device_->kind() == device_kind::software)
    if (const int error = prepare_software(own.description, remote, which); error != 0)
    {
      ec.assign(error, boost::system::system_category());
      return;
    }
  int error = 0;
  if (port_ != own.port) // it was initialised on the device's first active port
  {
    error = to_init(*device_, native, own.port);
    port_ = own.port;
  }
  if (error == 0)
    error = to_state(*device_, native, ready_attributes(own, remote), ready_mask);
  ibv_qp_attr send = send_attributes(own, remote);
  send.retry_cnt = std::min(send.retry_cnt, device_->traits().retry_count_max);
  if (error == 0)
    error = to_state(*device_, native, send, send_mask);
  if (error != 0)
  {
    ec = device_->why(error_code(error, boost::system::system_category()));
    first_failure_ = {};
    note_failure(ec, "connect");
    return;
  }
  own_ = own;
  remote_ = remote;
  limits_.peer_features = remote.features;
  side_ = which;
  apply(next, held);
}

// Passes the secret, and this side's end of the wire, to the software device.
int queue_pair_core::prepare_software(
  const endpoint_description& own, const endpoint_description& remote, side which)
{
  software::connection_secret secret;
  for (std::size_t i = 0; i < secret.size(); ++i)
    secret[i] = static_cast<std::byte>(own.nonce[i] ^ remote.nonce[i]);
  const int error = software::set_connection_secret(posting_.native(), secret);
  if (error != 0 || which == side::unknown)
    return error;
  return software::set_wire_end(posting_.native(),
    which == side::last ? software::wire_end::connects : software::wire_end::waits);
}

void queue_pair_core::prepare(transition_source& source, error_code& ec)
{
  transit(source, {IBV_QPS_INIT}, connection_event::settled, ec);
}

void queue_pair_core::connect(transition_source& source, error_code& ec)
{
  transit(source, {IBV_QPS_RTR, IBV_QPS_RTS}, connection_event::connected, ec);
}

void queue_pair_core::transit(transition_source& source, std::initializer_list<ibv_qp_state> states,
  connection_event then, error_code& ec)
{
  ec = device_->state();
  if (ec)
    return;
  std::lock_guard lock(mutex_);
  ec = connection_.connect_error();
  for (const ibv_qp_state each : states)
    if (!ec)
      transit(source, each, ec);
  if (!ec)
    apply(then, lock);
}

void queue_pair_core::note_connected(
  const boost::asio::ip::address& own, const boost::asio::ip::address& peer, side which)
{
  std::lock_guard lock(mutex_);
  side_ = which;
  own_.description.gid = gid_of(own);
  remote_.gid = gid_of(peer);
  apply(connection_event::connected, lock); // unless a completion was first
}

bool queue_pair_core::sends_second() const
{
  const std::lock_guard lock(mutex_);
  return device_->traits().only_wire == wire::iwarp && side_ == side::first;
}

std::shared_ptr<early_receive> queue_pair_core::take_early_receive()
{
  const std::lock_guard lock(mutex_);
  return std::exchange(early_receive_, nullptr);
}

// Stores what transport() reports of a queue pair that a connection manager connects.
void queue_pair_core::note_transition(const ibv_qp_attr& attributes, int mask)
{
  endpoint_description& own = own_.description;
  if ((mask & IBV_QP_PORT) != 0)
    port_ = attributes.port_num;
  if ((mask & IBV_QP_PATH_MTU) != 0)
    own.path_mtu = remote_.path_mtu = bytes_of(attributes.path_mtu);
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    remote_.read_atomic_depth = attributes.max_rd_atomic;
  if ((mask & IBV_QP_TIMEOUT) != 0)
    own.timeout = remote_.timeout = attributes.timeout;
  if ((mask & IBV_QP_AV) == 0)
    return;
  std::copy(std::begin(attributes.ah_attr.grh.dgid.raw), std::end(attributes.ah_attr.grh.dgid.raw),
    remote_.gid.begin());
  for (const gid_entry& each : device_->gids())
    if (each.port == port_ && each.index == attributes.ah_attr.grh.sgid_index)
    {
      std::copy(std::begin(each.gid.raw), std::end(each.gid.raw), own.gid.begin());
      own.wire = device_->wire_by(each);
    }
}

void queue_pair_core::transit(transition_source& source, ibv_qp_state next_state, error_code& ec)
{
  ibv_qp_attr attributes{};
  attributes.qp_state = next_state;
  int mask = 0;
  int error = source.fill(attributes, mask);
  if (error == 0)
  {
    // Values that the manager does not have, or that would stall: 0 is 655 ms (IBA 9.7.5.2.8).
    attributes.min_rnr_timer = options_.min_rnr_timer;
    attributes.timeout = options_.timeout;
    attributes.retry_cnt = std::min(attributes.retry_cnt, device_->traits().retry_count_max);
    // A client may request more than this side permits (ucma_modify_qp_rtr limits it, too).
    attributes.max_rd_atomic = std::min(attributes.max_rd_atomic, options_.read_atomic_depth);
    attributes.max_dest_rd_atomic =
      std::min(attributes.max_dest_rd_atomic, options_.read_atomic_depth);
    if (next_state == IBV_QPS_INIT)
      attributes.qp_access_flags = remote_rights(*device_);
    error = to_state(*device_, posting_.native(), attributes, mask);
    if (error == 0)
      note_transition(attributes, mask);
  }
  if (error == 0)
    return;
  ec.assign(error, boost::system::system_category());
  first_failure_ = {};
  note_failure(ec, "connect");
}

std::string queue_pair_core::why_not_shared_memory() const
{
  const std::lock_guard lock(mutex_);
  if (device_->kind() != device_kind::software || posting_.native() == nullptr)
    return {};
  return software::why_not_local(posting_.native());
}

bool queue_pair_core::is_linked() const
{
  const std::lock_guard lock(mutex_);
  return device_->kind() == device_kind::software && posting_.native() != nullptr
    && *software::linked_by(posting_.native()) != '\0';
}

transport_choice queue_pair_core::transport() const
{
  const std::lock_guard lock(mutex_);
  const endpoint_description& own = own_.description;
  transport_choice result;
  result.kind = device_->kind();
  result.device = device_->name();
  result.peer_device = remote_.device;
  result.declined = declined_;
  if (!connection_.was_connected())
    return result;
  // The state when the path was confirmed; without a confirmation, the current state.
  const bool shared_memory = shared_memory_
    || (device_->kind() == device_kind::software && posting_.native() != nullptr
      && software::wire_name(posting_.native()) == std::string_view("local"));
  result.wire = shared_memory   ? wire::shared_memory
    : own.wire != wire::unknown ? own.wire
                                : device_->traits().only_wire;
  result.gid = own.gid;
  result.peer_gid = remote_.gid;
  result.path_mtu = std::min(own.path_mtu, remote_.path_mtu);
  result.read_atomic_depth = std::min(options_.read_atomic_depth, remote_.read_atomic_depth);
  result.timeout = longer_timeout(options_.timeout, remote_.timeout);
  result.peer_receive_depth = remote_.receive_depth;
  result.peer_send_depth = remote_.send_depth;
  result.peer_retry_count = remote_.retry_count;
  result.peer_rnr_retry_count = remote_.rnr_retry_count;
  result.peer_min_rnr_timer = remote_.min_rnr_timer;
  result.features = own.features & remote_.features;
  return result;
}

} // namespace rdma::detail
