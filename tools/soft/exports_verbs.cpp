//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "soft/exports.hpp"
#include "soft/settings.hpp"

#include "verbs/software/software.hpp"

#include <cstdint>
#include <cstdio>
#include <new>

// The functions of the software device's table of verbs.

using namespace rdma::soft;

extern "C" {

ibv_device** ibv_get_device_list(int* count)
{
  // An invalid variable is reported when a device is opened.
  const std::uint32_t size = read_environment().devices;
  auto** const list = new (std::nothrow) ibv_device* [size + 1] {};
  if (list == nullptr)
    errno = ENOMEM;
  for (std::uint32_t i = 0; list != nullptr && i != size; ++i)
    list[i] = rdma::software::the_device(i);
  if (count != nullptr)
    *count = list != nullptr ? static_cast<int>(size) : 0;
  return list;
}

void ibv_free_device_list(ibv_device** list)
{
  device().free_device_list(list);
}

const char* ibv_get_device_name(ibv_device* which)
{
  return ours(which) ? device().get_device_name(which) : nullptr;
}

__be64 ibv_get_device_guid(ibv_device* which)
{
  return ours(which) ? device().get_device_guid(which) : 0;
}

ibv_context* ibv_open_device(ibv_device* which)
{
  if (!ours(which))
    return refuse<ibv_context>(EINVAL);
  const environment with = read_environment();
  if (!with.wrong.empty())
  {
    // stderr, like libibverbs' own warnings: the program does not know these variables.
    std::fprintf(stderr, "rdma_soft: %s\n", with.wrong.c_str());
    return refuse<ibv_context>(EINVAL);
  }
  ibv_context* const opened =
    rdma::software::open_device(with.settings, rdma::software::index_of(which));
  if (opened != nullptr && with.share_memory)
    rdma::software::share_registered_memory(opened);
  return opened;
}

// libibverbs closes the driver's file, and the kernel then frees the remaining objects. Programs
// rely on that (perftest leaves a completion queue).
int ibv_close_device(ibv_context* context)
{
  if (!ours(context))
    return refuse(EINVAL);
  if (device().close_device(context) == 0)
    return 0;
  if (errno != EBUSY)
    return -1;
  const int error = rdma::software::abandon_device(context);
  return error == 0 ? 0 : refuse(error);
}

int ibv_query_device(ibv_context* context, ibv_device_attr* to)
{
  return ours(context) ? device().query_device(context, to) : EINVAL;
}

int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* to)
{
  return ours(context) ? device().query_port(context, port, to) : EINVAL;
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* to)
{
  if (ours(context))
    return device().query_gid(context, port, index, to);
  return refuse(EINVAL);
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
  ibv_gid_entry* to, std::uint32_t flags, std::size_t size)
{
  return ours(context) ? device().query_gid_ex(context, port, index, to, flags, size) : EINVAL;
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* to)
{
  if (ours(context))
    return device().query_pkey(context, port, index, to);
  return refuse(EINVAL);
}

ibv_pd* ibv_alloc_pd(ibv_context* context)
{
  return ours(context) ? device().alloc_pd(context) : refuse<ibv_pd>(EINVAL);
}

int ibv_dealloc_pd(ibv_pd* pd)
{
  return ours(pd) ? device().dealloc_pd(pd) : EINVAL;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access)
{
  return ours(pd) ? device().reg_mr(pd, address, length, access) : refuse<ibv_mr>(EINVAL);
}

int ibv_dereg_mr(ibv_mr* mr)
{
  return ours(mr) ? device().dereg_mr(mr) : EINVAL;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context)
{
  return ours(context) ? device().create_comp_channel(context) : refuse<ibv_comp_channel>(EINVAL);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel)
{
  return ours(channel) ? device().destroy_comp_channel(channel) : EINVAL;
}

ibv_cq* ibv_create_cq(
  ibv_context* context, int depth, void* user, ibv_comp_channel* channel, int vector)
{
  return ours(context) ? device().create_cq(context, depth, user, channel, vector)
                       : refuse<ibv_cq>(EINVAL);
}

int ibv_resize_cq(ibv_cq* cq, int depth)
{
  return ours(cq) ? device().resize_cq(cq, depth) : EINVAL;
}

int ibv_destroy_cq(ibv_cq* cq)
{
  return ours(cq) ? device().destroy_cq(cq) : EINVAL;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user)
{
  if (ours(channel))
    return device().get_cq_event(channel, cq, user);
  return refuse(EINVAL);
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count)
{
  if (ours(cq))
    device().ack_cq_events(cq, count);
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* with)
{
  return ours(pd) ? device().create_srq(pd, with) : refuse<ibv_srq>(EINVAL);
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* to, int mask)
{
  return ours(srq) ? device().modify_srq(srq, to, mask) : EINVAL;
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* to)
{
  return ours(srq) ? device().query_srq(srq, to) : EINVAL;
}

int ibv_destroy_srq(ibv_srq* srq)
{
  return ours(srq) ? device().destroy_srq(srq) : EINVAL;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* with)
{
  return ours(pd) ? device().create_qp(pd, with) : refuse<ibv_qp>(EINVAL);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* to, int mask)
{
  return ours(qp) ? device().modify_qp(qp, to, mask) : EINVAL;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* to, int mask, ibv_qp_init_attr* init)
{
  return ours(qp) ? device().query_qp(qp, to, mask, init) : EINVAL;
}

int ibv_destroy_qp(ibv_qp* qp)
{
  return ours(qp) ? device().destroy_qp(qp) : EINVAL;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* to)
{
  if (ours(context))
    return device().get_async_event(context, to);
  return refuse(EINVAL);
}

void ibv_ack_async_event(ibv_async_event* event)
{
  bool known = false; // and belongs to one of our objects
  switch (event->event_type)
  {
  case IBV_EVENT_CQ_ERR:
    known = ours(event->element.cq);
    break;
  case IBV_EVENT_SRQ_ERR:
  case IBV_EVENT_SRQ_LIMIT_REACHED:
    known = ours(event->element.srq);
    break;
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_QP_LAST_WQE_REACHED:
    known = ours(event->element.qp);
    break;
  default: // no object: no acknowledgement needed
    break;
  }
  if (known)
    device().ack_async_event(event);
}

const char* ibv_wc_status_str(ibv_wc_status status)
{
  return device().wc_status_str(status);
}

const char* ibv_event_type_str(ibv_event_type type)
{
  return device().event_type_str(type);
}

} // extern "C"
