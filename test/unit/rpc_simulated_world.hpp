//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_WORLD_HPP
#define BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_WORLD_HPP

#include "boost_rdma/error.hpp"
#include "boost_rdma/rpc/method.hpp"
#include "common/dice.hpp"
#include "completion/inbox.hpp"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The simulated programs of a client and a server share this.

namespace test {

namespace asio = boost::asio;

namespace simulated {

/// The first word of a request and an item is the number of the call. It decides what the handler
/// does, and the result.
using words = std::span<const std::uint64_t>;
using owned_words = std::vector<std::uint64_t>;

using value = rdma::rpc::method<"value/1", words, words>;
using coroutine = rdma::rpc::method<"coroutine/1", words, words>;
using deferred = rdma::rpc::method<"deferred/1", words, words>;
using bulk = rdma::rpc::method<"bulk/1", words, words>;
using items = rdma::rpc::streaming_method<"items/1", words, words, words, words>;
inline constexpr std::uint16_t items_index = 4; // in the order of the server

inline std::uint64_t hash(std::uint64_t of)
{
  of = (of ^ (of >> 31)) * 0x9e3779b97f4a7c15;
  return of ^ (of >> 29);
}

inline rdma::error_code expected_error(std::uint64_t id)
{
  if (hash(id) % 9 == 0)
    return rdma::error::out_of_range;
  return hash(id) % 9 == 1 ? make_error_code(rdma::error::call_failed) : rdma::error_code();
}

/// Returns words that begin with the id. Few of them are long.
inline owned_words words_of(std::uint64_t id, std::uint64_t more)
{
  const std::uint64_t h = hash(id + more * 77);
  owned_words result(2 + (h % 32 == 0 ? h / 32 % 2000 : h / 32 % 8), h);
  result[0] = id;
  result[1] = more;
  return result;
}
inline owned_words expected_reply(std::uint64_t id)
{
  return words_of(id, 1'000'000);
}

/// An item is at most half of the smallest credit.
inline owned_words item_of(std::uint64_t id, std::uint64_t index)
{
  owned_words result = words_of(id, index);
  result.resize(std::min<std::size_t>(result.size(), 62));
  return result;
}

/// The client's memory contains pattern_of() while the call lasts. The server writes pushed_of().
inline std::byte pattern_of(std::uint64_t id)
{
  return static_cast<std::byte>(id * 2 % 250);
}
inline std::byte pushed_of(std::uint64_t id)
{
  return static_cast<std::byte>(id * 2 % 250 + 1);
}
inline bool pushes(std::uint64_t id)
{
  return hash(id) / 16 % 2 == 0;
}

inline bool is_filled(std::span<const std::byte> what, std::byte with)
{
  return std::ranges::all_of(what, [with](std::byte each) { return each == with; });
}

} // namespace simulated

/// The dice, the threads and the findings of a simulation.
struct simulated_world
{
  template <class Function>
  struct once_handler
  {
    template <class... Results>
    void operator()(const Results&... results)
    {
      world->expect(world->initiating == 0, "a handler is called in an initiating function");
      world->expect(++world->calls[index] == 1, "a handler is called twice");
      --world->handlers;
      function(results...);
    }
    simulated_world* world;
    std::size_t index;
    Function function;
  };

  explicit simulated_world(const dice& decisions)
    : random(decisions)
  {
  }

  bool one_in(unsigned n) { return random.one_in(n); }
  std::size_t any(std::size_t least, std::size_t most) { return random.any(least, most); }

  void expect(bool condition, const std::string& what)
  {
    if (!condition && problem.empty())
      problem = what;
  }
  /// Records what a function throws: it may be called where nothing may be thrown.
  template <class Function>
  void guarded(Function function)
  try
  {
    function();
  }
  catch (const std::exception& e)
  {
    expect(false, e.what());
  }

  /// Returns a handler that must be called once, and not in a function that initiates.
  template <class Function>
  auto once(Function function)
  {
    ++handlers;
    calls.push_back(0);
    return once_handler<Function>{this, calls.size() - 1, std::move(function)};
  }

  /// Calls an initiating function.
  template <class Function>
  void initiate(Function function)
  {
    ++initiating;
    function();
    --initiating;
  }

  static bool run_one(asio::io_context& io)
  {
    io.restart();
    return io.poll_one() != 0;
  }

  /// Returns when the clock reads another time than at the last call.
  void pass_time()
  {
    using clock = std::chrono::steady_clock;
    while (clock::now() - last < std::chrono::microseconds(1))
    {
    }
    last = clock::now();
  }

  dice random;
  asio::io_context client_io{1};
  asio::io_context server_io{1};
  asio::io_context alarm_io{1}; // in place of the thread of connections
  std::shared_ptr<rdma::detail::inbox> inbox = std::make_shared<rdma::detail::inbox>(alarm_io);
  std::string problem;
  int handlers = 0;       // that were not called
  std::vector<int> calls; // of each handler
  int initiating = 0;
  std::chrono::steady_clock::time_point last;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_WORLD_HPP
