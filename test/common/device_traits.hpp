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

/// What a test may need of the device that it runs on.
enum class feature
{
  atomics,
  memory_windows,
  write_with_immediate,
  shared_receive_queues,
  exact_statuses,        ///< the statuses of IBA 9.9 on both sides, rather than some error
  local_statuses,        ///< and those of what a device finds wrong with its own program's buffers
  completion_details,    ///< what ibv_poll_cq(3) says of flags, src_qp and vendor_err
  affiliated_events,     ///< asynchronous events about queue pairs (ibv_get_async_event(3))
  argument_checks,       ///< refuses what it cannot carry out when it is asked for it
  exact_depths,          ///< as many slots as asked for, each kept until its completion is polled
  read_limits,           ///< keeps to the read depths of both ends
  reset_forgets,         ///< a reset takes the queue pair's completions out of their queue
  drained_queue_resumes, ///< goes on with what was posted while the send queue was drained
  late_receive_flush,    ///< flushes receives that are posted in the error state, too
  answers_checked_first, ///< asks only when the answer has a place that it may be written to
  refusal_keeps_receive, ///< a refused write with immediate data takes no receive
  window_bounds,         ///< keeps the peer to the part of a region that a window was bound to
  unbound_invalidation,  ///< refuses to invalidate a window that is not bound
  unbinds_on_destroy,    ///< a queue pair can be destroyed before the windows that it has bound
  endpoint_descriptions, ///< connects without a connection manager
  software_device,       ///< is the one of this library: its wire, its engine, its settings
  connection_manager,    ///< connects by RDMA-CM
  pinned_memory,         ///< a registration holds the pages that were there when it was made
};

/// The device under test: what BOOST_RDMA_TEST_DEVICE names, or the software device.
const std::string& device_name();

/// Whether everything is some twenty times as slow as it would be: tests that repeat something
/// thousands of times repeat it less often. test/vm/run_cases says so by BOOST_RDMA_TEST_EMULATED.
bool emulated();

/// Why the device under test lacks this; empty when it does not.
std::string missing(feature wanted);

/// Whether the device under test has it. Where not, says what the test case leaves out.
bool has(feature wanted);

/// For fixtures: ends the test case, from wherever it is, if the device under test lacks this.
void need(feature wanted);

} // namespace test

/// Ends a test case that needs what the device under test lacks. With test::need(), the only way to
/// skip a test; and test::has() is the only way to leave out a part of one.
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
