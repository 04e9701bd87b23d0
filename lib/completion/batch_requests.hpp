//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_BATCH_REQUESTS_HPP
#define BOOST_RDMA_LIB_COMPLETION_BATCH_REQUESTS_HPP

#include "verbs/api.hpp"

#include <vector>

namespace rdma::detail {

// The work requests of a batch, in the form that ibv_post_send(3) takes. The vectors keep their
// capacity from one batch to the next.
struct batch_requests
{
  std::vector<ibv_send_wr> requests;
  std::vector<ibv_sge> sges;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_BATCH_REQUESTS_HPP
