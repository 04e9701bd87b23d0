//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_ACTIVITY_HPP
#define BOOST_RDMA_LIB_RESOURCE_ACTIVITY_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "boost_rdma/detail/request_kind.hpp"
#include "boost_rdma/statistics.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

// Counters for context::statistics().

namespace rdma::detail {

// Counters of a completion queue. The thread that polls the queue is the only writer, so that an
// addition needs no locked instruction. relaxed: readers need no order between the counters, and
// the queue passes them on from one polling thread to the next. They have cache lines of their own.
class alignas(64) completion_counters
{
public:
  // A reference, so that the addition reads it: 8 instructions in all.
  void completed(request_kind kind, const std::size_t& bytes) noexcept
  {
    counter* const of = &values_[static_cast<std::size_t>(kind)];
    add(of[0], 1);
    add(of[kinds], bytes);
  }
  void failed(unsigned status) noexcept; // an ibv_wc_status

  void add_to(statistics& sum) const noexcept;

private:
  using counter = std::atomic<std::uint64_t>;
  static constexpr std::size_t kinds = static_cast<std::size_t>(request_kind::batch) + 1;

  static void add(counter& to, const std::uint64_t& count) noexcept
  {
    const std::uint64_t before = to.load(std::memory_order_relaxed);
    to.store(before + count, std::memory_order_relaxed);
  }

  // Operations of each kind, bytes of each kind, errors of each status.
  std::array<counter, 2 * kinds + std::tuple_size_v<decltype(statistics::errors)>> values_{};
};

// The activity on a context's devices. Its mutex is innermost. In a child process, in which a
// thread of the parent may have locked it, nothing is counted or read.
class activity
{
public:
  // Between these calls read() includes the counters, and afterwards their last values. May throw
  // bad_alloc.
  void add(const completion_counters& counters);
  void remove(const completion_counters& counters) noexcept;

  using transport = connection_statistics statistics::*;
  void connected(transport by) noexcept;
  void connecting_failed(transport by) noexcept;
  void disconnected(transport by, const error_code& reason) noexcept;

  // Sets the members of `to` except `pool` and `cache`.
  void read(statistics& to) const;

private:
  const process_mark process_;
  mutable std::mutex mutex_;
  std::vector<const completion_counters*> queues_;
  statistics ended_; // operations of completion queues that no longer exist; all connections
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_ACTIVITY_HPP
