//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_ENDINGS_HPP
#define BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_ENDINGS_HPP

#include "completion/queue_pair_core.hpp"
#include "completion/waiting_list.hpp"

#include <cstdint>

namespace rdma::detail {

// The handlers that wait for a connection's end.
struct queue_pair_core::endings
{
  waiting_list<> closes;    // async_wait_close
  waiting_list<> shutdowns; // async_shutdown
  std::uint64_t last_number = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_ENDINGS_HPP
