//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Sends the lines of its standard input to an echo server, and prints the answers. One thread waits
// for input, for messages by RDMA and for the end of the connection. In two terminals:
//
//   echo_service --port 7471
//   talk 127.0.0.1 7471
//
// It ends at the end of its input (Ctrl-D), or when the server ends the connection. With --late it
// receives each answer only after it has read the next line or the end of the input, like a busy
// program. This shows how the server behaves in the meantime.

#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>

#include <unistd.h>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

namespace {

constexpr std::size_t line_size_max = 4096;

auto into(rdma::error_code& ec)
{
  return asio::redirect_error(asio::use_awaitable, ec);
}

std::string_view text_of(const rdma::registered_buffer& buffer, std::size_t size)
{
  return {reinterpret_cast<const char*>(buffer.data()), size};
}

asio::awaitable<void> talk(const rdma::context& context, tcp::endpoint server, bool late)
{
  const auto executor = co_await asio::this_coro::executor;
  asio::posix::stream_descriptor input(executor, ::dup(STDIN_FILENO));
  rdma::queue_pair peer(executor, context);
  co_await peer.async_connect(server, asio::use_awaitable);
  auto outgoing = context.allocate(line_size_max);
  auto incoming = context.allocate(line_size_max);
  std::string typed;
  bool unanswered = false; // an answer that was not received yet
  for (;;)
  {
    rdma::error_code ec;
    rdma::error_code ended;
    const auto first = co_await (
      asio::async_read_until(input, asio::dynamic_buffer(typed, line_size_max), '\n', into(ec))
      || peer.async_wait_close(into(ended)));
    if (first.index() == 1)
    {
      if (unanswered || ended != rdma::error::peer_closed)
        throw rdma::system_error(
          ended, unanswered ? "the last line was not answered" : "connection");
      std::cerr << "the server has ended the connection\n";
      co_return;
    }
    if (unanswered)
      std::cout << text_of(incoming, co_await peer.async_receive(incoming, asio::use_awaitable))
                << std::flush;
    if (ec == asio::error::eof)
      break;
    if (ec)
      throw rdma::system_error(ec, "input");

    const std::size_t size = std::get<0>(first); // includes the end of the line
    std::memcpy(outgoing.data(), typed.data(), size);
    typed.erase(0, size);
    const rdma::const_buffer line = outgoing.first(size);
    unanswered = late;
    if (late)
      co_await peer.async_send(line, asio::use_awaitable);
    else
    {
      // Posts the receive first, before the answer can arrive. Both operations run at the same
      // time.
      const auto [received, sent] = co_await (peer.async_receive(incoming, asio::use_awaitable)
        && peer.async_send(line, asio::use_awaitable));
      std::cout << text_of(incoming, received) << std::flush;
    }
  }
  rdma::error_code ec;
  co_await peer.async_shutdown(into(ec));
  if (ec && ec != rdma::error::peer_closed) // the server has closed first
    throw rdma::system_error(ec, "shutdown");
}

} // namespace

int main(int argc, char** argv)
{
  std::string address;
  std::uint16_t port = 0;
  bool late = false;
  CLI::App app("Talks to an echo server");
  app.footer("Examples, with echo_service or an echo example listening at that port:\n"
             "  echo hello | talk 127.0.0.1 7471\n"
             "  talk 192.0.2.7 7471 < lines");
  app.add_option("ADDRESS", address)->required()->check(example::an_address());
  app.add_option("PORT", port)->required();
  app.add_flag("--late", late, "receive an answer only after the next line has been read");
  CLI11_PARSE(app, argc, argv);
  return example::run(
    [&](const rdma::context& context) {
      return talk(context, {asio::ip::make_address(address), port}, late);
    });
}
