//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_RPC_HOSTILE_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_RPC_HOSTILE_SIMULATION_HPP

#include "common/dice.hpp"
#include "unit/rpc_hostile_peer.hpp"
#include "unit/rpc_simulated_client.hpp"
#include "unit/rpc_simulated_server.hpp"
#include "unit/rpc_simulated_stream.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>

namespace test {

/// One side of RPC whose peer sends messages in any order, and some that are not valid: it goes on,
/// or ends the connection.
class hostile_simulation
{
public:
  hostile_simulation(const dice& decisions, bool peer_is_server)
    : world_(decisions)
  {
    const std::size_t capacity = world_.any(100, 100'000);
    stream_ = std::make_shared<simulated_stream>(world_.random, capacity);
    far_ = std::make_shared<simulated_stream>(world_.random, capacity);
    simulated_stream::join(stream_, far_);
    peer_.emplace(world_, far_, peer_is_server);
    if (peer_is_server)
    {
      rdma::rpc::client_options options;
      options.calls = static_cast<std::uint32_t>(world_.any(1, 10));
      options.queue = static_cast<std::uint32_t>(world_.any(0, 10));
      options.flow_bytes = static_cast<std::uint32_t>(world_.any(1024, 4000));
      options.queue_pair.connect_timeout = std::chrono::hours(1);
      peer_->calls_max = options.calls;
      client_.emplace(world_, stream_, options);
      client_->honest = false;
      return;
    }
    rdma::rpc::server_options options;
    options.calls = static_cast<std::uint32_t>(world_.any(1, 6));
    options.queue = static_cast<std::uint32_t>(world_.any(0, 6));
    options.bytes = world_.any(1, 20'000);
    options.unread_max = world_.any(1, 20'000);
    options.flow_bytes = static_cast<std::uint32_t>(world_.any(1024, 4000));
    options.acceptor.handshake_timeout = std::chrono::hours(1);
    server_.emplace(world_, stream_, options);
    server_->honest = false;
  }

  /// Returns true if the side has ended the connection. Throws std::logic_error with what is wrong.
  bool run()
  {
    const std::size_t steps = world_.any(100, 6000);
    for (std::size_t i = 0; i != steps && stream_->is_open() && !world_.random.is_over(); ++i)
    {
      if (client_ && client_->connected && world_.one_in(10))
        client_->call(++made_, 6000);
      take(static_cast<unsigned>(world_.random() % kinds));
    }
    const bool ended = !stream_->is_open();
    world_.one_in(2) ? far_->close() : far_->fail(rdma::error::peer_lost);
    if (client_)
      client_->destroy();
    is_draining_ = true;
    for (bool progress = true; progress;)
    {
      progress = false;
      for (unsigned kind = 0; kind != kinds; ++kind)
        while (take(kind))
          progress = true;
    }
    check_end();
    return ended;
  }

private:
  static constexpr unsigned kinds = 14;

  bool take(unsigned kind)
  {
    world_.pass_time();
    const bool done = try_step(kind);
    if (server_)
      server_->check();
    if (!world_.problem.empty())
      throw std::logic_error(world_.problem);
    return done;
  }

  bool try_step(unsigned kind)
  {
    switch (kind)
    {
    case 0:
    case 1:
    case 2:
      return world_.run_one(client_ ? world_.client_io : world_.server_io);
    case 3:
      return world_.run_one(world_.alarm_io);
    case 4:
      return stream_->arrive();
    case 5:
      return far_->arrive();
    case 6:
      return stream_->report(false);
    case 7:
      return stream_->write_more();
    case 8:
      return server_ && server_->resume();
    case 9:
      return server_ && server_->answer();
    case 10:
    case 11:
      return !is_draining_ && peer_->speak();
    case 12:
      return !is_draining_ && peer_->listen();
    default:
      return !is_draining_ && client_ && world_.one_in(5)
        && (client_->read() || client_->cancel() || client_->finish());
    }
  }

  void check_end()
  {
    if (client_)
    {
      client_->check();
      require(client_->outstanding == 0, "a call does not end");
      require(client_->core.expired(), "the client is not destroyed");
    }
    if (server_)
    {
      require(server_->has_ended, "the server's connection does not end");
      server_->check_end();
      require(server_->connection.expired(), "the server's connection is not destroyed");
    }
    require(world_.problem.empty(), world_.problem.c_str());
    require(world_.handlers == 0, "a handler is not called");
    require(stream_.use_count() == 1, "a stream is not destroyed");
    for (asio::io_context* const each : {&world_.client_io, &world_.server_io})
    {
      each->restart();
      each->poll();
      require(each->stopped(), "an operation is outstanding");
    }
  }

  static void require(bool condition, const char* what)
  {
    if (!condition)
      throw std::logic_error(what);
  }

  simulated_world world_;
  std::shared_ptr<simulated_stream> stream_; // of the side under test
  std::shared_ptr<simulated_stream> far_;
  std::optional<hostile_peer> peer_;
  std::optional<simulated_server> server_;
  std::optional<simulated_client> client_;
  std::uint64_t made_ = 0;
  bool is_draining_ = false;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_RPC_HOSTILE_SIMULATION_HPP
