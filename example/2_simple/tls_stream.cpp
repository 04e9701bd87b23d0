//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Encrypted bytes over RDMA, by asio::ssl::stream; "TCP:" marks the lines that differ for TCP.
// Create certificate.pem and key.pem as in tls_upgrade.cpp. In two terminals, in their directory:
//
//   tls_stream serve --port 7471
//   tls_stream connect 127.0.0.1 7471 "Hello, RDMA"

#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>

#include <exception>
#include <iostream>
#include <string>
#include <utility>

namespace asio = boost::asio;
namespace ssl = asio::ssl;
using asio::use_awaitable;
using asio::ip::tcp;

namespace {

using tls_stream = ssl::stream<rdma::stream>; // TCP: ssl::stream<tcp::socket>

asio::awaitable<void> answer_line(tls_stream client)
{
  co_await client.async_handshake(ssl::stream_base::server, use_awaitable);
  std::string line;
  co_await asio::async_read_until(client, asio::dynamic_buffer(line), '\n', use_awaitable);
  co_await asio::async_write(client, asio::buffer(line), use_awaitable);
  co_await client.async_shutdown(use_awaitable);
}

asio::awaitable<void> serve(const rdma::context& context, tcp::endpoint endpoint)
{
  ssl::context tls(ssl::context::tlsv13_server);
  tls.use_certificate_chain_file("certificate.pem");
  tls.use_private_key_file("key.pem", ssl::context::pem);
  // TCP: tcp::acceptor acceptor(co_await asio::this_coro::executor, endpoint);
  rdma::stream_acceptor acceptor(co_await asio::this_coro::executor, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  for (;;)
  {
    rdma::stream client = co_await acceptor.async_accept(use_awaitable); // TCP: tcp::socket
    try
    {
      co_return co_await answer_line(tls_stream(std::move(client), tls));
    }
    catch (const std::exception& failure)
    {
      example::complain(failure); // affects only this client
    }
  }
}

asio::awaitable<void> connect(
  const rdma::context& context, tcp::endpoint endpoint, const std::string& message)
{
  ssl::context tls(ssl::context::tlsv13_client);
  tls.load_verify_file("certificate.pem");
  tls.set_verify_mode(ssl::verify_peer);
  tls.set_verify_callback(ssl::host_name_verification("localhost"));
  // TCP: tcp::socket peer(co_await asio::this_coro::executor);
  rdma::stream peer(co_await asio::this_coro::executor, context);
  co_await peer.async_connect(endpoint, use_awaitable);
  tls_stream server(std::move(peer), tls);
  co_await server.async_handshake(ssl::stream_base::client, use_awaitable);
  std::cout << "connected through " << SSL_get_version(server.native_handle()) << '\n';
  std::string line = message + '\n';
  co_await asio::async_write(server, asio::buffer(line), use_awaitable);
  co_await asio::async_read(server, asio::buffer(line), use_awaitable);
  std::cout << line;
  co_await server.async_shutdown(use_awaitable);
}

} // namespace

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(argc, argv, "TLS over RDMA");
  return example::run(
    [&options](const rdma::context& context)
    {
      return options.serve ? serve(context, options.endpoint)
                           : connect(context, options.endpoint, options.message);
    });
}
