//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/cm/cm.hpp"
#include "verbs/software/cm/device.hpp"
#include "verbs/software/cm/service.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/host_guid.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

// The functions of <rdma/rdma_cma.h> for connections and events.

namespace rdma::software::cm {
namespace {

using lock_type = std::unique_lock<std::mutex>;

service& service_of(const identifier& which) noexcept
{
  return *which.events().owner;
}

// A child of fork() has no part in its parent's connections.
bool is_inherited(const identifier& which) noexcept
{
  return service_of(which).is_inherited();
}

// Sets errno for an error. Returns 0 or -1.
int result(int error) noexcept
{
  return error == 0 ? 0 : fail_call(error);
}

// Calls a function that returns 0 or an errno, under the service's mutex.
template <class Function>
int call(identifier& which, Function function) noexcept
{
  if (is_inherited(which))
    return EPERM;
  try
  {
    lock_type lock(service_of(which).mutex);
    return function(service_of(which));
  }
  catch (const std::bad_alloc&)
  {
    return ENOMEM;
  }
}

void report(service& by, identifier& which, rdma_cm_event_type type, int status = 0)
{
  event_list made;
  made.push_back(std::make_unique<channel_event>(type, which, status));
  by.report(std::move(made));
}

std::unique_ptr<event_channel> make_channel()
{
  auto owner = service::get();
  if (!owner)
    return nullptr;
  std::unique_ptr<event_channel> made(new (std::nothrow) event_channel(std::move(owner)));
  if (made && made->descriptor)
    return made;
  if (!made)
    errno = ENOMEM;
  return nullptr;
}

// Finds the source address and the GID towards `to`, and binds the id if it is not bound. Returns 0
// or an errno.
int resolve(service& by, identifier& which, const endpoint& to)
{
  address_bytes source = which.local.ip;
  if (endpoint{source, 0}.is_unspecified())
    if (const int error = find_source(to, source); error != 0)
      return error;
  if (!find_gid(source, which.gid_index))
    return ENODEV;
  if (which.port)
    which.local.ip = source;
  else if (const int error = by.bind_implicitly(which, source); error != 0)
    return error;
  which.peer = to;
  attach_device(which);
  write_route(which, to);
  return 0;
}

void put_private_data(message& to, const rdma_conn_param* from) noexcept
{
  if (from == nullptr || from->private_data == nullptr)
    return;
  to.private_size = from->private_data_len;
  std::memcpy(to.private_data.data(), from->private_data,
    std::min<std::size_t>(to.private_size, to.private_data.size()));
}

// Bytes beyond the maximum are an error, as in the kernel's ib_cm.
bool has_valid_data(message_type type, const rdma_conn_param* from) noexcept
{
  return from == nullptr || from->private_data_len <= private_data_max(type);
}

std::uint8_t limited(const identifier& which, std::uint8_t wanted) noexcept
{
  const auto most = device_context::of(which.verbs).settings.max_read_atomic;
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(wanted, most));
}

// The members of a REQ or REP that both ends send.
void describe(identifier& which, const rdma_conn_param& with, message& to) noexcept
{
  to.ca_guid = be64toh(host_guid());
  to.queue_pair = which.queue_pair;
  to.starting_psn = which.starting_psn;
  to.responder_resources = which.responder_resources;
  to.initiator_depth = which.initiator_depth;
  to.flow_control = with.flow_control != 0;
  to.retry_count = std::min<std::uint8_t>(with.retry_count, 7);
  to.rnr_retry_count = std::min<std::uint8_t>(with.rnr_retry_count, 7);
  to.srq = which.qp != nullptr ? which.qp->srq != nullptr : with.srq != 0;
}

// Without parameters, librdmacm uses the largest values.
rdma_conn_param parameters_or_default(const rdma_conn_param* from) noexcept
{
  rdma_conn_param to{};
  to.responder_resources = RDMA_MAX_RESP_RES;
  to.initiator_depth = RDMA_MAX_INIT_DEPTH;
  to.retry_count = 7;
  to.rnr_retry_count = 7;
  return from != nullptr ? *from : to;
}

} // namespace

// --- event channels ---

rdma_event_channel* create_event_channel()
{
  return make_channel().release();
}

// A thread that waits for an event goes on waiting, as one in a system call of a closed file does.
// rping relies on that.
void destroy_event_channel(rdma_event_channel* which)
{
  event_channel& channel = event_channel::of(which);
  if (!channel.owner->is_inherited())
  {
    const lock_type lock(channel.owner->mutex);
    channel.destroyed = true;
    if (channel.readers != 0)
      return;
  }
  delete &channel;
}

