//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// still_peer DEVICE [PORT]
//
// A server that accepts every client, or with PORT, a client that connects to that port on this
// host. It exposes 4096 bytes to its peer, and until it is killed, posts writes without data, so
// that signals find it anywhere in an operation. Its first line of output is the port.

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/memory_region.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <list>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/prctl.h>

namespace asio = boost::asio;

namespace {

void work(rdma::queue_pair& own)
{
  own.async_write(rdma::no_data, rdma::remote_buffer(),
    [&](rdma::error_code ec, std::size_t)
    {
      if (!ec)
        work(own);
    });
}

void accept_all(rdma::acceptor& acceptor, std::list<rdma::queue_pair>& accepted)
{
  acceptor.async_accept(
    [&](rdma::error_code ec, rdma::queue_pair peer)
    {
      if (!ec)
        work(accepted.emplace_back(std::move(peer)));
      accept_all(acceptor, accepted);
    });
}

void serve(asio::io_context& io, const rdma::context& context,
  const rdma::queue_pair_options& queue_pair, const std::string& data)
{
  rdma::acceptor_options options;
  options.queue_pair = queue_pair;
  options.authorise = [&](const rdma::client_request&)
  { return rdma::authorisation::accept(data); };
  rdma::acceptor acceptor(io, context, {asio::ip::address_v4::loopback(), 0}, options);
  std::list<rdma::queue_pair> accepted;
  accept_all(acceptor, accepted);
  std::cout << acceptor.local_endpoint().port() << std::endl;
  io.run();
}

void connect(asio::io_context& io, const rdma::context& context,
  const rdma::queue_pair_options& queue_pair, const std::string& data, std::uint16_t port)
{
  rdma::connect_options options;
  options.data = data;
  rdma::queue_pair client(io, context, queue_pair);
  std::cout << port << std::endl;
  client.async_connect({asio::ip::address_v4::loopback(), port}, options,
    [&](rdma::error_code ec)
    {
      if (!ec)
        work(client);
    });
  const auto until_killed = asio::make_work_guard(io);
  io.run();
}

} // namespace

int main(int argc, char** argv)
try
{
  if (argc != 2 && argc != 3)
    return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that dies cannot kill this process
  rdma::context_options device;
  device.device = argv[1];
  const rdma::context context(device);
  const rdma::memory_region exposed(context, 4096, rdma::access::local_write | rdma::remote_access);
  const auto key = exposed.remote().encode();
  const std::string data(reinterpret_cast<const char*>(key.data()), key.size());
  rdma::queue_pair_options options;
  options.fall_back = false;
  asio::io_context io;
  if (argc == 2)
    serve(io, context, options, data);
  else
  {
    std::uint16_t port = 0;
    const std::string_view word = argv[2];
    if (std::from_chars(word.data(), word.data() + word.size(), port).ec != std::errc())
      return 2;
    connect(io, context, options, data, port);
  }
  return 0;
}
catch (const std::exception& e)
{
  std::cerr << e.what() << '\n';
  return 1;
}
