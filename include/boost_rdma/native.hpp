//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_NATIVE_HPP
#define BOOST_RDMA_NATIVE_HPP

// The only public header that includes rdma-core's headers (libibverbs-dev). Include it to call
// verbs on the objects that native_handle() returns.
//
// On objects of the software device only calls through the object's own function table are
// permitted: ibv_post_send(), ibv_post_recv(), ibv_poll_cq(), ibv_req_notify_cq(), the ibv_wr_
// calls and the others that this header defines inline. The functions that libibverbs exports
// (ibv_query_qp(), ibv_modify_qp()) assume objects of its own drivers, and crash.

#include <infiniband/verbs.h>

#endif // BOOST_RDMA_NATIVE_HPP
