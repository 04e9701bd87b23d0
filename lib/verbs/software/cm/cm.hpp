//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_CM_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_CM_HPP

#include "verbs/cm_api.hpp"

#include <cstddef>
#include <cstdint>

// RDMA-CM on the software device: the functions of librdmacm. The manual page of rdma_NAME
// describes each. doc/rdma_cm.md describes the protocol.

namespace rdma::software {

/// The functions that this library calls.
const verbs::cm_api& cm_api();

namespace cm {

rdma_event_channel* create_event_channel();
void destroy_event_channel(rdma_event_channel* channel);
int get_cm_event(rdma_event_channel* channel, rdma_cm_event** to);
int ack_cm_event(rdma_cm_event* event);
const char* event_str(rdma_cm_event_type type);

int create_id(rdma_event_channel* channel, rdma_cm_id** to, void* context, rdma_port_space space);
int destroy_id(rdma_cm_id* which);
int migrate_id(rdma_cm_id* which, rdma_event_channel* channel);
int set_option(rdma_cm_id* which, int level, int name, void* value, std::size_t size);
int bind_addr(rdma_cm_id* which, sockaddr* address);
int resolve_addr(rdma_cm_id* which, sockaddr* source, sockaddr* destination, int timeout_ms);
int resolve_route(rdma_cm_id* which, int timeout_ms);
int listen(rdma_cm_id* which, int backlog);
int connect(rdma_cm_id* which, rdma_conn_param* with);
int establish(rdma_cm_id* which);
int accept(rdma_cm_id* which, rdma_conn_param* with);
int reject(rdma_cm_id* which, const void* data, std::uint8_t size);
int notify(rdma_cm_id* which, ibv_event_type event);
int disconnect(rdma_cm_id* which);
int init_qp_attr(rdma_cm_id* which, ibv_qp_attr* attributes, int* mask);
__be16 get_src_port(rdma_cm_id* which);
__be16 get_dst_port(rdma_cm_id* which);

// Functions that programs call and the library does not: endpoint.cpp.

int create_qp(rdma_cm_id* which, ibv_pd* domain, ibv_qp_init_attr* with);
int create_qp_ex(rdma_cm_id* which, ibv_qp_init_attr_ex* with);
void destroy_qp(rdma_cm_id* which);
int create_srq(rdma_cm_id* which, ibv_pd* domain, ibv_srq_init_attr* with);
int create_srq_ex(rdma_cm_id* which, ibv_srq_init_attr_ex* with);
void destroy_srq(rdma_cm_id* which);
int create_ep(rdma_cm_id** to, rdma_addrinfo* from, ibv_pd* domain, ibv_qp_init_attr* with);
void destroy_ep(rdma_cm_id* which);
int get_request(rdma_cm_id* listener, rdma_cm_id** to);
int getaddrinfo(
  const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** to);
void freeaddrinfo(rdma_addrinfo* list);
ibv_context** get_devices(int* count);
void free_devices(ibv_context** list);

/// Moves the queue pair of an id to RTR and RTS, if it has one. Returns 0 or an errno.
int move_queue_pair(rdma_cm_id* which);

/// Moves the queue pair of an id to the error state, if it has one.
void fail_queue_pair(rdma_cm_id* which);

/// Waits for the event of an operation on an id that blocks. Returns 0, or -1 with errno set.
int complete(rdma_cm_id* which);

} // namespace cm
} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_CM_HPP
