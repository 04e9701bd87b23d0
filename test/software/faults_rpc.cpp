//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/faults.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/rpc/client_pool.hpp>
#include <boost_rdma/rpc/group.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

// Calls of methods while some step fails.

using namespace test;

namespace {

/// The reply is the number of bytes that the handler has read.
using store = rdma::rpc::method<"store/1", rdma::rpc::nothing, std::uint64_t>;
/// A server, and the client of a round.
struct rpc_round
{
  rpc_round()
  {
    server.handle<add>([](const numbers& n) { return n.a + n.b; });
    server.handle<store>(
      [this](
        rdma::rpc::nothing, const rdma::rpc::call_info& call, rdma::rpc::responder<store> answer)
      {
        auto pulled = std::make_shared<rdma::rpc::responder<store>>(std::move(answer));
        call.exposed(0).async_pull(0, rdma::mutable_buffer(room),
          [pulled](error_code ec, std::size_t size)
          {
            if (ec)
              pulled->fail(ec);
            else
              pulled->reply(size);
          });
      });
    server.start();
  }

  [[nodiscard]] bool connects(faulty_round& round) { return connects(round, server); }
  [[nodiscard]] bool connects(faulty_round& round, const rdma::rpc::server& to)
  {
    if (!round.make([&] { client.emplace(io, near_context, by_rdma()); }))
      return false;
    const auto& connected =
      round.start([&](auto handler) { client->async_connect(to.local_endpoint(), handler); });
    round.await(connected);
    return connected.succeeded();
  }

  [[nodiscard]] auto& add_numbers(faulty_round& round)
  {
    return round.start(
      [&](auto handler) {
        client->async_call<add>({1, 2}, patience(), handler);
      },
      [](std::int32_t sum) { CHECK(sum == 3); });
  }

  /// Calls `store` with memory that the handler reads.
  void expose(faulty_round& round, const rdma::const_buffer& memory)
  {
    round.await(round.start(
      [&](auto handler)
      {
        auto options = patience();
        options.exposed = rdma::rpc::expose(memory);
        client->async_call<store>({}, options, handler);
      },
      [&](std::uint64_t size) { CHECK(size == memory.size()); }));
  }

  void call_by_pool(faulty_round& round)
  {
    if (!round.make([&] { pool.emplace(io, near_context, servers(), by_pool()); }))
      return;
    for (int i = 0; i != 2; ++i)
      round.await(round.start(
        [&](auto handler) {
          pool->async_call<add>({1, 2}, patience(), handler);
        },
        [](std::int32_t sum) { CHECK(sum == 3); }));
  }

  void end()
  {
    client.reset();
    pool.reset();
  }

  [[nodiscard]] bool serves_next()
  {
    rdma::rpc::client next(io, near_context, by_rdma());
    plain_record connected;
    next.async_connect(server.local_endpoint(), connected.handler());
    if (!run_until(io, [&] { return connected.done(); }) || connected.ec)
      return false;
    record<std::int32_t> called;
    next.async_call<add>({1, 2}, called.handler());
    return run_until(io, [&] { return called.done(); }) && !called.ec && called.value() == 3;
  }

  static rdma::rpc::call_options patience() { return {.timeout = std::chrono::seconds(1)}; }
  [[nodiscard]] std::vector<asio::ip::tcp::endpoint> servers() const
  {
    const spared_faults own;
    return {server.local_endpoint()};
  }
  static rdma::rpc::client_pool_options by_pool()
  {
    rdma::rpc::client_pool_options options;
    options.client = by_rdma();
    options.backoff_min = std::chrono::milliseconds(1);
    options.backoff_max = std::chrono::milliseconds(10);
    return options;
  }
  static rdma::rpc::client_options by_rdma() { return client_by(rdma::stream_transports::rdma); }

  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  rdma::rpc::server server{io, far_context, {asio::ip::address_v4::loopback(), 0},
    served_by(rdma::stream_transports::rdma)};
  rdma::registered_buffer room = far_context.allocate(200'000);
  std::optional<rdma::rpc::client> client;
  std::optional<rdma::rpc::client_pool> pool;
};

} // namespace

namespace {

using total = rdma::rpc::method<"total/1", std::uint64_t, std::uint64_t>;
using total_result = rdma::rpc::group_result<std::uint64_t>;

/// A group of three members.
struct group_round
{
  struct member
  {
    explicit member(asio::io_context& io)
      : context(make_context())
      , server(io, context, {asio::ip::address_v4::loopback(), 0},
          served_by(rdma::stream_transports::rdma))
    {
    }