namespace {

int wait_for_event(event_channel& channel, rdma_cm_event** to)
{
  for (;;)
  {
    std::unique_ptr<channel_event> taken;
    {
      const lock_type lock(channel.owner->mutex);
      taken = channel.owner->next_event(channel);
    }
    if (!taken)
    {
      const int flags = ::fcntl(channel.fd, F_GETFL);
      if (flags < 0 || (flags & O_NONBLOCK) != 0)
        return flags < 0 ? -1 : fail_call(EAGAIN);
      pollfd wanted{channel.fd, POLLIN, 0};
      if (::poll(&wanted, 1, -1) < 0)
        return -1;
      continue;
    }
    identifier& which = taken->owner();
    if (taken->event == RDMA_CM_EVENT_CONNECT_REQUEST
      && identifier::of(taken->listen_id).own_channel)
    {
      if (migrate_id(&which, nullptr) != 0)
      {
        ack_cm_event(taken.release());
        destroy_id(&which);
        continue;
      }
    }
    else if (taken->event == RDMA_CM_EVENT_CONNECT_RESPONSE && which.qp != nullptr)
    {
      // As librdmacm: an id with a queue pair moves it, and confirms the connection.
      int error = move_queue_pair(&which);
      if (error == 0 && establish(&which) != 0)
        error = errno;
      taken->event = error == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_ERROR;
      taken->status = -error;
    }
    else if (taken->event == RDMA_CM_EVENT_REJECTED)
      fail_queue_pair(&which);
    *to = taken.release();
    return 0;
  }
}

} // namespace

int get_cm_event(rdma_event_channel* from, rdma_cm_event** to)
{
  event_channel& channel = event_channel::of(from);
  if (channel.owner->is_inherited())
    return fail_call(EPERM);
  {
    const lock_type lock(channel.owner->mutex);
    ++channel.readers;
  }
  const int result = wait_for_event(channel, to);
  const int error = errno;
  {
    const std::shared_ptr<service> owner = channel.owner;
    const lock_type lock(owner->mutex);
    if (--channel.readers != 0 || !channel.destroyed)
      return result;
  }
  delete &channel;
  errno = error;
  return result;
}

int ack_cm_event(rdma_cm_event* event)
{
  if (event == nullptr)
    return fail_call(EINVAL);
  const std::unique_ptr<channel_event> taken(static_cast<channel_event*>(event));
  service& by = service_of(taken->acknowledged_by());
  if (by.is_inherited())
    return 0;
  const lock_type lock(by.mutex);
  by.acknowledge(*taken);
  return 0;
}

