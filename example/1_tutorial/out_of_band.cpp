//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Connects two queue pairs without rdma::acceptor. The program exchanges the descriptions of the
// two sides itself, here over standard input and output. By hand, in two terminals: run
// `out_of_band` in each, and paste the line that one prints into the other. Or with pipes:
//
//   mkfifo back; out_of_band --message ping <back | out_of_band --message pong >back; rm back
//
// A description contains a secret. Treat it like the data itself.

#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <CLI/CLI.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;

asio::awaitable<void> talk(
  const rdma::context& context, std::optional<asio::ip::address> address, std::string_view message)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);

  // 1. Each side prints its description, 2. reads that of the peer, and 3. connects.
  std::cout << peer.local_endpoint(address).text() << std::endl;
  std::string line;
  if (!std::getline(std::cin, line))
    throw std::runtime_error(
      "no description of the peer on standard input. Paste the line that the peer printed.");
  peer.connect(rdma::endpoint_description::parse(line));

  auto outgoing = context.allocate(message.size());
  auto incoming = context.allocate(4096);
  std::ranges::copy(std::as_bytes(std::span(message)), outgoing.data());
  const auto [received, sent] = co_await (peer.async_receive(incoming, asio::use_awaitable)
    && peer.async_send(outgoing, asio::use_awaitable));
  std::cerr << "message from the peer: " << std::string_view(incoming.as<char>(), received) << '\n';
}

int main(int argc, char** argv)
{
  std::string message = "Hello, RDMA";
  std::string address;
  CLI::App app("Connects with descriptions that are exchanged over standard input and output");
  app.footer(
    "Examples, on one host:\n"
    "  mkfifo back; out_of_band --message ping <back | out_of_band --message pong >back; rm back\n"
    "and on two:\n"
    "  mkfifo back; out_of_band --address 192.0.2.8 <back | ssh 192.0.2.7 out_of_band --address "
    "192.0.2.7 >back; rm back");
  app.add_option("--message", message, "the message to the peer")->capture_default_str();
  app.add_option("--address", address, "this host's address for the peer");
  CLI11_PARSE(app, argc, argv);
  return example::run(
    [&](const rdma::context& context)
    {
      std::optional<asio::ip::address> local;
      if (!address.empty())
        local = asio::ip::make_address(address);
      return talk(context, local, message);
    });
}
