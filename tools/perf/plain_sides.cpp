//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/rdma_link.hpp"
#include "perf/side.hpp"
#include "perf/turns.hpp"

#include <boost_rdma/stream.hpp>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include <sys/uio.h>
#include <unistd.h>

namespace perf {
namespace {

using asio::ip::tcp;
using local = asio::local::stream_protocol;

// Accepts or makes the connections of a case. `address` returns the endpoint with the port that the
// server sends. Protocols without ports use the same endpoint each time.
template <class Protocol, class Address>
std::vector<typename Protocol::socket> connect_sockets(asio::io_context& io, const test_case& what,
  bench::control_channel& control, bool server, Address address)
{
  std::vector<typename Protocol::socket> all;
  for (std::uint32_t i = 0; i < what.queue_pairs; ++i)
  {
    typename Protocol::socket& socket = all.emplace_back(io);
    std::uint16_t port = 0;
    if (server)
    {
      typename Protocol::acceptor acceptor(io, address(0));
      if constexpr (std::is_same_v<Protocol, tcp>)
        port = acceptor.local_endpoint().port();
      control.send(port);
      acceptor.accept(socket);
    }
    else if (control.receive(port))
      socket.connect(address(port));
    else
      throw std::runtime_error("the other process has ended");
    if constexpr (std::is_same_v<Protocol, tcp>)
      socket.set_option(tcp::no_delay(true));
  }
  return all;
}

// Streams of bytes: plain Asio TCP on loopback with TCP_NODELAY, as in a program without this
// library, AF_UNIX sockets, or this library's streams. With busy_poll it reads TCP sockets in a
// loop, without Asio's reactor, like a program that dedicates a processor.
template <class Stream>
class stream_side final : public side
{
public:
  // `connect` returns the streams of an io_context.
  template <class Connect>
  stream_side(const test_case& what, Connect connect)
    : what_(what)
    , streams_(connect(io_))
    , outgoing_(std::size_t{what.size} * what.batch * what.buffers, std::byte{1})
    , incoming_(outgoing_)
  {
  }

  asio::io_context& io() { return io_; }
  template <class CompletionToken>
  auto receive(CompletionToken&& token)
  {
    return asio::async_read(streams_.front(), asio::buffer(incoming_.data(), what_.size),
      std::forward<CompletionToken>(token));
  }
  template <class CompletionToken>
  auto send(CompletionToken&& token)
  {
    return asio::async_write(streams_.front(), asio::buffer(outgoing_.data(), what_.size),
      std::forward<CompletionToken>(token));
  }

  [[nodiscard]] std::uint64_t unit() const override
  {
    return std::uint64_t{what_.batch} * what_.queue_pairs;
  }

  seconds run(std::uint64_t count, histogram* latencies) override
  {
    if (what_.measure == measure::latency)
      return turns(count, true, latencies, [] {});
    io_.restart();
    const clock::time_point begin = clock::now();
    std::array<char, 1> end{};
    std::deque<blocks> all;
    for (Stream& stream : streams_)
    {
      all.emplace_back(*this, stream, count / what_.queue_pairs / what_.batch, true);
      // A completed write does not mean arrival, so the other side confirms.
      if (!what_.answers)
        asio::async_read(stream, asio::buffer(end), sent);
    }
    io_.run();
    return clock::now() - begin;
  }

  [[nodiscard]] std::string wire() const override
  {
    if constexpr (std::is_same_v<Stream, rdma::stream>)
      return rdma::name_of(streams_.front().transport().wire);
    return {};
  }

  void serve(std::uint64_t count, const std::function<void()>& ready) override
  {
    if (what_.measure == measure::latency)
    {
      turns(count, false, nullptr, ready);
      return;
    }
    io_.restart();
    std::deque<blocks> all;
    for (Stream& stream : streams_)
      all.emplace_back(*this, stream, count / what_.queue_pairs / what_.batch, false);
    ready();
    io_.run();
  }

private:
  // A batch is one async_write. Each side has one in progress, because Asio permits only one per
  // stream.
  class blocks
  {
  public:
    blocks(stream_side& owner, Stream& stream, std::uint64_t count, bool client)
      : owner_(owner)
      , stream_(stream)
      , count_(count)
      , client_(client)
    {
      next();
    }

  private:
    void next() { client_ ? write() : read(); }

    void write()
    {
      asio::async_write(stream_, asio::buffer(&owner_.outgoing_[offset()], size()),
        [this](rdma::error_code ec, std::size_t)
        {
          check(ec);
          if (owner_.what_.answers && client_)
            read();
          else
            turn();
        });
    }

    void read()
    {
      asio::async_read(stream_, asio::buffer(&owner_.incoming_[offset()], size()),
        [this](rdma::error_code ec, std::size_t)
        {
          check(ec);
          if (owner_.what_.answers && !client_)
            write();
          else
            turn();
        });
    }

    void turn()
    {
      if (++index_ < count_)
        next();
      else if (!client_ && !owner_.what_.answers)
        asio::async_write(stream_, asio::buffer(owner_.outgoing_.data(), 1), sent);
    }

    [[nodiscard]] std::size_t size() const
    {
      return std::size_t{owner_.what_.size} * owner_.what_.batch;
    }
    [[nodiscard]] std::size_t offset() const { return index_ % owner_.what_.buffers * size(); }

