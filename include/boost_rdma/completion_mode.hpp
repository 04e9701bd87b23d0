//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_COMPLETION_MODE_HPP
#define BOOST_RDMA_COMPLETION_MODE_HPP

namespace rdma {

/// Method by which a completion queue detects completed work.
enum class completion_mode
{
  /// Waits for the completion channel. Uses no processor time while idle. A wake-up takes 4 to 50
  /// us, depending on machine and load, so the queue polls for 30 us after each activity.
  event,
  /// Polls as long as operations are outstanding. Has the lowest latency and occupies a processor.
  busy_poll,
  /// Polls for a limited time after each activity, then waits for the completion channel. The
  /// default.
  adaptive,
  /// Does nothing by itself. The program calls completion_queue::poll().
  manual,
  /// As manual, for the event loop of a program that does not run an execution context: poll() also
  /// calls the handlers whose executor is the queue's, and the loop may sleep, see
  /// completion_queue::arm().
  external,
};

} // namespace rdma

#endif // BOOST_RDMA_COMPLETION_MODE_HPP
