//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_SCRATCH_HPP
#define BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_SCRATCH_HPP

#include "boost_rdma/detail/queue_pair_core.hpp"
#include "verbs/api.hpp"

#include <vector>

namespace rdma::detail {

// Room to build the work requests of a batch in, kept from one batch to the next.
struct queue_pair_core::scratch
{
  std::vector<ibv_send_wr> requests;
  std::vector<ibv_sge> sges;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_SCRATCH_HPP
