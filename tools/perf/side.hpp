//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_SIDE_HPP
#define BOOST_RDMA_TOOLS_PERF_SIDE_HPP

#include "measure/control_channel.hpp"
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

/// One process's end of a test case. It is connected to the other end after construction.
class side
{
public:
  virtual ~side() = default;

  /// Runs `count` operations as the client. For bandwidth, returns when all have arrived.
  /** @param latencies Receives each latency (half of each round trip). Null: not recorded. */
  virtual seconds run(std::uint64_t count, histogram* latencies) = 0;

  /// Runs the server's part. Calls `ready` once when the client may begin.
  virtual void serve(std::uint64_t count, const std::function<void()>& ready) = 0;

  /// Returns the wire in use, if there is one.
  [[nodiscard]] virtual std::string wire() const { return {}; }

  /// The client's count must be a multiple of this.
  [[nodiscard]] virtual std::uint64_t unit() const { return 1; }
};

/// Creates a side, which connects over the control channel.
std::unique_ptr<side> make_side(
  const test_case& what, bench::control_channel& control, bool server);

std::unique_ptr<side> make_library_side(const test_case& what, bench::control_channel& control);
std::unique_ptr<side> make_raw_side(const test_case& what, bench::control_channel& control);
std::unique_ptr<side> make_object_side(
  const test_case& what, bench::control_channel& control, bool server);
std::unique_ptr<side> make_rpc_side(
  const test_case& what, bench::control_channel& control, bool server);
std::unique_ptr<side> make_tcp_side(
  const test_case& what, bench::control_channel& control, bool server);
std::unique_ptr<side> make_memory_side(const test_case& what);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_SIDE_HPP
