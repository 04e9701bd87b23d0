//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_QUEUE_PAIRS_MISBEHAVING_CLIENT_HPP
#define BOOST_RDMA_BENCH_QUEUE_PAIRS_MISBEHAVING_CLIENT_HPP

#include "side.hpp"

#include <boost_rdma/connect_options.hpp>
#include <boost_rdma/remote_buffer.hpp>

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// The hostile clients of the crowd, and the bulk clients that the parent stops.

namespace bench::crowd {

constexpr std::size_t message_size = 64;
constexpr std::size_t bulk_message_size = 4096;
constexpr std::size_t bulk_write_size = 1 << 20;
constexpr std::uint32_t window = 16;   // receives of the server for each client
constexpr char bulk_client[] = "bulk"; // connect_options::data of clients that get a key

using handle = rdma::remote_buffer::encoded;
using std::chrono::milliseconds;

struct server_address
{
  std::uint16_t port = 0;        // of the acceptor
  std::uint16_t honest_port = 0; // of the acceptor that waits longer for a silent client
  std::uint16_t device_port = 0; // of the software device
};

enum class act : std::uint32_t
{
  flood,     // sends without end, and receives the answers
  deaf,      // sends until the queues are full, neither receives nor polls, connects again
  reconnect, // connects and disconnects
  wrong_key, // writes with a wrong key, connects again
  garbage,   // sends random bytes to the acceptor, the device's port and its unix socket
  spin,      // control: only uses the processor
  bulk_send, // until the parent stops the process
  bulk_write,
};
constexpr std::array act_names{
  "flood", "deaf", "reconnect", "wrong_key", "garbage", "spin", "bulk_send", "bulk_write"};

/// Counts the acts of all processes, in memory that they share.
using counters = std::array<std::atomic<std::uint64_t>, act_names.size()>;

/// A client that misbehaves until it is killed.
class misbehaving_client
{
public:
  misbehaving_client(
    const connection_plan& plan, const server_address& address, act what, counters& count)
    : plan_(plan)
    , address_(address)
    , what_(what)
    , count_(count[static_cast<std::size_t>(what)])
  {
  }

  [[noreturn]] void run()
  {
    if (what_ == act::spin)
      for (;;)
        ++count_;
    if (what_ == act::garbage)
      send_garbage();
    asio::io_context first(1);
    const rdma::context context = rdma_side(first, plan_).context;
    for (;;)
      try
      {
        asio::io_context io(1);
        act_once(io, context);
      }
      catch (const std::exception&)
      {
        // The server may end the connection at any time.
        std::this_thread::sleep_for(milliseconds(1));
      }
  }

private:
  void act_once(asio::io_context& io, const rdma::context& context)
  {
    const bool bulk =
      what_ == act::wrong_key || what_ == act::bulk_send || what_ == act::bulk_write;
    handle key{};
    const rdma::registered_buffer memory = context.allocate(bulk_write_size);
    rdma::queue_pair_options options;
    options.device = rdma::software::device_name;
    rdma::queue_pair peer(io, context, options);
    rdma::connect_options how;
    how.data = bulk ? bulk_client : "";
    if (bulk)
      peer.async_receive(asio::buffer(key), check_size);
    peer.async_connect({asio::ip::address_v4::loopback(), address_.port}, how, check);
    io.run();
    io.restart();
    switch (what_)
    {
    case act::flood:
      return send_without_end(io, peer, memory, message_size);
    case act::bulk_send:
      return send_without_end(io, peer, memory, bulk_message_size);
    case act::bulk_write:
      return write_without_end(io, peer, memory, rdma::remote_buffer::decode(key));
    case act::deaf:
      return send_and_sleep(peer, memory);
    case act::wrong_key:
      return write_with_wrong_key(io, peer, memory, rdma::remote_buffer::decode(key));
    default:
      ++count_; // reconnect
    }
  }

  static void check_size(rdma::error_code ec, std::size_t) { check(ec); }