    rdma::context context;
    rdma::rpc::server server;
    std::optional<rdma::rpc::group> group;
  };

  explicit group_round(rdma::rpc::group_options options = {})
  {
    options.client.stream.transports = rdma::stream_transports::rdma;
    std::vector<rdma::rpc::group::endpoint_type> endpoints;
    for (int i = 0; i != 3; ++i)
      endpoints.push_back(all.emplace_back(io).server.local_endpoint());
    for (std::uint32_t rank = 0; rank != all.size(); ++rank)
    {
      member& each = all[rank];
      each.group.emplace(each.server, each.context, endpoints, rank, options);
      each.group->handle<total>([rank](std::uint64_t n) { return n + rank; }, std::plus<>());
      each.server.start();
    }
    REQUIRE(serves_next());
  }

  void end() {}

  auto& broadcast(faulty_round& round, member& root, const rdma::const_buffer& exposed = {})
  {
    return round.start(
      [&](auto handler)
      {
        root.group->async_broadcast<total>(
          1, {.timeout = std::chrono::milliseconds(300), .exposed = exposed}, handler);
      },
      [](const total_result&) {});
  }

  // On a busy machine a living member may be found to have failed, until it objects.
  [[nodiscard]] bool serves_next()
  {
    const auto limit = std::chrono::steady_clock::now() + patience;
    const auto all_live = [&]
    {
      return std::ranges::all_of(
        all, [](const member& each) { return each.group->membership().failed.empty(); });
    };
    while (std::chrono::steady_clock::now() < limit)
      if (run_until(io, all_live) && all_answer())
        return true;
    return false;
  }

  [[nodiscard]] bool all_answer()
  {
    record<total_result> called;
    all[0].group->async_broadcast<total>(1, {.timeout = std::chrono::seconds(1)}, called.handler());
    return run_until(io, [&] { return called.done(); }) && !called.ec
      && called.value().missing.empty() && called.value().reply == 6;
  }

  asio::io_context io;
  std::deque<member> all;
};

struct calling_group : group_round
{
  using group_round::group_round;

  void run(faulty_round& round)
  {
    for (auto& each : all)
      round.await(broadcast(round, each));
  }
};

struct exposing_to_group : group_round
{
  void run(faulty_round& round) { round.await(broadcast(round, all[0], content)); }

  const rdma::registered_buffer content = all[0].context.allocate(200'000);
};

struct meeting : group_round
{
  void run(faulty_round& round)
  {
    const auto enter = [&round](member& each) -> auto&
    {
      return round.start([&](auto handler)
        { each.group->async_barrier({.timeout = std::chrono::milliseconds(300)}, handler); });
    };
    const auto& first = enter(all[0]);
    const auto& second = enter(all[1]);
    const auto& third = enter(all[2]);
    round.await(first, second, third);
  }
};

/// Members that probe each other. Those that are found to have failed, because they have no memory
/// for an answer, are found to live afterwards.
struct gossiping_group : calling_group
{
  gossiping_group()
    : calling_group(probing())
  {
  }

  static rdma::rpc::group_options probing()
  {
    rdma::rpc::group_options options;
    options.probe_period = period;
    options.suspicion_time = std::chrono::seconds(2); // a slow machine is no failure
    return options;
  }

  void run(faulty_round& round)
  {
    const std::uint64_t known = version();
    asio::cancellation_signal enough;
    asio::steady_timer two_periods(io, 2 * period);
    const auto& change = round.start(
      [&](auto handler) {
        all[0].group->async_wait_change(
          known, asio::bind_cancellation_slot(enough.slot(), handler));
      });
    calling_group::run(round);
    round.await(round.start([&](auto handler) { two_periods.async_wait(handler); }));
    enough.emit(asio::cancellation_type::terminal);
    round.await(change);
  }

private:
  static constexpr std::chrono::milliseconds period{20};

  [[nodiscard]] std::uint64_t version() const
  {
    const spared_faults own; // it copies lists
    return all[0].group->membership().version;
  }
};

struct calling : rpc_round
{
  void run(faulty_round& round)
  {
    if (connects(round))
      round.await(add_numbers(round));
  }
};

/// A server that shuts down during a call.
struct shutting_down : rpc_round
{
  void run(faulty_round& round)
  {
    if (!round.make([&] { make(); }) || !connects(round, *ending))
      return;
    round.await(add_numbers(round));
    const auto& called = add_numbers(round);
    const auto& shut = round.start([&](auto handler) { ending->async_shutdown(handler); });
    round.await(called, shut);
  }

