//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Both roles of the protocol of rping(1), from rdma-core. It shows how to talk to a peer without
// this library, with one-sided operations on memory that the peer describes in its own format.
//
//   ping_pong serve --address 10.0.0.1                rping -s -a 10.0.0.1
//   ping_pong connect 10.0.0.1 --count 10 --verbose   rping -c -a 10.0.0.1 -C 10 -v
//
// For each ping the client describes memory with a text, which the server reads. Then it describes
// other memory, to which the server writes the text. A message of 16 bytes announces each step.

#include "common/run.hpp"

#include <boost_rdma/cm/acceptor.hpp>
#include <boost_rdma/cm/connect.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <CLI/CLI.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/promise.hpp> // Boost 1.81: use_promise.hpp does not include it
#include <boost/asio/experimental/use_promise.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/endian/arithmetic.hpp>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace asio = boost::asio;
namespace endian = boost::endian;
using asio::use_awaitable;
using asio::ip::tcp;

struct options
{
  std::string address;
  std::uint16_t port = 7174;
  unsigned count = 10;
  std::size_t size = 64; // the buffer size of rping's server without -S
  bool verbose = false;
};

constexpr std::size_t size_min = 40; // room for the prefix of the text, its number and the end
constexpr std::size_t size_max = 64 * 1024;

// The content of each message: memory that the peer may access. Only the client's messages use it.
struct description
{
  endian::big_uint64_t address;
  endian::big_uint32_t key;
  endian::big_uint32_t size;
};
static_assert(sizeof(description) == 16);

// One end of a connection with alternating turns. A receive is always posted, the first before the
// queue pair connects, because iWARP requires it.
class turns
{
public:
  explicit turns(rdma::queue_pair& peer)
    : peer_(peer)
    , out_(peer.context().allocate(sizeof(description)))
    , in_(peer.context().allocate(sizeof(description)))
    , next_(peer.async_receive(in_, use_promise))
  {
  }

  asio::awaitable<void> say(const description& what = {})
  {
    *out_.as<description>() = what;
    co_await peer_.async_send(out_, use_awaitable);
  }

  asio::awaitable<void> describe(const rdma::memory_region& region)
  {
    const rdma::remote_buffer memory = region.remote();
    co_await say({endian::big_uint64_t(memory.address()), endian::big_uint32_t(memory.key(kind)),
      endian::big_uint32_t(static_cast<std::uint32_t>(memory.size()))});
  }

  asio::awaitable<description> receive_description()
  {
    if (co_await std::move(*next_)(use_awaitable) != sizeof(description))
      throw std::runtime_error("the peer does not use the protocol of rping");
    const description what = *in_.as<description>();
    next_.emplace(peer_.async_receive(in_, use_promise));
    co_return what;
  }

  // Memory that the peer described. A size above size_max is rejected.
  asio::awaitable<rdma::remote_buffer> receive_memory()
  {
    const description what = co_await receive_description();
    if (what.size > size_max)
      throw std::runtime_error("the peer described more memory than rping uses");
    co_return rdma::remote_buffer(kind, what.address, what.size, what.key);
  }

private:
  static constexpr auto use_promise = asio::experimental::use_promise;
  static constexpr auto kind = rdma::device_kind::nic; // RDMA-CM requires a NIC
  using receiving = decltype(std::declval<rdma::queue_pair&>().async_receive(
    std::declval<const rdma::registered_buffer&>(), use_promise));

  rdma::queue_pair& peer_;
  rdma::registered_buffer out_;
  rdma::registered_buffer in_;
  std::optional<receiving> next_;
};

// Fills in a text in rping's format, "rdma-ping-3: DEFGHI...": consecutive characters with a
// different start for each ping.
void fill_text(const rdma::memory_region& region, unsigned number)
{
  const std::string head = "rdma-ping-" + std::to_string(number) + ": ";
  std::size_t i = head.copy(region.as<char>(), region.size());
  for (char c = static_cast<char>('A' + number % ('z' - 'A' + 1)); i + 1 < region.size(); ++i)
  {
    region.as<char>()[i] = c;
    c = c == 'z' ? 'A' : static_cast<char>(c + 1);
  }
  region.as<char>()[region.size() - 1] = '\0';
}

