//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_QUEUE_PAIRS_ECHO_HPP
#define BOOST_RDMA_BENCH_QUEUE_PAIRS_ECHO_HPP

#include "measure/child_process.hpp"
#include "side.hpp"

#include <boost_rdma/acceptor.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/completion_condition.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

// Echo over queue pairs and over plain Asio TCP sockets. A client has a fixed number of messages in
// flight.

namespace bench {

constexpr std::size_t echo_size = 128;

struct echo_progress
{
  std::uint64_t echoes = 0;
  bool stopping = false;
};

// Marks a message at both ends. Its echo must have the same marks.
inline void stamp(std::byte* message, std::uint64_t number)
{
  std::memcpy(message, &number, sizeof(number));
  std::memcpy(message + echo_size - sizeof(number), &number, sizeof(number));
}

inline void check_stamp(const std::byte* message, std::uint64_t number)
{
  if (std::memcmp(message, &number, sizeof(number)) != 0
    || std::memcmp(message + echo_size - sizeof(number), &number, sizeof(number)) != 0)
    throw std::runtime_error("the received data differ from the data sent");
}

/// Queue pairs: the server's objects, and one client.
class rdma_kind
{
public:
  struct server
  {
    server(asio::io_context& io, const connection_plan& plan)
      : side(io, plan)
      , slots(2 * plan.in_flight)
      , acceptor(io, side.context, {asio::ip::address_v4::loopback(), 0}, options_of(side))
    {
      accept();
    }

    static rdma::acceptor_options options_of(const rdma_side& side)
    {
      rdma::acceptor_options how;
      how.queue_pair = side.options;
      return how;
    }

    void accept()
    {
      acceptor.async_accept(
        [this](rdma::error_code ec, rdma::queue_pair accepted)
        {
          check(ec);
          peers.push_back(
            std::make_unique<rdma_echo>(side.context, std::move(accepted), slots, echo_size));
          peers.back()->start([] {});
          accept();
        });
    }

    rdma_side side;
    std::size_t slots;
    std::vector<std::unique_ptr<rdma_echo>> peers;
    rdma::acceptor acceptor;
  };

  class client
  {
  public:
    client(rdma_side& side, const connection_plan& plan, echo_progress& progress)
      : plan_(plan)
      , progress_(progress)
      , memory_(side.context.allocate(3 * plan.in_flight * echo_size))
      , peer_(side.io, side.context, side.options)
    {
    }

    asio::awaitable<void> connect(tcp::endpoint server)
    {
      co_await peer_.async_connect(server, asio::use_awaitable);
      rdma_side::check_wire(peer_, plan_.wire);
    }

    void start()
    {
      for (std::uint32_t i = 0; i < plan_.in_flight; ++i)
        ask(i);
    }

  private:
    // Two outgoing buffers alternate: the send of one of them may complete after its answer.
    void ask(std::uint32_t slot)
    {
      const std::uint64_t number = next_++;
      const rdma::mutable_buffer in = message(3 * slot);
      const rdma::mutable_buffer out = message(3 * slot + 1 + number / plan_.in_flight % 2);
      peer_.async_receive(in,
        [this, slot, number, data = static_cast<const std::byte*>(in.data())](
          rdma::error_code ec, std::size_t)
        {
          check(ec);
          check_stamp(data, number);
          ++progress_.echoes;
          if (!progress_.stopping)
            ask(slot);
        });
      stamp(static_cast<std::byte*>(out.data()), number);
      peer_.async_send(out, [](rdma::error_code ec, std::size_t) { check(ec); });
    }

    [[nodiscard]] rdma::mutable_buffer message(std::size_t which) const
    {
      return memory_.slice(which * echo_size, echo_size);
    }

    const connection_plan& plan_;
    echo_progress& progress_;
    rdma::registered_buffer memory_;
    std::uint64_t next_ = 0;
    rdma::queue_pair peer_;
  };

  using client_side = rdma_side;
};

/// Plain Asio TCP sockets.
/**
 * If a connection has more than one message in flight, a read takes all messages that have arrived,
 * and a write sends as many.
 */
class tcp_kind
{
public:
  struct server
  {
    server(asio::io_context& io, const connection_plan& plan)
      : size_max(plan.in_flight * echo_size)
      , acceptor(io, {asio::ip::address_v4::loopback(), 0})
    {
      accept();
    }

    void accept()
    {
      acceptor.async_accept(
        [this](rdma::error_code ec, tcp::socket accepted)
        {
          check(ec);
          peers.push_back(std::make_unique<echo>(std::move(accepted), size_max));
          peers.back()->receive();
          accept();
        });
    }

    struct echo
    {
      echo(tcp::socket accepted, std::size_t size_max)
        : socket(std::move(accepted))
        , data(size_max)
      {
        socket.set_option(tcp::no_delay(true));
      }

