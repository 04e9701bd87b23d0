//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Echo with futures: sequential code in a thread that may block, while another thread runs the
// io_context. In two terminals:
//
//   echo_future serve --port 7471
//   echo_future connect 127.0.0.1 7471 "Hello, RDMA"
//
// The server returns the messages that it receives, until its client disconnects.

#include "common/command_line.hpp"
#include "common/report.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <future>
#include <iostream>
#include <string_view>
#include <thread>

namespace asio = boost::asio;
using asio::ip::tcp;

void serve(asio::io_context& io, const rdma::context& context, const tcp::endpoint& endpoint)
{
  rdma::acceptor acceptor(io, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  rdma::queue_pair peer = acceptor.async_accept(asio::use_future).get();
  auto buffer = context.allocate(4096);
  try
  {
    for (;;)
    {
      const std::size_t n = peer.async_receive(buffer, asio::use_future).get();
      peer.async_send(buffer.first(n), asio::use_future).get();
    }
  }
  catch (const rdma::system_error& failure)
  {
    if (failure.code() != rdma::error::peer_closed)
      throw;
  }
}

void connect(asio::io_context& io, const rdma::context& context, const tcp::endpoint& endpoint,
  std::string_view message)
{
  rdma::queue_pair peer(io, context);
  peer.async_connect(endpoint, asio::use_future).get();

  auto request = context.allocate(message.size());
  auto answer = context.allocate(message.size());
  std::ranges::copy(std::as_bytes(std::span(message)), request.data());

  // Posts the receive first, before the answer can arrive. Both operations run at the same time.
  std::future<std::size_t> received = peer.async_receive(answer, asio::use_future);
  std::future<std::size_t> sent = peer.async_send(request, asio::use_future);
  sent.get();
  const std::size_t n = received.get();
  std::cout << std::string_view(reinterpret_cast<char*>(answer.data()), n) << '\n';
}

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(argc, argv, "Echo with futures");
  try
  {
    rdma::context context;
    asio::io_context io;
    // Joined last, after the I/O objects and the work guard are destroyed.
    std::jthread runner;
    auto guard = asio::make_work_guard(io);
    runner = std::jthread([&io] { io.run(); });
    if (options.serve)
      serve(io, context, options.endpoint);
    else
      connect(io, context, options.endpoint, options.message);
    return 0;
  }
  catch (const std::exception& failure)
  {
    example::complain(failure);
    return 1;
  }
}