asio::awaitable<void> connect(const rdma::context& context, const options& wanted)
{
  rdma::queue_pair peer(co_await asio::this_coro::executor, context);
  turns turn(peer);
  const rdma::memory_region source(
    context, wanted.size, rdma::access::local_write | rdma::access::remote_read);
  const rdma::memory_region sink(
    context, wanted.size, rdma::access::local_write | rdma::access::remote_write);
  co_await rdma::cm::async_connect(
    peer, tcp::endpoint(asio::ip::make_address(wanted.address), wanted.port), use_awaitable);
  for (unsigned i = 0; i < wanted.count; ++i)
  {
    fill_text(source, i);
    co_await turn.describe(source);
    co_await turn.receive_description(); // the server has read it
    co_await turn.describe(sink);
    co_await turn.receive_description(); // the server has written it
    if (std::memcmp(source.data(), sink.data(), wanted.size) != 0)
      throw std::runtime_error("the returned text differs from the sent text");
    if (wanted.verbose)
      std::cout << "ping data: " << sink.as<char>() << '\n';
  }
  std::cout << wanted.count << " pings came back\n";
}

// Serves until the client disconnects.
asio::awaitable<unsigned> answer(rdma::queue_pair& peer, turns& turn, bool verbose)
{
  const rdma::memory_region memory(peer.context(), size_max, rdma::access::local_write);
  for (unsigned pings = 0;; ++pings)
  {
    rdma::remote_buffer source;
    try
    {
      source = co_await turn.receive_memory();
    }
    catch (const rdma::system_error& failure)
    {
      if (failure.code() == rdma::error::peer_closed)
        co_return pings;
      throw;
    }
    const std::size_t n =
      co_await peer.async_read(memory.first(source.size()), source, use_awaitable);
    memory.data()[n - 1] = std::byte{0};
    if (verbose)
      std::cout << "ping data: " << memory.as<char>() << '\n';
    co_await turn.say();
    const auto sink = co_await turn.receive_memory();
    const std::size_t size = std::min<std::size_t>(std::strlen(memory.as<char>()) + 1, sink.size());
    co_await peer.async_write(memory.first(size), sink, use_awaitable);
    co_await turn.say();
  }
}

asio::awaitable<void> serve(const rdma::context& context, const options& wanted)
{
  rdma::cm::acceptor acceptor(co_await asio::this_coro::executor, context,
    tcp::endpoint(asio::ip::make_address(wanted.address), wanted.port));
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  auto request = co_await acceptor.async_get_request(use_awaitable);
  rdma::queue_pair peer(acceptor.get_executor(), context);
  turns turn(peer);
  co_await request.async_accept(peer, rdma::cm::private_data(), use_awaitable);
  std::cout << co_await answer(peer, turn, wanted.verbose) << " pings answered\n";
}

int main(int argc, char** argv)
{
  options wanted;
  CLI::App app("The protocol of rping(1) over RDMA-CM");
  app.footer("Examples, with an RDMA NIC (or Soft-RoCE) that has the address 192.0.2.7:\n"
             "  ping_pong serve --address 192.0.2.7\n"
             "  ping_pong connect 192.0.2.7 --count 10 --verbose\n"
             "  rping -c -a 192.0.2.7 -C 10 -v");
  app.require_subcommand(1);
  CLI::App* serve_command = app.add_subcommand("serve", "wait for a client and serve it");
  serve_command->add_option("--address", wanted.address, "address of the RDMA device's interface")
    ->required();
  CLI::App* connect_command = app.add_subcommand("connect", "be the client");
  connect_command->add_option("ADDRESS", wanted.address)->required();
  connect_command->add_option("--count", wanted.count, "number of pings")->capture_default_str();
  connect_command->add_option("--size", wanted.size, "bytes of a ping")
    ->check(CLI::Range(size_min, size_max))
    ->capture_default_str();
  for (CLI::App* each : {serve_command, connect_command})
  {
    each->add_option("--port", wanted.port)->capture_default_str();
    each->add_flag("--verbose", wanted.verbose, "print the text of each ping");
  }
  CLI11_PARSE(app, argc, argv);
  return example::run([&](const rdma::context& context)
    { return serve_command->parsed() ? serve(context, wanted) : connect(context, wanted); });
}
