//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_NATIVE_HPP
#define BOOST_RDMA_NATIVE_HPP

// The only public header that pulls in rdma-core's. Include it to call verbs on the objects that
// the native_handle() members return; it needs libibverbs-dev.
//
// On objects of the software device only those calls are permitted that go through the object's own
// table: ibv_post_send(), ibv_post_recv(), ibv_poll_cq(), ibv_req_notify_cq(), the ibv_wr_ calls
// and the others that this header defines inline. What libibverbs exports (ibv_query_qp(),
// ibv_modify_qp()) takes every object for one of its own drivers', and crashes.

#include <infiniband/verbs.h>

#endif // BOOST_RDMA_NATIVE_HPP
