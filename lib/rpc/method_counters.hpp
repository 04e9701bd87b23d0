//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_METHOD_COUNTERS_HPP
#define BOOST_RDMA_LIB_RPC_METHOD_COUNTERS_HPP

#include "boost_rdma/rpc/server_statistics.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rdma::detail::rpc {

// How a call ends without a reply.
enum class call_outcome : std::uint8_t
{
  failed,
  refused,
  expired,
  cancelled,
};

// Counters of the calls of a method, of all clients of a server. All threads may use them at the
// same time. Methods do not share cache lines.
class alignas(64) method_counters
{
public:
  void arrived() noexcept { arrived_.fetch_add(1, std::memory_order_relaxed); }

  // Call one of these later than arrived(). release: who reads the end also reads the arrival.
  void ended(call_outcome how) noexcept
  {
    ended_[static_cast<std::size_t>(how)].fetch_add(1, std::memory_order_release);
  }
  void answered(std::chrono::nanoseconds after) noexcept
  {
    const auto time = static_cast<std::uint64_t>(after.count());
    sum_.fetch_add(time, std::memory_order_relaxed);
    answered_[interval_of(time)].fetch_add(1, std::memory_order_release);
  }

  // Sets all members except the name.
  void read(rdma::rpc::method_statistics& to) const noexcept
  {
    // acquire: the ends are read before the arrivals, so that there are not more of them.
    const auto ended = [&](call_outcome how)
    { return ended_[static_cast<std::size_t>(how)].load(std::memory_order_acquire); };
    for (std::size_t i = 0; i < answered_.size(); ++i)
      to.answered.counts[i] = answered_[i].load(std::memory_order_acquire);
    to.answered.sum = std::chrono::nanoseconds(sum_.load(std::memory_order_relaxed));
    to.failed = ended(call_outcome::failed);
    to.refused = ended(call_outcome::refused);
    to.expired = ended(call_outcome::expired);
    to.cancelled = ended(call_outcome::cancelled);
    to.arrived = arrived_.load(std::memory_order_relaxed);
    to.in_flight =
      to.arrived - (to.answered.count() + to.failed + to.refused + to.expired + to.cancelled);
  }

private:
  using histogram = rdma::rpc::duration_histogram;

  // An interval includes its upper bound.
  static std::size_t interval_of(std::uint64_t time) noexcept
  {
    constexpr auto first = static_cast<std::uint64_t>(histogram::upper_bound(0).count());
    constexpr auto first_width = std::bit_width(first - 1);
    const auto index =
      static_cast<std::size_t>(std::bit_width(std::max(time, first) - 1) - first_width);
    return std::min(index, histogram::size - 1);
  }

  std::atomic<std::uint64_t> arrived_{0};
  std::atomic<std::uint64_t> sum_{0}; // nanoseconds
  std::array<std::atomic<std::uint64_t>, 4> ended_{};
  std::array<std::atomic<std::uint64_t>, histogram::size> answered_{};
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_METHOD_COUNTERS_HPP
