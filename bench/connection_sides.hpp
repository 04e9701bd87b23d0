//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_CONNECTION_SIDES_HPP
#define BOOST_RDMA_BENCH_CONNECTION_SIDES_HPP

#include "connections.hpp"
#include "measure/control_channel.hpp"
#include "usage.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

// The client and the server of one measurement, and the control messages between them.

namespace bench {

struct load
{
  std::uint32_t connections = 0;
  std::uint32_t at_a_time = 0; // connects in progress at once
  std::uint32_t exchanges = 0; // round trips of each connection
};

struct side_figures
{
  double cpu_us = 0;        // per connect
  double connected_kib = 0; // per connection, before any message
  double idle_kib = 0;      // per connection, after the round trips
  double descriptors = 0;   // per connection
  double threads = 0;       // of the process

  side_figures() = default;
  side_figures(double connections, const usage& before, const usage& connected, const usage& idle)
    : cpu_us((connected.cpu_seconds - before.cpu_seconds) * 1e6 / connections)
    , connected_kib((connected.private_kib - before.private_kib) / connections)
    , idle_kib((idle.private_kib - before.private_kib) / connections)
    , descriptors((idle.descriptors - before.descriptors) / connections)
    , threads(idle.threads)
  {
  }
};

struct figures
{
  double first_connect_us = 0; // between processes that are not connected yet
  double connects_per_second = 0;
  double round_trips_per_second = 0;
  side_figures client;
  side_figures server;
};

// Request of the client. The server replies when it has the given number of connections.
struct question
{
  enum subject : std::uint32_t
  {
    ready, // without figures: reading them takes time
    usage,
  };
  subject what = ready;
  std::uint32_t connections = 0; // 0: no request is pending
};

inline void rethrow(std::exception_ptr failure)
{
  if (failure)
    std::rethrow_exception(failure);
}

/// Accepts, echoes, and reports its usage to the client when it has the given number of
/// connections.
template <class Connection>
class connection_server
{
public:
  connection_server(
    typename Connection::shared& all, const load& what, control_channel& control, int descriptor)
    : all_(all)
    , control_(control)
    , asked_(all.io, descriptor)
    , connections_max_(what.connections + 1)
  {
    connections_.reserve(connections_max_);
    control.send(all.listen());
    asio::co_spawn(all.io, accept_all(), rethrow);
    wait_for_question();
    all.io.run();
    asked_.release();
  }

private:
  asio::awaitable<void> accept_all()
  {
    for (std::size_t i = 0; i < connections_max_; ++i)
    {
      auto accepted = co_await Connection::accept(all_);
      connections_.push_back(std::make_unique<Connection>(all_, i, std::move(accepted)));
      asio::co_spawn(all_.io, begin(*connections_.back()), rethrow);
    }
  }

  asio::awaitable<void> begin(Connection& connection)
  {
    co_await connection.answer();
    connection.echo();
    ++echoing_;
    answer_question();
  }

  void wait_for_question()
  {
    asked_.async_wait(asio::posix::stream_descriptor::wait_read,
      [this](rdma::error_code ec)
      {
        check(ec);
        if (!control_.receive(question_))
          return all_.io.stop(); // the client has ended
        answer_question();
      });
  }

  void answer_question()
  {
    if (question_.connections == 0 || echoing_ < question_.connections)
      return;
    control_.send(question_.what == question::usage ? usage::now() : usage());
    question_ = {};
    wait_for_question();
  }

  typename Connection::shared& all_;
  control_channel& control_;
  asio::posix::stream_descriptor asked_;
  std::size_t connections_max_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::uint32_t echoing_ = 0;
  question question_;
};

template <class Connection>
class connection_client
{
public:
  connection_client(typename Connection::shared& all, const load& what, control_channel& control)
    : all_(all)
    , what_(what)
    , control_(control)
  {
    connections_.reserve(what.connections + 1);
    std::uint16_t port = 0;
    if (!control.receive(port))
      throw std::runtime_error("the server has ended");
    server_ = {asio::ip::address_v4::loopback(), port};
  }

  figures measure()
  {
    using clock = std::chrono::steady_clock;
    using seconds = std::chrono::duration<double>;
    // One connection in advance: it allocates what is needed once, and links the two contexts.
    const auto begin = clock::now();
    connect_all(1);
    const seconds connecting_first = clock::now() - begin;
    exchange_all(1);
    const auto [client_before, server_before] = both();

    const auto start = clock::now();
    connect_all(what_.connections);
    const seconds connecting = clock::now() - start;
    const auto [client_connected, server_connected] = both();

    const auto first = clock::now();
    exchange_all(what_.exchanges);
    const seconds exchanging = clock::now() - first;
    const auto [client_idle, server_idle] = both();

    const double n = what_.connections;
    return {connecting_first.count() * 1e6, n / connecting.count(),
      (n + 1) * what_.exchanges / exchanging.count(),
      {n, client_before, client_connected, client_idle},
      {n, server_before, server_connected, server_idle}};
  }

private:
  // Returns the usage of both sides. Waits first, so that background work of finished operations is
  // included.
  std::pair<usage, usage> both()
  {
    constexpr std::chrono::milliseconds rest{200};
    ask(question::ready);
    std::this_thread::sleep_for(rest);
    const usage server = ask(question::usage);
    return {usage::now(), server};
  }

  usage ask(question::subject what)
  {
    control_.send(question{what, static_cast<std::uint32_t>(connections_.size())});
    usage answer;
    if (!control_.receive(answer))
      throw std::runtime_error("the server has ended");
    return answer;
  }

  void connect_all(std::size_t count)
  {
    to_connect_ = count;
    for (std::size_t i = 0; i < std::min<std::size_t>(what_.at_a_time, count); ++i)
      asio::co_spawn(all_.io, connect_some(), rethrow);
    run();
  }

  asio::awaitable<void> connect_some()
  {
    while (to_connect_ != 0)
    {
      --to_connect_;
      connections_.push_back(std::make_unique<Connection>(all_, connections_.size()));
      co_await connections_.back()->connect(server_);
    }
  }

  void exchange_all(std::size_t count)
  {
    for (std::size_t i = 0; i < connections_.size(); ++i)
      exchange(i, count);
    run();
  }

  void exchange(std::size_t index, std::size_t left)
  {
    Connection& connection = *connections_[index];
    for (std::size_t i = 0; i < message_size; ++i)
    {
      connection.outgoing()[i] = pattern(index, left, i);
      if (connection.incoming() != connection.outgoing())
        connection.incoming()[i] = {};
    }
    connection.round_trip(
      [this, index, left]
      {
        const std::byte* data = connections_[index]->incoming();
        for (std::size_t i = 0; i < message_size; ++i)
          if (data[i] != pattern(index, left, i))
            throw std::runtime_error("the received data differ from the data sent");
        if (left > 1)
          exchange(index, left - 1);
      });
  }

  void run()
  {
    all_.io.run();
    all_.io.restart();
  }

  typename Connection::shared& all_;
  load what_;
  control_channel& control_;
  tcp::endpoint server_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::size_t to_connect_ = 0;
};

} // namespace bench

#endif // BOOST_RDMA_BENCH_CONNECTION_SIDES_HPP
