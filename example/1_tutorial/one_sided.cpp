//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Reads and writes the memory of another process without its processor. In two terminals:
//
//   one_sided serve --port 7471
//   one_sided connect 127.0.0.1 7471 "a message"
//
// The server exposes memory, sends a handle for it, and accesses the memory again only after the
// client reports that it is done.

#include "common/command_line.hpp"
#include "common/report.hpp"
#include "common/run.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>

namespace asio = boost::asio;
using asio::ip::tcp;

// Content of the exposed memory: plain data with the same layout on both sides.
struct board
{
  std::uint64_t visitors = 0;
  std::uint64_t owner = 0;
  char text[112] = {};
};

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rdma::acceptor acceptor(co_await asio::this_coro::executor, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  rdma::queue_pair peer = co_await acceptor.async_accept(asio::use_awaitable);

  // Peers can access memory only with the rights of its registration.
  rdma::memory_region region(
    context, sizeof(board), rdma::access::local_write | rdma::remote_access);
  const rdma::remote_buffer::encoded handle = region.remote().encode();
  auto message = context.allocate(handle.size());
  std::ranges::copy(handle, message.data());
  co_await peer.async_send(message, asio::use_awaitable);

  co_await peer.async_receive(rdma::no_data, asio::use_awaitable); // the client is done
  const board& seen = *region.as<board>();
  std::cout << seen.visitors << " visitor, owner " << seen.owner
            << ", text: " << std::string_view(seen.text, strnlen(seen.text, sizeof(seen.text)))
            << '\n';
}

asio::awaitable<void> connect(
  const rdma::context& context, const tcp::endpoint& endpoint, std::string_view text)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  auto message = context.allocate(rdma::remote_buffer::encoded_size);
  co_await peer.async_connect(endpoint, asio::use_awaitable);
  const std::size_t n = co_await peer.async_receive(message, asio::use_awaitable);
  const auto remote = rdma::remote_buffer::decode(message.bytes().first(n)); // may throw

  // Writes the text and reads it back.
  auto local = context.allocate(sizeof(board));
  const std::size_t size = std::min(text.size(), sizeof(board::text));
  std::memcpy(local.data(), text.data(), size);
  const auto remote_text = remote.slice(offsetof(board, text), size);
  co_await peer.async_write(local.first(size), remote_text, asio::use_awaitable);
  std::memset(local.data(), 0, size);
  co_await peer.async_read(local.first(size), remote_text, asio::use_awaitable);
  std::cout << "read back: " << std::string_view(local.as<char>(), size) << '\n';

  // Atomics operate on 64-bit numbers and return the previous value.
  const std::uint64_t visitors =
    co_await peer.async_fetch_add(remote.slice(offsetof(board, visitors)), 1, asio::use_awaitable);
  std::cout << visitors << " before us\n";
  const std::uint64_t owner = co_await peer.async_compare_exchange(
    remote.slice(offsetof(board, owner)), 0, 42, asio::use_awaitable);
  std::cout << (owner == 0 ? "now owned by 42" : "owned by " + std::to_string(owner)) << '\n';

  // A range beyond the handle is refused before anything is sent.
  const auto [ec, written] = co_await peer.async_write(
    local, remote.slice(sizeof(board) - 8), asio::as_tuple(asio::use_awaitable));
  std::cout << "out of bounds: " << example::explain(ec) << " (" << written << " bytes written)\n";

  co_await peer.async_send(rdma::no_data, asio::use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(argc, argv, "One-sided operations");
  return example::run(
    [&options](const rdma::context& context)
    {
      return options.serve ? serve(context, options.endpoint)
                           : connect(context, options.endpoint, options.message);
    });
}
