//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_COMPLETION_MODE_HPP
#define BOOST_RDMA_COMPLETION_MODE_HPP

namespace rdma {

/// How a completion queue learns that work has completed.
enum class completion_mode
{
  /// Waits for the completion channel. No processor time while idle; a wake-up costs 4 to 50 us, by
  /// machine and load.
  event,
  /// Polls for as long as operations are outstanding. Lowest latency; occupies a processor.
  busy_poll,
  /// Polls for a bounded time after each sign of activity, then waits for the channel. The default.
  adaptive,
  /// Does nothing by itself: completion_queue::poll() is called by the user.
  manual,
};

} // namespace rdma

#endif // BOOST_RDMA_COMPLETION_MODE_HPP
