//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_SHARED_RECEIVE_QUEUE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_SHARED_RECEIVE_QUEUE_HPP

#include "verbs/software/objects/events.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/protocol/work_queue.hpp"

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace rdma::software {

struct xrc_domain;

struct shared_receive_queue : ibv_srq
{
  shared_receive_queue(
    std::uint32_t depth, std::uint32_t elements, const protocol::queue_memory* from)
    : ibv_srq{}
    , queue(depth, elements * sizeof(ibv_sge), from)
    , elements_max(elements)
  {
  }

  /// Takes the oldest receive. Returns false if there is none; the queue pair `waiter` then waits,
  /// unless it is 0.
  bool take(protocol::receive_work& to, std::uint32_t waiter) noexcept;

  /// The thread that posts a receive serves this queue pair, unless too many wait: their requesters
  /// repeat by themselves. The mutex of `queue` is held.
  void await(std::uint32_t waiter) noexcept;

  /// Returns the queue pair that has waited longest and forgets it; 0: none.
  std::uint32_t take_waiter() noexcept;

  protocol::receive_queue queue;
  const std::uint32_t elements_max;
  std::uint32_t limit = 0; ///< an event when fewer receives are left; under queue.mutex
  std::atomic<std::uint32_t> users{0};
  std::array<std::uint32_t, 16> waiters{}; ///< under queue.mutex
  std::atomic<std::uint32_t> waiting{0};   ///< number of waiters; written under queue.mutex
  event_count events;

  // XRC; constant once a peer can name the queue.
  xrc_domain* xrcd = nullptr; ///< null: the basic type
  ibv_cq* cq = nullptr;
  std::uint32_t number = 0;
};

/// Copies receives into a queue, for ibv_post_recv and ibv_post_srq_recv; returns 0 or an errno.
int fill(protocol::receive_queue& queue, std::uint32_t elements_max, ibv_recv_wr* wr,
  ibv_recv_wr** bad) noexcept;

/// Takes the oldest receive. Returns false if there is none. The caller holds the mutex.
bool take_oldest(protocol::receive_queue& queue, protocol::receive_work& to) noexcept;

/// Makes a new queue one of the XRC type. Returns 0 or an errno.
int join_domain(ibv_srq& queue, ibv_xrcd& xrcd, ibv_cq& completions) noexcept;

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* with);
int modify_srq(ibv_srq* srq, ibv_srq_attr* to, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* to);
int destroy_srq(ibv_srq* srq);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_SHARED_RECEIVE_QUEUE_HPP
