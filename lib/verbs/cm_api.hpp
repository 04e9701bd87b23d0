//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_CM_API_HPP
#define BOOST_RDMA_LIB_VERBS_CM_API_HPP

#include "verbs/api.hpp"

#include <rdma/rdma_cma.h>

#include <string>

// The C functions of librdmacm that this library calls: X(member of the table, C function).
#define BOOST_RDMA_CM_FUNCTIONS(X)                                                                 \
  X(create_event_channel, rdma_create_event_channel)                                               \
  X(destroy_event_channel, rdma_destroy_event_channel)                                             \
  X(get_cm_event, rdma_get_cm_event)                                                               \
  X(ack_cm_event, rdma_ack_cm_event)                                                               \
  X(event_str, rdma_event_str)                                                                     \
  X(create_id, rdma_create_id)                                                                     \
  X(destroy_id, rdma_destroy_id)                                                                   \
  X(set_option, rdma_set_option)                                                                   \
  X(bind_addr, rdma_bind_addr)                                                                     \
  X(resolve_addr, rdma_resolve_addr)                                                               \
  X(resolve_route, rdma_resolve_route)                                                             \
  X(init_qp_attr, rdma_init_qp_attr)                                                               \
  X(listen, rdma_listen)                                                                           \
  X(connect, rdma_connect)                                                                         \
  X(establish, rdma_establish)                                                                     \
  X(accept, rdma_accept)                                                                           \
  X(reject, rdma_reject)                                                                           \
  X(disconnect, rdma_disconnect)

namespace rdma::verbs {

/// The functions of <rdma/rdma_cma.h>, with their own signatures.
struct cm_api
{
#define BOOST_RDMA_CM_MEMBER(member, function) decltype(&::function) member = nullptr;
  BOOST_RDMA_CM_FUNCTIONS(BOOST_RDMA_CM_MEMBER)
#undef BOOST_RDMA_CM_MEMBER
};

/// Result of loading the system's librdmacm.
struct cm_library
{
  const cm_api* functions = nullptr; ///< null when the library cannot be used
  std::string path;                  ///< the file that was loaded
  std::string reason;                ///< why functions is null, as text for the user
};

/// Loads librdmacm.so.1, or the file that BOOST_RDMA_LIBRDMACM names, at the first call.
const cm_library& system_cm();

} // namespace rdma::verbs

#endif // BOOST_RDMA_LIB_VERBS_CM_API_HPP