      void receive()
      {
        asio::async_read(socket, asio::buffer(data), asio::transfer_at_least(echo_size),
          [this](rdma::error_code read_ec, std::size_t size)
          {
            if (read_ec)
              return; // the client has closed
            asio::async_write(socket, asio::buffer(data, size),
              [this](rdma::error_code ec, std::size_t)
              {
                if (!ec)
                  receive();
              });
          });
      }

      tcp::socket socket;
      std::vector<std::byte> data;
    };

    std::size_t size_max;
    std::vector<std::unique_ptr<echo>> peers;
    tcp::acceptor acceptor;
  };

  struct client_side
  {
    client_side(asio::io_context& to_run, const connection_plan&)
      : io(to_run)
    {
    }
    asio::io_context& io;
  };

  class client
  {
  public:
    client(client_side& side, const connection_plan& plan, echo_progress& progress)
      : progress_(progress)
      , in_flight_(plan.in_flight)
      , out_(plan.in_flight * echo_size)
      , in_(plan.in_flight * echo_size)
      , socket_(side.io)
    {
    }

    asio::awaitable<void> connect(tcp::endpoint server)
    {
      co_await socket_.async_connect(server, asio::use_awaitable);
      socket_.set_option(tcp::no_delay(true));
    }

    void start() { ask(in_flight_); }

  private:
    void ask(std::size_t count)
    {
      for (std::size_t i = 0; i < count; ++i)
        stamp(out_.data() + i * echo_size, sent_++);
      asio::async_write(socket_, asio::buffer(out_.data(), count * echo_size),
        [this](rdma::error_code ec, std::size_t)
        {
          check(ec);
          receive();
        });
    }

    void receive()
    {
      asio::async_read(socket_, asio::buffer(in_.data() + held_, in_.size() - held_),
        asio::transfer_at_least(echo_size - held_),
        [this](rdma::error_code ec, std::size_t size)
        {
          check(ec);
          take(held_ + size);
        });
    }

    void take(std::size_t size)
    {
      const std::size_t count = size / echo_size;
      for (std::size_t i = 0; i < count; ++i)
        check_stamp(in_.data() + i * echo_size, received_++);
      held_ = size % echo_size;
      std::memmove(in_.data(), in_.data() + count * echo_size, held_);
      progress_.echoes += count;
      if (!progress_.stopping)
        ask(count);
      else if (received_ != sent_)
        receive();
    }

    echo_progress& progress_;
    std::size_t in_flight_;
    std::vector<std::byte> out_;
    std::vector<std::byte> in_;
    std::size_t held_ = 0; // bytes of an incomplete message
    std::uint64_t sent_ = 0;
    std::uint64_t received_ = 0;
    tcp::socket socket_;
  };
};

/// The server process: sends its port, and echoes until the parent's first message.
template <class Kind>
void run_echo_server(control_channel& control, int descriptor, const connection_plan& plan)
{
  asio::io_context io(1);
  typename Kind::server server(io, plan);
  control.send(server.acceptor.local_endpoint().port());
  asio::posix::stream_descriptor end(io, descriptor);
  end.async_wait(asio::posix::stream_descriptor::wait_read, [&](rdma::error_code) { io.stop(); });
  io.run();
  end.release();
}

/// A client process: sends true when it is connected, waits for the parent, sends its echoes per
/// second, and waits for the parent again.
template <class Kind>
void run_echo_client(control_channel& control, const connection_plan& plan, std::uint16_t port,
  std::uint32_t connections, std::chrono::milliseconds duration)
{
  asio::io_context io(1);
  typename Kind::client_side side(io, plan);
  echo_progress progress;
  std::deque<typename Kind::client> clients;
  for (std::uint32_t i = 0; i < connections; ++i)
  {
    asio::co_spawn(io,
      clients.emplace_back(side, plan, progress).connect({asio::ip::address_v4::loopback(), port}),
      [](std::exception_ptr failure)
      {
        if (failure)
          std::rethrow_exception(failure);
      });
    io.run();
    io.restart();
  }
  control.send(true);
  receive_from<bool>(control);

  for (typename Kind::client& each : clients)
    each.start();
  asio::steady_timer timer(io, duration / 4); // warm-up
  std::chrono::steady_clock::time_point begin;
  std::uint64_t before = 0;
  double per_second = 0;
  // On a busy machine this process may not run for the whole duration.
  const std::function<void()> measure = [&]
  {
    timer.expires_after(duration);
    timer.async_wait(
      [&](rdma::error_code)
      {
        if (progress.echoes == before)
          return measure();
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
        per_second = static_cast<double>(progress.echoes - before) / elapsed.count();
        progress.stopping = true;
      });
  };
  timer.async_wait(
    [&](rdma::error_code)
    {
      begin = std::chrono::steady_clock::now();
      before = progress.echoes;
      measure();
    });
  io.run();
  control.send(per_second);
  receive_from<bool>(control);
}

} // namespace bench

#endif // BOOST_RDMA_BENCH_QUEUE_PAIRS_ECHO_HPP
