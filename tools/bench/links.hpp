//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_BENCH_LINKS_HPP
#define BOOST_RDMA_TOOLS_BENCH_LINKS_HPP

#include "bench/control_channel.hpp"
#include "bench/test_case.hpp"

#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The two things that are compared, behind one interface, so that both are driven by the same code:
// a link has memory of block_count blocks, and sends from it and receives into it.

namespace bench {

namespace asio = boost::asio;
using asio::ip::tcp;

class tcp_link
{
public:
  tcp_link(asio::io_context& io, control_channel& control, bool server)
    : socket_(io)
    , memory_(block_count * block_size)
  {
    if (server)
    {
      tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
      control.send(acceptor.local_endpoint().port());
      acceptor.accept(socket_);
    }
    else
    {
      std::uint16_t port = 0;
      control.receive(port);
      socket_.connect({asio::ip::address_v4::loopback(), port});
    }
    socket_.set_option(tcp::no_delay(true));
  }

  [[nodiscard]] tcp::socket& socket() { return socket_; }
  [[nodiscard]] std::byte* data() { return memory_.data(); }

  void end_receives() {} // there is none left

  // async_write and async_read take turns with themselves: one of each at a time.
  static std::size_t depth(const test_case&) { return 1; }

  template <class CompletionToken>
  auto send(std::size_t offset, std::size_t size, CompletionToken&& token)
  {
    return asio::async_write(
      socket_, asio::buffer(&memory_[offset], size), std::forward<CompletionToken>(token));
  }

  template <class CompletionToken>
  auto receive(std::size_t offset, std::size_t size, CompletionToken&& token)
  {
    return asio::async_read(
      socket_, asio::buffer(&memory_[offset], size), std::forward<CompletionToken>(token));
  }

private:
  tcp::socket socket_;
  std::vector<std::byte> memory_;
};

class rdma_link
{
public:
  rdma_link(asio::io_context& io, const rdma::context& context, const test_case& what,
    control_channel& control)
    : memory_(
      context, block_count * block_size, rdma::access::local_write | rdma::access::remote_write)
    , peer_(io, context, options(io, context, what))
  {
    // A process of the same program, and a channel that nobody else reads: no acceptor is needed.
    control.send_text(peer_.local_endpoint(asio::ip::address_v4::loopback()).text());
    control.send(memory_.remote().encode());
    const auto description = rdma::endpoint_description::parse(control.receive_text());
    rdma::remote_buffer::encoded handle{};
    control.receive(handle);
    remote_ = rdma::remote_buffer::decode(handle);
    peer_.connect(description);
  }

  [[nodiscard]] rdma::queue_pair& peer() { return peer_; }
  [[nodiscard]] std::byte* data() { return memory_.data(); }
  [[nodiscard]] rdma::mutable_buffer local(std::size_t offset, std::size_t size) const
  {
    return memory_.slice(offset, size);
  }
  [[nodiscard]] rdma::remote_buffer remote(std::size_t offset, std::size_t size) const
  {
    return remote_.slice(offset, size);
  }

  void end_receives() { peer_.close(); }

  static std::size_t depth(const test_case& what) { return what.depth; }

  template <class CompletionToken>
  auto send(std::size_t offset, std::size_t size, CompletionToken&& token)
  {
    return peer_.async_send(local(offset, size), std::forward<CompletionToken>(token));
  }

  template <class CompletionToken>
  auto receive(std::size_t offset, std::size_t size, CompletionToken&& token)
  {
    return peer_.async_receive(local(offset, size), std::forward<CompletionToken>(token));
  }

private:
  static rdma::queue_pair_options options(
    asio::io_context& io, const rdma::context& context, const test_case& what)
  {
    rdma::queue_pair_options result;
    rdma::completion_queue_options completions;
    completions.mode = what.mode;
    if (what.mode == rdma::completion_mode::busy_poll)
      completions.spin_slice = std::chrono::microseconds(100); // this thread has nothing else to do
    result.completions.emplace(io, context, completions);
    result.send_depth =
      static_cast<std::uint32_t>(std::max<std::size_t>(result.send_depth, what.depth * what.batch));
    return result;
  }

  rdma::memory_region memory_; // after the queue pair's end no operation uses it
  rdma::queue_pair peer_;
  rdma::remote_buffer remote_;
};

} // namespace bench

#endif // BOOST_RDMA_TOOLS_BENCH_LINKS_HPP
