//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_VERBS_FWD_HPP
#define BOOST_RDMA_VERBS_FWD_HPP

// Declares the verbs objects that public headers mention by pointer. Only <boost_rdma/native.hpp>
// includes <infiniband/verbs.h>, so that programs need no rdma-core headers otherwise.

struct ibv_ah;
struct ibv_async_event;
struct ibv_comp_channel;
struct ibv_context;
struct ibv_cq;
struct ibv_device;
struct ibv_mr;
struct ibv_mw;
struct ibv_pd;
struct ibv_qp;
struct ibv_qp_attr;
struct ibv_recv_wr;
struct ibv_send_wr;
struct ibv_sge;
struct ibv_srq;
struct ibv_wc;

#endif // BOOST_RDMA_VERBS_FWD_HPP
