//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Clients that store keys and values in a server's memory. Alone, or in two terminals:
//
//   key_value_cells                                 a server and two clients in one process
//
//   key_value_cells serve --port 7471
//   key_value_cells connect 127.0.0.1 7471 "a message"
//
// The server only grants memory (rdma::lessor). Puts and gets are one-sided operations
// (key_value_cells/remote_map.hpp). At the end each client hands its table over, and the server
// prints its content. A lease belongs to one connection, so each client has its own table.

#include "common/command_line.hpp"
#include "common/report.hpp"
#include "key_value_cells/cell.hpp"
#include "key_value_cells/remote_map.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/agent.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/endpoint_description.hpp>
#include <boost_rdma/lessor.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using namespace std::chrono_literals;
using asio::use_awaitable;
using asio::ip::tcp;
using key_value_cells::cell;
using key_value_cells::remote_map;

// An operation on memory whose lease has ended ends the connection, so the lease is renewed early.
// (Renewing every few seconds would suffice, but this program ends sooner.)
constexpr auto lease_time = 5s;
constexpr auto renewal_interval = 10ms;

constexpr std::size_t cells = 64;

// ---- The server

// Written by the peer: it may fill the whole field, and need not be text.
template <std::size_t size>
std::string printable(const std::array<char, size>& field)
{
  std::string text = key_value_cells::text_of(field);
  std::ranges::replace_if(
    text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

asio::awaitable<void> serve(rdma::acceptor& acceptor)
{
  rdma::queue_pair peer = co_await acceptor.async_accept(use_awaitable);
  const rdma::registered_buffer table = co_await peer.agent().async_receive_local(use_awaitable);
  // Now only this side has access. as_span() throws if the size is not a multiple of a cell.
  std::cout << "a client handed over:\n";
  for (const cell& each : table.as_span<const cell>())
  {
    if (each.version % 2 != 0)
      std::cout << "  (an incomplete cell)\n";
    else if (each.content.key[0] != '\0')
      std::cout << "  " << printable(each.content.key) << ": " << printable(each.content.value)
                << '\n';
  }
  std::cout << std::flush;
  // The client ends the connection after it has finished.
  const auto [ended] = co_await peer.async_wait_close(asio::as_tuple(use_awaitable));
  if (ended != rdma::error::peer_closed)
    throw rdma::system_error(ended, "waiting for the client to disconnect");
}

rdma::lessor_options quotas()
{
  rdma::lessor_options result;
  result.bytes_max = 1 << 20;
  result.bytes_per_peer_max = 64 << 10;
  result.regions_per_peer_max = 4;
  result.lifetime_max = 1min;
  return result;
}

rdma::acceptor_options options_of(const rdma::lessor& lessor)
{
  rdma::acceptor_options result;
  result.queue_pair.grant_from(lessor);
  return result;
}

// ---- A client

asio::awaitable<void> write_much(remote_map& map, char first)
{
  for (char c = first; c != first + 26; ++c)
    co_await map.put("contended", std::string(key_value_cells::value_size_max, c));
}

asio::awaitable<void> read_much(remote_map& map)
{
  for (int i = 0; i != 100; ++i)
  {
    const std::optional<std::string> value = co_await map.get("contended");
    if (value && value->find_first_not_of(value->front()) != std::string::npos)
      throw std::logic_error("a torn value: " + *value);
  }
}

asio::awaitable<void> use(remote_map& map, std::string message)
{
  co_await map.put("greeting", message);
  co_await map.put("passing", "erased before anybody reads it");
  co_await (write_much(map, 'a') && write_much(map, 'A') && read_much(map) && read_much(map));
  co_await map.erase("passing");
  const std::optional<std::string> gone = co_await map.get("passing");
  const std::optional<std::string> greeting = co_await map.get("greeting");
  if (gone || greeting != message)
    throw std::logic_error("the map differs from the values that were put into it");
}

// Ends only with an exception.
asio::awaitable<void> keep_leased(
  rdma::agent agent, const rdma::remote_memory& memory, int& renewals)
{
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;; ++renewals)
  {
    timer.expires_after(renewal_interval);
    co_await timer.async_wait(use_awaitable);
    co_await agent.async_renew(memory, lease_time, use_awaitable);
  }
}

asio::awaitable<void> connect(
  rdma::context context, tcp::endpoint endpoint, std::string message, bool atomics_wanted)
{
  const auto executor = co_await asio::this_coro::executor;
  rdma::queue_pair peer(executor, context);
  co_await peer.async_connect(endpoint, use_awaitable);
  rdma::agent agent = peer.agent();

  rdma::allocation_options wanted;
  wanted.lifetime = lease_time;
  if (!atomics_wanted || (peer.transport().features & rdma::device_features::atomics) == 0)
    wanted.rights = rdma::without(wanted.rights, rdma::access::remote_atomic);
  remote_map map(peer, co_await agent.async_allocate(cells * sizeof(cell), wanted, use_awaitable));

  // The first one to end determines the result and cancels the other. (GCC 12 destroys too much if
  // this is one expression.)
  int renewals = 0;
  auto both = asio::experimental::make_parallel_group(
    asio::co_spawn(executor, use(map, message), asio::deferred),
    asio::co_spawn(executor, keep_leased(agent, map.memory(), renewals), asio::deferred));
  const auto [order, failure, why_not_renewed] =
    co_await both.async_wait(asio::experimental::wait_for_one(), use_awaitable);
  if (const std::exception_ptr thrown = order[0] == 0 ? failure : why_not_renewed)
    std::rethrow_exception(thrown);

  std::cout << (map.by_atomics() ? "cells locked by compare-exchange, "
                                 : "one writer, without atomics, ")
            << map.repeats() << " reads repeated, " << renewals << " renewals" << std::endl;
  co_await agent.async_hand_over(map.take_memory(), use_awaitable);
  co_await peer.async_shutdown(use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(
    argc, argv, "Keys and values in leased memory of a server", example::roles::one_or_both);
  const int clients = options.serve && options.connect ? 2 : 1;
  try
  {
    asio::io_context io;
    std::exception_ptr failure;
    const auto keep = [&](std::exception_ptr thrown)
    {
      if (thrown && !failure)
      {
        failure = thrown;
        io.stop(); // the other coroutines may wait for the failed one
      }
    };
    tcp::endpoint endpoint = options.endpoint;

    std::optional<rdma::acceptor> acceptor;
    if (options.serve)
    {
      const rdma::context context;
      const rdma::lessor lessor(context, quotas());
      acceptor.emplace(io, context, endpoint, options_of(lessor));
      endpoint = acceptor->local_endpoint();
      std::cout << "listening on " << endpoint << std::endl;
      for (int i = 0; i != clients; ++i)
        asio::co_spawn(io, serve(*acceptor), keep);
    }
    if (options.connect)
      for (int i = 0; i != clients; ++i) // the second client does not use atomics, as on iWARP
        asio::co_spawn(io, connect(rdma::context(), endpoint, options.message, i == 0), keep);
    io.run();
    example::complain(failure);
    return failure ? 1 : 0;
  }
  catch (const std::exception& failure)
  {
    example::complain(failure);
    return 1;
  }
}
