//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/cm/cm.hpp"
#include "verbs/software/cm/device.hpp"
#include "verbs/software/cm/id.hpp"
#include "verbs/software/foreign/exports.hpp"
#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include <netdb.h>

// The functions of librdmacm that create verbs objects for an id, and those that combine several
// steps. Programs call them, the library does not.

namespace rdma::software::cm {
namespace {

// A queue pair of its own goes to INIT, and one for datagrams to RTS, when it is created.
int prepare_queue_pair(rdma_cm_id* which)
{
  const auto last = which->qp_type == IBV_QPT_UD ? IBV_QPS_RTS : IBV_QPS_INIT;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
  {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (init_qp_attr(which, &attributes, &mask) != 0)
      return errno;
    if (const int error = modify_qp(which->qp, &attributes, mask); error != 0)
      return error;
    if (state == last)
      break;
  }
  return 0;
}

void destroy_queue(ibv_cq*& queue, ibv_comp_channel*& channel)
{
  if (queue != nullptr)
    destroy_cq(std::exchange(queue, nullptr));
  if (channel != nullptr)
    destroy_comp_channel(std::exchange(channel, nullptr));
}

// Makes the completion queue that a program leaves to librdmacm. Returns 0 or an errno.
int make_queue(rdma_cm_id* which, std::uint32_t size, ibv_cq*& queue, ibv_comp_channel*& channel)
{
  channel = create_comp_channel(which->verbs);
  if (channel != nullptr)
    queue = create_cq(which->verbs, static_cast<int>(std::max(size, 1u)), which, channel, 0);
  if (queue != nullptr)
    return 0;
  const int error = errno;
  destroy_queue(queue, channel);
  return error;
}

// Sets the completion queue of receives to that of the id, which an XRC queue pair and its shared
// receive queue have in common. Returns 0 or an errno.
int receive_queue(rdma_cm_id* which, std::uint32_t size, ibv_cq*& to)
{
  const int error =
    which->recv_cq != nullptr ? 0 : make_queue(which, size, which->recv_cq, which->recv_cq_channel);
  to = which->recv_cq;
  return error;
}

// Sets the default XRC domain if the attributes have none. Returns false with errno set on failure.
template <class Attributes>
bool has_domain(Attributes& of, std::uint32_t flag)
{
  if ((of.comp_mask & flag) == 0 || of.xrcd == nullptr)
    of.xrcd = default_xrc_domain();
  of.comp_mask |= flag;
  return of.xrcd != nullptr;
}

void destroy_queues(rdma_cm_id* which)
{
  if (which->qp_type == IBV_QPT_XRC_RECV && which->srq != nullptr)
    return; // it uses one
  destroy_queue(which->recv_cq, which->recv_cq_channel);
  destroy_queue(which->send_cq, which->send_cq_channel);
}

// One entry of getaddrinfo(3) as an rdma_addrinfo, which owns its parts.
struct address_info : rdma_addrinfo
{
  address_info() noexcept
    : rdma_addrinfo{}
  {
  }
  sockaddr_storage source{};
  sockaddr_storage destination{};
};

void set_address(sockaddr_storage& room, const sockaddr* from, socklen_t size, sockaddr*& to,
  socklen_t& to_size) noexcept
{
  std::memcpy(&room, from, size);
  to = reinterpret_cast<sockaddr*>(&room);
  to_size = size;
}

} // namespace

int move_queue_pair(rdma_cm_id* which)
{
  if (which->qp == nullptr)
    return 0;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
  {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (init_qp_attr(which, &attributes, &mask) != 0)
      return errno;
    if (const int error = modify_qp(which->qp, &attributes, mask); error != 0)
      return error;
  }
  return 0;
}

void fail_queue_pair(rdma_cm_id* which)
{
  if (which->qp == nullptr || which->qp_type == IBV_QPT_UD)
    return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  modify_qp(which->qp, &attributes, IBV_QP_STATE);
}

int create_qp_ex(rdma_cm_id* which, ibv_qp_init_attr_ex* with)
{
  if (which->verbs == nullptr || which->qp != nullptr)
    return fail_call(EINVAL);
  if ((with->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || with->pd == nullptr)
  {
    with->comp_mask |= IBV_QP_INIT_ATTR_PD;
    with->pd = which->pd;
  }
  else if (with->pd->context != which->verbs)
    return fail_call(EINVAL);
  if (with->qp_type == IBV_QPT_XRC_RECV && !has_domain(*with, IBV_QP_INIT_ATTR_XRCD))
    return -1;
  int error = 0;
  if (with->recv_cq == nullptr)
    error = receive_queue(which, with->cap.max_recv_wr, with->recv_cq);
  if (error == 0 && with->send_cq == nullptr && with->qp_type != IBV_QPT_XRC_RECV)
  {
    error = make_queue(which, with->cap.max_send_wr, which->send_cq, which->send_cq_channel);
    with->send_cq = which->send_cq;
  }
  if (with->srq == nullptr)
    with->srq = which->srq;
  if (error == 0)
  {
    which->qp = software::create_qp_ex(which->verbs, with);
    error = which->qp != nullptr ? 0 : errno;
  }
  if (error == 0)
  {
    which->qp_type = with->qp_type;
    which->pd = with->pd;
    error = prepare_queue_pair(which);
  }
  if (error == 0)
    return 0;
  destroy_qp(which);
  return fail_call(error);
}

int create_qp(rdma_cm_id* which, ibv_pd* domain, ibv_qp_init_attr* with)
{
  ibv_qp_init_attr_ex extended{};
  std::memcpy(&extended, with, sizeof *with); // it begins with the same members
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = domain != nullptr ? domain : which->pd;
  const int result = create_qp_ex(which, &extended);
  std::memcpy(with, &extended, sizeof *with);
  return result;
}

void destroy_qp(rdma_cm_id* which)
{
  if (which->qp != nullptr)
    software::destroy_qp(std::exchange(which->qp, nullptr));
  destroy_queues(which);
}

int create_srq_ex(rdma_cm_id* which, ibv_srq_init_attr_ex* with)
{
  if (which->verbs == nullptr || which->srq != nullptr)
    return fail_call(EINVAL);
  if ((with->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || with->pd == nullptr)
  {
    with->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    with->pd = which->pd;
  }
  if (with->srq_type == IBV_SRQT_XRC && (with->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0)
  {
    if (!has_domain(*with, IBV_SRQ_INIT_ATTR_XRCD))
      return -1;
    if ((with->comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || with->cq == nullptr)
      if (const int error = receive_queue(which, with->attr.max_wr, with->cq); error != 0)
        return fail_call(error);
    with->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
  }
  which->srq = software::create_srq_ex(which->verbs, with);
  if (which->srq == nullptr)
    return -1;
  which->pd = with->pd;
  return 0;
}

int create_srq(rdma_cm_id* which, ibv_pd* domain, ibv_srq_init_attr* with)
{
  ibv_srq_init_attr_ex extended{};
  extended.srq_context = with->srq_context;
  extended.attr = with->attr;
  extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  const bool xrc = which->qp_type == IBV_QPT_XRC_RECV || which->qp_type == IBV_QPT_XRC_SEND;
  extended.srq_type = xrc ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  extended.pd = domain;
  const int result = create_srq_ex(which, &extended);
  with->attr = extended.attr;
  return result;
}

void destroy_srq(rdma_cm_id* which)
{
  if (which->srq != nullptr)
    software::destroy_srq(std::exchange(which->srq, nullptr));
  if (which->qp == nullptr)
    destroy_queues(which);
}

int create_ep(rdma_cm_id** to, rdma_addrinfo* from, ibv_pd* domain, ibv_qp_init_attr* with)
{
  constexpr int timeout_ms = 2000;
  rdma_cm_id* made = nullptr;
  if (create_id(nullptr, &made, nullptr, static_cast<rdma_port_space>(from->ai_port_space)) != 0)
    return -1;
  made->qp_type = static_cast<ibv_qp_type>(from->ai_qp_type);
  int result = 0;
  if ((from->ai_flags & RAI_PASSIVE) != 0)
  {
    result = bind_addr(made, from->ai_src_addr);
    if (domain != nullptr)
      made->pd = domain;
    if (with != nullptr)
    {
      identifier::of(made).child_attributes = *with;
      identifier::of(made).child_attributes->qp_type = made->qp_type;
    }
  }
  else
  {
    result = resolve_addr(made, from->ai_src_addr, from->ai_dst_addr, timeout_ms);
    if (result == 0)
      result = resolve_route(made, timeout_ms);
    if (result == 0 && with != nullptr)
    {
      with->qp_type = made->qp_type;
      result = create_qp(made, domain, with);
    }
  }
  if (result == 0)
    *to = made;
  else
  {
    const int error = errno;
    destroy_ep(made);
    errno = error;
  }
  return result;
}

void destroy_ep(rdma_cm_id* which)
{
  destroy_qp(which);
  destroy_srq(which);
  destroy_id(which);
}

int get_request(rdma_cm_id* listener, rdma_cm_id** to)
{
  identifier& from = identifier::of(listener);
  if (!from.own_channel)
    return fail_call(EINVAL);
  if (listener->event != nullptr)
    ack_cm_event(std::exchange(listener->event, nullptr));
  rdma_cm_event* event = nullptr;
  if (get_cm_event(listener->channel, &event) != 0)
    return -1;
  int error = event->status;
  if (error == 0 && event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
    error = EINVAL;
  if (error == 0 && from.child_attributes)
  {
    ibv_qp_init_attr with = *from.child_attributes;
    if (create_qp(event->id, listener->pd, &with) != 0)
      error = errno;
  }
  if (error != 0)
  {
    listener->event = event;
    return fail_call(error < 0 ? -error : error);
  }
  *to = event->id;
  event->id->event = event;
  return 0;
}

int getaddrinfo(
  const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** to)
{
  const int flags = hints != nullptr ? hints->ai_flags : 0;
  addrinfo wanted{};
  wanted.ai_flags = ((flags & RAI_PASSIVE) != 0 ? AI_PASSIVE : 0)
    | ((flags & RAI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0);
  wanted.ai_family = hints != nullptr ? hints->ai_family : AF_UNSPEC;
  int space = hints != nullptr ? hints->ai_port_space : 0;
  if (space == 0)
    space = hints != nullptr && hints->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  wanted.ai_socktype = space == RDMA_PS_UDP ? SOCK_DGRAM : SOCK_STREAM;
  std::unique_ptr<address_info> made(new (std::nothrow) address_info);
  if (!made)
    return fail_call(ENOMEM);
  made->ai_flags = flags;
  made->ai_port_space = space;
  made->ai_qp_type = hints != nullptr && hints->ai_qp_type != 0 ? hints->ai_qp_type
    : space == RDMA_PS_UDP                                      ? int{IBV_QPT_UD}
                                                                : int{IBV_QPT_RC};
  if (node != nullptr || service != nullptr)
  {
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(node, service, &wanted, &found); error != 0)
    {
      if (error != EAI_SYSTEM)
        errno = error == EAI_MEMORY ? ENOMEM : error == EAI_AGAIN ? EAGAIN : ENODATA;
      return error;
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
    made->ai_family = found->ai_family;
    if ((flags & RAI_PASSIVE) != 0)
      set_address(
        made->source, found->ai_addr, found->ai_addrlen, made->ai_src_addr, made->ai_src_len);
    else
      set_address(
        made->destination, found->ai_addr, found->ai_addrlen, made->ai_dst_addr, made->ai_dst_len);
  }
  if (hints != nullptr && made->ai_src_addr == nullptr && hints->ai_src_addr != nullptr
    && hints->ai_src_len <= sizeof made->source)
    set_address(
      made->source, hints->ai_src_addr, hints->ai_src_len, made->ai_src_addr, made->ai_src_len);
  if (hints != nullptr && made->ai_dst_addr == nullptr && hints->ai_dst_addr != nullptr
    && hints->ai_dst_len <= sizeof made->destination)
    set_address(made->destination, hints->ai_dst_addr, hints->ai_dst_len, made->ai_dst_addr,
      made->ai_dst_len);
  // Without a name: the family of the given address.
  if (const sockaddr* const given =
        made->ai_dst_addr != nullptr ? made->ai_dst_addr : made->ai_src_addr;
      made->ai_family == AF_UNSPEC && given != nullptr)
    made->ai_family = given->sa_family;
  *to = made.release();
  return 0;
}

void freeaddrinfo(rdma_addrinfo* list)
{
  while (list != nullptr)
    delete static_cast<address_info*>(std::exchange(list, list->ai_next));
}

ibv_context** get_devices(int* count)
{
  ibv_context* const one = device();
  auto** const list =
    one != nullptr ? new (std::nothrow) ibv_context* [2] { one, nullptr } : nullptr;
  if (one != nullptr && list == nullptr)
    errno = ENOMEM;
  if (count != nullptr)
    *count = list != nullptr ? 1 : 0;
  return list;
}

void free_devices(ibv_context** list)
{
  delete[] list;
}

} // namespace rdma::software::cm