const char* event_str(rdma_cm_event_type type)
{
  static constexpr const char* texts[] = {"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR",
    "RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_REQUEST",
    "RDMA_CM_EVENT_CONNECT_RESPONSE", "RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE",
    "RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED",
    "RDMA_CM_EVENT_DEVICE_REMOVAL", "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR",
    "RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
  const auto index = std::bit_cast<unsigned>(type); // in C an enumeration can have any value
  return index < std::size(texts) ? texts[index] : "UNKNOWN EVENT";
}

// --- ids ---

int create_id(rdma_event_channel* channel, rdma_cm_id** to, void* context, rdma_port_space space)
{
  if (space != RDMA_PS_TCP && space != RDMA_PS_UDP && space != RDMA_PS_IB)
    return fail_call(space == RDMA_PS_IPOIB ? EPROTONOSUPPORT : EINVAL);
  std::unique_ptr<event_channel> own;
  if (channel == nullptr)
  {
    own = make_channel();
    if (!own)
      return -1;
    channel = own.get();
  }
  event_channel& of = event_channel::of(channel);
  if (of.owner->is_inherited())
    return fail_call(EPERM);
  try
  {
    const lock_type lock(of.owner->mutex);
    identifier& made = of.owner->make_id(of, context, space);
    made.own_channel = std::move(own);
    *to = &made;
    return 0;
  }
  catch (const std::bad_alloc&)
  {
    return fail_call(ENOMEM);
  }
}

int destroy_id(rdma_cm_id* what)
{
  identifier& which = identifier::of(what);
  if (is_inherited(which))
    return 0;
  if (which.own_channel && which.rdma_cm_id::event != nullptr)
    ack_cm_event(which.rdma_cm_id::event);
  // It outlives the lock, and the service outlives both.
  const std::shared_ptr<service> by = which.events().owner;
  const std::unique_ptr<event_channel> own = std::move(which.own_channel);
  lock_type lock(by->mutex);
  by->destroy(which, lock);
  return 0;
}

int migrate_id(rdma_cm_id* what, rdma_event_channel* channel)
{
  identifier& which = identifier::of(what);
  std::unique_ptr<event_channel> own;
  if (channel == nullptr)
  {
    own = make_channel();
    if (!own)
      return -1;
    channel = own.get();
  }
  // As librdmacm: the event of the last blocking call, which the program does not acknowledge.
  if (which.own_channel && what->event != nullptr)
    ack_cm_event(std::exchange(what->event, nullptr));
  return result(call(which,
    [&](service& by)
    {
      if (&service_of(which) != event_channel::of(channel).owner.get())
        return EINVAL;
      if (which.events_given != 0)
        return EBUSY;
      by.move_events(which, event_channel::of(channel));
      std::swap(which.own_channel, own); // the channel that it had is destroyed
      return 0;
    }));
}

int set_option(rdma_cm_id* what, int level, int name, void* value, std::size_t size)
{
  identifier& which = identifier::of(what);
  const auto read = [&](auto& to)
  {
    std::decay_t<decltype(to)> from;
    if (size != sizeof from)
      return EINVAL;
    std::memcpy(&from, value, sizeof from);
    to = from;
    return 0;
  };
  return result(call(which,
    [&](service&)
    {
      if (level != RDMA_OPTION_ID)
        return ENOSYS;
      int number = 0;
      int error = 0;
      switch (name)
      {
      case RDMA_OPTION_ID_TOS:
        return read(which.traffic_class);
      case RDMA_OPTION_ID_ACK_TIMEOUT:
        error = read(which.ack_timeout);
        which.ack_timeout &= 31;
        return error;
      case RDMA_OPTION_ID_REUSEADDR:
      case RDMA_OPTION_ID_AFONLY:
        error = which.at == identifier::stage::idle ? read(number) : EINVAL;
        if (error == 0)
          (name == RDMA_OPTION_ID_AFONLY ? which.only_v6 : which.reuses_address) = number != 0;
        return error;
      default:
        return ENOSYS;
      }
    }));
}

int bind_addr(rdma_cm_id* what, sockaddr* address)
{
  identifier& which = identifier::of(what);
  endpoint at;
  if (!read_endpoint(address, at))
    return fail_call(EAFNOSUPPORT);
  if (device() == nullptr)
    return fail_call(ENODEV);
  return result(call(which,
    [&](service& by)
    {
      if (which.at != identifier::stage::idle)
        return EINVAL;
      const int error = by.bind(which, at);
      if (error == 0)
      {
        if (!at.is_unspecified())
          attach_device(which);
        write_endpoint(which.local, which.route.addr.src_storage);
      }
      return error;
    }));
}

int resolve_addr(rdma_cm_id* what, sockaddr* source, sockaddr* destination, int)
{
  identifier& which = identifier::of(what);
  endpoint to;
  endpoint from;
  if (!read_endpoint(destination, to) || (source != nullptr && !read_endpoint(source, from)))
    return fail_call(EAFNOSUPPORT);
  if (to.is_unspecified())
    to.ip = to.is_v4() ? v4_loopback : v6_loopback;
  const bool has_device = device() != nullptr;
  const int error = call(which,
    [&](service& by)
    {
      if (which.at != identifier::stage::idle && which.at != identifier::stage::bound)
        return EINVAL;
      if (which.at == identifier::stage::idle && source != nullptr)
      {
        if (from.port != 0)
        {
          if (const int failure = by.bind(which, from); failure != 0)
            return failure;
        }
        else
          which.local.ip = from.ip;
      }
      // Everything else is known at once, and reported as if it had taken its time.
      const int failure = has_device ? resolve(by, which, to) : ENODEV;
      if (failure == 0)
        which.at = identifier::stage::address_resolved;
      report(
        by, which, failure == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR, -failure);
      return 0;
    });
  return error == 0 ? complete(what) : fail_call(error);
}

int resolve_route(rdma_cm_id* what, int)
{
  identifier& which = identifier::of(what);
  const int error = call(which,
    [&](service& by)
    {
      if (which.at != identifier::stage::address_resolved)
        return EINVAL;
      which.path.dgid = which.route.addr.addr.ibaddr.dgid;
      which.path.sgid = which.route.addr.addr.ibaddr.sgid;
      which.path.traffic_class = which.traffic_class;
      which.path.reversible = 1;
      which.path.numb_path = 1;
      which.path.pkey = 0xffff;
      which.path.mtu = IBV_MTU_4096;
      which.route.path_rec = &which.path;
      which.route.num_paths = 1;
      report(by, which, RDMA_CM_EVENT_ROUTE_RESOLVED);
      which.at = identifier::stage::route_resolved;
      return 0;
    });
  return error == 0 ? complete(what) : fail_call(error);
}

int listen(rdma_cm_id* what, int backlog)
{
  identifier& which = identifier::of(what);
  if (device() == nullptr)
    return fail_call(ENODEV);
  return result(call(which,
    [&](service& by)
    {
      const int error = by.listen(which, backlog);
      write_endpoint(which.local, which.route.addr.src_storage);
      return error;
    }));
}

// --- connections ---

int connect(rdma_cm_id* what, rdma_conn_param* given)
{
  identifier& which = identifier::of(what);
  const bool datagram = which.qp_type == IBV_QPT_UD;
  const auto type = datagram ? message_type::datagram_request : message_type::request;
  if (!has_valid_data(type, given))
    return fail_call(EINVAL);
  const int error = call(which,
    [&](service& by)
    {
      if (which.at != identifier::stage::route_resolved)
        return EINVAL;
      const rdma_conn_param with = parameters_or_default(given);
      which.responder_resources = limited(which, with.responder_resources);
      which.initiator_depth = limited(which, with.initiator_depth);
      if (!datagram)
        by.set_queue_pair(which, which.qp != nullptr ? which.qp->qp_num : with.qp_num);
      message& m = which.request;
      m = {};
      m.type = type;
      m.service_id = std::uint64_t{static_cast<std::uint32_t>(which.ps)} << 16 | which.peer.port;
      m.source_port = which.local.port;
      m.is_ipv6 = !which.local.is_v4();
      m.source = which.local.ip;
      m.destination = which.peer.ip;
      describe(which, with, m);
      m.path_mtu = IBV_MTU_4096;
      m.local_ack_timeout = which.ack_timeout;
      put_private_data(m, given);
      std::uint64_t transaction = 0;
      fill_random(&transaction, sizeof transaction);
      which.at = identifier::stage::connection;
      by.perform(which, which.fsm.connect(m, transaction, wire::now()));
      return 0;
    });
  return error == 0 ? complete(what) : fail_call(error);
}

int establish(rdma_cm_id* what)
{
  identifier& which = identifier::of(what);
  return result(call(which,
    [&](service& by)
    {
      if (which.fsm.state() != connection_fsm::phase::reply_received)
        return EINVAL;
      by.perform(which, which.fsm.establish());
      return 0;
    }));
}

int accept(rdma_cm_id* what, rdma_conn_param* given)
{
  identifier& which = identifier::of(what);
  const bool datagram = which.fsm.is_datagram();
  const auto type = datagram ? message_type::datagram_reply : message_type::reply;
  if (which.at != identifier::stage::connection || !has_valid_data(type, given))
    return fail_call(EINVAL);
  rdma_conn_param with = parameters_or_default(given);
  // The values of the request are limits, from this end's point of view.
  which.responder_resources =
    limited(which, std::min(with.responder_resources, which.request.initiator_depth));
  which.initiator_depth =
    limited(which, std::min(with.initiator_depth, which.request.responder_resources));
  if (!datagram)
    if (const int error = move_queue_pair(what); error != 0)
      return fail_call(error);
  const int error = call(which,
    [&](service& by)
    {
      if (which.fsm.state() != connection_fsm::phase::requested)
        return EINVAL; // the peer gave up
      const std::uint32_t number = which.qp != nullptr ? which.qp->qp_num : with.qp_num;
      if (!datagram)
        by.set_queue_pair(which, number);
      message& m = which.reply;
      m = {};
      m.type = type;
      if (given == nullptr)
        with.rnr_retry_count = which.request.rnr_retry_count;
      describe(which, with, m);
      m.queue_pair = number;
      m.qkey = RDMA_UDP_QKEY;
      m.service_id = which.request.service_id;
      put_private_data(m, given);
      by.perform(which, which.fsm.accept(m, wire::now()));
      return 0;
    });
  if (error != 0)
    fail_queue_pair(what);
  return error != 0 ? fail_call(error) : datagram ? 0 : complete(what);
}

int reject(rdma_cm_id* what, const void* data, std::uint8_t size)
{
  identifier& which = identifier::of(what);
  return result(call(which,
    [&](service& by)
    {
      const auto type =
        which.fsm.is_datagram() ? message_type::datagram_reply : message_type::reject;
      if (size > private_data_max(type))
        return EINVAL;
      const auto state = which.fsm.state();
      if (state != connection_fsm::phase::requested
        && state != connection_fsm::phase::reply_received)
        return EINVAL;
      by.perform(which,
        which.fsm.reject({static_cast<const std::byte*>(data), data != nullptr ? size : 0u}));
      return 0;
    }));
}

int notify(rdma_cm_id* what, ibv_event_type event)
{
  identifier& which = identifier::of(what);
  return result(call(which,
    [&](service& by)
    {
      if (event != IBV_EVENT_COMM_EST)
        return EINVAL;
      by.perform(which, which.fsm.communication_established());
      return 0;
    }));
}

int disconnect(rdma_cm_id* what)
{
  identifier& which = identifier::of(what);
  fail_queue_pair(what);
  const int error = call(which,
    [&](service& by)
    {
      using phase = connection_fsm::phase;
      const phase before = which.fsm.state();
      if (before != phase::established && before != phase::reply_sent
        && before != phase::disconnect_received && before != phase::disconnect_sent
        && before != phase::time_wait && before != phase::ended)
        return EINVAL;
      by.perform(which, which.fsm.disconnect(wire::now()));
      return 0;
    });
  return result(error);
}

int init_qp_attr(rdma_cm_id* what, ibv_qp_attr* to, int* mask)
{
  const identifier& which = identifier::of(what);
  const bool answers = which.fsm.is_listening_end(); // state() changes on another thread
  const message& from = answers ? which.request : which.reply;
  switch (to->qp_state)
  {
  case IBV_QPS_INIT:
    *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    to->pkey_index = 0;
    to->port_num = port_number;
    if (which.qp_type == IBV_QPT_UD)
    {
      to->qkey = RDMA_UDP_QKEY;
      *mask |= IBV_QP_QKEY;
      return 0;
    }
    *mask |= IBV_QP_ACCESS_FLAGS;
    to->qp_access_flags =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return 0;
  case IBV_QPS_RTR:
    if (which.qp_type == IBV_QPT_UD)
    {
      *mask = IBV_QP_STATE;
      return 0;
    }
    if (from.queue_pair == 0)
      return fail_call(EINVAL);
    *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
      | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    to->ah_attr = address_of(which);
    to->path_mtu = answers ? static_cast<ibv_mtu>(from.path_mtu) : IBV_MTU_4096;
    to->dest_qp_num = from.queue_pair;
    to->rq_psn = from.starting_psn;
    to->max_dest_rd_atomic =
      limited(which, std::min(which.responder_resources, from.initiator_depth));
    to->min_rnr_timer = 12; // 0.64 ms; librdmacm leaves it at 0, which is 655 ms
    return 0;
  case IBV_QPS_RTS:
    *mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    to->sq_psn = which.starting_psn;
    if (which.qp_type == IBV_QPT_UD)
      return 0;
    *mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    to->timeout = answers ? which.request.local_ack_timeout : which.ack_timeout;
    to->retry_cnt = which.request.retry_count;
    to->rnr_retry = from.rnr_retry_count;
    to->max_rd_atomic =
      answers ? which.initiator_depth : std::min(which.initiator_depth, from.responder_resources);
    return 0;
  default:
    return fail_call(EINVAL);
  }
}

__be16 get_src_port(rdma_cm_id* which)
{
  return htons(identifier::of(which).local.port);
}

__be16 get_dst_port(rdma_cm_id* which)
{
  endpoint at;
  return read_endpoint(&which->route.addr.dst_addr, at) ? htons(at.port) : __be16{0};
}

int complete(rdma_cm_id* what)
{
  identifier& which = identifier::of(what);
  if (!which.own_channel)
    return 0;
  if (what->event != nullptr)
  {
    ack_cm_event(what->event);
    what->event = nullptr;
  }
  if (get_cm_event(what->channel, &what->event) != 0)
    return -1;
  const int status = what->event->status;
  if (status == 0)
    return 0;
  if (what->event->event == RDMA_CM_EVENT_REJECTED)
    return fail_call(ECONNREFUSED);
  return fail_call(status < 0 ? -status : status);
}

} // namespace rdma::software::cm

namespace rdma::software {

const verbs::cm_api& cm_api()
{
  static const verbs::cm_api table = []
  {
    verbs::cm_api t;
#define BOOST_RDMA_SOFTWARE_FUNCTION(member, function) t.member = &cm::member;
    BOOST_RDMA_CM_FUNCTIONS(BOOST_RDMA_SOFTWARE_FUNCTION)
#undef BOOST_RDMA_SOFTWARE_FUNCTION
    return t;
  }();
  return table;
}

} // namespace rdma::software
