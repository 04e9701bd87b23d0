//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// A web server written with Beast that offers RDMA at one of its addresses, on the same port. In
// two terminals:
//
//   beast_server serve --port 8080
//   beast_server connect 127.0.0.1 8080 "Hello, RDMA"
//
// The client first gets the page, like `curl http://127.0.0.1:8080/`. Without the password its RDMA
// request is refused; with the password a message is echoed by RDMA. Then the server ends. With an
// ssl::stream instead of the tcp_stream the server speaks HTTPS (tls_upgrade.cpp). That does not
// encrypt the RDMA data, see <boost_rdma/upgrade.hpp>.

#include "common/command_line.hpp"
#include "common/report.hpp"
#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>
#include <boost_rdma/upgrade.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

asio::awaitable<void> echo_once(rdma::queue_pair peer)
{
  auto buffer = peer.context().allocate(4096);
  const std::size_t n = co_await peer.async_receive(buffer, asio::use_awaitable);
  co_await peer.async_send(buffer.first(n), asio::use_awaitable);
  rdma::error_code ended; // the client closes after it has received the answer
  co_await peer.async_wait_close(asio::redirect_error(asio::use_awaitable, ended));
}

// Serves the requests of one connection. Returns true if it became an RDMA connection, after its
// end.
asio::awaitable<bool> serve_one(const rdma::context& context, beast::tcp_stream stream)
{
  beast::flat_buffer buffer;
  for (;;)
  {
    http::request<http::string_body> request;
    rdma::error_code ec;
    co_await http::async_read(
      stream, buffer, request, asio::redirect_error(asio::use_awaitable, ec));
    if (ec == http::error::end_of_stream)
      co_return false;
    if (ec)
      throw rdma::system_error(ec, "read");

    // The program authorises the client here, before anything has been created for it.
    if (request.target() == "/rdma" && rdma::is_upgrade(request))
    {
      if (request[http::field::authorization] != "Bearer sesame")
      {
        const auto refusal =
          rdma::refuse_upgrade(http::status::unauthorized, "a password is required");
        co_await http::async_write(stream, refusal, asio::use_awaitable);
        co_return false;
      }
      rdma::upgrade_options options;
      options.data = "welcome, " + rdma::upgrade_data(request);
      co_await echo_once(co_await rdma::async_upgrade(
        std::move(stream), request, context, options, asio::use_awaitable));
      co_return true;
    }
    const bool known = request.target() == "/";
    http::response<http::string_body> page(
      known ? http::status::ok : http::status::not_found, request.version());
    page.body() = known ? "RDMA is at /rdma\n" : "no such page\n";
    page.keep_alive(request.keep_alive());
    page.prepare_payload();
    co_await http::async_write(stream, page, asio::use_awaitable);
    if (!page.keep_alive())
      co_return false;
  }
}

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  tcp::acceptor acceptor(co_await asio::this_coro::executor, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  for (bool served = false; !served;)
  {
    beast::tcp_stream stream(co_await acceptor.async_accept(asio::use_awaitable));
    try
    {
      served = co_await serve_one(context, std::move(stream));
    }
    catch (const std::exception& failure)
    {
      example::complain(failure); // affects only this client; the server continues
    }
  }
}

// Uses a stream of the program, which may be an ssl::stream. peer.async_connect(endpoint, options)
// is shorter.
asio::awaitable<rdma::error_code> ask(
  rdma::queue_pair& peer, const tcp::endpoint& endpoint, std::string password)
{
  beast::tcp_stream stream(peer.get_executor());
  co_await stream.async_connect(endpoint, asio::use_awaitable);
  rdma::connect_options options;
  options.host = "localhost";
  options.fields = {{"Authorization", "Bearer " + password}};
  options.data = "client";
  rdma::error_code ec;
  co_await rdma::async_upgrade(
    std::move(stream), peer, options, asio::redirect_error(asio::use_awaitable, ec));
  co_return ec;
}

asio::awaitable<void> connect(
  const rdma::context& context, const tcp::endpoint& endpoint, std::string_view message)
{
  {
    beast::tcp_stream stream(co_await asio::this_coro::executor);
    co_await stream.async_connect(endpoint, asio::use_awaitable);
    http::request<http::empty_body> request(http::verb::get, "/", 11);
    request.set(http::field::host, "localhost");
    co_await http::async_write(stream, request, asio::use_awaitable);
    beast::flat_buffer buffer;
    http::response<http::string_body> page;
    co_await http::async_read(stream, buffer, page, asio::use_awaitable);
    std::cout << page.body();
  }

  const auto executor = co_await asio::this_coro::executor;
  rdma::queue_pair stranger(executor, context);
  if (co_await ask(stranger, endpoint, "please") != rdma::error::refused)
    throw std::runtime_error("the server accepted a client without the password");
  std::cout << stranger.diagnose().reason << '\n'; // the reason from the server

  rdma::queue_pair peer(executor, context);
  if (const rdma::error_code ec = co_await ask(peer, endpoint, "sesame"))
    throw rdma::system_error(ec, "connect");
  std::cout << "message from the server: \"" << peer.peer_data() << "\"\n";

  auto request = context.allocate(message.size());
  auto answer = context.allocate(message.size());
  std::ranges::copy(std::as_bytes(std::span(message)), request.data());
  const auto [received, sent] = co_await (peer.async_receive(answer, asio::use_awaitable)
    && peer.async_send(request, asio::use_awaitable));
  std::cout << std::string_view(reinterpret_cast<char*>(answer.data()), received) << '\n';
  co_await peer.async_shutdown(asio::use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options =
    example::parse_command_line(argc, argv, "A web server that also offers RDMA");
  return example::run(
    [&options](const rdma::context& context)
    {
      return options.serve ? serve(context, options.endpoint)
                           : connect(context, options.endpoint, options.message);
    });
}
