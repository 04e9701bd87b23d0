//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Transfers a file between two processes by concurrent RDMA writes, and verifies it. In two
// terminals:
//
//   bulk_transfer serve --port 7471 --output copy --once
//   bulk_transfer send FILE --port 7471
//
// bulk_transfer/protocol.hpp describes the protocol; sender.hpp and receiver.hpp implement it.

#include "bulk_transfer/comparison.hpp"
#include "bulk_transfer/receiver.hpp"
#include "bulk_transfer/sender.hpp"
#include "common/report.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/device.hpp>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

struct options
{
  bool serve = false;
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string path; // read by the sender, written by the receiver
  bool once = false;
  std::uint32_t chunk_size = 1u << 20;
  std::uint32_t depth = 8;
  bool compare = false;
};

options parse(int argc, char** argv)
{
  options result;
  CLI::App app("Transfers a file between two processes by RDMA, and verifies it.");
  app.require_subcommand(1);
  app.footer(
    "Examples, on one host:\n"
    "  bulk_transfer serve --port 7471 --output copy --once\n"
    "  bulk_transfer send FILE --port 7471\n"
    "and on two hosts, with the receiver at 192.0.2.7 on the RDMA network:\n"
    "  bulk_transfer serve --address 0.0.0.0 --port 7471 --output copy --once\n"
    "  bulk_transfer send FILE --address 192.0.2.7 --port 7471 --chunk 4194304 --depth 16\n"
    "BOOST_RDMA_DEVICE=soft0 on either side selects the software device.\n\n"
    "The exit status is 0 if the file has arrived and both sides computed the same SHA-256.");

  CLI::App* serve = app.add_subcommand("serve", "wait for senders");
  serve
    ->add_option("--address", result.address,
      "the address to listen on; 0.0.0.0 for all addresses of the host")
    ->capture_default_str();
  serve->add_option("--port", result.port, "the TCP port; 0 for any free port")
    ->capture_default_str();
  serve
    ->add_option("--output", result.path,
      "the path of the copy; it is OUT.part until it has been verified, and then replaces an "
      "existing "
      "file")
    ->required();
  serve->add_flag("--once", result.once, "exit after one transfer, with its status");

  CLI::App* send = app.add_subcommand("send", "send a file");
  send->add_option("FILE", result.path)->required();
  send->add_option("--address", result.address, "the receiver's address")->capture_default_str();
  send->add_option("--port", result.port, "the receiver's port")->required();
  send->add_option("--chunk", result.chunk_size, "bytes per write")
    ->check(CLI::Range(1u, bulk_transfer::chunk_size_max))
    ->capture_default_str();
  send->add_option("--depth", result.depth, "writes in flight")
    ->check(CLI::Range(1u, bulk_transfer::slots_max))
    ->capture_default_str();
  send->add_flag("--compare", result.compare,
    "transfer the file from memory to memory several times, and compare the rate with plain TCP "
    "and memcpy on this host; the file has at most 256 MiB and 1024 chunks");
  try
  {
    app.parse(argc, argv);
    if (std::uint64_t{result.chunk_size} * result.depth > bulk_transfer::ring_size_max)
      throw CLI::ValidationError("--chunk times --depth is more than 1 GiB. Reduce one of them.");
  }
  catch (const CLI::ParseError& failure)
  {
    std::exit(app.exit(failure));
  }
  result.serve = serve->parsed();
  return result;
}

// Prints the device and the wire, and the reasons why faster ones were not used.
void print_transport(const rdma::transport_choice& taken)
{
  std::cout << "transport  " << rdma::name_of(taken.wire) << ", " << taken.device << " to "
            << (taken.peer_device.empty() ? "the peer's device" : taken.peer_device) << '\n';
  for (const rdma::declined_transport& each : taken.declined)
    std::cout << "           not " << each.transport << ": " << each.reason << '\n';
}

void print_rate(
  const char* name, std::uint64_t bytes, bulk_transfer::seconds time, const char* meaning)
{
  std::cout << name << bulk_transfer::text_of_time(time) << ", "
            << bulk_transfer::text_of_rate(bytes, time) << " (" << meaning << ")\n";
}

void print_outcome(const bulk_transfer::outcome& result, const char* transfer_meaning)
{
  std::cout << "bytes      " << result.bytes << '\n';
  if (result.transfer.count() > 0)
    print_rate("transfer   ", result.bytes, result.transfer, transfer_meaning);
  std::cout << "verified   " << bulk_transfer::text_of_time(result.verification)
            << " more, SHA-256 the same on both sides\n"
            << "checksum   " << bulk_transfer::text_of(result.checksum) << std::endl;
}

