//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/idle_side.hpp"

#include "perf/rdma_link.hpp"
#include "perf/side.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cerrno>
#include <ctime>
#include <stdexcept>
#include <system_error>

namespace perf {
namespace {

using asio::ip::tcp;

double cpu_us()
{
  timespec now{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0)
    throw std::system_error(errno, std::generic_category(), "clock_gettime");
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// Returns the processor time of this process while the io_context waits. The first quarter is not
// measured: after activity, the library may poll briefly before it sleeps.
double wait_with(asio::io_context& io, std::chrono::milliseconds duration)
{
  io.run_for(duration / 4);
  const double before = cpu_us();
  io.run_for(duration);
  const double spent = cpu_us() - before;
  io.restart(); // it has stopped if the peer's message arrived already
  return spent;
}

const auto done = [](rdma::error_code ec, std::size_t) { check(ec); };

double idle_library(
  const test_case& what, std::chrono::milliseconds duration, bench::control_channel& control)
{
  asio::io_context io(1);
  rdma_link link(io, what, what.mode, control);
  link.peer(0).async_receive(rdma::no_data, done);
  const double spent = wait_with(io, duration);
  link.peer(0).async_send(rdma::no_data, done);
  io.run();
  // The peer may not know yet that its message has arrived.
  control.send('e');
  char end = 0;
  control.receive(end);
  link.close();
  io.restart();
  io.run();
  return spent;
}

double idle_tcp(std::chrono::milliseconds duration, bench::control_channel& control, bool server)
{
  asio::io_context io(1);
  tcp::socket socket(io);
  if (server)
  {
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    control.send(acceptor.local_endpoint().port());
    acceptor.accept(socket);
  }
  else
  {
    std::uint16_t port = 0;
    if (!control.receive(port))
      throw std::runtime_error("the other process has ended; see its message");
    socket.connect({asio::ip::address_v4::loopback(), port});
  }
  std::array<char, 1> in{};
  const std::array<char, 1> out{};
  asio::async_read(socket, asio::buffer(in), done);
  const double spent = wait_with(io, duration);
  asio::async_write(socket, asio::buffer(out), done);
  io.run();
  return spent;
}

double idle(const test_case& what, std::chrono::milliseconds duration,
  bench::control_channel& control, bool server)
{
  return what.contender == contender::tcp ? idle_tcp(duration, control, server)
                                          : idle_library(what, duration, control);
}

} // namespace

idleness idle_client(
  const test_case& what, std::chrono::milliseconds duration, bench::control_channel& control)
{
  control.send(what);
  control.send(duration);
  idleness result;
  result.seconds = seconds(duration).count();
  result.client_cpu_us = idle(what, duration, control, false);
  if (!control.receive(result.server_cpu_us))
    throw std::runtime_error("the other process has ended; see its message");
  return result;
}

void serve_idle(bench::control_channel& control)
{
  test_case what;
  std::chrono::milliseconds duration{};
  if (!control.receive(what) || !control.receive(duration))
    throw std::runtime_error("the other process has ended; see its message");
  control.send(idle(what, duration, control, true));
}

} // namespace perf
