//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "unit/rpc_simulated_client.hpp"
#include "unit/rpc_simulated_server.hpp"
#include "unit/rpc_simulated_stream.hpp"
#include "unit/rpc_wire_monitor.hpp"
#include "unit/simulated_seeds.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

// A client and a server of RPC in one thread, over streams that deliver bytes in random portions. A
// seed decides which side takes the next step, and which step. The real code of both sides runs.
// Time is not simulated: a time limit of a call is over at the next step, or never. Memory windows
// are not simulated either: exposed memory travels in messages, as by TCP.

namespace test::rpc_simulation_test {
namespace {

class simulation
{
public:
  explicit simulation(unsigned seed)
    : world_(dice(seed))
  {
    const auto any = [this](std::size_t least, std::size_t most)
    { return world_.any(least, most); };
    const std::size_t capacity = world_.one_in(2) ? any(20, 400) : any(1000, 300'000);
    near_ = std::make_shared<simulated_stream>(world_.random, capacity);
    far_ = std::make_shared<simulated_stream>(world_.random, capacity);
    simulated_stream::join(near_, far_);
    near_->on_written = [this](auto bytes) { world_.guarded([&] { monitor_.by_client(bytes); }); };
    far_->on_written = [this](auto bytes) { world_.guarded([&] { monitor_.by_server(bytes); }); };

    rdma::rpc::server_options served;
    served.calls = static_cast<std::uint32_t>(any(1, 6));
    served.queue = static_cast<std::uint32_t>(any(0, 6));
    served.bytes = any(1, 60'000);
    served.unread_max = any(1, 20'000);
    served.flow_bytes = static_cast<std::uint32_t>(any(1024, 4000));
    // One that is over at the next step.
    has_handshake_limit_ = world_.one_in(20);
    served.acceptor.handshake_timeout = std::chrono::hours(has_handshake_limit_ ? 0 : 1);
    rdma::rpc::client_options calling;
    calling.calls = static_cast<std::uint32_t>(any(1, 12));
    calling.queue = static_cast<std::uint32_t>(any(0, 12));
    calling.bytes = any(1, 60'000);
    calling.flow_bytes = static_cast<std::uint32_t>(any(1024, 4000));
    calling.queue_pair.connect_timeout = std::chrono::hours(1);
    if (world_.one_in(4))
      memory_max_ = 700'000; // several parts
    server_.emplace(world_, far_, served);
    server_->client_calls = calling.calls;
    client_.emplace(world_, near_, calling);
    if (has_handshake_limit_)
      lose();
  }

  /// Throws std::logic_error at the first violation.
  void run()
  {
    const std::size_t calls = world_.any(1, 80);
    // Most connections do not end before their calls.
    const unsigned trouble = world_.one_in(3) ? 400 : 1'000'000;
    for (std::size_t step = 0; step != 20'000 && (made_ != calls || client_->outstanding != 0);
         ++step)
    {
      if (made_ != calls && client_->connected && world_.one_in(6))
        client_->call(++made_, memory_max_);
      take(static_cast<unsigned>(world_.random() % kinds));
      if (world_.one_in(trouble))
        make_trouble();
      if (world_.one_in(300)) // whatever the server does
      {
        drain({0, 6});
        client_->check_limits();
      }
    }
    drain();
    if (!is_disturbed_)
      check_health();
    server_->check();
    client_->destroy();
    if (!client_->is_lost && world_.one_in(2))
      if (const auto connection = server_->connection.lock())
        connection->leave();
    is_disturbed_ = true;
    drain();
    check_end();
  }

  [[nodiscard]] std::size_t succeeded() const { return client_->succeeded; }

  static constexpr unsigned kinds = 20;

  /// Takes a step of a kind. Returns false if there is nothing to do.
  bool take(unsigned kind)
  {
    if (kind >= 3 && kind <= 6) // a step that may find that a time limit is over
      world_.pass_time();
    const bool done = try_step(kind);
    if (done)
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
      return world_.run_one(world_.client_io);
    case 3:
    case 4:
    case 5:
      return world_.run_one(world_.server_io);
    case 6:
      return world_.run_one(world_.alarm_io);
    case 7:
    case 8:
      return near_->arrive();
    case 9:
    case 10:
      return far_->arrive();
    case 11:
      return near_->report(false);
    case 12:
      return far_->report(false);
    case 13:
      return near_->write_more();
    case 14:
      return far_->write_more();
    case 15:
      return server_->resume();
    case 16:
      return server_->answer();
    case 17:
      return !is_draining_ && world_.one_in(3) && client_->cancel();
    case 18:
      return client_->read() || (!is_draining_ && world_.one_in(5) && client_->finish());
    default: // a side stops reading, or goes on
      if (is_draining_ || !world_.one_in(20))
        return !is_draining_ && world_.one_in(10) && (near_->report(true) || far_->report(true));
      auto& which = world_.one_in(2) ? near_ : far_;
      which->stalled = !which->stalled;
      return true;
    }
  }

  void lose() { is_disturbed_ = client_->is_lost = true; }

  void make_trouble()
  {
    const auto connection = server_->connection.lock();
    switch (world_.random() % 5)
    {
    case 0:
      lose();
      return near_->fail(rdma::error::peer_lost);
    case 1:
      return client_->cancel_all();
    case 2:
      lose();
      return client_->close();
    case 3:
      lose();
      return server_->end();
    default:
      if (!connection || is_leaving_)
        return;
      is_leaving_ = is_disturbed_ = client_->is_left = true;
      connection->leave();
    }
  }

  /// Takes all steps, until there is nothing to do.
  void drain()
  {
    near_->stalled = far_->stalled = false;
    std::vector<unsigned> all(kinds);
    std::iota(all.begin(), all.end(), 0U);
    drain(all);
  }

  /// The same for steps of some kinds.
  void drain(const std::vector<unsigned>& some)
  {
    is_draining_ = true;
    for (bool progress = true; progress;)
    {
      progress = false;
      for (const unsigned kind : some)
        while (take(kind))
        {
          progress = true;
          if (++drained_ > 3'000'000)
            throw std::logic_error("the connection does not come to rest");
        }
    }
    is_draining_ = false;
  }

  /// A connection that nothing has disturbed goes on, and has forgotten all calls.
  void check_health()
  {
    require(client_->outstanding == 0, "a call does not end");
    require(client_->is_open() && !server_->has_ended, "a side ends the connection");
    const std::size_t before = client_->refused().size();
    client_->limits_time = false;
    for (int i = 0; i != 3; ++i)
    {
      client_->call(++made_, memory_max_);
      drain();
    }
    require(client_->outstanding == 0 && client_->refused().size() == before,
      "an idle connection refuses a call");
    // Only now: a client without calls does not read.
    require(world_.handlers == 0, "a handler of an idle connection is not called");
    server_->check_end();
    monitor_.check_end();
  }

  void check_end()
  {
    require(client_->outstanding == 0 && world_.handlers == 0, "a handler is not called");
    require(server_->has_ended, "the server's connection does not end");
    server_->check_end();
    client_->check();
    for (const std::uint64_t each : client_->refused())
      require(!server_->started.contains(each), "a refused call was started");
    require(client_->core.expired(), "the client is not destroyed");
    require(server_->connection.expired(), "the server's connection is not destroyed");
    require(near_.use_count() == 1 && far_.use_count() == 1, "a stream is not destroyed");
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
  wire_monitor monitor_{rdma::detail::rpc::message::size_max, {simulated::items_index}};
  std::shared_ptr<simulated_stream> near_;
  std::shared_ptr<simulated_stream> far_;
  std::optional<simulated_server> server_;
  std::optional<simulated_client> client_;
  std::size_t memory_max_ = 6000;
  std::uint64_t made_ = 0;
  std::uint64_t drained_ = 0;
  bool has_handshake_limit_ = false;
  bool is_disturbed_ = false;
  bool is_leaving_ = false;
  bool is_draining_ = false;
};

} // namespace

TEST_CASE("calls end once, run at most once and leave nothing, whatever happens to the connection")
{
  const unsigned seeds = exhaustive() ? 10'000 : 100;
  std::size_t succeeded = 0;
  const bool all = run_seeds(0, seeds,
    [&](unsigned seed)
    {
      CAPTURE(seed);
      try
      {
        simulation one(seed);
        one.run();
        succeeded += one.succeeded();
      }
      catch (const std::logic_error& e)
      {
        FAIL(e.what());
      }
    });
  if (all)
    CHECK(succeeded > seeds);
}

} // namespace test::rpc_simulation_test
