//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// former_tenant DEVICE PORT COUNT
//
// Connects to a server on this host, leases memory of the server for reading, reads it, and
// releases the lease. Ignores COUNT. Prints a line when all this is done, and then idles until it
// is killed.

#include <boost_rdma/agent.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <csignal>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>

#include <sys/prctl.h>

namespace asio = boost::asio;

namespace {

asio::awaitable<void> lease_and_release(
  const rdma::context& context, const asio::ip::tcp::endpoint& server)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  co_await peer.async_connect(server, asio::use_awaitable);
  rdma::agent agent = peer.agent();
  rdma::allocation_options options;
  options.rights = rdma::access::remote_read | rdma::access::remote_write;
  rdma::remote_memory leased = co_await agent.async_allocate(4096, options, asio::use_awaitable);
  const rdma::registered_buffer into = context.allocate(4096);
  // The second read needs no answer of the server: its memory is mapped here.
  for (int i = 0; i != 2; ++i)
    co_await peer.async_read(into, leased, asio::use_awaitable);
  co_await agent.async_release(std::move(leased), asio::use_awaitable);
  std::cout << "released" << std::endl;
  asio::steady_timer never(
    co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
  co_await never.async_wait(asio::use_awaitable);
}

} // namespace

int main(int argc, char** argv)
try
{
  if (argc != 4)
    return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that dies cannot kill this process
  rdma::context_options device;
  device.device = argv[1];
  const rdma::context context(device);
  const asio::ip::tcp::endpoint server(
    asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(std::stoi(argv[2])));
  asio::io_context io;
  asio::co_spawn(io, lease_and_release(context, server),
    [](const std::exception_ptr& problem)
    {
      if (problem)
        std::rethrow_exception(problem);
    });
  io.run();
  return 0;
}
catch (const std::exception& e)
{
  std::cerr << e.what() << '\n';
  return 1;
}
