//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_PLAN_HPP
#define BOOST_RDMA_TOOLS_PERF_PLAN_HPP

#include "perf/results.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace perf {

/// The options of the command line.
struct settings
{
  bool quick = false;
  int rounds = 5;
  std::chrono::milliseconds duration{100}; ///< of each case in each round
  std::chrono::milliseconds overload{10'000};
  std::vector<std::string> wires;   ///< empty: all available
  std::string only;                 ///< text in the keys of the groups; empty: all
  std::string only_case;            ///< text in the names of the cases; empty: all
  std::vector<unsigned> processors; ///< client's, server's; empty: the scheduler's choice
  std::vector<std::uint32_t> sizes;
  bool instructions = false;
  int gid_index = 0;
  std::string rdma_soft; ///< the launcher for the software device; empty: search for it
};

// Cases to which goals refer.
test_case small_send(
  std::size_t transport, rdma::completion_mode mode, token how = token::callback);
test_case small_send_raw(std::size_t transport);
test_case small_send_tcp();
test_case small_send_ucx(std::size_t transport);
test_case object(operation what, std::size_t transport);
/// A read of 64 B at one of many places.
test_case read_of_many(std::size_t transport);
test_case ring_records(std::size_t transport);
test_case small_stream(std::size_t transport, rdma::completion_mode mode);
test_case large_write(std::size_t transport, std::uint32_t buffers = 1);
test_case large_send(std::size_t transport);
test_case large_memory(std::uint32_t buffers);
test_case empty_calls(std::size_t transport, rdma::completion_mode mode);
test_case many_empty_calls(std::size_t transport, rdma::completion_mode mode);
/// Returns the case of this library's calls that pull, or that of its reads.
test_case many_clients(std::size_t transport);
test_case expired_calls(std::size_t transport);
test_case large_pull(std::size_t transport, contender who, std::uint32_t pulls = 1);
test_case large_stream(std::size_t transport);
test_case large_tcp();
test_case many_streams(std::size_t transport);
test_case many_sockets(contender who);
test_case first_write(std::size_t transport, std::uint32_t use);
test_case large_ucx(std::size_t transport, operation what);
test_case small_writes(
  contender who, std::size_t transport, std::uint32_t depth, std::uint32_t batch);

test_case small_writes_tcp();
test_case scattered_reads(std::size_t transport);

/// Returns the case with memory of the program's own.
test_case own_memory(test_case what);
test_case perftest_send(contender who);
test_case perftest_write(contender who);

inline constexpr std::uint32_t many_buffers = 16;

std::vector<group> plan(const settings& how);

/// Returns the number of rounds for a group. Sweeps have many cases and show a curve, so they need
/// fewer.
inline int rounds_of(const group& what, const settings& how)
{
  return what.by == group::axis::size ? (how.rounds + 1) / 2 : how.rounds;
}

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_PLAN_HPP