  void make()
  {
    ending.emplace(io, far_context, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0),
      served_by(rdma::stream_transports::rdma));
    ending->handle<add>([](const numbers& n) { return n.a + n.b; });
    ending->start();
  }

  void end()
  {
    rpc_round::end();
    ending.reset();
  }

  std::optional<rdma::rpc::server> ending;
};

struct exposing : rpc_round
{
  void run(faulty_round& round)
  {
    if (!connects(round))
      return;
    expose(round, rdma::const_buffer(registered));
    expose(round, rdma::const_buffer(asio::buffer(plain)));
  }

  const rdma::registered_buffer registered = near_context.allocate(200'000);
  const std::string plain = std::string(200'000, 'x');
};

struct calling_by_pool : rpc_round
{
  void run(faulty_round& round) { call_by_pool(round); }
};

} // namespace

TEST_CASE("calls of methods while allocations fail end once")
{
  with_failing_allocations<calling>();
}

TEST_CASE("calls of methods while system calls fail end once")
{
  with_failing_calls<calling>();
}

TEST_CASE("servers that shut down while allocations fail end calls and the shutdown once")
{
  with_failing_allocations<shutting_down>();
}

TEST_CASE("servers that shut down while system calls fail end calls and the shutdown once")
{
  with_failing_calls<shutting_down>();
}

TEST_CASE("calls that expose memory while allocations fail end once")
{
  with_failing_allocations<exposing>();
}

TEST_CASE("calls that expose memory while system calls fail end once")
{
  with_failing_calls<exposing>();
}

TEST_CASE("calls by a pool while allocations fail end once")
{
  with_failing_allocations<calling_by_pool>();
}

TEST_CASE("calls by a pool while system calls fail end once")
{
  with_failing_calls<calling_by_pool>();
}

TEST_CASE("calls can be closed without memory")
{
  const std::size_t step = exhaustive() ? 1 : 40;
  const auto seed = std::random_device()();
  std::minstd_rand random(seed);
  for (std::size_t n = 0; n < 400; n += std::uniform_int_distribution<std::size_t>(1, step)(random))
  {
    CAPTURE(n, seed);
    auto f = std::make_unique<rpc_round>();
    const auto mark = std::make_shared<int>();
    const auto call_each = [&f, &mark]
    {
      for (int i = 0; i != 3; ++i)
      {
        f->pool->async_call<add>({1, 2}, [mark](error_code, std::int32_t) {});
        f->client->async_call<add>({1, 2}, [mark](error_code, std::int32_t) {});
      }
    };
    f->pool.emplace(f->io, f->near_context, f->servers(), rpc_round::by_pool());
    f->client.emplace(f->io, f->near_context, rpc_round::by_rdma());
    plain_record connected;
    f->client->async_connect(f->server.local_endpoint(), connected.handler());
    REQUIRE(run_until(f->io, [&] { return connected.done(); }));
    failing_allocations failures(n, true);
    try
    {
      call_each();
      f->io.restart();
      f->io.run_for(std::chrono::milliseconds(20));
    }
    catch (const std::bad_alloc&)
    {
    }
    f->pool.reset();
    f->client.reset();
    f->server.close();
    failures.stop();
    f.reset(); // what waits for memory is not retried yet
    CHECK(mark.use_count() == 1);
  }
}

TEST_CASE("calls to a group while allocations fail end once")
{
  with_failing_allocations<calling_group>();
}

TEST_CASE("calls to a group while system calls fail end once")
{
  with_failing_calls<calling_group>();
}

TEST_CASE("calls to a group that expose memory while allocations fail end once")
{
  with_failing_allocations<exposing_to_group>();
}

TEST_CASE("calls to a group that expose memory while system calls fail end once")
{
  with_failing_calls<exposing_to_group>();
}

TEST_CASE("gossip of a group while allocations fail names no living member for long")
{
  with_failing_allocations<gossiping_group>();
}

TEST_CASE("gossip of a group while system calls fail names no living member for long")
{
  with_failing_calls<gossiping_group>();
}

TEST_CASE("barriers of a group while allocations fail end once")
{
  with_failing_allocations<meeting>();
}

TEST_CASE("barriers of a group while system calls fail end once")
{
  with_failing_calls<meeting>();
}
