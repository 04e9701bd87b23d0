//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The server of doc/tutorial/1_echo.md: echoes messages of any number of clients.
//
//   echo_server PORT

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio.hpp>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <utility>

namespace asio = boost::asio;
using asio::ip::tcp;

asio::awaitable<void> echo(rdma::queue_pair peer)
{
  std::cout << "connected: " << peer.transport().text() << std::endl;
  rdma::registered_buffer buffer = peer.context().allocate(4096);
  for (;;)
  {
    const std::size_t n = co_await peer.async_receive(buffer, asio::use_awaitable);
    co_await peer.async_send(buffer.first(n), asio::use_awaitable);
  }
}

void tell_why(const std::exception_ptr& ended)
{
  try
  {
    if (ended)
      std::rethrow_exception(ended);
  }
  catch (const rdma::system_error& failure)
  {
    std::cout << "ended: " << failure.code().message() << std::endl;
    std::cout << rdma::likely_cause(failure.code()) << std::endl; // empty if no cause is known
  }
}

asio::awaitable<void> serve(rdma::acceptor& acceptor)
{
  for (;;)
  {
    rdma::queue_pair peer = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), echo(std::move(peer)), tell_why);
  }
}

int main(int argc, char** argv)
{
  try
  {
    const auto port = static_cast<std::uint16_t>(argc > 1 ? std::atoi(argv[1]) : 7471);
    asio::io_context io;
    rdma::context context;
    rdma::acceptor acceptor(io, context, {tcp::v4(), port});
    std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
    asio::co_spawn(io, serve(acceptor), tell_why);
    io.run();
  }
  catch (const rdma::system_error& failure)
  {
    std::cerr << failure.what() << "\n" << rdma::likely_cause(failure.code()) << "\n";
    return 1;
  }
}
