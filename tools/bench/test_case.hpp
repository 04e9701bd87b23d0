//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_BENCH_TEST_CASE_HPP
#define BOOST_RDMA_TOOLS_BENCH_TEST_CASE_HPP

#include <boost_rdma/completion_mode.hpp>

#include <chrono>
#include <cstddef>
#include <string>

namespace bench {

enum class transport
{
  tcp,         // plain Asio, waiting in epoll
  tcp_polling, // a non-blocking socket that is read until there is something
  rdma,
};

enum class workload
{
  round_trip,   // small messages, one at a time, there and back
  bulk_send,    // large messages, several in flight
  bulk_write,   // large one-sided writes, several in flight
  small_writes, // small one-sided writes, or as many small messages where there are no such writes
};

enum class style
{
  callbacks,
  coroutines,
};

constexpr std::size_t small_size = 64;
constexpr std::size_t block_size = std::size_t{1} << 20;
constexpr std::size_t block_count = 16; // of memory on each side; more than is ever in flight

// What both processes run at the same time. Travels between them as it is: they are one program.
struct test_case
{
  bench::workload workload = workload::round_trip;
  bench::transport transport = transport::tcp;
  rdma::completion_mode mode = rdma::completion_mode::adaptive;
  bench::style style = style::callbacks;
  std::size_t depth = 1; // operations in flight
  std::size_t batch = 1; // small messages or writes of each operation
  std::size_t size = block_size; // bytes of each of bulk_write's; at most block_size
  std::chrono::milliseconds duration{};

  [[nodiscard]] std::string name() const
  {
    std::string text;
    switch (transport)
    {
    case transport::tcp:
      text = "Asio TCP";
      break;
    case transport::tcp_polling:
      return "TCP, non-blocking, polled";
    case transport::rdma:
      text = "RDMA";
      break;
    }
    if (workload == workload::bulk_write)
      text += size == block_size ? " write" : " write of " + std::to_string(size >> 10) + " KiB";
    if (workload == workload::bulk_send && transport == transport::rdma)
      text += " send";
    if (workload == workload::small_writes)
      text += transport == transport::rdma ? " write" : " async_write";
    if (transport == transport::rdma)
      text += std::string(", ")
        + (mode == rdma::completion_mode::event       ? "event"
            : mode == rdma::completion_mode::adaptive ? "adaptive"
                                                      : "busy_poll");
    if (workload == workload::round_trip)
      text += style == style::callbacks ? ", callbacks" : ", coroutines";
    else if (transport == transport::rdma)
      text += ", " + std::to_string(depth) + " in flight";
    if (batch > 1)
      text += ", batches of " + std::to_string(batch);
    return text;
  }
};

// What one run of it gave: microseconds, GB/s or millions a second; and for round trips the slowest
// in a hundred.
struct sample
{
  double value = 0;
  double slow = 0;
};

} // namespace bench

#endif // BOOST_RDMA_TOOLS_BENCH_TEST_CASE_HPP
