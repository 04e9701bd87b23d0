//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Echo with coroutines. In two terminals:
//
//   echo_coroutine serve --port 7471
//   echo_coroutine connect 127.0.0.1 7471 "Hello, RDMA"
//
// The server handles any number of concurrent clients, and ends after the last one disconnects.

#include "common/command_line.hpp"
#include "common/report.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <optional>
#include <string_view>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

asio::awaitable<void> echo(rdma::queue_pair peer)
{
  auto buffer = peer.context().allocate(4096); // registered; its destructor returns it to the pool
  try
  {
    for (;;)
    {
      const std::size_t n = co_await peer.async_receive(buffer, asio::use_awaitable);
      co_await peer.async_send(buffer.first(n), asio::use_awaitable);
    }
  }
  catch (const rdma::system_error& failure)
  {
    if (failure.code() != rdma::error::peer_closed)
      throw;
  }
}

asio::awaitable<void> serve(rdma::acceptor& acceptor)
{
  int clients = 0;
  for (;;)
  {
    auto [ec, peer] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (ec == asio::error::operation_aborted)
      co_return; // the acceptor was closed, see below
    if (ec)
      throw rdma::system_error(ec, "accept");
    ++clients;
    asio::co_spawn(acceptor.get_executor(), echo(std::move(peer)),
      [&clients, &acceptor](std::exception_ptr failure)
      {
        example::complain(failure);
        if (--clients == 0)
          acceptor.close();
      });
  }
}

asio::awaitable<void> connect(
  const rdma::context& context, const tcp::endpoint& endpoint, std::string_view message)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  co_await peer.async_connect(endpoint, asio::use_awaitable);
  std::cerr << "connected: " << peer.transport().text() << '\n';

  auto request = context.allocate(message.size());
  auto answer = context.allocate(message.size());
  std::ranges::copy(std::as_bytes(std::span(message)), request.data());

  // Posts the receive first, before the answer can arrive. Both operations run at the same time.
  const auto [received, sent] = co_await (peer.async_receive(answer, asio::use_awaitable)
    && peer.async_send(request, asio::use_awaitable));
  std::cout << std::string_view(reinterpret_cast<char*>(answer.data()), received) << '\n';
}

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(argc, argv, "Echo with coroutines");
  try
  {
    asio::io_context io;
    rdma::context context;
    std::optional<rdma::acceptor> acceptor;
    std::exception_ptr failure;
    const auto keep = [&failure](std::exception_ptr thrown) { failure = thrown; };
    if (options.serve)
    {
      acceptor.emplace(io, context, options.endpoint);
      std::cout << "listening on " << acceptor->local_endpoint() << std::endl;
      asio::co_spawn(io, serve(*acceptor), keep);
    }
    else
      asio::co_spawn(io, connect(context, options.endpoint, options.message), keep);
    io.run();
    example::complain(failure);
    return failure ? 1 : 0;
  }
  catch (const std::exception& failure)
  {
    example::complain(failure);
    return 1;
  }
}