asio::awaitable<void> send(
  const rdma::context& context, const options& options, asio::thread_pool& pool)
{
  const bulk_transfer::file input(options.path, O_RDONLY);
  bulk_transfer::offer_frame offer;
  offer.file_size = input.size();
  offer.chunk_size =
    static_cast<std::uint32_t>(std::clamp<std::uint64_t>(offer.file_size, 1, options.chunk_size));
  const auto depth =
    static_cast<std::uint32_t>(std::clamp<std::uint64_t>(offer.chunks(), 1, options.depth));
  offer.slots = depth;
  offer.whole = options.compare && offer.file_size != 0;
  if (offer.whole)
  {
    if (offer.file_size > 256u << 20 || offer.chunks() > bulk_transfer::slots_max)
      throw std::runtime_error("--compare is for files of at most 256 MiB and 1024 chunks; omit "
                               "it, or increase --chunk");
    offer.slots = static_cast<std::uint32_t>(offer.chunks());
  }

  rdma::queue_pair queue_pair(co_await asio::this_coro::executor, context);
  auto peer = std::make_shared<bulk_transfer::connection>(std::move(queue_pair), depth);
  peer->post_receives();
  std::exception_ptr failure;
  try
  {
    co_await peer->peer().async_connect(
      {asio::ip::make_address(options.address), options.port}, asio::use_awaitable);
    const rdma::transport_choice transport = peer->peer().transport(); // before it closes
    bulk_transfer::sender sender(peer, input, offer, depth);
    const auto result = co_await sender.run(pool);
    print_transport(transport);
    print_outcome(result,
      offer.whole
        ? "from memory to memory, average of 8 transfers"
        : "from reading the first byte to the receiver's confirmation that it has stored the last "
          "one");
    if (offer.whole)
    {
      const auto others = bulk_transfer::compare(sender.content(), sender.measured_passes);
      print_rate("plain TCP  ", result.bytes, others.by_tcp, "Asio's write and read over loopback");
      print_rate("memcpy     ", result.bytes, others.by_memcpy, "one thread");
      std::cout << "limit      " << bulk_transfer::limit_of(transport, result.bytes) << std::endl;
    }
  }
  catch (...)
  {
    failure = std::current_exception();
  }
  peer->peer().close();
  if (failure)
    std::rethrow_exception(failure);
}

asio::awaitable<void> serve(
  const rdma::context& context, const options& options, asio::thread_pool& pool)
{
  rdma::acceptor acceptor(co_await asio::this_coro::executor, context,
    tcp::endpoint(asio::ip::make_address(options.address), options.port));
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  for (;;)
  {
    rdma::queue_pair queue_pair = co_await acceptor.async_accept(asio::use_awaitable);
    // The sender announces its number of slots later, so start with the usual number of receives.
    // If a message arrives without a posted receive, the device retries it.
    auto peer = std::make_shared<bulk_transfer::connection>(std::move(queue_pair), 32);
    peer->post_receives();
    std::exception_ptr failure;
    try
    {
      const auto result = co_await bulk_transfer::receiver(peer, options.path).run(pool);
      print_outcome(result,
        "from the arrival of the first byte to that of the last one, stored but not flushed");
    }
    catch (...)
    {
      failure = std::current_exception();
    }
    peer->peer().close();
    if (options.once)
    {
      if (failure)
        std::rethrow_exception(failure);
      co_return;
    }
    example::complain(failure);
  }
}

} // namespace

int main(int argc, char** argv)
{
  const options options = parse(argc, argv);
  try
  {
    rdma::context context;
    asio::thread_pool pool(1);
    std::exception_ptr failure;
    int signal = 0;
    {
      asio::io_context io;
      // A signal ends the loop. The objects in the coroutines, such as a partial file, are
      // destroyed with the io_context.
      asio::signal_set signals(io, SIGINT, SIGTERM);
      signals.async_wait(
        [&io, &signal](rdma::error_code ec, int number)
        {
          if (ec)
            return;
          signal = number;
          io.stop();
        });
      asio::co_spawn(io,
        options.serve ? serve(context, options, pool) : send(context, options, pool),
        [&failure, &signals](std::exception_ptr thrown)
        {
          failure = thrown;
          signals.cancel();
        });
      io.run();
    }
    if (signal != 0)
    {
      std::cerr << "error: interrupted\n";
      return 128 + signal;
    }
    example::complain(failure);
    return failure ? 1 : 0;
  }
  catch (const std::exception& failure)
  {
    example::complain(failure);
    return 1;
  }
}
