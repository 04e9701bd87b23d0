//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// HTTP by Beast over RDMA. The functions that speak HTTP are templates and would serve a
// tcp::socket as well. In two terminals:
//
//   http_stream serve --port 7471
//   http_stream connect 127.0.0.1 7471 "Hello, RDMA"
//
// The server also has plain TCP clients: curl --data "Hello, TCP" http://127.0.0.1:7471/echo

#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::use_awaitable;
using asio::ip::tcp;

namespace {

// Answers each request with its body, until the client ends the stream.
template <class Stream>
asio::awaitable<void> answer_requests(Stream& client)
{
  boost::beast::flat_buffer buffer;
  for (;;)
  {
    http::request<http::string_body> request;
    rdma::error_code ec;
    co_await http::async_read(client, buffer, request, asio::redirect_error(use_awaitable, ec));
    if (ec == http::error::end_of_stream)
      co_return;
    if (ec)
      throw rdma::system_error(ec);
    http::response<http::string_body> response(http::status::ok, request.version());
    response.body() = std::move(request.body());
    response.prepare_payload();
    co_await http::async_write(client, response, use_awaitable);
  }
}

template <class Stream>
asio::awaitable<std::string> post(Stream& server, std::string text)
{
  http::request<http::string_body> request(http::verb::post, "/echo", 11);
  request.set(http::field::host, "rdma");
  request.body() = std::move(text);
  request.prepare_payload();
  co_await http::async_write(server, request, use_awaitable);
  boost::beast::flat_buffer buffer;
  http::response<http::string_body> response;
  co_await http::async_read(server, buffer, response, use_awaitable);
  co_return std::move(response.body());
}

asio::awaitable<void> serve(const rdma::context& context, std::uint16_t port)
{
  rdma::stream_acceptor acceptor(
    co_await asio::this_coro::executor, context, tcp::endpoint(tcp::v4(), port));
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  rdma::stream client = co_await acceptor.async_accept(use_awaitable);
  co_await answer_requests(client);
}

asio::awaitable<void> connect(
  const rdma::context& context, tcp::endpoint server, const std::string& text)
{
  rdma::stream stream(co_await asio::this_coro::executor, context);
  co_await stream.async_connect(server, use_awaitable);
  const std::string answer = co_await post(stream, text);
  std::cout << answer << '\n';
  if (answer != text)
    throw std::runtime_error("the answer differs from the text");
}

} // namespace

int main(int argc, char** argv)
{
  CLI::App app("HTTP by Beast over RDMA");
  app.footer("Examples, in two terminals:\n"
             "  http_stream serve --port 7471\n"
             "  http_stream connect 127.0.0.1 7471 \"Hello, RDMA\"");
  app.require_subcommand(1);
  std::uint16_t port = 0;
  std::string address;
  std::string text = "Hello, RDMA";
  CLI::App* serve_command = app.add_subcommand("serve", "answer the requests of one client");
  serve_command->add_option("--port", port, "TCP port; 0: any")->capture_default_str();
  CLI::App* connect_command = app.add_subcommand("connect", "send a text and print the answer");
  connect_command->add_option("ADDRESS", address)->required();
  connect_command->add_option("PORT", port)->required();
  connect_command->add_option("TEXT", text)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return example::run(
    [&](const rdma::context& context)
    {
      return serve_command->parsed()
        ? serve(context, port)
        : connect(context, tcp::endpoint(asio::ip::make_address(address), port), text);
    });
}
