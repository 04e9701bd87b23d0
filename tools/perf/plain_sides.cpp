//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/side.hpp"
#include "perf/turns.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <sys/uio.h>
#include <unistd.h>

namespace perf {
namespace {

using asio::ip::tcp;

// Plain Asio TCP on loopback with TCP_NODELAY, as in a program without this library. With busy_poll
// it reads the sockets in a loop, without Asio's reactor, like a program that dedicates a
// processor.
class tcp_side final : public side
{
public:
  tcp_side(const test_case& what, bench::control_channel& control, bool server)
    : what_(what)
    , outgoing_(std::size_t{what.size} * what.batch * what.buffers, std::byte{1})
    , incoming_(outgoing_)
  {
    for (std::uint32_t i = 0; i < what.queue_pairs; ++i)
    {
      tcp::socket socket(io_);
      std::uint16_t port = 0;
      if (server)
      {
        tcp::acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
        control.send(acceptor.local_endpoint().port());
        acceptor.accept(socket);
      }
      else if (control.receive(port))
        socket.connect({asio::ip::address_v4::loopback(), port});
      else
        throw std::runtime_error("the other process has ended");
      socket.set_option(tcp::no_delay(true));
      sockets_.push_back(std::move(socket));
    }
  }

  asio::io_context& io() { return io_; }
  template <class CompletionToken>
  auto receive(CompletionToken&& token)
  {
    return asio::async_read(sockets_.front(), asio::buffer(incoming_.data(), what_.size),
      std::forward<CompletionToken>(token));
  }
  template <class CompletionToken>
  auto send(CompletionToken&& token)
  {
    return asio::async_write(sockets_.front(), asio::buffer(outgoing_.data(), what_.size),
      std::forward<CompletionToken>(token));
  }

  [[nodiscard]] std::uint64_t unit() const override
  {
    return std::uint64_t{what_.batch} * what_.queue_pairs;
  }

  seconds run(std::uint64_t count, histogram* latencies) override
  {
    if (what_.measure == measure::latency)
      return polled() ? polled_turns(count, true, latencies, [] {})
                      : take_turns(*this, what_.token, count, true, latencies, [] {});
    io_.restart();
    const clock::time_point begin = clock::now();
    std::array<char, 1> end{};
    std::deque<blocks> all;
    for (tcp::socket& socket : sockets_)
    {
      all.emplace_back(*this, socket, count / what_.queue_pairs / what_.batch, true);
      // A completed write does not mean arrival, so the other side confirms.
      asio::async_read(socket, asio::buffer(end), sent);
    }
    io_.run();
    return clock::now() - begin;
  }

  void serve(std::uint64_t count, const std::function<void()>& ready) override
  {
    if (what_.measure == measure::latency)
    {
      if (polled())
        polled_turns(count, false, nullptr, ready);
      else
        take_turns(*this, what_.token, count, false, nullptr, ready);
      return;
    }
    io_.restart();
    std::deque<blocks> all;
    for (tcp::socket& socket : sockets_)
      all.emplace_back(*this, socket, count / what_.queue_pairs / what_.batch, false);
    ready();
    io_.run();
  }

private:
  // A batch is one async_write. Each side has one in progress, because Asio permits only one per
  // socket.
  class blocks
  {
  public:
    blocks(tcp_side& owner, tcp::socket& socket, std::uint64_t count, bool client)
      : owner_(owner)
      , socket_(socket)
      , count_(count)
      , client_(client)
    {
      next();
    }

  private:
    void next()
    {
      const std::size_t size = std::size_t{owner_.what_.size} * owner_.what_.batch;
      const std::size_t offset = index_ % owner_.what_.buffers * size;
      const auto handler = [this](rdma::error_code ec, std::size_t)
      {
        check(ec);
        if (++index_ < count_)
          next();
        else if (!client_)
          asio::async_write(socket_, asio::buffer(owner_.outgoing_.data(), 1), sent);
      };
      if (client_)
        asio::async_write(socket_, asio::buffer(&owner_.outgoing_[offset], size), handler);
      else
        asio::async_read(socket_, asio::buffer(&owner_.incoming_[offset], size), handler);
    }

    tcp_side& owner_;
    tcp::socket& socket_;
    std::uint64_t count_;
    std::uint64_t index_ = 0;
    bool client_;
  };

  [[nodiscard]] bool polled() const { return what_.mode == rdma::completion_mode::busy_poll; }

  seconds polled_turns(
    std::uint64_t count, bool client, histogram* latencies, const std::function<void()>& ready)
  {
    tcp::socket& socket = sockets_.front();
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
  std::vector<tcp::socket> sockets_;
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
  return std::make_unique<tcp_side>(what, control, server);
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
  case contender::memory:
    return make_memory_side(what);
  case contender::ucx:
  case contender::perftest:
    break;
  }
  throw std::logic_error("a contender that is another program has no side here");
}

} // namespace perf
