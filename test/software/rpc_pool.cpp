//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/in_child.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/client_pool.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace test::rpc_pool {

// Tests pools of clients with servers that are overloaded, end, and come back.

namespace {

namespace rpc = rdma::rpc;
using asio::ip::tcp;
using namespace std::chrono_literals;

// The server that has answered.
using who = rpc::method<"who/1", rpc::nothing, std::int32_t>;
using refuse = rpc::method<"refuse/1", rpc::nothing, rpc::nothing>;

const tcp::endpoint any_port{asio::ip::address_v4::loopback(), 0};

// A server that ends and comes back on its port.
struct host
{
  host(asio::io_context& of, std::int32_t number, rpc::server_options how = {})
    : io(of)
    , id(number)
    , options(std::move(how))
    , port(of)
  {
    start();
  }

  void start()
  {
    server.emplace(io, context, endpoint, options);
    server->handle<who>([this](rpc::nothing) { return id; });
    server->handle<wait_for_test>([this](std::uint64_t number, rpc::responder<wait_for_test> answer)
      { waiting.emplace_back(number, std::move(answer)); });
    server->handle<refuse>(
      [this](rpc::nothing) -> rpc::nothing
      {
        ++refused;
        throw rdma::system_error(refused_with);
      });
    server->start();
  }

  void stop()
  {
    server.reset();
    waiting.clear();
  }

  void shut_down()
  {
    plain_record r;
    server->async_shutdown(r.handler());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    REQUIRE(r.ec == error_code());
    stop();
  }

  asio::io_context& io;
  std::int32_t id;
  rpc::server_options options;
  rdma::context context = make_context();
  const reserved_port port;
  const tcp::endpoint endpoint = port.endpoint();
  std::deque<std::pair<std::uint64_t, rpc::responder<wait_for_test>>> waiting;
  error_code refused_with = rdma::error::overloaded;
  int refused = 0;
  std::optional<rpc::server> server;
};

// Two servers and a pool, as on three hosts.
struct pool_and_hosts
{
  explicit pool_and_hosts(
    const rpc::client_pool_options& options = {}, const rpc::server_options& of_a = {})
    : a(io, 1, of_a)
    , b(io, 2)
    , pool(io, context, {a.endpoint, b.endpoint}, options)
  {
  }

