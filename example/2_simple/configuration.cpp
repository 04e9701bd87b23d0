//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// A configuration in a server's memory, with many readers. In two terminals:
//
//   configuration serve --port 7471
//   configuration connect 127.0.0.1 7471
//
// The client's readers load the configuration by RDMA: the server's program takes no part. The
// client changes it once. The server ends when the client has left.

#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/objects/versioned.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cstdint>
#include <iostream>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

struct configuration
{
  std::uint32_t connections_max;
  std::uint32_t bytes_per_second;
};

std::ostream& operator<<(std::ostream& out, const configuration& c)
{
  return out << c.connections_max << " connections, " << c.bytes_per_second << " bytes/s";
}

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  const auto executor = co_await asio::this_coro::executor;
  rdma::versioned<configuration> current(executor, context, configuration{100, 1'000'000});
  rdma::acceptor acceptor(executor, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  rdma::queue_pair peer = co_await acceptor.async_accept(asio::use_awaitable);

  const rdma::remote_buffer::encoded handle = current.remote().encode();
  auto message = context.allocate(handle.size());
  std::ranges::copy(handle, message.data());
  co_await peer.async_send(message, asio::use_awaitable);
  co_await peer.async_wait_close(asio::as_tuple(asio::use_awaitable));

  const auto [value, version] = co_await current.async_load(asio::use_awaitable);
  std::cout << "the client left " << value << '\n';
}

using remote_configuration = rdma::remote_versioned<configuration>;

// Loads the configuration until it has another version than `known`.
asio::awaitable<void> read_until_changed(remote_configuration remote, std::uint32_t known)
{
  rdma::versioned_value<configuration> found{};
  do
    found = co_await remote.async_load(asio::use_awaitable);
  while (found.version == known);
  std::cout << "a reader found " << found.value << '\n';
}

// Doubles the number of connections. If another process stores meanwhile, it begins again.
asio::awaitable<void> change(remote_configuration remote)
{
  for (;;)
  {
    auto [value, version] = co_await remote.async_load(asio::use_awaitable);
    value.connections_max *= 2;
    const auto [stored, newest] =
      co_await remote.async_compare_store(version, value, asio::use_awaitable);
    if (stored)
      co_return;
  }
}

asio::awaitable<void> connect(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  auto message = context.allocate(rdma::remote_buffer::encoded_size);
  co_await peer.async_connect(endpoint, asio::use_awaitable);
  const std::size_t n = co_await peer.async_receive(message, asio::use_awaitable);
  const auto handle = rdma::remote_buffer::decode(message.bytes().first(n)); // throws if malformed
  auto remote = co_await remote_configuration::async_open(peer, handle, asio::use_awaitable);

  const auto [value, version] = co_await remote.async_load(asio::use_awaitable);
  std::cout << "the server has " << value << '\n';
  co_await (read_until_changed(remote, version) && read_until_changed(remote, version)
    && read_until_changed(remote, version) && change(remote));
  co_await peer.async_shutdown(asio::use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options =
    example::parse_command_line(argc, argv, "A configuration in a server's memory");
  return example::run(
    [&options](const rdma::context& context) {
      return options.serve ? serve(context, options.endpoint) : connect(context, options.endpoint);
    });
}
