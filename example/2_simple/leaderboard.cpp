//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The scores of a game in a server's memory, which the players change. In two terminals:
//
//   leaderboard serve --port 7471
//   leaderboard connect 127.0.0.1 7471
//
// Players look up and change their scores by RDMA: the server's program takes part only when the
// map has to grow, while the others play on. The server ends when the client has left.

#include "common/command_line.hpp"
#include "common/run.hpp"
#include "common/text.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/objects/map.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using asio::use_awaitable;
using asio::ip::tcp;

using name = std::array<char, 16>;
using score_map = rdma::remote_map<name, std::uint32_t>;

constexpr rdma::map_options first_size{.capacity = 64};
constexpr int players_per_team = 40;
constexpr int rounds = 3;

void print_best(std::vector<score_map::value_type> scores, std::size_t count)
{
  count = std::min(count, scores.size());
  std::ranges::partial_sort(scores, scores.begin() + static_cast<std::ptrdiff_t>(count),
    std::greater(), &score_map::value_type::second);
  std::cout << "the best of " << scores.size() << " players:\n";
  for (std::size_t i = 0; i != count; ++i)
    std::cout << "  " << example::printable(scores[i].first) << ": " << scores[i].second << '\n';
}

// A player who finds no room sends a message, and tries again after the answer.
asio::awaitable<void> make_room(
  rdma::queue_pair& peer, rdma::map<name, std::uint32_t>& scores, std::uint64_t capacity)
{
  for (;;)
  {
    const auto [ec, size] =
      co_await peer.async_receive(rdma::no_data, asio::as_tuple(use_awaitable));
    if (ec == rdma::error::peer_closed)
      co_return;
    if (ec)
      throw rdma::system_error(ec);
    const auto entries = co_await scores.async_entries(0, scores.part_count(), use_awaitable);
    if (entries.size() > capacity / 4 * 3) // otherwise it has grown since, for another player
    {
      co_await scores.async_grow(use_awaitable);
      capacity *= 2;
      std::cout << "room for " << capacity << " players" << std::endl;
    }
    co_await peer.async_send(rdma::no_data, use_awaitable);
  }
}

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  const auto executor = co_await asio::this_coro::executor;
  rdma::map<name, std::uint32_t> scores(executor, context, first_size);
  rdma::acceptor acceptor(executor, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  rdma::queue_pair peer = co_await acceptor.async_accept(use_awaitable);

  const rdma::remote_buffer::encoded handle = scores.remote().encode();
  auto message = context.allocate(handle.size());
  std::ranges::copy(handle, message.data());
  co_await peer.async_send(message, use_awaitable);
  co_await make_room(peer, scores, first_size.capacity);
  print_best(co_await scores.async_entries(0, scores.part_count(), use_awaitable), 3);
}

asio::awaitable<void> store(
  rdma::queue_pair& peer, score_map& scores, const name& player, std::uint32_t points)
{
  for (;;)
  {
    const auto [ec, inserted] =
      co_await scores.async_insert_or_assign(player, points, asio::as_tuple(use_awaitable));
    if (!ec)
      co_return;
    if (ec != rdma::error::object_full)
      throw rdma::system_error(ec);
    co_await peer.async_send(rdma::no_data, use_awaitable);
    co_await peer.async_receive(rdma::no_data, use_awaitable);
  }
}

// The players of a team play one after the other. Returns the points that they have won.
// A map has no operation that adds to a value, but nobody else changes the entry of a player, so no
// change is lost between the lookup and the store.
asio::awaitable<std::uint32_t> play(rdma::queue_pair& peer, score_map scores, std::string team)
{
  std::minstd_rand random(std::random_device{}());
  std::uint32_t sum = 0;
  for (int player = 1; player <= players_per_team; ++player)
  {
    const name who = example::padded<name().size()>(team + ' ' + std::to_string(player));
    for (int round = 0; round != rounds; ++round)
    {
      const std::optional<std::uint32_t> points = co_await scores.async_find(who, use_awaitable);
      const auto won = static_cast<std::uint32_t>(random() % 100);
      co_await store(peer, scores, who, points.value_or(0) + won);
      sum += won;
    }
  }
  co_return sum;
}

asio::awaitable<void> connect(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  auto message = context.allocate(rdma::remote_buffer::encoded_size);
  co_await peer.async_connect(endpoint, use_awaitable);
  const std::size_t n = co_await peer.async_receive(message, use_awaitable);
  const auto handle = rdma::remote_buffer::decode(message.bytes().first(n)); // throws if malformed
  const score_map scores = co_await score_map::async_open(peer, handle, use_awaitable);

  const auto [red, green, orange, violet] = co_await (play(peer, scores, "red")
    && play(peer, scores, "green") && play(peer, scores, "orange") && play(peer, scores, "violet"));
  const auto entries = co_await scores.async_entries(0, scores.part_count(), use_awaitable);
  print_best(entries, 10);

  std::uint32_t sum = 0;
  for (const auto& [player, points] : entries)
    sum += points;
  if (entries.size() != 4 * players_per_team || sum != red + green + orange + violet)
    throw std::logic_error("the map differs from what the players have stored");
  co_await peer.async_shutdown(use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options =
    example::parse_command_line(argc, argv, "Scores of players in a server's memory");
  return example::run(
    [&options](const rdma::context& context) {
      return options.serve ? serve(context, options.endpoint) : connect(context, options.endpoint);
    });
}
