//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Measured values that processes append to a log in a server's memory. In two terminals:
//
//   metrics serve --port 7471
//   metrics connect 127.0.0.1 7471
//
// The client appends samples by RDMA. The server reads them in their order, adds them up, and trims
// the log. It prints the totals when the client has left.

#include "common/command_line.hpp"
#include "common/run.hpp"
#include "common/text.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/remote_log.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using namespace std::chrono_literals;
using asio::use_awaitable;
using asio::ip::tcp;

struct sample
{
  std::uint32_t process;
  std::array<char, 12> name;
  double value;
  std::uint64_t time_ns; // since 1970
};
using sample_log = rdma::remote_log<sample>;

// The name of the last sample of a process. Its value is the number of the others.
constexpr std::string_view end_name = "(end)";

struct total
{
  int count = 0;
  double sum = 0;
  std::uint64_t first_ns = UINT64_MAX;
  std::uint64_t last_ns = 0;
};
struct totals
{
  std::map<std::pair<std::uint32_t, std::string>, total> of; // by process and name
  bool complete = false;
};

// Reads until the client's last sample, and confirms it.
asio::awaitable<void> collect(sample_log& log, rdma::queue_pair& peer, totals& all)
{
  std::vector<sample> samples(32);
  int count = 0;
  for (std::uint64_t begin = 0;;)
  {
    const auto [n, end] = co_await log.async_read(begin, samples, use_awaitable);
    co_await log.async_trim(end, use_awaitable); // makes room
    begin = end;
    for (const sample& each : std::span(samples).first(n))
    {
      const std::string name = example::printable(each.name);
      if (name == end_name)
      {
        if (each.value != count)
          throw std::runtime_error("the log has lost samples");
        all.complete = true;
        co_await peer.async_send(rdma::no_data, use_awaitable);
        co_return;
      }
      ++count;
      total& t = all.of[{each.process, name}];
      ++t.count;
      t.sum += each.value;
      t.first_ns = std::min(t.first_ns, each.time_ns);
      t.last_ns = std::max(t.last_ns, each.time_ns);
    }
  }
}

// Ends the wait for samples of a client that has died.
asio::awaitable<void> wait_until_left(rdma::queue_pair& peer, const totals& all)
{
  const auto [ended] = co_await peer.async_wait_close(asio::as_tuple(use_awaitable));
  if (ended != asio::error::operation_aborted && !all.complete)
    throw rdma::system_error(ended, "waiting for the client's last sample");
}

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  const auto executor = co_await asio::this_coro::executor;
  // A process that is stopped for longer than the lease takes a new place in the order.
  rdma::owned<sample_log> log(executor, context, rdma::log_options{.capacity = 64, .lease = 1s});
  rdma::acceptor acceptor(executor, context, endpoint);
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  rdma::queue_pair peer = co_await acceptor.async_accept(use_awaitable);

  const rdma::remote_buffer::encoded handle = log.remote().encode();
  auto message = context.allocate(handle.size());
  std::ranges::copy(handle, message.data());
  co_await peer.async_send(message, use_awaitable);

  totals all;
  co_await (wait_until_left(peer, all) && collect(log, peer, all));
  for (const auto& [what, t] : all.of)
    std::cout << "process " << what.first << ", " << what.second << ": " << t.count
              << " samples within " << (t.last_ns - t.first_ns) / 1000 << " us, sum " << t.sum
              << ", mean " << t.sum / t.count << '\n';
}

asio::awaitable<void> append_sample(sample_log& log, std::string_view name, double value)
{
  using namespace std::chrono;
  const auto now = duration_cast<nanoseconds>(system_clock::now().time_since_epoch());
  const sample taken{static_cast<std::uint32_t>(::getpid()),
    example::padded<sizeof(sample::name)>(name), value, static_cast<std::uint64_t>(now.count())};
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;)
  {
    const auto [ec, index] = co_await log.async_append(taken, asio::as_tuple(use_awaitable));
    if (!ec)
      co_return;
    if (ec != rdma::error::object_full)
      throw rdma::system_error(ec);
    timer.expires_after(1ms); // the server trims; a program that must not wait drops the sample
    co_await timer.async_wait(use_awaitable);
  }
}

// A worker of the program that is measured.
asio::awaitable<void> work(sample_log log, int requests)
{
  for (int i = 0; i != requests; ++i)
  {
    const auto begin = std::chrono::steady_clock::now();
    co_await append_sample(log, "bytes", 1000 + i);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    co_await append_sample(log, "append (us)", time.count());
  }
}

asio::awaitable<void> connect(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  auto message = context.allocate(rdma::remote_buffer::encoded_size);
  co_await peer.async_connect(endpoint, use_awaitable);
  const std::size_t n = co_await peer.async_receive(message, use_awaitable);
  const auto handle = rdma::remote_buffer::decode(message.bytes().first(n)); // throws if malformed
  sample_log log = co_await sample_log::async_open(peer, handle, use_awaitable);

  co_await (work(log, 25) && work(log, 50) && work(log, 75) && work(log, 100));
  // These appends have completed, so this one is behind them in the log.
  co_await append_sample(log, end_name, 2 * (25 + 50 + 75 + 100));
  co_await peer.async_receive(rdma::no_data, use_awaitable); // the server has read it
  co_await peer.async_shutdown(use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options =
    example::parse_command_line(argc, argv, "Samples of processes in a server's log");
  return example::run(
    [&options](const rdma::context& context) {
      return options.serve ? serve(context, options.endpoint) : connect(context, options.endpoint);
    });
}
