//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/completion_queue_impl.hpp"
#include "completion/queue_pair_core.hpp"
#include "verbs/software/software.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <net/if.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

// What the peer must know of a queue pair, and what is done with the same of the peer's.

namespace rdma::detail {
namespace {

void fill_random(void* data, std::size_t size, error_code& ec)
{
  // Up to 256 bytes come whole (getrandom(2)).
  if (::getrandom(data, size, 0) != static_cast<ssize_t>(size))
    ec = last_verbs_error();
}

std::uint32_t bytes_of(ibv_mtu mtu)
{
  return 128u << static_cast<unsigned>(mtu);
}

ibv_mtu mtu_of(std::uint32_t bytes)
{
  ibv_mtu result = IBV_MTU_256;
  while (result < IBV_MTU_4096 && bytes_of(static_cast<ibv_mtu>(result + 1)) <= bytes)
    result = static_cast<ibv_mtu>(result + 1);
  return result;
}

// What the network interface of a GID carries: a VLAN's may be less than its port's.
std::uint32_t interface_path_mtu(std::uint32_t interface_index)
{
  constexpr std::uint32_t unknown = 4096;
  ifreq request{};
  if (interface_index == 0 || ::if_indextoname(interface_index, request.ifr_name) == nullptr)
    return unknown;
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool answered = fd >= 0 && ::ioctl(fd, SIOCGIFMTU, &request) == 0;
  if (fd >= 0)
    ::close(fd);
  const std::uint32_t mtu =
    answered && request.ifr_mtu > 0 ? static_cast<std::uint32_t>(request.ifr_mtu) : 0;
  return mtu != 0 ? std::max(roce_path_mtu(mtu), 256u) : unknown;
}

// As iWARP has no GIDs, addresses stand in their place, as RoCE v2 writes them.
std::array<std::uint8_t, 16> gid_of(const boost::asio::ip::address& address)
{
  namespace ip = boost::asio::ip;
  return (address.is_v4() ? ip::make_address_v6(ip::v4_mapped, address.to_v4()) : address.to_v6())
    .to_bytes();
}

bool is_ipv4(const std::array<std::uint8_t, 16>& gid)
{
  return boost::asio::ip::address_v6(gid).is_v4_mapped();
}

// Both ends of a path need the same patience; 0 is for ever (IBA 12.7.34).
std::uint8_t longer_timeout(std::uint8_t a, std::uint8_t b)
{
  return a == 0 || b == 0 ? 0 : std::max(a, b);
}

std::string reason_of_no_gid(
  const std::optional<boost::asio::ip::address>& local, const std::vector<gid_entry>& table)
{
  std::string addresses;
  for (const gid_entry& entry : table)
    if (entry.address)
      addresses += (addresses.empty() ? "" : ", ") + entry.address->to_string() + " by "
        + std::string(name_of(wire_of(entry.kind)));
  return "the local address is " + (local ? local->to_string() : "not given")
    + (addresses.empty() ? "; the device has no addresses" : "; the device has " + addresses);
}

// Options that are a few bits of a packet or of a queue pair's context; null when all are what they
// can be.
const char* option_out_of_range(const queue_pair_options& options)
{
  constexpr std::uint8_t counts_max = 7; // 3 bits (IBA 12.7.38, 12.7.39)
  constexpr std::uint8_t times_max = 31; // 5 bits (IBA 9.7.5.2.8, 12.7.34)
  return options.retry_count > counts_max  ? "retry_count"
    : options.rnr_retry_count > counts_max ? "rnr_retry_count"
    : options.min_rnr_timer > times_max    ? "min_rnr_timer"
    : options.timeout > times_max          ? "timeout"
                                           : nullptr;
}

std::uint64_t features_of(const device_impl& device)
{
  std::uint64_t result = 0;
  if (device.attributes().atomic_cap != IBV_ATOMIC_NONE)
    result |= device_features::atomics;
  if (device.has_windows())
    result |= device_features::memory_windows;
  if (!device.traits().no_immediate_data)
    result |= device_features::immediate_data;
  return result;
}

} // namespace

endpoint_description queue_pair_core::local_endpoint(
  const std::optional<boost::asio::ip::address>& local, error_code& ec)
{
  ec =
    device_->state(); // before the mutex, which a thread of a forked child's parent may have held
  if (ec)
    return {};
  std::lock_guard lock(mutex_);
  endpoint_description result = describe_self(local, wire::unknown, ec);
  if (!ec)
    stay();
  return result;
}

endpoint_description queue_pair_core::offer(
  const boost::asio::ip::address& local, wire by, error_code& ec)
{
  ec = device_->state();
  if (ec)
    return {};
  std::lock_guard lock(mutex_);
  return describe_self(local, by, ec);
}

// The queue pair's device is settled. The mutex is held.
void queue_pair_core::stay()
{
  if (std::exchange(holds_receives_, false))
    post_waiting(request_kind::receive);
}

// The mutex is held.
endpoint_description queue_pair_core::describe_self(
  const std::optional<boost::asio::ip::address>& address, wire by, error_code& ec)
{
  if (lifecycle_ != lifecycle::open)
  {
    if (lifecycle_ != lifecycle::connected)
      ec = error::closed;
    return local_;
  }
  if (device_->traits().connection_manager_only)
  {
    ec = boost::asio::error::operation_not_supported;
    refuse("connect", ec, "an iWARP device connects by RDMA-CM only (rdma::cm::async_connect)");
    return {};
  }
  if (const char* name = option_out_of_range(options_))
  {
    ec = boost::asio::error::invalid_argument;
    refuse("connect", ec, "queue_pair_options::" + std::string(name) + " is out of range");
    return {};
  }
  const auto& local = options_.local_address ? options_.local_address : address;
  // Read anew each time: addresses come and go, and ports with them.
  const auto gid = device_->find_gid(local, by, ec);
  const auto port = gid ? device_->query_port(gid->port) : std::nullopt;
  if (!gid || !port)
  {
    if (!ec)
      ec = device_->why(error::no_device);
    refuse("connect", ec, reason_of_no_gid(local, device_->gids()));
    return {};
  }
  if (!described_)
  {
    struct
    {
      std::uint32_t packet_sequence_number;
      decltype(local_.nonce) nonce;
    } random;
    fill_random(&random, sizeof random, ec);
    if (ec)
      return {};
    local_.packet_sequence_number = random.packet_sequence_number & 0xffffff;
    local_.nonce = random.nonce;
  }
  described_ = true;
  described_by_ = local;
  gid_index_ = gid->index;
  port_ = gid->port;
  by_ethernet_ = port->link_layer == IBV_LINK_LAYER_ETHERNET;
  local_.kind = device_->kind();
  std::copy(std::begin(gid->gid.raw), std::end(gid->gid.raw), local_.gid.begin());
  local_.lid = port->lid;
  local_.queue_pair_number = number_;
  local_.path_mtu = std::min({bytes_of(port->active_mtu), bytes_of(mtu_of(options_.path_mtu_max)),
    interface_path_mtu(gid->interface_index)});
  local_.read_atomic_depth = options_.read_atomic_depth;
  local_.wire = device_->wire_by(gid->kind);
  local_.timeout = options_.timeout;
  local_.receive_depth = receives_ ? 0 : options_.receive_depth;
  local_.send_depth = options_.send_depth;
  local_.retry_count = options_.retry_count;
  local_.rnr_retry_count = options_.rnr_retry_count;
  local_.min_rnr_timer = options_.min_rnr_timer;
  local_.features = features_of(*device_);
  local_.device = device_->name();
  return local_;
}

void queue_pair_core::connect(const endpoint_description& remote, error_code& ec, side which)
{
  ec = device_->state();
  if (ec)
    return;
  std::lock_guard lock(mutex_);
  establish(remote, which, lifecycle::connected, ec);
}

void queue_pair_core::connect_unconfirmed(
  const endpoint_description& remote, side which, error_code& ec)
{
  ec = device_->state();
  if (ec)
    return;
  std::lock_guard lock(mutex_);
  establish(remote, which, lifecycle::unconfirmed, ec);
}

// The mutex is held.
void queue_pair_core::establish(
  const endpoint_description& remote, side which, lifecycle next, error_code& ec)
{
  ec = why_not_connect();
  if (ec)
    return;
  if (!described_)
    ec = error::not_connected; // the peer cannot know us without local_endpoint()
  else if (remote.kind != device_->kind())
    ec = error::no_common_transport;
  // RoCE v2 is IPv4 or IPv6, by both GIDs (IBTA Annex A17); the kernel would say no more than
  // EINVAL.
  else if (!device_->traits().routes_any_gid && by_ethernet_
    && is_ipv4(remote.gid) != is_ipv4(local_.gid))
    ec = error::other_address_family;
  else if (remote.wire != wire::unknown && local_.wire != wire::unknown
    && remote.wire != local_.wire)
    ec = error::no_common_transport;
  if (ec)
    return;

  if (device_->kind() == device_kind::software)
  {
    software::connection_secret secret;
    for (std::size_t i = 0; i < secret.size(); ++i)
      secret[i] = static_cast<std::byte>(local_.nonce[i] ^ remote.nonce[i]);
    int error = software::set_connection_secret(native_, secret);
    if (error == 0 && which != side::unknown)
      error = software::set_wire_end(
        native_, which == side::last ? software::wire_end::connects : software::wire_end::waits);
    if (error != 0)
    {
      ec.assign(error, boost::system::system_category());
      return;
    }
  }

  int error = port_ != device_->port_number() ? move_to_port() : 0;
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = mtu_of(std::min(local_.path_mtu, remote.path_mtu));
  ready.dest_qp_num = remote.queue_pair_number;
  ready.rq_psn = remote.packet_sequence_number;
  ready.max_dest_rd_atomic = options_.read_atomic_depth;
  ready.min_rnr_timer = options_.min_rnr_timer;
  ready.ah_attr.port_num = port_;
  ready.ah_attr.dlid = remote.lid;
  // RoCE addresses by GID; on InfiniBand a LID is enough within the subnet (IBA 8.3).
  ready.ah_attr.is_global = by_ethernet_ ? 1 : 0;
  std::copy(remote.gid.begin(), remote.gid.end(), std::begin(ready.ah_attr.grh.dgid.raw));
  ready.ah_attr.grh.sgid_index = gid_index_;
  ready.ah_attr.grh.hop_limit = 64;
  if (error == 0)
    error = device_->api().modify_qp(native_, &ready,
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.sq_psn = local_.packet_sequence_number;
  send.timeout = longer_timeout(options_.timeout, remote.timeout);
  send.retry_cnt = std::min(options_.retry_count, device_->traits().retry_count_max);
  send.rnr_retry = options_.rnr_retry_count;
  send.max_rd_atomic = std::min(options_.read_atomic_depth, remote.read_atomic_depth);
  if (error == 0)
    error = device_->api().modify_qp(native_, &send,
      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
        | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0)
  {
    ec = device_->why(error_code(error, boost::system::system_category()));
    first_failure_.code = ec;
    first_failure_.operation = "connect";
    return;
  }
  remote_ = remote;
  side_ = which;
  ever_connected_ = true;
  lifecycle_ = next;
  if (next == lifecycle::connected)
    enter_connected();
}

// It was initialised on the device's first active port; the address is another's. The mutex is
// held.
int queue_pair_core::move_to_port()
{
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = 0;
  attributes.port_num = port_;
  attributes.qp_access_flags = remote_rights();
  return device_->api().modify_qp(
    native_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

void queue_pair_core::prepare(transition_source& source, error_code& ec)
{
  ec = device_->state();
  if (ec)
    return;
  std::lock_guard lock(mutex_);
  ec = why_not_connect();
  if (!ec)
    transit(source, IBV_QPS_INIT, ec);
  if (!ec)
    stay();
}

void queue_pair_core::connect(transition_source& source, error_code& ec)
{
  ec = device_->state();
  if (ec)
    return;
  std::lock_guard lock(mutex_);
  ec = why_not_connect();
  if (!ec)
    transit(source, IBV_QPS_RTR, ec);
  if (!ec)
    transit(source, IBV_QPS_RTS, ec);
  if (!ec)
    enter_connected();
}

void queue_pair_core::note_connected(
  const boost::asio::ip::address& own, const boost::asio::ip::address& peer)
{
  std::lock_guard lock(mutex_);
  local_.gid = gid_of(own);
  remote_.gid = gid_of(peer);
  local_.features = features_of(*device_);
  if (lifecycle_ == lifecycle::open) // else a first completion was faster
    enter_connected();
}

// The mutex is held.
void queue_pair_core::enter_connected()
{
  lifecycle_ = lifecycle::connected;
  guard_slots(error_state_ || flush_timer_runs_ || !registered_);
  ever_connected_ = true;
  stay();
}

// The mutex is held.
error_code queue_pair_core::why_not_connect() const
{
  if (lifecycle_ == lifecycle::open)
    return {};
  return is_alive() ? error::already_connected : error::closed;
}

// What transport() tells of a queue pair that a connection manager connects. The mutex is held.
void queue_pair_core::note_transition(const ibv_qp_attr& attributes, int mask)
{
  if ((mask & IBV_QP_PORT) != 0)
    port_ = attributes.port_num;
  local_.features = features_of(*device_);
  if ((mask & IBV_QP_PATH_MTU) != 0)
    local_.path_mtu = remote_.path_mtu = bytes_of(attributes.path_mtu);
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    remote_.read_atomic_depth = attributes.max_rd_atomic;
  if ((mask & IBV_QP_TIMEOUT) != 0)
    local_.timeout = remote_.timeout = attributes.timeout;
  if ((mask & IBV_QP_AV) == 0)
    return;
  std::copy(std::begin(attributes.ah_attr.grh.dgid.raw), std::end(attributes.ah_attr.grh.dgid.raw),
    remote_.gid.begin());
  for (const gid_entry& each : device_->gids())
    if (each.port == port_ && each.index == attributes.ah_attr.grh.sgid_index)
    {
      std::copy(std::begin(each.gid.raw), std::end(each.gid.raw), local_.gid.begin());
      local_.wire = device_->wire_by(each.kind);
    }
}

// The mutex is held.
void queue_pair_core::transit(transition_source& source, int next_state, error_code& ec)
{
  ibv_qp_attr attributes{};
  attributes.qp_state = static_cast<ibv_qp_state>(next_state);
  int mask = 0;
  int error = source.fill(attributes, mask);
  if (error == 0)
  {
    // What the manager does not know, or leaves at values that stall: 0 is 655 ms (IBA 9.7.5.2.8).
    attributes.min_rnr_timer = options_.min_rnr_timer;
    attributes.timeout = options_.timeout;
    attributes.retry_cnt = std::min(attributes.retry_cnt, device_->traits().retry_count_max);
    // A client may ask for more than we promise, or have (ucma_modify_qp_rtr does the same).
    attributes.max_rd_atomic = std::min(attributes.max_rd_atomic, options_.read_atomic_depth);
    attributes.max_dest_rd_atomic =
      std::min(attributes.max_dest_rd_atomic, options_.read_atomic_depth);
    if (next_state == IBV_QPS_INIT)
      attributes.qp_access_flags = remote_rights();
    error = device_->api().modify_qp(native_, &attributes, mask);
    if (error == 0)
      note_transition(attributes, mask);
  }
  if (error == 0)
    return;
  ec.assign(error, boost::system::system_category());
  first_failure_.code = ec;
  first_failure_.operation = "connect";
}

std::string queue_pair_core::why_not_shared_memory()
{
  const std::lock_guard lock(mutex_);
  if (device_->kind() != device_kind::software || native_ == nullptr)
    return {};
  const char* const why = software::why_not_local(native_);
  shared_memory_ = *why == '\0';
  return why;
}

transport_choice queue_pair_core::transport() const
{
  const std::lock_guard lock(mutex_);
  transport_choice result;
  result.kind = device_->kind();
  result.device = device_->name();
  result.peer_device = remote_.device;
  result.declined = declined_;
  if (!ever_connected_)
    return result;
  // What was found when the path was confirmed; where nobody confirms it, what is found now.
  const bool shared_memory = shared_memory_
    || (device_->kind() == device_kind::software && native_ != nullptr
      && software::wire_name(native_) == std::string_view("local"));
  result.wire = shared_memory      ? wire::shared_memory
    : local_.wire != wire::unknown ? local_.wire
                                   : device_->traits().only_wire;
  result.gid = local_.gid;
  result.peer_gid = remote_.gid;
  result.path_mtu = std::min(local_.path_mtu, remote_.path_mtu);
  result.read_atomic_depth = std::min(options_.read_atomic_depth, remote_.read_atomic_depth);
  result.timeout = longer_timeout(options_.timeout, remote_.timeout);
  result.peer_receive_depth = remote_.receive_depth;
  result.peer_send_depth = remote_.send_depth;
  result.peer_retry_count = remote_.retry_count;
  result.peer_rnr_retry_count = remote_.rnr_retry_count;
  result.peer_min_rnr_timer = remote_.min_rnr_timer;
  result.features = local_.features & remote_.features;
  return result;
}

} // namespace rdma::detail
