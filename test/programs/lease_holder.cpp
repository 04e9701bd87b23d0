//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// lease_holder DEVICE PORT COUNT
//
// Makes COUNT connections to a server on this host. Each connection leases memory of the server,
// lends and grants memory of its own to the server, and receives a loan of the server. Prints a
// line when all this is done, and then idles until it is killed.

#include <boost_rdma/agent.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/lessor.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <csignal>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>

#include <sys/prctl.h>

namespace asio = boost::asio;

namespace {

asio::awaitable<void> hold(const rdma::context& context, const rdma::lessor& lessor,
  const asio::ip::tcp::endpoint& server, int& ready, int wanted)
{
  rdma::queue_pair_options options;
  options.grant_from(lessor);
  rdma::queue_pair peer(co_await asio::this_coro::executor, context, options);
  co_await peer.async_connect(server, asio::use_awaitable);
  rdma::agent agent = peer.agent();
  const rdma::remote_memory small = co_await agent.async_allocate(100, asio::use_awaitable);
  const rdma::remote_memory large = co_await agent.async_allocate(20'000, asio::use_awaitable);
  const rdma::registered_buffer own = context.allocate(1000);
  const rdma::loan lent = co_await agent.async_lend(own, asio::use_awaitable);
  const rdma::remote_memory borrowed = co_await agent.async_receive_remote(asio::use_awaitable);
  if (++ready == wanted)
    std::cout << "ready" << std::endl;
  co_await agent.async_wait_return(lent, asio::use_awaitable); // never returned
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
  const int count = std::stoi(argv[3]);
  const rdma::lessor lessor(context);
  int ready = 0;
  asio::io_context io;
  for (int i = 0; i != count; ++i)
    asio::co_spawn(io, hold(context, lessor, server, ready, count),
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
