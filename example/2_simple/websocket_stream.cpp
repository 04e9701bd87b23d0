//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// WebSocket by Beast over RDMA. A program for TCP differs in the lines marked with "TCP:". In two
// terminals:
//
//   websocket_stream serve --port 7471
//   websocket_stream connect 127.0.0.1 7471 "Hello, RDMA"

#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/make_printable.hpp>
#include <boost/beast/websocket.hpp>

#include <iostream>
#include <string>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using asio::use_awaitable;
using asio::ip::tcp;

namespace {

using socket = websocket::stream<rdma::stream>; // TCP: websocket::stream<tcp::socket>

asio::awaitable<void> serve(const rdma::context& context, tcp::endpoint endpoint)
{
  // TCP: tcp::acceptor acceptor(co_await asio::this_coro::executor, endpoint);
  rdma::stream_acceptor acceptor(co_await asio::this_coro::executor, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  socket client(co_await acceptor.async_accept(use_awaitable));
  client.set_option(websocket::stream_base::timeout::suggested(beast::role_type::server));
  co_await client.async_accept(use_awaitable);
  for (;;)
  {
    beast::flat_buffer message;
    rdma::error_code ec;
    co_await client.async_read(message, asio::redirect_error(use_awaitable, ec));
    if (ec == websocket::error::closed)
      co_return;
    if (ec)
      throw rdma::system_error(ec);
    client.text(client.got_text());
    co_await client.async_write(message.data(), use_awaitable);
  }
}

asio::awaitable<void> connect(
  const rdma::context& context, tcp::endpoint endpoint, const std::string& message)
{
  // TCP: socket server(co_await asio::this_coro::executor);
  socket server(co_await asio::this_coro::executor, context);
  co_await server.next_layer().async_connect(endpoint, use_awaitable);
  server.set_option(websocket::stream_base::timeout::suggested(beast::role_type::client));
  co_await server.async_handshake("localhost", "/", use_awaitable);
  co_await server.async_write(asio::buffer(message), use_awaitable);
  beast::flat_buffer answer;
  co_await server.async_read(answer, use_awaitable);
  std::cout << beast::make_printable(answer.data()) << '\n';
  co_await server.async_close(websocket::close_code::normal, use_awaitable);
}

} // namespace

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(argc, argv, "WebSocket by Beast over RDMA");
  return example::run(
    [&options](const rdma::context& context)
    {
      return options.serve ? serve(context, options.endpoint)
                           : connect(context, options.endpoint, options.message);
    });
}
