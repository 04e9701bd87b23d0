//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_SIDE_HPP
#define BOOST_RDMA_TOOLS_PERF_SIDE_HPP

#include "bench/control_channel.hpp"
#include "perf/histogram.hpp"
#include "perf/test_case.hpp"

#include <boost_rdma/error.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace perf {

using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

inline void check(const rdma::error_code& ec)
{
  if (ec)
    throw rdma::system_error(ec);
}

/// One process's end of a test case, connected to the other's when it has been made.
class side
{
public:
  virtual ~side() = default;

  /// The client's: `count` operations. Those of bandwidth return when all have arrived.
  /** @param latencies Takes the time of each; of round trips half. Null: nothing is recorded. */
  virtual seconds run(std::uint64_t count, histogram* latencies) = 0;

  /// The server's part in it. Calls `ready` once when the client may begin.
  virtual void serve(std::uint64_t count, const std::function<void()>& ready) = 0;

  /// The wire that it really runs on, where there is one.
  [[nodiscard]] virtual std::string wire() const { return {}; }

  /// The client's count is a multiple of this.
  [[nodiscard]] virtual std::uint64_t unit() const { return 1; }
};

/// Connects over the control channel.
std::unique_ptr<side> make_side(
  const test_case& what, bench::control_channel& control, bool server);

std::unique_ptr<side> make_library_side(const test_case& what, bench::control_channel& control);
std::unique_ptr<side> make_raw_side(const test_case& what, bench::control_channel& control);
std::unique_ptr<side> make_tcp_side(
  const test_case& what, bench::control_channel& control, bool server);
std::unique_ptr<side> make_memory_side(const test_case& what);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_SIDE_HPP