    stream_side& owner_;
    Stream& stream_;
    std::uint64_t count_;
    std::uint64_t index_ = 0;
    bool client_;
  };

  static constexpr bool is_tcp = std::is_same_v<Stream, tcp::socket>;

  seconds turns(
    std::uint64_t count, bool client, histogram* latencies, const std::function<void()>& ready)
  {
    if constexpr (is_tcp)
      if (what_.mode == rdma::completion_mode::busy_poll)
        return polled_turns(count, client, latencies, ready);
    return take_turns(*this, what_.token, count, client, latencies, ready);
  }

  seconds polled_turns(
    std::uint64_t count, bool client, histogram* latencies, const std::function<void()>& ready)
  {
    tcp::socket& socket = streams_.front();
    socket.non_blocking(true);
    const auto read_all = [&]
    {
      for (std::size_t got = 0; got < what_.size;)
      {
        rdma::error_code ec;
        got += socket.read_some(asio::buffer(incoming_.data() + got, what_.size - got), ec);
        if (ec && ec != asio::error::would_block)
          check(ec);
      }
    };
    const auto write_all = [&] { asio::write(socket, asio::buffer(outgoing_.data(), what_.size)); };
    ready();
    turn_counter counter(count, client, latencies);
    while (counter.more())
    {
      if (client)
        write_all();
      read_all();
      counter.turn();
      if (!client)
        write_all();
    }
    return counter.elapsed();
  }

  test_case what_;
  asio::io_context io_{1};
  std::vector<Stream> streams_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
};

// The upper bound of the machine: memcpy between buffers of the same size and number.
class memory_side final : public side
{
public:
  explicit memory_side(const test_case& what)
    : what_(what)
    , from_(what.memory(), std::byte{1})
    , to_(what.memory(), std::byte{2})
  {
  }

  seconds run(std::uint64_t count, histogram*) override
  {
    // Hidden from the compiler, so that it cannot omit copies.
    void* (*volatile const copy)(void*, const void*, std::size_t) =
      what_.own_memory ? &copy_in_kernel : &std::memcpy;
    const clock::time_point begin = clock::now();
    for (std::uint64_t i = 0; i < count; ++i)
    {
      const std::size_t offset = i % what_.buffers * what_.size;
      copy(&to_[offset], &from_[offset], what_.size);
    }
    return clock::now() - begin;
  }

  void serve(std::uint64_t, const std::function<void()>& ready) override { ready(); }

private:
  // As for the memory of another process.
  static void* copy_in_kernel(void* to, const void* from, std::size_t size)
  {
    const iovec local{const_cast<void*>(from), size};
    const iovec remote{to, size};
    if (::process_vm_writev(::getpid(), &local, 1, &remote, 1, 0) != static_cast<ssize_t>(size))
      throw std::system_error(errno, std::generic_category(), "process_vm_writev");
    return to;
  }

  test_case what_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

} // namespace

std::unique_ptr<side> make_tcp_side(
  const test_case& what, bench::control_channel& control, bool server)
{
  return std::make_unique<stream_side<tcp::socket>>(what,
    [&](asio::io_context& io)
    {
      return connect_sockets<tcp>(io, what, control, server,
        [](std::uint16_t port) { return tcp::endpoint(asio::ip::address_v4::loopback(), port); });
    });
}

std::unique_ptr<side> make_local_socket_side(
  const test_case& what, bench::control_channel& control, bool server)
{
  pid_t of = ::getpid();
  if (server)
    control.send(of);
  else if (!control.receive(of))
    throw std::runtime_error("the other process has ended");
  // The name of an abstract socket (unix(7)) begins with a zero byte.
  const std::string name = std::string(1, '\0') + "rdma_perf " + std::to_string(of);
  return std::make_unique<stream_side<local::socket>>(what,
    [&](asio::io_context& io)
    {
      return connect_sockets<local>(
        io, what, control, server, [&](std::uint16_t) { return local::endpoint(name); });
    });
}

std::unique_ptr<side> make_stream_side(const test_case& what, bench::control_channel& control)
{
  return std::make_unique<stream_side<rdma::stream>>(what,
    [&](asio::io_context& io)
    {
      std::vector<rdma::stream> all;
      for (rdma::queue_pair& each : rdma_link(io, what, what.mode, control).take_peers())
        all.emplace_back(std::move(each));
      return all;
    });
}

std::unique_ptr<side> make_memory_side(const test_case& what)
{
  return std::make_unique<memory_side>(what);
}

std::unique_ptr<side> make_side(const test_case& what, bench::control_channel& control, bool server)
{
  switch (what.contender)
  {
  case contender::library:
    return make_library_side(what, control);
  case contender::raw:
    return make_raw_side(what, control);
  case contender::tcp:
    return make_tcp_side(what, control, server);
  case contender::local_socket:
    return make_local_socket_side(what, control, server);
  case contender::stream:
    return make_stream_side(what, control);
  case contender::object:
    return make_object_side(what, control, server);
  case contender::rpc:
    return make_rpc_side(what, control, server);
  case contender::memory:
    return make_memory_side(what);
  case contender::ucx:
  case contender::perftest:
    break;
  }
  throw std::logic_error("a contender that is another program has no side here");
}

} // namespace perf
