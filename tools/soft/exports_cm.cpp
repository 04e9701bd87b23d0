//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "soft/exports.hpp"

#include "verbs/software/cm/cm.hpp"
#include "verbs/software/cm/device.hpp"

// The functions of librdmacm. A program that is linked with librdmacm finds these first, and so
// does librdmacm's rsocket.

using namespace rdma::soft;
namespace cm = rdma::software::cm;

namespace {

// Ids have a device with the settings of the environment, as ibv_open_device() opens it.
[[gnu::constructor]] void set_opener()
{
  cm::set_opener([] { return ::ibv_open_device(rdma::software::the_device()); });
}

} // namespace

extern "C" {

// --- event channels ---

rdma_event_channel* rdma_create_event_channel()
{
  return cm::create_event_channel();
}

void rdma_destroy_event_channel(rdma_event_channel* channel)
{
  cm::destroy_event_channel(channel);
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** to)
{
  return cm::get_cm_event(channel, to);
}

int rdma_ack_cm_event(rdma_cm_event* event)
{
  return cm::ack_cm_event(event);
}

const char* rdma_event_str(rdma_cm_event_type type)
{
  return cm::event_str(type);
}

// --- ids ---

int rdma_create_id(
  rdma_event_channel* channel, rdma_cm_id** to, void* context, rdma_port_space space)
{
  return cm::create_id(channel, to, context, space);
}

int rdma_destroy_id(rdma_cm_id* which)
{
  return cm::destroy_id(which);
}

int rdma_migrate_id(rdma_cm_id* which, rdma_event_channel* channel)
{
  return cm::migrate_id(which, channel);
}

int rdma_set_option(rdma_cm_id* which, int level, int name, void* value, std::size_t size)
{
  return cm::set_option(which, level, name, value, size);
}

int rdma_bind_addr(rdma_cm_id* which, sockaddr* address)
{
  return cm::bind_addr(which, address);
}

int rdma_resolve_addr(rdma_cm_id* which, sockaddr* source, sockaddr* destination, int timeout_ms)
{
  return cm::resolve_addr(which, source, destination, timeout_ms);
}

int rdma_resolve_route(rdma_cm_id* which, int timeout_ms)
{
  return cm::resolve_route(which, timeout_ms);
}

__be16 rdma_get_src_port(rdma_cm_id* which)
{
  return cm::get_src_port(which);
}

__be16 rdma_get_dst_port(rdma_cm_id* which)
{
  return cm::get_dst_port(which);
}

// --- connections ---

int rdma_listen(rdma_cm_id* which, int backlog)
{
  return cm::listen(which, backlog);
}

int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** to)
{
  return cm::get_request(listener, to);
}

int rdma_connect(rdma_cm_id* which, rdma_conn_param* with)
{
  return cm::connect(which, with);
}

int rdma_establish(rdma_cm_id* which)
{
  return cm::establish(which);
}

int rdma_accept(rdma_cm_id* which, rdma_conn_param* with)
{
  return cm::accept(which, with);
}

int rdma_reject(rdma_cm_id* which, const void* data, std::uint8_t size)
{
  return cm::reject(which, data, size);
}

// Enhanced connection establishment carries options of vendors' devices, which this one has not.
int rdma_reject_ece(rdma_cm_id* which, const void* data, std::uint8_t size)
{
  return cm::reject(which, data, size);
}

int rdma_set_local_ece(rdma_cm_id*, ibv_ece*)
{
  return refuse(EOPNOTSUPP);
}

int rdma_get_remote_ece(rdma_cm_id*, ibv_ece*)
{
  return refuse(EOPNOTSUPP);
}

int rdma_notify(rdma_cm_id* which, ibv_event_type event)
{
  return cm::notify(which, event);
}

int rdma_disconnect(rdma_cm_id* which)
{
  return cm::disconnect(which);
}

int rdma_init_qp_attr(rdma_cm_id* which, ibv_qp_attr* attributes, int* mask)
{
  return cm::init_qp_attr(which, attributes, mask);
}

// --- multicast: the device has none ---

int rdma_join_multicast(rdma_cm_id*, sockaddr*, void*)
{
  return refuse(EOPNOTSUPP);
}

int rdma_join_multicast_ex(rdma_cm_id*, rdma_cm_join_mc_attr_ex*, void*)
{
  return refuse(EOPNOTSUPP);
}

int rdma_leave_multicast(rdma_cm_id*, sockaddr*)
{
  return refuse(EOPNOTSUPP);
}

// --- verbs objects and combinations ---

int rdma_create_qp(rdma_cm_id* which, ibv_pd* domain, ibv_qp_init_attr* with)
{
  return cm::create_qp(which, domain, with);
}

int rdma_create_qp_ex(rdma_cm_id* which, ibv_qp_init_attr_ex* with)
{
  return cm::create_qp_ex(which, with);
}

void rdma_destroy_qp(rdma_cm_id* which)
{
  cm::destroy_qp(which);
}

int rdma_create_srq(rdma_cm_id* which, ibv_pd* domain, ibv_srq_init_attr* with)
{
  return cm::create_srq(which, domain, with);
}

int rdma_create_srq_ex(rdma_cm_id* which, ibv_srq_init_attr_ex* with)
{
  return cm::create_srq_ex(which, with);
}

void rdma_destroy_srq(rdma_cm_id* which)
{
  cm::destroy_srq(which);
}

int rdma_create_ep(rdma_cm_id** to, rdma_addrinfo* from, ibv_pd* domain, ibv_qp_init_attr* with)
{
  return cm::create_ep(to, from, domain, with);
}

void rdma_destroy_ep(rdma_cm_id* which)
{
  cm::destroy_ep(which);
}

int rdma_getaddrinfo(
  const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** to)
{
  return cm::getaddrinfo(node, service, hints, to);
}

void rdma_freeaddrinfo(rdma_addrinfo* list)
{
  cm::freeaddrinfo(list);
}

ibv_context** rdma_get_devices(int* count)
{
  return cm::get_devices(count);
}

void rdma_free_devices(ibv_context** list)
{
  cm::free_devices(list);
}

} // extern "C"
