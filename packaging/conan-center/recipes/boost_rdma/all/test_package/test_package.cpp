//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Echoes a message over the software device, to check that the linked library works.

#include <boost_rdma.hpp>

#include <boost/asio.hpp>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace asio = boost::asio;

namespace {

asio::awaitable<void> serve(rdma::acceptor& acceptor)
{
  rdma::queue_pair peer = co_await acceptor.async_accept(asio::use_awaitable);
  auto buffer = peer.context().allocate(4096);
  const std::size_t size = co_await peer.async_receive(buffer, asio::use_awaitable);
  co_await peer.async_send(buffer.first(size), asio::use_awaitable);
  co_await peer.async_shutdown(asio::use_awaitable);
}

asio::awaitable<std::string> ask(rdma::context& rdma, asio::ip::tcp::endpoint server)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, rdma);
  co_await peer.async_connect(server, asio::use_awaitable);
  auto buffer = rdma.allocate(5);
  std::memcpy(buffer.data(), "hello", 5);
  co_await peer.async_send(buffer, asio::use_awaitable);
  const std::size_t size = co_await peer.async_receive(buffer, asio::use_awaitable);
  co_await peer.async_shutdown(asio::use_awaitable);
  co_return std::string(reinterpret_cast<const char*>(buffer.data()), size);
}

} // namespace

int main()
{
  rdma::context_options options;
  options.device = "soft0";
  rdma::context rdma(options);
  asio::io_context io;
  rdma::acceptor acceptor(io, rdma, {asio::ip::address_v4::loopback(), 0});
  asio::co_spawn(io, serve(acceptor), asio::detached);
  auto answer = asio::co_spawn(io, ask(rdma, acceptor.local_endpoint()), asio::use_future);
  io.run();
  const std::string text = answer.get();
  std::cout << "boost_rdma: " << text << '\n';
  return text == "hello" ? EXIT_SUCCESS : EXIT_FAILURE;
}
