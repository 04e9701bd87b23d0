//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "unit/rpc_hostile_peer.hpp"
#include "unit/rpc_simulated_client.hpp"
#include "unit/rpc_simulated_server.hpp"
#include "unit/rpc_simulated_stream.hpp"
#include "unit/simulated_seeds.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

// One side of RPC whose peer sends messages in any order, and some that are not valid: it goes on,
// or ends the connection. See rpc_simulation_test.cpp.

namespace test::rpc_hostile_peer_test {
namespace {

class hostile_simulation
{
public:
  hostile_simulation(unsigned seed, bool peer_is_server)
    : world_(seed)
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

  /// Returns true if the side has ended the connection.
  bool run()
  {
    const std::size_t steps = world_.any(100, 6000);
    for (std::size_t i = 0; i != steps && stream_->is_open(); ++i)
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

} // namespace

TEST_CASE("a side of RPC keeps its limits and its memory, whatever the peer sends")
{
  const bool peer_is_server = GENERATE(false, true);
  const unsigned seeds = exhaustive() ? 10'000 : 200;
  std::size_t ended = 0;
  const bool all = run_seeds(0, seeds,
    [&](unsigned seed)
    {
      CAPTURE(seed, peer_is_server);
      try
      {
        ended += hostile_simulation(seed, peer_is_server).run() ? 1 : 0;
      }
      catch (const std::logic_error& e)
      {
        FAIL(e.what());
      }
    });
  if (!all)
    return;
  CHECK(ended > seeds / 10);
  CHECK(ended < seeds - seeds / 10);
}

// Otherwise the transfer waits for an answer that a client without unanswered parts never sends,
// and a server that has too many bytes of requests does not read the end of the connection.
TEST_CASE("a server of RPC ends the connection when a client answers a part that was not asked for")
{
  using namespace rdma::detail::rpc;
  simulated_world world(0);
  const auto stream = std::make_shared<simulated_stream>(world.random, 10'000);
  const auto far = std::make_shared<simulated_stream>(world.random, 10'000);
  simulated_stream::join(stream, far);
  rdma::rpc::server_options options;
  options.bytes = 1;
  simulated_server server(world, stream, options);
  const auto come_to_rest = [&]
  {
    for (bool progress = true; progress;)
    {
      progress = simulated_world::run_one(world.server_io);
      progress = stream->arrive() || progress;
      progress = stream->report(false) || progress;
      progress = stream->write_more() || progress;
      progress = server.resume() || progress;
    }
  };
  const auto send = [&](std::vector<std::byte>& bytes)
  {
    for (std::size_t done = 0; done != bytes.size();)
    {
      rdma::error_code ec;
      done +=
        far->write_some(rdma::detail::stream_core::sources(asio::buffer(bytes) + done), false, ec);
      come_to_rest();
    }
    bytes.clear();
  };

  std::vector<std::byte> out;
  const auto add = [&](const message& m, const auto& append)
  {
    const std::size_t at = begin_message(out, m);
    append();
    end_message(out, at);
  };
  message m;
  m.type = message_type::hello;
  m.selector = message::version;
  add(m, [] {});
  m = {};
  m.type = message_type::expose;
  m.number = 1;
  exposed_range range;
  range.form = exposed_range::form_type::message;
  range.rights = rdma::access::remote_read;
  range.size = 8;
  add(m, [&] { append_range(out, range, {}); });
  m.type = message_type::call;
  m.selector = 3; // simulated::bulk
  const auto words = simulated::item_of(1, 0);
  const auto content = std::as_bytes(std::span(words));
  add(m, [&] { out.insert(out.end(), content.begin(), content.end()); });
  send(out);
  REQUIRE(!server.has_ended);

  std::optional<std::uint32_t> asked;
  message_reader reader(message::size_max);
  while (far->arrive())
  {
  }
  for (auto found = far->peek(); !found.empty(); found = far->peek())
    for (const asio::const_buffer& each : found)
    {
      std::span<const std::byte> bytes(static_cast<const std::byte*>(each.data()), each.size());
      reader.read(bytes,
        [&](const message& arrived, const auto&)
        {
          if (arrived.type == message_type::pull)
            asked = arrived.detail;
          return true;
        });
      far->consume(each.size());
    }
  REQUIRE(asked);
  m = {};
  m.type = message_type::part;
  m.number = *asked + 1;
  add(m, [&] { out.resize(out.size() + range.size); });
  send(out);
  CHECK(server.has_ended);
  server.end();
  come_to_rest();
}

} // namespace test::rpc_hostile_peer_test
