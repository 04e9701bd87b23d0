//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// A client and load generator for Valkey 8.1 over RDMA
// (doc/howto/valkey_without_a_nic.md):
//
//   valkey_client 127.0.0.1 --connections 1 --requests 1 SET key value
//   valkey_client 127.0.0.1 --connections 128 --pipeline 384 --tcp
//
// Each connection is a coroutine. It sends `--pipeline` requests, waits for their replies, and so
// on. valkey_client/rdma_stream.hpp turns the RDMA operations into a byte stream.

#include "common/command_line.hpp"
#include "common/run.hpp"
#include "valkey_client/rdma_stream.hpp"
#include "valkey_client/replies.hpp"

#include <CLI/CLI.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using asio::use_awaitable;
using asio::ip::tcp;

struct options
{
  std::string address;
  std::uint16_t port = 6379;
  std::uint64_t connections = 128;
  std::uint64_t pipeline = 384;
  std::uint64_t requests = 5'000'000;
  bool tcp = false;
  std::vector<std::string> words{"PING"};
};

// The same interface as valkey::rdma_stream.
class tcp_stream
{
public:
  tcp_stream(const asio::any_io_executor& executor, const rdma::context&)
    : socket_(executor)
  {
  }

  asio::awaitable<void> connect(tcp::endpoint server)
  {
    co_await socket_.async_connect(server, use_awaitable);
    socket_.set_option(tcp::no_delay(true));
  }

  asio::awaitable<void> write(rdma::const_buffer data)
  {
    co_await asio::async_write(socket_, asio::buffer(data.data(), data.size()), use_awaitable);
  }

  asio::awaitable<std::size_t> read_some(asio::mutable_buffer to)
  {
    return socket_.async_read_some(to, use_awaitable);
  }

private:
  tcp::socket socket_;
};

// The load of one connection.
struct load
{
  rdma::registered_buffer requests; // `pipeline` equal requests
  std::size_t request_size;
  std::uint64_t count;
};

// Waits for `count` replies. Returns the last one.
template <class Stream>
asio::awaitable<std::string> receive_replies(
  Stream& stream, std::vector<char>& chunk, std::uint64_t count)
{
  std::string text, last;
  while (count != 0)
  {
    const std::size_t n = co_await stream.read_some(asio::buffer(chunk));
    text.append(chunk.data(), n);
    std::size_t parsed = 0;
    while (const std::size_t size = valkey::reply_size(std::string_view(text).substr(parsed)))
    {
      if (count-- == 0)
        throw std::runtime_error("the server sent more replies than requests");
      if (count == 0)
        last = text.substr(parsed, size);
      parsed += size;
    }
    text.erase(0, parsed);
  }
  co_return last;
}

template <class Stream>
asio::awaitable<std::string> run_load(Stream& stream, const load& what, std::uint64_t pipeline)
{
  std::vector<char> chunk(64 * 1024);
  std::string last;
  for (std::uint64_t left = what.count; left != 0;)
  {
    const std::uint64_t n = std::min(left, pipeline);
    co_await stream.write(what.requests.first(n * what.request_size));
    last = co_await receive_replies(stream, chunk, n);
    left -= n;
  }
  co_return last;
}

// Opens the connections, runs the load on all of them, and prints and returns the requests per
// second.
template <class Stream>
asio::awaitable<double> measure(
  const char* name, const rdma::context& context, const load& what, const options& wanted)
{
  const auto executor = co_await asio::this_coro::executor;
  const tcp::endpoint server(asio::ip::make_address(wanted.address), wanted.port);
  std::deque<Stream> streams;
  for (std::uint64_t i = 0; i < wanted.connections; ++i)
    co_await streams.emplace_back(executor, context).connect(server);

  const auto start = [&](Stream& stream)
  { return asio::co_spawn(executor, run_load(stream, what, wanted.pipeline), asio::deferred); };
  std::vector<decltype(start(streams.front()))> loads;
  for (Stream& stream : streams)
    loads.push_back(start(stream));
  const auto begin = std::chrono::steady_clock::now();
  const auto [order, failures, replies] =
    co_await asio::experimental::make_parallel_group(std::move(loads))
      .async_wait(asio::experimental::wait_for_one_error(), use_awaitable);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  for (const std::size_t i : order) // the first failure has ended the others
    if (failures[i])
      std::rethrow_exception(failures[i]);

  const double rate = static_cast<double>(what.count * wanted.connections) / time.count();
  std::cout << "last reply: " << replies.front().substr(0, 70) << name << ": " << wanted.connections
            << " connections with " << wanted.pipeline
            << " requests in flight: " << static_cast<std::uint64_t>(rate) << " requests/s"
            << std::endl;
  co_return rate;
}

asio::awaitable<void> run(const rdma::context& context, const options& wanted)
{
  const std::string request = valkey::make_request(wanted.words);
  load what{context.allocate(request.size() * wanted.pipeline), request.size(),
    std::max<std::uint64_t>(wanted.requests / wanted.connections, 1)};
  for (std::uint64_t i = 0; i < wanted.pipeline; ++i)
    request.copy(what.requests.slice(i * request.size()).as<char>(), request.size());

  const double rdma = co_await measure<valkey::rdma_stream>("RDMA", context, what, wanted);
  if (wanted.tcp)
  {
    const double tcp = co_await measure<tcp_stream>("TCP", context, what, wanted);
    std::cout << "RDMA / TCP: " << rdma / tcp << '\n';
  }
}

int main(int argc, char** argv)
{
  options wanted;
  CLI::App app("Sends requests to a Valkey server over RDMA, and prints how many it answers");
  app.footer(
    "Examples, with a server on this host, and with one at 192.0.2.7 on the RDMA network:\n"
    "  valkey_client 127.0.0.1 --connections 1 --requests 1 SET key value\n"
    "  valkey_client 192.0.2.7 --connections 30 --pipeline 1 --tcp GET key");
  app.add_option("ADDRESS", wanted.address)->required()->check(example::an_address());
  app.add_option("WORDS", wanted.words, "the words of the request")->capture_default_str();
  app.add_option("--port", wanted.port)->capture_default_str();
  const auto number =
    [&](const char* name, std::uint64_t& value, std::uint64_t most, const char* what)
  {
    app.add_option(name, value, what)
      ->check(CLI::Range(std::uint64_t{1}, most))
      ->capture_default_str();
  };
  number("--connections", wanted.connections, 10'000, "number of connections");
  number("--pipeline", wanted.pipeline, 100'000, "requests in flight of each connection");
  number("--requests", wanted.requests, UINT64_MAX, "number of requests, of all connections");
  app.add_flag("--tcp", wanted.tcp, "then the same over TCP, with the same address and port");
  CLI11_PARSE(app, argc, argv);
  return example::run([&](const rdma::context& context) { return run(context, wanted); });
}
