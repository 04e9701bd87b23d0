//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// A server that calculates for its clients. In two terminals:
//
//   calculator serve --port 7471
//   calculator connect 127.0.0.1 7471
//
// The client calls methods of the server: several at once, one that fails, and one that takes
// longer than the client waits. The last call ends the server.

#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

namespace asio = boost::asio;
namespace errc = boost::system::errc;
namespace rpc = rdma::rpc;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using asio::use_awaitable;
using asio::ip::tcp;

// --- the methods, which both sides know ---

struct fraction
{
  std::int64_t numerator;
  std::int64_t denominator;
};

using divide = rpc::method<"divide/1", fraction, double>;
using total = rpc::method<"total/1", std::span<const std::int64_t>, std::int64_t>;
using count_primes = rpc::method<"count_primes/1", std::uint64_t, std::uint64_t>; // below it
using stop = rpc::method<"stop/1", rpc::nothing, rpc::nothing>;

// --- the server ---

double quotient(const fraction& f)
{
  if (f.denominator == 0)
    throw rdma::system_error(make_error_code(errc::argument_out_of_domain)); // reaches the client
  return static_cast<double>(f.numerator) / static_cast<double>(f.denominator);
}

bool is_prime(std::uint64_t number)
{
  for (std::uint64_t i = 2; i <= number / i; ++i)
    if (number % i == 0)
      return false;
  return number > 1;
}

// Other calls are answered between its steps.
asio::awaitable<std::uint64_t> primes_below(std::uint64_t end)
{
  const auto executor = co_await asio::this_coro::executor;
  std::uint64_t count = 0;
  try
  {
    for (std::uint64_t number = 0; number < end; ++number)
    {
      count += is_prime(number) ? 1 : 0;
      if (number % 1000 == 999)
        co_await asio::post(executor, use_awaitable); // throws if the client does not wait any more
    }
  }
  catch (const rdma::system_error&)
  {
    std::cout << "a client does not wait any more" << std::endl;
    throw;
  }
  co_return count;
}

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer stopped(executor, asio::steady_timer::time_point::max());
  rpc::server server(executor, context, endpoint);
  server.handle<divide>(quotient);
  server.handle<total>([](std::span<const std::int64_t> values)
    { return std::accumulate(values.begin(), values.end(), std::int64_t{0}); });
  server.handle<count_primes>(primes_below);
  server.handle<stop>(
    [&stopped](rpc::nothing)
    {
      stopped.cancel();
      return rpc::nothing();
    });
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;
  co_await stopped.async_wait(asio::as_tuple(use_awaitable));
  co_await server.async_shutdown(use_awaitable); // when all calls are answered
}

// --- the client ---

void check(bool right)
{
  if (!right)
    throw std::logic_error("a call has another result than expected");
}

asio::awaitable<void> connect(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rpc::client client(co_await asio::this_coro::executor, context);
  co_await client.async_connect(endpoint, use_awaitable);
  std::cout << client.transport().text() << '\n';

  std::vector<std::int64_t> values(1000);
  std::iota(values.begin(), values.end(), 1);
  const auto [third, sum, primes] = co_await (client.async_call<divide>({1, 3}, use_awaitable)
    && client.async_call<total>(values, use_awaitable)
    && client.async_call<count_primes>(10'000, use_awaitable));
  std::cout << "1 / 3 = " << third << ", 1 + 2 + ... + 1000 = " << sum << ", " << primes
            << " primes below 10000\n";
  check(sum == 500'500 && primes == 1229);

  const auto [failed, none] =
    co_await client.async_call<divide>({1, 0}, asio::as_tuple(use_awaitable));
  std::cout << "1 / 0: " << failed.message() << '\n';
  check(failed == errc::argument_out_of_domain);

  const auto [late, unknown] = co_await client.async_call<count_primes>(
    std::numeric_limits<std::uint64_t>::max(), {.timeout = 50ms}, asio::as_tuple(use_awaitable));
  std::cout << "all primes: " << late.message() << '\n';
  check(late == asio::error::timed_out);

  co_await client.async_call<stop>({}, use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(argc, argv, "Calls of methods of a server");
  return example::run(
    [&options](const rdma::context& context) {
      return options.serve ? serve(context, options.endpoint) : connect(context, options.endpoint);
    });
}
