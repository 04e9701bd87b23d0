//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Exchanges one message each way between queue pairs that RDMA-CM connects. The other side may be
// another program: rdma_server and rdma_client of rdma-core exchange the same 16 bytes.
//
//   cm_message serve --address 10.0.0.1 --port 7471         rdma_server -s 10.0.0.1 -p 7471
//   cm_message connect 10.0.0.1 7471                        rdma_client -s 10.0.0.1 -p 7471
//
// The software device does not support RDMA-CM; tools/rdma_vm has devices that do.

#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/cm/acceptor.hpp>
#include <boost_rdma/cm/connect.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/promise.hpp> // Boost 1.81: use_promise.hpp does not include it
#include <boost/asio/experimental/use_promise.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <span>
#include <string_view>
#include <utility>

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::size_t message_size = 16; // as in rdma_server and rdma_client

std::string_view text_of(const rdma::registered_buffer& buffer)
{
  return {reinterpret_cast<const char*>(buffer.data()), strnlen(buffer.as<char>(), buffer.size())};
}

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rdma::cm::acceptor acceptor(co_await asio::this_coro::executor, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;

  // acceptor.async_accept() is shorter. This form lets the program inspect and reject the request.
  // It also posts a receive before the client can send, which iWARP requires.
  auto request = co_await acceptor.async_get_request(asio::use_awaitable);
  std::cout << request.remote_endpoint() << " sent \"" << request.data().text() << "\"\n";
  rdma::queue_pair peer(acceptor.get_executor(), context);
  auto buffer = context.allocate(message_size);
  auto received = peer.async_receive(buffer, asio::experimental::use_promise);
  co_await request.async_accept(peer, rdma::cm::private_data("welcome"), asio::use_awaitable);

  const std::size_t n = co_await std::move(received)(asio::use_awaitable);
  std::cout << "received " << n << " bytes: \"" << text_of(buffer) << "\"\n";
  co_await peer.async_send(buffer, asio::use_awaitable);
}

asio::awaitable<void> connect(
  const rdma::context& context, const tcp::endpoint& endpoint, std::string_view message)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  auto answer = context.allocate(message_size);
  auto received = peer.async_receive(answer, asio::experimental::use_promise);
  const rdma::cm::connect_options options{.data = rdma::cm::private_data("hello"), .source = {}};
  const auto greeting =
    co_await rdma::cm::async_connect(peer, endpoint, options, asio::use_awaitable);
  std::cout << "message from the server: \"" << greeting.text() << "\"\n";

  auto question = context.allocate(message_size);
  std::ranges::fill(question.bytes(), std::byte{0});
  std::ranges::copy(std::as_bytes(std::span(message.substr(0, message_size - 1))), question.data());
  co_await peer.async_send(question, asio::use_awaitable);
  const std::size_t n = co_await std::move(received)(asio::use_awaitable);
  std::cout << "received " << n << " bytes: \"" << text_of(answer) << "\"\n";
}

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(argc, argv, "A message each way by RDMA-CM");
  return example::run(
    [&options](const rdma::context& context)
    {
      return options.serve ? serve(context, options.endpoint)
                           : connect(context, options.endpoint, options.message);
    });
}