  template <class Method>
  auto call(const typename Method::request_type& request, const rpc::call_options& options = {})
  {
    record<typename Method::result_type> r;
    pool.async_call<Method>(request, options, r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return std::pair(r.ec, r.value());
  }

  // Waits until calls reach this server.
  void reach(std::int32_t id)
  {
    REQUIRE(until([&] { return call<who>({}) == std::pair(error_code(), id); }));
  }
  void reach_both()
  {
    reach(1);
    reach(2);
  }

  asio::io_context io;
  rdma::context context = make_context();
  host a;
  host b;
  rpc::client_pool pool;
};

rpc::client_pool_options quick()
{
  rpc::client_pool_options options;
  options.backoff_min = 1ms;
  options.backoff_max = 10ms;
  return options;
}

} // namespace

TEST_CASE("a pool spreads outstanding calls over its servers")
{
  rpc::client_pool_options options;
  options.connections = GENERATE(1, 3);
  options.client.stream.transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  pool_and_hosts p(options);
  p.reach_both();
  const std::size_t each = options.connections * std::size_t{4};
  std::vector<record<std::uint64_t>> calls(each * 2);
  for (std::uint64_t i = 0; i != calls.size(); ++i)
    p.pool.async_call<wait_for_test>(i, calls[i].handler());
  REQUIRE(run_until(p.io, [&] { return p.a.waiting.size() + p.b.waiting.size() == calls.size(); }));
  // With several connections, some may still be opened.
  if (options.connections == 1)
    CHECK(p.a.waiting.size() == each);
  for (host* const by : {&p.a, &p.b})
    for (auto& [number, answer] : by->waiting)
      answer.reply(number * 10);
  for (std::uint64_t i = 0; i != calls.size(); ++i)
  {
    REQUIRE(run_until(p.io, [&] { return calls[i].done(); }));
    CHECK(calls[i].ec == error_code());
    CHECK(calls[i].value() == i * 10);
    CHECK(calls[i].calls == 1);
  }
}

TEST_CASE("when a server ends, idempotent calls go to another one, and the others fail")
{
  rpc::client_pool_options options = quick();
  options.client.stream.transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  pool_and_hosts p(options);
  p.reach_both();
  std::array<record<std::uint64_t>, 20> calls;
  for (std::uint64_t i = 0; i != calls.size(); ++i)
    p.pool.async_call<wait_for_test>(i, {.idempotent = i % 4 < 2}, calls[i].handler());
  REQUIRE(run_until(p.io, [&] { return p.a.waiting.size() + p.b.waiting.size() == calls.size(); }));
  REQUIRE(p.a.waiting.size() == 10);
  std::vector<std::uint64_t> lost;
  std::size_t repeated = 0;
  for (const auto& each : p.a.waiting)
    if (each.first % 4 < 2)
      ++repeated;
    else
      lost.push_back(each.first);
  p.a.stop();
  REQUIRE(run_until(p.io, [&] { return p.b.waiting.size() == 10 + repeated; }));
  for (const std::uint64_t each : lost)
  {
    REQUIRE(run_until(p.io, [&] { return calls[each].done(); }));
    CHECK(calls[each].ec == rdma::error::peer_closed);
  }
  CHECK(p.call<who>({}) == std::pair(error_code(), 2));
  for (auto& [number, answer] : p.b.waiting)
    answer.reply(number);
  REQUIRE(run_until(p.io,
    [&] { return std::ranges::all_of(calls, [](const auto& each) { return each.done(); }); }));
  for (std::uint64_t i = 0; i != calls.size(); ++i)
    CHECK((calls[i].ec == error_code()) == (std::ranges::find(lost, i) == lost.end()));
  // It comes back.
  p.a.start();
  p.reach(1);
  for (const auto& each : calls)
    CHECK(each.calls == 1);
}

TEST_CASE("a call goes to another server when one is overloaded")
{
  rpc::server_options limited;
  limited.calls = 1;
  limited.queue = 0;
  pool_and_hosts p({}, limited);
  p.reach_both();
  std::array<record<std::uint64_t>, 6> calls;
  for (std::uint64_t i = 0; i != calls.size(); ++i)
    p.pool.async_call<wait_for_test>(i, calls[i].handler());
  REQUIRE(run_until(p.io, [&] { return p.b.waiting.size() == calls.size() - 1; }));
  CHECK(p.a.waiting.size() == 1);
  for (const auto& each : calls)
    CHECK_FALSE(each.done());
}

TEST_CASE("a call fails with overloaded when all servers are")
{
  rpc::server_options limited;
  limited.calls = 1;
  limited.queue = 0;
  asio::io_context io;
  const rdma::context context = make_context();
  host a(io, 1, limited);
  rpc::client_pool pool(io, context, {a.endpoint});
  record<std::uint64_t> first;
  record<std::uint64_t> second;
  pool.async_call<wait_for_test>(1, first.handler());
  REQUIRE(run_until(io, [&] { return a.waiting.size() == 1; }));
  pool.async_call<wait_for_test>(2, second.handler());
  REQUIRE(run_until(io, [&] { return second.done(); }));
  CHECK(second.ec == rdma::error::overloaded);
  CHECK_FALSE(first.done());
  a.waiting[0].second.reply(7);
  REQUIRE(run_until(io, [&] { return first.done(); }));
  CHECK(first.value() == 7);
}

TEST_CASE("an error of a handler is a result and is not repeated")
{
  pool_and_hosts p;
  const error_code ec = GENERATE(
    error_code(rdma::error::overloaded), rdma::error::peer_closed, asio::error::connection_reset);
  p.a.refused_with = p.b.refused_with = ec;
  CHECK(p.call<refuse>({}, {.idempotent = true}).first == ec);
  CHECK(p.a.refused + p.b.refused == 1);
  CHECK(p.call<add>({1, 2}, {.idempotent = true}).first == rdma::error::no_such_method);
}

TEST_CASE("a server that shuts down gets no more calls, and answers those that it has")
{
  pool_and_hosts p(quick());
  p.reach_both();
  std::array<record<std::uint64_t>, 2> calls;
  for (std::uint64_t i = 0; i != calls.size(); ++i)
    p.pool.async_call<wait_for_test>(i, calls[i].handler());
  REQUIRE(run_until(p.io, [&] { return p.a.waiting.size() == 1 && p.b.waiting.size() == 1; }));
  plain_record shut;
  p.a.server->async_shutdown(shut.handler());
  // Also calls that the server refuses succeed, although they are not idempotent.
  for (int i = 0; i != 20; ++i)
    CHECK(p.call<who>({}) == std::pair(error_code(), 2));
  CHECK_FALSE(shut.done());
  for (host* const by : {&p.a, &p.b})
    by->waiting[0].second.reply(10);
  REQUIRE(run_until(p.io, [&] { return calls[0].done() && calls[1].done() && shut.done(); }));
  for (const auto& each : calls)
    CHECK(each.ec == error_code());
}

TEST_CASE("a pool without calls notices the end of a server before the next call")
{
  rpc::client_pool_options options = quick();
  options.client.stream.transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  pool_and_hosts p(options);
  p.reach_both();
  // By RDMA, the server's last message may still be under way.
  const rpc::call_options how{
    .idempotent = options.client.stream.transports != rdma::stream_transports::tcp};
  p.a.shut_down();
  for (int i = 0; i != 10; ++i)
    CHECK(p.call<who>({}, how) == std::pair(error_code(), 2));
  p.b.shut_down();
  p.b.start();
  CHECK(p.call<who>({}, how) == std::pair(error_code(), 2));
}

TEST_CASE("a call fails with the error of connecting when no server can be reached")
{
  asio::io_context io;
  const rdma::context context = make_context();
  rpc::client_pool_options options = quick();
  options.queue = 1;
  options.client.queue_pair.connect_timeout = 100ms;
  options.client.stream.transports = rdma::stream_transports::tcp;
  tcp::acceptor silent(io, any_port);
  const reserved_port nobody(io);
  const reserved_port nobody_either(io);
  const bool answers_never = GENERATE(false, true);
  const std::vector<tcp::endpoint> servers{
    nobody.endpoint(), answers_never ? silent.local_endpoint() : nobody_either.endpoint()};
  rpc::client_pool pool(io, context, servers, options);
  for (int i = 0; i != 3; ++i)
  {
    record<std::int32_t> r;
    record<std::int32_t> beyond;
    pool.async_call<who>({}, r.handler());
    pool.async_call<who>({}, beyond.handler());
    CHECK_FALSE(beyond.done());
    REQUIRE(run_until(io, [&] { return r.done() && beyond.done(); }));
    CHECK(beyond.ec == rdma::error::overloaded);
    CHECK((r.ec == asio::error::connection_refused || r.ec == rdma::error::handshake_timeout));
  }
}

TEST_CASE("a call that waits for a server gets it when it comes back")
{
  pool_and_hosts p(quick());
  p.reach_both();
  p.a.shut_down();
  p.b.shut_down();
  tcp::acceptor silent(p.io, p.b.endpoint);
  record<std::int32_t> r;
  p.pool.async_call<who>({}, {.idempotent = true}, r.handler());
  std::optional<tcp::socket> peer;
  silent.async_accept([&](const error_code&, tcp::socket s) { peer.emplace(std::move(s)); });
  REQUIRE(run_until(p.io, [&] { return peer.has_value(); }));
  CHECK_FALSE(r.done());
  p.a.start();
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
  CHECK(r.value() == 1);
}

TEST_CASE("a call that waits for a connection ends by its deadline, or when it is cancelled")
{
  asio::io_context io;
  const rdma::context context = make_context();
  tcp::acceptor silent(io, any_port);
  const reserved_port nobody(io);
  std::optional<rpc::client_pool> pool;
  pool.emplace(io, context, std::vector{silent.local_endpoint(), nobody.endpoint()});
  asio::cancellation_signal signal;
  record<std::int32_t> r;
  record<std::int32_t> other;
  pool->async_call<who>({}, asio::bind_cancellation_slot(signal.slot(), r.handler()));
  error_code expected = asio::error::operation_aborted;
  bool both = true;
  SECTION("by its slot")
  {
    pool->async_call<who>({}, other.handler());
    signal.emit(asio::cancellation_type::total);
    both = false;
  }
  SECTION("by cancel()")
  {
    pool->async_call<who>({}, other.handler());
    pool->cancel();
    CHECK(pool->is_open());
  }
  SECTION("by close()")
  {
    pool->async_call<who>({}, other.handler());
    pool->close();
    CHECK_FALSE(pool->is_open());
    record<std::int32_t> late;
    pool->async_call<who>({}, late.handler());
    REQUIRE(run_until(io, [&] { return late.done(); }));
    CHECK(late.ec == rdma::error::closed);
  }
  SECTION("by its destruction")
  {
    pool->async_call<who>({}, other.handler());
    pool.reset();
  }
  SECTION("by the deadline")
  {
    pool->async_call<who>({}, {.timeout = 20ms}, other.handler());
    REQUIRE(run_until(io, [&] { return other.done(); }));
    CHECK(other.ec == asio::error::timed_out);
    CHECK_FALSE(r.done());
    pool->cancel();
    both = false;
  }
  REQUIRE(run_until(io, [&] { return r.done() && (!both || other.done()); }));
  CHECK(r.ec == expected);
  if (both)
    CHECK(other.ec == expected);
  signal.emit(asio::cancellation_type::total); // has no effect any more
  pool.reset();
  CHECK(run_out(io));
  CHECK(r.calls == 1);
  CHECK(other.calls == 1);
}

TEST_CASE("a call that a server has ends by its deadline, or when it is cancelled")
{
  pool_and_hosts p;
  std::optional<rpc::client_pool> pool(std::move(p.pool));
  asio::cancellation_signal signal;
  record<std::uint64_t> r;
  error_code expected = asio::error::operation_aborted;
  rpc::call_options options{.idempotent = true};
  SECTION("by the deadline")
  {
    options.timeout = 20ms;
    expected = asio::error::timed_out;
  }
  const bool has_deadline = options.timeout.count() != 0;
  pool->async_call<wait_for_test>(
    1, options, asio::bind_cancellation_slot(signal.slot(), r.handler()));
  if (!has_deadline)
    REQUIRE(run_until(p.io, [&] { return p.a.waiting.size() + p.b.waiting.size() == 1; }));
  SECTION("by its slot")
  {
    signal.emit(asio::cancellation_type::partial);
  }
  SECTION("by cancel()")
  {
    pool->cancel();
  }
  SECTION("by close()")
  {
    pool->close();
  }
  SECTION("by its destruction")
  {
    pool.reset();
  }
  if (!has_deadline)
  {
    CHECK_FALSE(r.done());
    signal.emit(asio::cancellation_type::total); // the call has ended
  }
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == expected);
  CHECK(r.calls == 1);
  record<std::int32_t> moved_from;
  p.pool.async_call<who>({}, moved_from.handler());
  REQUIRE(run_until(p.io, [&] { return moved_from.done(); }));
  CHECK(moved_from.ec == rdma::error::closed);
}