  void send_without_end(asio::io_context& io, rdma::queue_pair& peer,
    const rdma::registered_buffer& memory, std::size_t size)
  {
    const std::function<void()> ask = [&]
    {
      peer.async_receive(memory.slice(bulk_message_size, message_size),
        [&](rdma::error_code ec, std::size_t)
        {
          check(ec);
          ++count_;
          ask();
        });
      peer.async_send(memory.first(size), check_size);
    };
    for (std::uint32_t i = 0; i < window; ++i)
      ask();
    io.run();
  }

  void write_without_end(asio::io_context& io, rdma::queue_pair& peer,
    const rdma::registered_buffer& memory, const rdma::remote_buffer& target)
  {
    const std::function<void()> write = [&]
    {
      peer.async_write(memory, target,
        [&](rdma::error_code ec, std::size_t)
        {
          check(ec);
          ++count_;
          write();
        });
    };
    for (int i = 0; i < 4; ++i)
      write();
    io.run();
  }

  void send_and_sleep(rdma::queue_pair& peer, const rdma::registered_buffer& memory)
  {
    constexpr int sends = 20'000; // fewer than error::queue_too_deep permits
    for (int i = 0; i < sends; ++i)
      peer.async_send(memory.first(message_size), [](rdma::error_code, std::size_t) {});
    count_ += sends;
    std::this_thread::sleep_for(milliseconds(50));
  }

  void write_with_wrong_key(asio::io_context& io, rdma::queue_pair& peer,
    const rdma::registered_buffer& memory, const rdma::remote_buffer& target)
  {
    const auto kind = rdma::device_kind::software;
    const rdma::remote_buffer wrong(
      kind, target.address(), target.size(), target.key(kind) ^ 0x100);
    peer.async_write(memory.first(message_size), wrong,
      [this](rdma::error_code ec, std::size_t)
      {
        if (!ec)
          throw std::logic_error("a write with a wrong key succeeded");
        ++count_;
      });
    io.run();
  }

  // Keeps some of the connections open, so that the server waits for the rest of a message.
  [[noreturn]] void send_garbage()
  {
    constexpr std::size_t open_max = 32;
    std::deque<int> open;
    std::minstd_rand random(static_cast<unsigned>(::getpid()));
    for (std::size_t turn = 0;; ++turn)
    {
      if (open.size() == open_max)
      {
        ::close(open.front());
        open.pop_front();
      }
      const int fd = connect_to(turn % 3);
      if (fd < 0)
        continue;
      open.push_back(fd);
      std::array<char, 512> data{};
      std::ranges::generate(data, [&] { return static_cast<char>(random()); });
      if (turn % 2 == 0) // a plausible beginning of a hello or a request
        std::memcpy(data.data(), turn % 3 == 0 ? "GET /rdma HT" : "BLRDMA01\0\2\1\0", 12);
      (void)::send(fd, data.data(), turn % 5 == 0 ? 96 : data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      ++count_;
    }
  }

  // 0: the acceptor, 1: the device's port, 2: its unix socket. Returns a negative value on failure.
  [[nodiscard]] int connect_to(std::size_t which) const
  {
    const bool is_unix = which == 2;
    const int fd = is_unix ? ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0)
                           : ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const linger reset{.l_onoff = 1, .l_linger = 0}; // leaves no port in TIME_WAIT
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    int status = 0;
    if (is_unix)
    {
      sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
      const std::string text = "boost_rdma/00000000000000000000ffff7f000001/"
        + std::to_string(address_.device_port); // the GID is ::ffff:127.0.0.1
      std::memcpy(name.sun_path + 1, text.data(), text.size());
      status = ::connect(fd, reinterpret_cast<const sockaddr*>(&name),
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size()));
    }
    else
    {
      const tcp::endpoint to(
        asio::ip::address_v4::loopback(), which == 0 ? address_.port : address_.device_port);
      status = ::connect(fd, to.data(), static_cast<socklen_t>(to.size()));
    }
    if (status == 0 || errno == EINPROGRESS)
      return fd;
    ::close(fd);
    return -1;
  }

  const connection_plan& plan_;
  const server_address& address_;
  act what_;
  std::atomic<std::uint64_t>& count_;
};

} // namespace bench::crowd

#endif // BOOST_RDMA_BENCH_QUEUE_PAIRS_MISBEHAVING_CLIENT_HPP
