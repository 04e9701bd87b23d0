//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Many writes in flight from one coroutine. In two terminals:
//
//   in_flight serve --port 7471
//   in_flight connect 127.0.0.1 7471
//
// The client fills the server's memory block by block, first with one write in flight, then with
// sixteen. On a network the first way waits a round trip for each block.

#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/in_flight.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::size_t block_size = 4096;
constexpr std::uint64_t block_count = 1000;

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rdma::acceptor acceptor(co_await asio::this_coro::executor, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  rdma::queue_pair peer = co_await acceptor.async_accept(asio::use_awaitable);

  rdma::memory_region region(
    context, block_count * block_size, rdma::access::local_write | rdma::access::remote_write);
  const rdma::remote_buffer::encoded handle = region.remote().encode();
  auto message = context.allocate(handle.size());
  std::ranges::copy(handle, message.data());
  co_await peer.async_send(message, asio::use_awaitable);

  co_await peer.async_receive(rdma::no_data, asio::use_awaitable); // the client has finished
  for (std::uint64_t i = 0; i < block_count; ++i)
    if (*region.slice(i * block_size, block_size).as<std::uint64_t>() != i)
      throw std::runtime_error("block " + std::to_string(i) + " did not arrive");
  std::cout << block_count << " blocks arrived\n";
}

// Writes all blocks, with up to `limit` writes in flight.
asio::awaitable<void> write_blocks(
  rdma::queue_pair& peer, const rdma::remote_buffer& remote, std::size_t limit)
{
  rdma::in_flight writes(co_await asio::this_coro::executor, limit);
  for (std::uint64_t i = 0; i < block_count; ++i)
  {
    // Waits while `limit` writes are in flight. Throws the first error of a write.
    auto slot = co_await writes.async_acquire(asio::use_awaitable);
    auto block = peer.context().allocate(block_size);
    *block.as<std::uint64_t>() = i;
    peer.async_write(block, remote.slice(i * block_size, block_size), std::move(slot));
  } // the operation keeps the block's memory until it completes
  co_await writes.async_wait_all(asio::use_awaitable);
}

asio::awaitable<void> connect(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  auto message = context.allocate(rdma::remote_buffer::encoded_size);
  co_await peer.async_connect(endpoint, asio::use_awaitable);
  const std::size_t n = co_await peer.async_receive(message, asio::use_awaitable);
  const auto remote = rdma::remote_buffer::decode(message.bytes().first(n)); // throws if malformed

  for (const std::size_t limit : {1, 16})
  {
    const auto start = std::chrono::steady_clock::now();
    co_await write_blocks(peer, remote, limit);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    std::cout << block_count << " blocks of " << block_size << " B, " << limit
              << " in flight: " << time.count() << " ms\n";
  }
  co_await peer.async_send(rdma::no_data, asio::use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(argc, argv, "Many writes in flight");
  return example::run(
    [&options](const rdma::context& context) {
      return options.serve ? serve(context, options.endpoint) : connect(context, options.endpoint);
    });
}
