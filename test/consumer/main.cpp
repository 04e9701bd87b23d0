//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Sends a message to itself and back over the best device of this host, and prints the version of
// the library and the device.

#include <boost_rdma.hpp>
#include <boost_rdma/version.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::string_view greeting = "hello";

asio::awaitable<void> echo_once(rdma::acceptor& acceptor)
{
  rdma::queue_pair peer = co_await acceptor.async_accept(asio::use_awaitable);
  auto buffer = peer.context().allocate(4096);
  const std::size_t size = co_await peer.async_receive(buffer, asio::use_awaitable);
  co_await peer.async_send(buffer.first(size), asio::use_awaitable);
  co_await peer.async_shutdown(asio::use_awaitable);
}

asio::awaitable<void> greet(rdma::context& rdma, tcp::endpoint server)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, rdma);
  co_await peer.async_connect(server, asio::use_awaitable);
  auto buffer = rdma.allocate(greeting.size());
  std::memcpy(buffer.data(), greeting.data(), greeting.size());
  co_await peer.async_send(buffer, asio::use_awaitable);
  std::memset(buffer.data(), 0, greeting.size());
  const std::size_t size = co_await peer.async_receive(buffer, asio::use_awaitable);
  if (std::string_view(reinterpret_cast<const char*>(buffer.data()), size) != greeting)
    throw std::runtime_error("the echo differs from the message");
  std::cout << "boost_rdma " << BOOST_RDMA_VERSION_MAJOR << '.' << BOOST_RDMA_VERSION_MINOR << '.'
            << BOOST_RDMA_VERSION_PATCH << " on " << peer.transport().device << ": " << greeting
            << '\n';
  co_await peer.async_shutdown(asio::use_awaitable);
}

} // namespace

int main()
{
  try
  {
    asio::io_context io;
    rdma::context rdma;
    rdma::acceptor acceptor(io, rdma, {asio::ip::address_v4::loopback(), 0}); // any free port
    int failures = 0;
    const auto ended = [&failures](const std::exception_ptr& failed)
    {
      try
      {
        if (failed)
          std::rethrow_exception(failed);
      }
      catch (const std::exception& e)
      {
        ++failures;
        std::cerr << "error: " << e.what() << '\n';
      }
    };
    asio::co_spawn(io, echo_once(acceptor), ended);
    asio::co_spawn(io, greet(rdma, acceptor.local_endpoint()), ended);
    io.run();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  catch (const std::exception& e)
  {
    std::cerr << "error: " << e.what() << '\n';
    return EXIT_FAILURE;
  }
}
