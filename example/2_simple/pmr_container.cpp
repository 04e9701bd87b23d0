//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Sends a std::pmr container without a copy. In two terminals:
//
//   pmr_container serve --port 7471
//   pmr_container connect 127.0.0.1 7471
//
// The client fills a std::pmr::vector in the context's pool, which is registered memory, and sends
// it from there. The server receives into a vector of its own, and returns the computed result.

#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_pool.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory_resource>
#include <numeric>
#include <vector>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

// Both hosts must have the same byte order. A portable protocol defines the byte order.
struct sample
{
  std::uint64_t time_us;
  double value;
};

struct summary
{
  std::uint64_t samples;
  double sum;
};

constexpr std::size_t samples_max = 100'000;

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rdma::acceptor acceptor(co_await asio::this_coro::executor, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  rdma::queue_pair peer = co_await acceptor.async_accept(asio::use_awaitable);
  acceptor.close();

  std::pmr::vector<sample> samples(samples_max, &context.pool());
  const std::size_t bytes = co_await peer.async_receive(asio::buffer(samples), asio::use_awaitable);
  samples.resize(bytes / sizeof(sample));

  const summary result{samples.size(),
    std::accumulate(samples.begin(), samples.end(), 0.0,
      [](double sum, const sample& each) { return sum + each.value; })};
  co_await peer.async_send(asio::buffer(&result, sizeof(result)), asio::use_awaitable);
  co_await peer.async_shutdown(asio::use_awaitable); // waits until the client has it
}

asio::awaitable<void> connect(const rdma::context& context, const tcp::endpoint& endpoint)
{
  std::pmr::vector<sample> samples(&context.pool());
  for (std::uint64_t i = 0; i < samples_max; ++i)
    samples.push_back({i * 10, std::sin(static_cast<double>(i) / 1000) + 1});

  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  co_await peer.async_connect(endpoint, asio::use_awaitable);
  summary result{};
  co_await (peer.async_receive(asio::buffer(&result, sizeof(result)), asio::use_awaitable)
    && peer.async_send(asio::buffer(samples), asio::use_awaitable));
  co_await peer.async_shutdown(asio::use_awaitable);

  const auto made = context.registration_cache_statistics();
  std::cout << result.samples << " samples, mean "
            << result.sum / static_cast<double>(result.samples) << '\n'
            << samples.size() * sizeof(sample) << " bytes sent without a copy, with "
            << made.hits + made.misses << " registrations beside the pool's" << std::endl;
}

int main(int argc, char** argv)
{
  const auto options =
    example::parse_command_line(argc, argv, "A std::pmr container sent without a copy");
  return example::run(
    [&options](const rdma::context& context) {
      return options.serve ? serve(context, options.endpoint) : connect(context, options.endpoint);
    });
}
