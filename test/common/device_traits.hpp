//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_DEVICE_TRAITS_HPP
#define BOOST_RDMA_TEST_COMMON_DEVICE_TRAITS_HPP

#include <string>

namespace test {

/// Features that a test may require of the device under test.
enum class feature
{
  atomics,
  atomic_writes, ///< IBV_WR_ATOMIC_WRITE
  memory_windows,
  write_with_immediate,
  shared_receive_queues,
  exact_statuses,     ///< the statuses of IBA 9.9 on both sides, not just any error
  local_statuses,     ///< also the statuses of errors in the local program's buffers
  completion_details, ///< flags, src_qp and vendor_err as ibv_poll_cq(3) documents them
  affiliated_events,  ///< asynchronous events about queue pairs (ibv_get_async_event(3))
  argument_checks,    ///< refuses invalid requests when they are posted
  exact_depths,       ///< exactly the requested slots, each in use until its completion is polled
  read_limits,        ///< respects the read depths of both ends
  reset_forgets,      ///< a reset removes the queue pair's completions from their queue
  drained_queue_resumes, ///< executes requests that were posted while the send queue was drained
  late_receive_flush,    ///< also flushes receives that are posted in the error state
  answers_checked_first, ///< requests an answer only if its local buffer is writable
  refusal_ends_receive,  ///< the receive of a refused write with immediate data reports it
  shared_queue_domains,  ///< a shared receive queue has a protection domain of its own
  read_refusals,         ///< the refusal of a read that has been answered in part arrives
  window_bounds,         ///< restricts the peer to the bound part of a region
  unbound_invalidation,  ///< refuses to invalidate a window that is not bound
  unbinds_on_destroy,    ///< a queue pair can be destroyed before the windows that it bound
  endpoint_descriptions, ///< connects without a connection manager
  software_device,       ///< the device of this library: its wire, its engine, its settings
  rdma_routes,           ///< only addresses of networks with an RDMA device can be reached
  private_data_limits,   ///< RDMA-CM limits private data to the size that IBA 12.6 leaves
  early_disconnect,      ///< RDMA-CM ends a connection whose request has no answer yet
  distinct_refusals,     ///< RDMA-CM distinguishes a rejection from a missing listener
  parent_domains,        ///< parent and thread domains (ibv_alloc_parent_domain(3))
  pinned_memory,         ///< a registration holds the pages that existed when it was made
};

/// Returns the device under test: the value of BOOST_RDMA_TEST_DEVICE, or the software device.
const std::string& device_name();

/// Returns true if everything is about twenty times slower than usual; tests with thousands of
/// repetitions then repeat less often. test/vm/run_cases sets BOOST_RDMA_TEST_EMULATED for this.
bool emulated();

/// Returns true if tests with thousands of repetitions do all of them, for minutes:
/// BOOST_RDMA_TEST_EXHAUSTIVE is set, as tools/check --all does.
bool exhaustive();

/// Returns the reason why the device under test lacks the feature; empty if it has it.
std::string missing(feature wanted);

/// Returns true if the device under test has the feature; otherwise reports the omitted part.
bool has(feature wanted);

/// For fixtures: ends the test case, at any call depth, if the device under test lacks the feature.
void need(feature wanted);

} // namespace test

/// Ends a test case if the device under test lacks the feature. This macro and test::need() are the
/// only ways to skip a test, and test::has() is the only way to leave out a part of one.
#define BOOST_RDMA_TEST_NEEDS(wanted)                                                              \
  do                                                                                               \
  {                                                                                                \
    if (const std::string why = ::test::missing(::test::feature::wanted); !why.empty())            \
    {                                                                                              \
      WARN("skipped on " << ::test::device_name() << ": " << why);                                 \
      return;                                                                                      \
    }                                                                                              \
  } while (false)

#endif // BOOST_RDMA_TEST_COMMON_DEVICE_TRAITS_HPP