TEST_CASE("a pool without calls closes its connections, and opens them for the next call")
{
  rpc::client_pool_options options;
  options.idle_timeout = 1ms;
  rpc::server_options one_client;
  one_client.clients = 1;
  asio::io_context io;
  const rdma::context context = make_context();
  host a(io, 1, one_client);
  rpc::client_pool pool(io, context, {a.endpoint}, options);
  for (int i = 0; i != 3; ++i)
  {
    // Until the server has noticed the end of the other client.
    REQUIRE(until(
      [&]
      {
        record<std::int32_t> r;
        pool.async_call<who>({}, {.timeout = patience, .idempotent = true}, r.handler());
        REQUIRE(run_until(io, [&] { return r.done(); }));
        return r.ec == error_code();
      }));
    // The server has room when the pool has left.
    std::optional<rpc::client> other;
    REQUIRE(until(
      [&]
      {
        other.emplace(io, context);
        plain_record connected;
        other->async_connect(a.endpoint, connected.handler());
        REQUIRE(run_until(io, [&] { return connected.done(); }));
        return connected.ec == error_code();
      }));
  }
}

TEST_CASE("a pool without calls does not keep its io_context running")
{
  pool_and_hosts p;
  asio::io_context io;
  rpc::client_pool pool(io, p.context, {p.a.endpoint, p.b.endpoint});
  record<std::int32_t> r;
  pool.async_call<who>({}, r.handler());
  REQUIRE(run_until(p.io, io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
  std::thread server([&] { static_cast<void>(run_until(p.io, [&] { return r.calls == 2; })); });
  CHECK(run_out(io));
  asio::post(p.io, [&] { r.calls = 2; });
  server.join();
}

TEST_CASE("calls through a pool can expose memory")
{
  using load = rpc::method<"load/1", rpc::nothing, std::string>;
  asio::io_context io;
  const rdma::context context = make_context();
  const rdma::context far_context = make_context();
  rpc::server server(io, far_context, any_port);
  server.handle<load>(
    [&](rpc::nothing, const rpc::call_info& call) -> asio::awaitable<std::string>
    {
      const rpc::bulk content = call.exposed(0);
      const rdma::registered_buffer room = far_context.allocate(content.size());
      co_await content.async_pull(0, room, asio::use_awaitable);
      co_return text_of(room);
    });
  server.start();
  rpc::client_pool pool(io, context, {server.local_endpoint()});
  const std::string text(100'000, 'x');
  const rdma::registered_buffer memory = buffer_of(context, text);
  record<std::string> r;
  pool.async_call<load>({}, {.exposed = rpc::expose(memory)}, r.handler());
  REQUIRE(run_until(io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
  CHECK((r.value() == text));
  record<std::string> wrong;
  pool.async_call<load>({}, {.exposed = rpc::expose(rdma::const_buffer())}, wrong.handler());
  REQUIRE(run_until(io, [&] { return wrong.done(); }));
  CHECK(wrong.ec == asio::error::invalid_argument);
}

TEST_CASE("a pool with options out of range is not made")
{
  asio::io_context io;
  const rdma::context context = make_context();
  std::vector<tcp::endpoint> servers{{asio::ip::address_v4::loopback(), 1}};
  rpc::client_pool_options options;
  SECTION("no servers")
  {
    servers.clear();
  }
  SECTION("no connections")
  {
    options.connections = 0;
  }
  SECTION("no attempts")
  {
    options.attempts = 0;
  }
  SECTION("no delay")
  {
    options.backoff_min = 0ms;
  }
  SECTION("the largest delay is less than the first")
  {
    options.backoff_max = options.backoff_min - 1ms;
  }
  SECTION("of the clients")
  {
    options.client.calls = 0;
  }
  CHECK_THROWS_AS(rpc::client_pool(io, context, servers, options), rdma::system_error);
}

TEST_CASE("a child of fork() cannot use a pool of its parent")
{
  BOOST_RDMA_TEST_FORKS();
  pool_and_hosts p;
  p.reach_both();
  CHECK(in_child(
          [&]
          {
            p.io.notify_fork(asio::io_context::fork_child);
            record<std::int32_t> r;
            p.pool.async_call<who>({}, r.handler());
            p.pool.cancel();
            p.pool.close();
            if (!run_until(p.io, [&] { return r.done(); }))
              return std::string("an operation did not complete");
            return r.ec == rdma::error::forked ? std::string() : r.ec.message();
          })
    == "");
  CHECK(p.call<who>({}).first == error_code());
}

TEST_CASE("a pool works while several threads run its io_context and a server restarts")
{
  asio::io_context io;
  const rdma::context context = make_context();
  const rdma::context far_context = make_context();
  struct site
  {
    site(asio::io_context& of, const rdma::context& by)
      : executor(asio::make_strand(of))
      , context(&by)
      , port(of)
    {
      start();
    }
    void start()
    {
      server.emplace(executor, *context, endpoint);
      server->handle<add>([](const numbers& n) { return n.a + n.b; });
      server->start();
    }
    asio::any_io_executor executor;
    const rdma::context* context;
    const reserved_port port;
    const tcp::endpoint endpoint = port.endpoint();
    std::optional<rpc::server> server;
  };
  site a(io, far_context);
  site b(io, far_context);
  rpc::client_pool_options options = quick();
  options.connections = 2;
  options.attempts = 10;
  std::optional<rpc::client_pool> pool;
  // With a strand, or an executor that runs on all threads.
  const asio::any_io_executor callers = asio::make_strand(io);
  const asio::any_io_executor of_pool = GENERATE(false, true) ? callers : io.get_executor();
  pool.emplace(of_pool, context, std::vector{a.endpoint, b.endpoint}, options);
  std::atomic<int> answered = 0;
  const auto use = [&]() -> asio::awaitable<int>
  {
    int right = 0;
    for (int i = 0; i != 200; ++i)
    {
      const rpc::call_options repeated{.timeout = patience, .idempotent = true};
      right += co_await pool->async_call<add>({i, 1}, repeated, asio::use_awaitable) == i + 1;
      const rpc::call_options short_of_time{.timeout = 100us};
      co_await pool->async_call<add>({i, 1}, short_of_time, asio::as_tuple(asio::use_awaitable));
      ++answered;
    }
    co_return right;
  };
  std::vector<std::future<int>> done;
  for (int i = 0; i != 8; ++i)
    done.push_back(asio::co_spawn(callers, use, asio::use_future));
  std::vector<std::thread> threads;
  for (int i = 0; i != 4; ++i)
    threads.emplace_back([&] { io.run(); });
  for (int i = 1; i != 6; ++i)
  {
    CHECK(until([&] { return answered >= i * 200; }));
    std::promise<void> restarted;
    asio::post(a.executor,
      [&]
      {
        a.server.reset();
        a.start();
        restarted.set_value();
      });
    CHECK(restarted.get_future().wait_for(patience) == std::future_status::ready);
  }
  std::vector<int> right;
  for (auto& each : done)
    right.push_back(each.wait_for(patience) == std::future_status::ready ? each.get() : -1);
  asio::post(callers, [&] { pool->close(); });
  for (site* const each : {&a, &b})
    asio::post(each->executor, [each] { each->server->close(); });
  for (std::thread& each : threads)
    each.join();
  CHECK(right == std::vector<int>(8, 200));
}

} // namespace test::rpc_pool
