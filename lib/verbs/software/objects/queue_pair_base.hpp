//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_BASE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_BASE_HPP

#include "verbs/software/objects/events.hpp"
#include "verbs/software/objects/extension.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"

#include "verbs/software/protocol/work_queue.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>

namespace rdma::software {

struct device_context;

/// What queue pairs of all services have: their queues, and what they were created with.
struct queue_pair_base : extensible_queue_pair
{
  queue_pair_base(device_context& owner, const ibv_qp_init_attr& with)
    : context_of(owner)
    , cap(with.cap)
    , signal_all(with.sq_sig_all != 0)
    , sends(std::max(with.cap.max_send_wr, 1u), request_extra(with.cap))
    , receives(std::max(with.cap.max_recv_wr, 1u), with.cap.max_recv_sge * sizeof(ibv_sge))
    , shared(static_cast<shared_receive_queue*>(with.srq))
  {
  }

  device_context& context_of;
  const ibv_qp_cap cap;
  const bool signal_all;
  protocol::send_queue sends;
  protocol::receive_queue receives;
  shared_receive_queue* const shared;
  event_count events;

private:
  static std::size_t request_extra(const ibv_qp_cap& cap)
  {
    return std::max<std::size_t>(cap.max_inline_data, cap.max_send_sge * sizeof(ibv_sge));
  }
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_BASE_HPP
