//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_API_HPP
#define BOOST_RDMA_LIB_VERBS_API_HPP

#include <infiniband/verbs.h>

#include <string>

// verbs.h defines these as macros, which would replace calls through the table below.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

// The C functions of libibverbs that this library calls: X(member of the table, C function). Inline
// functions of rdma-core that call through ibv_context::ops (post_send, post_recv, poll_cq,
// req_notify_cq, alloc_mw, dealloc_mw, ...) need no entry: each device provides its own ops.
#define BOOST_RDMA_VERBS_FUNCTIONS(X)                                                              \
  X(get_device_list, ibv_get_device_list)                                                          \
  X(free_device_list, ibv_free_device_list)                                                        \
  X(get_device_name, ibv_get_device_name)                                                          \
  X(get_device_guid, ibv_get_device_guid)                                                          \
  X(open_device, ibv_open_device)                                                                  \
  X(close_device, ibv_close_device)                                                                \
  X(query_device, ibv_query_device)                                                                \
  X(query_port, ibv_query_port)                                                                    \
  X(query_gid, ibv_query_gid)                                                                      \
  X(query_gid_ex, _ibv_query_gid_ex)                                                               \
  X(query_pkey, ibv_query_pkey)                                                                    \
  X(alloc_pd, ibv_alloc_pd)                                                                        \
  X(dealloc_pd, ibv_dealloc_pd)                                                                    \
  X(reg_mr, ibv_reg_mr)                                                                            \
  X(dereg_mr, ibv_dereg_mr)                                                                        \
  X(create_comp_channel, ibv_create_comp_channel)                                                  \
  X(destroy_comp_channel, ibv_destroy_comp_channel)                                                \
  X(create_cq, ibv_create_cq)                                                                      \
  X(resize_cq, ibv_resize_cq)                                                                      \
  X(destroy_cq, ibv_destroy_cq)                                                                    \
  X(get_cq_event, ibv_get_cq_event)                                                                \
  X(ack_cq_events, ibv_ack_cq_events)                                                              \
  X(create_srq, ibv_create_srq)                                                                    \
  X(modify_srq, ibv_modify_srq)                                                                    \
  X(query_srq, ibv_query_srq)                                                                      \
  X(destroy_srq, ibv_destroy_srq)                                                                  \
  X(create_qp, ibv_create_qp)                                                                      \
  X(modify_qp, ibv_modify_qp)                                                                      \
  X(query_qp, ibv_query_qp)                                                                        \
  X(destroy_qp, ibv_destroy_qp)                                                                    \
  X(get_async_event, ibv_get_async_event)                                                          \
  X(ack_async_event, ibv_ack_async_event)                                                          \
  X(wc_status_str, ibv_wc_status_str)                                                              \
  X(event_type_str, ibv_event_type_str)

namespace rdma::verbs {

/// The functions of <infiniband/verbs.h>, with their own signatures.
/**
 * query_port takes rdma-core's _compat_ibv_port_attr*, the leading part of ibv_port_attr: pass a
 * zeroed ibv_port_attr, cast, as verbs.h itself does.
 */
struct api
{
#define BOOST_RDMA_VERBS_MEMBER(member, function) decltype(&::function) member = nullptr;
  BOOST_RDMA_VERBS_FUNCTIONS(BOOST_RDMA_VERBS_MEMBER)
#undef BOOST_RDMA_VERBS_MEMBER
};

/// Result of loading the system's libibverbs.
struct system_library
{
  const api* functions = nullptr; ///< null when the library cannot be used
  std::string path;               ///< the file that was loaded
  std::string reason;             ///< why functions is null, as text for the user
};

/// Loads libibverbs.so.1, or the file that BOOST_RDMA_LIBIBVERBS names, at the first call.
/** An empty BOOST_RDMA_LIBIBVERBS excludes the system's devices. */
const system_library& system();

} // namespace rdma::verbs

#endif // BOOST_RDMA_LIB_VERBS_API_HPP
