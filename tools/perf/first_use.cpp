//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/first_use.hpp"

#include "perf/rdma_link.hpp"

#include <cstdint>
#include <stdexcept>

namespace perf {
namespace {

const auto completed = [](rdma::error_code ec, std::uint64_t) { check(ec); };

seconds time_of(asio::io_context& io, rdma_link& link, const test_case& what)
{
  io.restart();
  const rdma::mutable_buffer here = link.local(0, what.size);
  const rdma::remote_buffer there = link.remote(0, what.size);
  const clock::time_point begin = clock::now();
  if (what.operation == operation::read)
    link.peer(0).async_read(here, there, completed);
  else
    link.peer(0).async_write(here, there, completed);
  io.run();
  return clock::now() - begin;
}

void close(asio::io_context& io, rdma_link& link)
{
  link.close();
  io.restart();
  io.run();
}

} // namespace

seconds first_use_client(const test_case& what, bench::control_channel& control)
{
  control.send(what);
  asio::io_context io(1);
  rdma_link link(io, what, what.mode, control);
  // A message first, so that the connection is established.
  link.peer(0).async_send(rdma::no_data, completed);
  io.run();
  seconds took{};
  for (std::uint32_t use = 0; use < what.use; ++use)
    took = time_of(io, link, what);
  // The peer waits for this message.
  io.restart();
  link.peer(0).async_send(rdma::no_data, completed);
  io.run();
  char reply = 0;
  if (!control.receive(reply))
    throw std::runtime_error("the other process has ended; see its message");
  close(io, link);
  return took;
}

void serve_first_use(bench::control_channel& control)
{
  test_case what;
  if (!control.receive(what))
    throw std::runtime_error("the other process has ended; see its message");
  asio::io_context io(1);
  rdma_link link(io, what, what.mode, control);
  link.peer(0).async_receive(rdma::no_data, completed);
  link.peer(0).async_receive(rdma::no_data, completed);
  io.run();
  control.send('e');
  close(io, link);
}

} // namespace perf
