//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Clients that keep a map of keys and values in leased memory of a server. Alone, or in two
// terminals:
//
//   leased_map                                      a server and two clients in one process
//
//   leased_map serve --port 7471
//   leased_map connect 127.0.0.1 7471 "a message"
//
// The server only grants memory (rdma::lessor). The client creates an rdma::remote_map in it, and
// uses it by one-sided operations. At the end it hands the memory over, and the server prints the
// entries. A lease belongs to one connection, so each client has its own map.

#include "common/command_line.hpp"
#include "common/run.hpp"
#include "common/text.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/agent.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/endpoint_description.hpp>
#include <boost_rdma/lessor.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/objects/remote_map.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using namespace std::chrono_literals;
using asio::use_awaitable;
using asio::ip::tcp;

using text_map = rdma::remote_map<std::array<char, 24>, std::array<char, 96>>;

constexpr rdma::map_options map_size{.capacity = 64};

// An operation on memory whose lease has ended ends the connection, so the lease is renewed early.
// (Renewing every few seconds would suffice, but this program ends sooner.)
constexpr auto lease_time = 30s;
constexpr auto renewal_interval = 10ms;

text_map::key_type key(std::string_view text)
{
  return example::padded<text_map::key_type().size()>(text);
}

text_map::mapped_type value(std::string_view text)
{
  return example::padded<text_map::mapped_type().size()>(text);
}

// ---- The server

rdma::acceptor_options granting(const rdma::context& context)
{
  rdma::lessor_options quotas;
  quotas.bytes_max = 1 << 20;
  quotas.bytes_per_peer_max = 128 << 10;
  quotas.regions_per_peer_max = 4;
  quotas.lifetime_max = 1min;
  rdma::acceptor_options result;
  result.queue_pair.grant_from(rdma::lessor(context, quotas));
  return result;
}

asio::awaitable<void> serve(const rdma::context& context, rdma::acceptor& acceptor)
{
  rdma::queue_pair peer = co_await acceptor.async_accept(use_awaitable);
  const rdma::registered_buffer memory = co_await peer.agent().async_receive_local(use_awaitable);

  // Now only this side has access. It opens the map through a queue pair that is its own peer.
  const rdma::memory_region region(
    context, memory.data(), memory.size(), rdma::access::remote_read);
  rdma::queue_pair self(co_await asio::this_coro::executor, context);
  self.connect(self.local_endpoint());
  const text_map map = co_await text_map::async_open(self, region.remote(), use_awaitable);
  auto entries = co_await map.async_entries(0, map.part_count(), use_awaitable);
  std::ranges::sort(entries);
  std::cout << "a client handed over:\n";
  for (const auto& [key, value] : entries)
    std::cout << "  " << example::printable(key) << ": " << example::printable(value) << '\n';
  std::cout << std::flush;

  const auto [ended] = co_await peer.async_wait_close(asio::as_tuple(use_awaitable));
  if (ended != rdma::error::peer_closed)
    throw rdma::system_error(ended, "waiting for the client to disconnect");
}

// ---- A client

asio::awaitable<void> write_much(text_map map, char first)
{
  for (char c = first; c != first + 26; ++c)
    co_await map.async_insert_or_assign(
      key("contended"), value(std::string(value("").size(), c)), use_awaitable);
}

asio::awaitable<void> read_much(text_map map)
{
  for (int i = 0; i != 100; ++i)
  {
    const auto found = co_await map.async_find(key("contended"), use_awaitable);
    if (found && std::ranges::count(*found, found->front()) != std::ssize(*found))
      throw std::logic_error("a torn value: " + example::printable(*found));
  }
}

asio::awaitable<void> use(text_map map, std::string message, bool& done)
{
  co_await map.async_insert(key("greeting"), value(message), use_awaitable);
  co_await map.async_insert(key("passing"), value("erased before anybody reads it"), use_awaitable);
  co_await (write_much(map, 'a') && write_much(map, 'A') && read_much(map) && read_much(map));
  co_await map.async_erase(key("passing"), use_awaitable);
  const auto gone = co_await map.async_find(key("passing"), use_awaitable);
  const auto greeting = co_await map.async_find(key("greeting"), use_awaitable);
  if (gone || greeting != value(message))
    throw std::logic_error("the map differs from the values that were put into it");
  done = true;
}

asio::awaitable<int> keep_leased(
  rdma::agent agent, const rdma::remote_memory& memory, const bool& done)
{
  asio::steady_timer timer(co_await asio::this_coro::executor);
  int renewals = 0;
  while (!done)
  {
    co_await agent.async_renew(memory, lease_time, use_awaitable);
    ++renewals;
    timer.expires_after(renewal_interval);
    co_await timer.async_wait(use_awaitable);
  }
  co_return renewals;
}

asio::awaitable<void> connect(rdma::context context, tcp::endpoint endpoint, std::string message)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  co_await peer.async_connect(endpoint, use_awaitable);
  if ((peer.transport().features & rdma::device_features::atomics) == 0)
    throw std::runtime_error("one of the two devices has no atomics, which changes of a remote_map "
                             "require: set BOOST_RDMA_DEVICE=soft0 on both sides");

  rdma::agent agent = peer.agent();
  rdma::allocation_options wanted;
  wanted.lifetime = lease_time;
  rdma::remote_memory memory =
    co_await agent.async_allocate(text_map::size_for(map_size), wanted, use_awaitable);
  const text_map map = co_await text_map::async_create(peer, memory, map_size, use_awaitable);

  bool done = false;
  const int renewals = co_await (use(map, message, done) && keep_leased(agent, memory, done));
  std::cout << "the lease was renewed " << renewals << " times" << std::endl;
  co_await agent.async_hand_over(std::move(memory), use_awaitable);
  co_await peer.async_shutdown(use_awaitable);
}

asio::awaitable<void> run(const rdma::context& context, const example::command_line& options)
{
  if (!options.serve)
    co_return co_await connect(context, options.endpoint, options.message);
  rdma::acceptor acceptor(
    co_await asio::this_coro::executor, context, options.endpoint, granting(context));
  const tcp::endpoint endpoint = acceptor.local_endpoint();
  std::cout << "listening on " << endpoint << std::endl;
  if (!options.connect)
    co_return co_await serve(context, acceptor);
  // If several fail, the failure of the first in this order is printed.
  co_await (connect(rdma::context(), endpoint, options.message)
    && connect(rdma::context(), endpoint, options.message) && serve(context, acceptor)
    && serve(context, acceptor));
}

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(
    argc, argv, "Keys and values in leased memory of a server", example::roles::one_or_both);
  return example::run([&options](const rdma::context& context) { return run(context, options); });
}
