//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

/*
Connects through TLS, with which the client verifies the server. RDMA MESSAGES ARE NOT ENCRYPTED:
TLS protects only the connection set-up. In two terminals, in one directory:

  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout key.pem -out certificate.pem
  tls_upgrade serve --port 7471
  tls_upgrade connect 127.0.0.1 7471 "Hello, RDMA"

The client trusts only certificate.pem. The server ends after one client.
*/

#include "common/command_line.hpp"
#include "common/report.hpp"
#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>
#include <boost_rdma/upgrade.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <span>
#include <string_view>
#include <utility>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace ssl = asio::ssl;
using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

namespace {

using tls_stream = ssl::stream<tcp::socket>;

void report(const char* version, const rdma::queue_pair& peer)
{
  std::cout << "connected through " << version
            << "; messages are NOT encrypted: " << peer.transport().text() << '\n';
}

asio::awaitable<void> serve_one(const rdma::context& context, tls_stream stream)
{
  co_await stream.async_handshake(ssl::stream_base::server, asio::use_awaitable);
  beast::flat_buffer buffer;
  http::request<http::empty_body> request;
  co_await http::async_read(stream, buffer, request, asio::use_awaitable);

  const char* const version = SSL_get_version(stream.native_handle());
  rdma::queue_pair peer =
    co_await rdma::async_upgrade(std::move(stream), request, context, asio::use_awaitable);
  report(version, peer);
  auto message = context.allocate(4096);
  const std::size_t n = co_await peer.async_receive(message, asio::use_awaitable);
  co_await peer.async_send(message.first(n), asio::use_awaitable);
  rdma::error_code ended; // the client closes after it has received the answer
  co_await peer.async_wait_close(asio::redirect_error(asio::use_awaitable, ended));
}

asio::awaitable<void> serve(const rdma::context& context, tcp::endpoint endpoint)
{
  ssl::context tls(ssl::context::tls_server);
  tls.use_certificate_chain_file("certificate.pem");
  tls.use_private_key_file("key.pem", ssl::context::pem);
  tcp::acceptor acceptor(co_await asio::this_coro::executor, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  for (bool served = false; !served;)
  {
    tls_stream stream(co_await acceptor.async_accept(asio::use_awaitable), tls);
    try
    {
      co_await serve_one(context, std::move(stream));
      served = true;
    }
    catch (const std::exception& failure)
    {
      example::complain(failure); // affects only this client
    }
  }
}

asio::awaitable<void> connect(
  const rdma::context& context, tcp::endpoint endpoint, std::string_view message)
{
  ssl::context tls(ssl::context::tls_client);
  tls.load_verify_file("certificate.pem");
  tls.set_verify_mode(ssl::verify_peer);
  tls.set_verify_callback(ssl::host_name_verification("localhost"));
  const auto executor = co_await asio::this_coro::executor;
  tls_stream stream(executor, tls);
  co_await stream.next_layer().async_connect(endpoint, asio::use_awaitable);
  co_await stream.async_handshake(ssl::stream_base::client, asio::use_awaitable);

  const char* const version = SSL_get_version(stream.native_handle());
  rdma::queue_pair peer(executor, context);
  rdma::connect_options options;
  options.host = "localhost";
  co_await rdma::async_upgrade(std::move(stream), peer, options, asio::use_awaitable);
  report(version, peer);

  auto request = context.allocate(message.size());
  auto answer = context.allocate(message.size());
  std::ranges::copy(std::as_bytes(std::span(message)), request.data());
  const auto [received, sent] = co_await (peer.async_receive(answer, asio::use_awaitable)
    && peer.async_send(request, asio::use_awaitable));
  std::cout << std::string_view(reinterpret_cast<char*>(answer.data()), received) << '\n';
  co_await peer.async_shutdown(asio::use_awaitable);
}

} // namespace

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(
    argc, argv, "Connects through TLS; RDMA messages are NOT encrypted");
  return example::run(
    [&options](const rdma::context& context)
    {
      return options.serve ? serve(context, options.endpoint)
                           : connect(context, options.endpoint, options.message);
    });
}
