//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_TEST_CASE_HPP
#define BOOST_RDMA_TOOLS_PERF_TEST_CASE_HPP

#include <boost_rdma/completion_mode.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace perf {

inline constexpr auto adaptive = rdma::completion_mode::adaptive;
inline constexpr auto busy = rdma::completion_mode::busy_poll;
inline constexpr auto event = rdma::completion_mode::event;

enum class contender : std::uint8_t
{
  library,      // this library's Asio operations
  raw,          // verbs calls on the same device, polling
  stream,       // this library's streams of bytes
  object,       // this library's remote objects, and what they are compared with
  rpc,          // this library's calls of methods
  tcp,          // plain Asio TCP
  local_socket, // plain Asio AF_UNIX stream sockets
  memory,       // memcpy within one process
  ucx,          // ucx_perftest
  perftest,     // ib_send_lat and similar programs
};

enum class measure : std::uint8_t
{
  latency,   // one operation at a time
  bandwidth, // many in flight
};

enum class operation : std::uint8_t
{
  send,
  write,
  read,
  fetch_add,
  load,   // of a remote_versioned
  store,  // of a remote_versioned
  find,   // of a remote_map
  push,   // to a remote_ring
  call,   // a request and its answer
  expire, // of a call that is not answered: the time after its deadline
};

enum class token : std::uint8_t
{
  callback,
  future,    // asio::use_future, with the io_context run by the waiting thread
  awaitable, // asio::use_awaitable
  deferred,  // asio::deferred, launched with a callback
  coroutine, // the program's own coroutine type, awaiting deferred operations
};

/// A case that both processes run at the same time. It is sent as raw bytes, because both run the
/// same program.
struct test_case
{
  perf::contender contender = contender::library;
  perf::measure measure = measure::latency;
  perf::operation operation = operation::send;
  perf::token token = token::callback;
  rdma::completion_mode mode = rdma::completion_mode::adaptive;
  std::uint8_t transport = 0; // index into transports(); unused for Asio TCP and memory
  std::uint32_t size = 64;
  std::uint32_t depth = 1; // batches in flight on each queue pair
  std::uint32_t batch = 1; // operations per completion
  std::uint32_t queue_pairs = 1;
  std::uint32_t buffers = 1; // used in turn, on each side
  std::uint32_t use = 0;     // measures this one operation: 1 is the first with new memory

  bool answers = false;    // of streams: each batch is answered by one
  bool own_memory = false; // the program's, registered; otherwise the library's

  friend bool operator==(const test_case&, const test_case&) = default;

  [[nodiscard]] bool is_plain_socket() const
  {
    return contender == contender::tcp || contender == contender::local_socket;
  }

  [[nodiscard]] bool between_two_processes_of_ours() const
  {
    return contender == contender::library || contender == contender::raw
      || contender == contender::stream || contender == contender::object
      || contender == contender::rpc || is_plain_socket();
  }

  /// The maximum number of operations in flight on a queue pair.
  [[nodiscard]] std::uint32_t in_flight() const { return depth * batch; }

  /// Bytes of memory that the operations use on each side.
  [[nodiscard]] std::size_t memory() const { return std::size_t{size} * buffers; }
};

const char* name_of(rdma::completion_mode mode);
const char* name_of(contender value);
const char* name_of(operation value);
const char* name_of(token value);
std::string size_text(std::uint64_t bytes);

/// Returns the properties of the case as text, without its size.
std::string name_of(const test_case& what);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_TEST_CASE_HPP
