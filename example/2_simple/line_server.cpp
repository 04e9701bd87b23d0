//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// A server of lines of text for clients with RDMA and for plain TCP clients, on the same port. The
// functions that read and write lines are those of a TCP program. In two terminals:
//
//   line_server serve --port 7471
//   line_server connect 127.0.0.1 7471 "Hello, RDMA"
//
// or, instead of the second, any TCP client:
//
//   nc 127.0.0.1 7471

#include "common/command_line.hpp"
#include "common/report.hpp"
#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

namespace asio = boost::asio;
using asio::use_awaitable;
using asio::ip::tcp;

namespace {

constexpr std::size_t line_size_max = 64 * 1024;

// Sends each line back, until the client ends the stream.
template <class Stream>
asio::awaitable<void> echo_lines(Stream client)
{
  std::string text;
  for (;;)
  {
    rdma::error_code ec;
    const std::size_t size = co_await asio::async_read_until(client,
      asio::dynamic_buffer(text, line_size_max), '\n', asio::redirect_error(use_awaitable, ec));
    if (ec == asio::error::eof)
      co_return;
    if (ec)
      throw rdma::system_error(ec);
    co_await asio::async_write(client, asio::buffer(text, size), use_awaitable);
    text.erase(0, size);
  }
}

template <class Stream>
asio::awaitable<void> ask(Stream& server, std::string line)
{
  line += '\n';
  co_await asio::async_write(server, asio::buffer(line), use_awaitable);
  std::string answer;
  co_await asio::async_read_until(server, asio::dynamic_buffer(answer), '\n', use_awaitable);
  std::cout << answer;
  if (answer != line)
    throw std::runtime_error("the answer differs from the line");
}

// Without the three lines with "rdma", this is the TCP program.
asio::awaitable<void> serve(const rdma::context& context, std::uint16_t port, int clients)
{
  const auto executor = co_await asio::this_coro::executor;
  rdma::stream_acceptor acceptor(executor, context, tcp::endpoint(tcp::v4(), port));
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  for (int i = 0; clients == 0 || i != clients; ++i)
  {
    rdma::stream client = co_await acceptor.async_accept(use_awaitable);
    std::cout << "a client by " << client.transport().text() << std::endl;
    asio::co_spawn(executor, echo_lines(std::move(client)),
      [](std::exception_ptr failure) { example::complain(failure); });
  }
}

asio::awaitable<void> connect(const rdma::context& context, tcp::endpoint server, std::string line)
{
  const auto executor = co_await asio::this_coro::executor;
  rdma::stream fast(executor, context);
  co_await fast.async_connect(server, use_awaitable);
  std::cout << "by " << fast.transport().text() << ": ";
  co_await ask(fast, line);

  tcp::socket plain(executor);
  co_await plain.async_connect(server, use_awaitable);
  std::cout << "by TCP: ";
  co_await ask(plain, std::move(line));
}

} // namespace

int main(int argc, char** argv)
{
  CLI::App app("Lines of text over RDMA and TCP");
  app.footer("Examples, in two terminals:\n"
             "  line_server serve --port 7471\n"
             "  line_server connect 127.0.0.1 7471 \"Hello, RDMA\"");
  app.require_subcommand(1);
  std::uint16_t port = 0;
  int clients = 0;
  std::string address;
  std::string line = "Hello, RDMA";
  CLI::App* serve_command = app.add_subcommand("serve", "send lines back");
  serve_command->add_option("--port", port, "TCP port; 0: any")->capture_default_str();
  serve_command->add_option("--clients", clients, "end after so many; 0: never");
  CLI::App* connect_command = app.add_subcommand("connect", "send a line by RDMA and by TCP");
  connect_command->add_option("ADDRESS", address)->required();
  connect_command->add_option("PORT", port)->required();
  connect_command->add_option("LINE", line)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return example::run(
    [&](const rdma::context& context)
    {
      return serve_command->parsed()
        ? serve(context, port, clients)
        : connect(context, tcp::endpoint(asio::ip::make_address(address), port), line);
    });
}
