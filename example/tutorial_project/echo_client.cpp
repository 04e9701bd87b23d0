//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The client of doc/tutorial/1_echo.md: sends a text and prints the answer.
//
//   echo_client ADDRESS PORT TEXT

#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;

asio::awaitable<void> talk(rdma::queue_pair& peer, tcp::endpoint server, std::string text)
{
  co_await peer.async_connect(server, asio::use_awaitable);
  std::cout << "connected: " << peer.transport().text() << "\n";

  rdma::registered_buffer request = peer.context().allocate(text.size());
  rdma::registered_buffer answer = peer.context().allocate(4096);
  std::memcpy(request.data(), text.data(), text.size());

  // Posts the receive first, before the answer can arrive. Both operations run at the same time.
  const auto [received, sent] = co_await (peer.async_receive(answer, asio::use_awaitable)
    && peer.async_send(request, asio::use_awaitable));
  std::cout << std::string_view(answer.as<char>(), received) << "\n";

  co_await peer.async_shutdown(asio::use_awaitable); // completes when all data has arrived
}

int main(int argc, char** argv)
{
  if (argc != 4)
  {
    std::cerr << "echo_client ADDRESS PORT TEXT\n";
    return 2;
  }
  try
  {
    const auto port = static_cast<std::uint16_t>(std::atoi(argv[2]));
    const tcp::endpoint server(asio::ip::make_address(argv[1]), port);
    asio::io_context io;
    rdma::context context;
    rdma::queue_pair peer(io, context);
    std::exception_ptr failure;
    asio::co_spawn(io, talk(peer, server, argv[3]), [&](std::exception_ptr e) { failure = e; });
    io.run();
    if (!failure)
      return 0;
    if (const rdma::diagnosis first = peer.diagnose(); first.code)
      std::cerr << first.text() << "\n"; // the failed operation, the device and the remedy
    std::rethrow_exception(failure);
  }
  catch (const std::exception& failure)
  {
    std::cerr << failure.what() << "\n";
    return 1;
  }
}
