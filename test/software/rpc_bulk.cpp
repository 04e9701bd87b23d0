//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/rpc_fixture.hpp"

#include <boost_rdma/error.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace test::rpc_bulk {

// Tests transfers between a server and the memory that calls expose.

namespace {

namespace rpc = rdma::rpc;
using namespace std::chrono_literals;
using rdma::access;

constexpr access both_rights = access::remote_read | access::remote_write;

/// The reply is the number of bytes.
using store = rpc::method<"store/1", rpc::nothing, std::uint64_t>;
/// The request is an offset.
using load = rpc::method<"load/1", std::uint64_t, std::uint64_t>;
/// The handler does what the test wants.
using custom = rpc::method<"custom/1", std::uint64_t, std::uint64_t>;

std::string pattern(std::size_t size)
{
  std::string made(size, ' ');
  for (std::size_t i = 0; i != size; ++i)
    made[i] = static_cast<char>(i * 7 + (i >> 8));
  return made;
}

/// Memory of a program: of a context's pool, or plain.
struct memory
{
  memory(const rdma::context& by, bool registered, const std::string& content)
    : plain(content)
  {
    if (!registered)
      return;
    block = by.allocate(content.size());
    std::memcpy(block.data(), content.data(), content.size());
  }

  [[nodiscard]] rdma::mutable_buffer buffer()
  {
    return block.size() != 0 ? rdma::mutable_buffer(block)
                             : rdma::mutable_buffer(asio::buffer(plain));
  }
  [[nodiscard]] std::string text()
  {
    return {static_cast<const char*>(buffer().data()), buffer().size()};
  }

  std::string plain;
  rdma::registered_buffer block;
};

/// Serves `store`, which reads the memory that the call exposes, and `load`, which writes to it.
struct storage
{
  explicit storage(rpc_pair& p, bool registered)
    : context(p.far_context)
    , is_registered(registered)
  {
    p.server.handle<store>(
      [this](rpc::nothing, rpc::call_info call) -> asio::awaitable<std::uint64_t>
      {
        std::uint64_t sum = 0;
        content.clear();
        for (std::size_t i = 0; i != call.exposed_count(); ++i)
        {
          const rpc::bulk from = call.exposed(i);
          memory room(context, is_registered, std::string(from.size(), '-'));
          sum += co_await from.async_pull(0, room.buffer(), asio::use_awaitable);
          content += room.text();
        }
        co_return sum;
      });
    p.server.handle<load>(
      [this](std::uint64_t offset, rpc::call_info call) -> asio::awaitable<std::uint64_t>
      {
        memory source(context, is_registered, content);
        co_return co_await call.exposed(0).async_push(offset, source.buffer(), asio::use_awaitable);
      });
  }

  rdma::context context;
  const bool is_registered;
  std::string content;
};

} // namespace

TEST_CASE("a handler reads and writes the memory that a call exposes")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  const bool registered = GENERATE(true, false);
  const std::size_t size = GENERATE(std::size_t{1}, std::size_t{4096}, std::size_t{4097},
    std::size_t{256 * 1024}, std::size_t{3'000'000});
  CAPTURE(registered, size);
  rpc_pair p(served_by(transports), client_by(transports));
  storage kept(p, registered);
  p.start();
  memory mine(p.near_context, registered, pattern(size));
  CHECK(p.call<store>({}, {.timeout = patience, .exposed = rpc::expose(mine.buffer())})
    == std::pair(error_code(), std::uint64_t{size}));
  CHECK((kept.content == pattern(size)));

  memory target(p.near_context, registered, std::string(size + 20, '-'));
  const auto exposed = rpc::expose(target.buffer(), access::remote_write);
  CHECK(p.call<load>(10, {.timeout = patience, .exposed = exposed})
    == std::pair(error_code(), std::uint64_t{size}));
  CHECK((target.text() == std::string(10, '-') + pattern(size) + std::string(10, '-')));
}

TEST_CASE("a call exposes several buffers, and a handler uses parts of them at the same time")
{
  using namespace asio::experimental::awaitable_operators;
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc_pair p(served_by(transports), client_by(transports));
  constexpr std::size_t parts = 40; // more than may be under way
  constexpr std::size_t part = 5000;
  p.server.handle<custom>(
    [&](std::uint64_t, rpc::call_info call) -> asio::awaitable<std::uint64_t>
    {
      const rpc::bulk from = call.exposed(0);
      const rpc::bulk to = call.exposed(1);
      CHECK(from.rights() == access::remote_read);
      CHECK(to.rights() == both_rights);
      memory room(p.far_context, true, std::string(part * parts, '-'));
      std::size_t ended = 0;
      for (std::size_t i = 0; i != parts; ++i)
        from.async_pull(i * part, room.buffer().slice(i * part, part),
          [&](const error_code& ec, std::size_t size)
          {
            CHECK(ec == error_code());
            CHECK(size == part);
            ++ended;
          });
      CHECK(ended == 0);
      asio::steady_timer turn(co_await asio::this_coro::executor);
      while (ended != parts)
      {
        turn.expires_after(1ms);
        co_await turn.async_wait(asio::use_awaitable);
      }
      co_await to.async_push(0, room.buffer(), asio::use_awaitable);
      std::string back(part, '-');
      co_await to.async_pull(part, rdma::mutable_buffer(asio::buffer(back)), asio::use_awaitable);
      CHECK((back == room.text().substr(part, part)));
      co_return call.exposed_count();
    });
  p.start();
  const bool registered = GENERATE(true, false);
  memory from(p.near_context, registered, pattern(part * parts));
  memory to(p.near_context, registered, std::string(part * parts, '+'));
  CHECK(p.call<custom>(0,
          {.timeout = patience,
            .exposed = {rpc::expose(from.buffer()), rpc::expose(to.buffer(), both_rights)}})
    == std::pair(error_code(), std::uint64_t{2}));
  CHECK((to.text() == from.text()));
}

TEST_CASE("a transfer outside of what the call exposes fails and disturbs nothing")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc_pair p(served_by(transports), client_by(transports));
  constexpr std::size_t size = 10'000;
  std::vector<error_code> results;
  p.server.handle<custom>(
    [&](std::uint64_t, rpc::call_info call) -> asio::awaitable<std::uint64_t>
    {
      constexpr auto token = asio::as_tuple(asio::use_awaitable);
      std::string room(size + 1, '-');
      const rdma::mutable_buffer all(asio::buffer(room));
      const rpc::bulk memory = call.exposed(0);
      const auto note = [&](auto result) { results.push_back(std::get<0>(result)); };
      note(co_await memory.async_pull(0, all, token));
      note(co_await memory.async_pull(size, all.first(1), token));
      note(co_await memory.async_pull(SIZE_MAX, all.first(2), token));
      note(co_await memory.async_push(0, all.first(1), token));
      note(co_await memory.async_pull(size - 1, all.first(1), token));
      co_return call.exposed(1).size(); // there is none
    });
  p.start();
  memory mine(p.near_context, GENERATE(true, false), pattern(size));
  const auto answer =
    p.call<custom>(0, {.timeout = patience, .exposed = rpc::expose(mine.buffer())});
  CHECK(answer.first == rdma::error::not_exposed);
  CHECK(results
    == std::vector<error_code>{rdma::error::out_of_range, rdma::error::out_of_range,
      rdma::error::out_of_range, rdma::error::remote_right_missing, {}});
  CHECK(p.call<custom>(0).first == rdma::error::not_exposed);
}

TEST_CASE("a coroutine exposes memory in the expression that calls")
{
  rpc_pair p;
  const storage kept(p, true);
  p.start();
  memory mine(p.near_context, true, pattern(5000));
  memory other(p.near_context, true, pattern(100));
  std::vector<std::uint64_t> sizes;
  const auto call = [&]() -> asio::awaitable<void>
  {
    sizes.push_back(co_await p.client.async_call<store>(
      {}, {.timeout = patience, .exposed = rpc::expose(mine.buffer())}, asio::use_awaitable));
    sizes.push_back(co_await p.client.async_call<store>({},
      {.exposed = {rpc::expose(mine.buffer()), rpc::expose(other.buffer())}}, asio::use_awaitable));
  };
  asio::co_spawn(p.io, call, asio::detached);
  REQUIRE(run_until(p.io, [&] { return sizes.size() == 2; }));
  CHECK(sizes == std::vector<std::uint64_t>{5000, 5100});
  CHECK((kept.content == pattern(5000) + pattern(100)));
}

TEST_CASE("what cannot be exposed is refused")
{
  rpc_pair p;
  const storage kept(p, true);
  p.start();
  std::string text = pattern(100);
  const rdma::mutable_buffer memory(asio::buffer(text));
  const auto call = [&](rpc::exposure_list exposed)
  { return p.call<store>({}, {.exposed = std::move(exposed)}).first; };
  rpc::exposure_list most;
  for (int i = 0; i != 16; ++i)
    most.add(rpc::expose(memory));
  CHECK(call(most) == error_code());
  most.add(rpc::expose(memory));
  CHECK(call(most) == asio::error::invalid_argument);
  CHECK(call({rpc::expose(memory.first(0))}) == asio::error::invalid_argument);
  CHECK(call({rpc::expose(memory, access::local_read)}) == asio::error::invalid_argument);
  CHECK(call({rpc::expose(memory, access::remote_atomic)}) == asio::error::invalid_argument);
  const rdma::memory_region region(
    p.near_context, 100'000, access::local_write | access::window_bind);
  CHECK(call({rpc::expose(region)}) == error_code());
  const rdma::memory_region unbound(p.near_context, 100'000, access::local_write);
  CHECK(call({rpc::expose(unbound)}) == error_code());
}

TEST_CASE("a call that is cancelled withdraws its memory before its handler runs")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  const bool registered = GENERATE(true, false);
  const bool transfers = GENERATE(true, false); // when the call is cancelled
  CAPTURE(registered, transfers);
  rpc_pair p(served_by(transports), client_by(transports));
  constexpr std::size_t size = 32 * 1024 * 1024;
  memory source(p.far_context, registered, std::string(size, 's'));
  std::optional<rpc::call_info> kept;
  std::optional<rpc::responder<custom>> answer;
  bytes_record pushed;
  p.server.handle<custom>(
    [&](std::uint64_t, const rpc::call_info& call, rpc::responder<custom> by)
    {
      kept = call;
      answer.emplace(std::move(by));
      if (transfers)
        call.exposed(0).async_push(0, source.buffer(), pushed.handler());
    });
  p.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  p.start();
  memory target(p.near_context, registered, std::string(size, '-'));
  asio::cancellation_signal cancel;
  record<std::uint64_t> r;
  p.client.async_call<custom>(0, {.exposed = rpc::expose(target.buffer(), access::remote_write)},
    asio::bind_cancellation_slot(cancel.slot(), r.handler()));
  REQUIRE(run_until(p.io, [&] { return answer.has_value(); }));
  cancel.emit(asio::cancellation_type::terminal);
  CHECK_FALSE(r.done());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
  const std::string after = target.text();
  if (transfers)
    REQUIRE(run_until(p.io, [&] { return pushed.done(); }));
  else
    CHECK((after == std::string(size, '-')));
  // A transfer that begins now does not find the memory.
  bytes_record late;
  kept->exposed(0).async_push(0, source.buffer(), late.handler());
  REQUIRE(run_until(p.io, [&] { return late.done(); }));
  CHECK(late.ec == asio::error::operation_aborted);
  CHECK((target.text() == after));
  answer->reply(1);
  // The connection goes on if the server has answered in time. If it has not, a call may be the
  // first to notice the end.
  const auto next = p.call<add>({1, 2});
  CHECK((next == std::pair(error_code(), 3) || !p.client.is_open()));
}

TEST_CASE("a call ends without a server that answers, and its memory is not accessed later")
{
  const bool closes = GENERATE(true, false);
  asio::io_context far_io;
  rdma::context far_context = make_context();
  rpc::server server(far_io, far_context, {asio::ip::address_v4::loopback(), 0});
  constexpr std::size_t size = 100'000;
  memory source(far_context, true, std::string(size, 's'));
  bytes_record pushed;
  std::optional<rpc::call_info> kept;
  std::optional<rpc::responder<custom>> answer;
  server.handle<custom>(
    [&](std::uint64_t, const rpc::call_info& call, rpc::responder<custom> by)
    {
      kept = call;
      answer.emplace(std::move(by));
    });
  server.start();
  asio::io_context io;
  rdma::context context = make_context();
  rpc::client client(io, context);
  plain_record connected;
  client.async_connect(server.local_endpoint(), connected.handler());
  REQUIRE(until(
    [&]
    {
      far_io.poll();
      io.poll();
      return connected.done();
    }));
  REQUIRE(connected.ec == error_code());
  memory target(context, true, std::string(size, '-'));
  record<std::uint64_t> r;
  client.async_call<custom>(0,
    {.timeout = closes ? 0ns : 50ms, .exposed = rpc::expose(target.buffer(), access::remote_write)},
    r.handler());
  REQUIRE(until(
    [&]
    {
      far_io.poll();
      io.poll();
      return answer.has_value() || r.done();
    }));
  if (closes)
    client.close();
  REQUIRE(run_until(io, [&] { return r.done(); })); // the server's program does not run
  CHECK((r.ec == asio::error::operation_aborted || r.ec == asio::error::timed_out));
  const bool pushes = kept.has_value(); // otherwise the call may still arrive
  if (pushes)
    kept->exposed(0).async_push(0, source.buffer(), pushed.handler());
  REQUIRE(until(
    [&]
    {
      far_io.poll();
      io.poll();
      return !pushes || pushed.done();
    }));
  CHECK((!pushes || pushed.ec != error_code()));
  CHECK((target.text() == std::string(size, '-')));
}

TEST_CASE("a handler that answers during a transfer aborts it")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc_pair p(served_by(transports), client_by(transports));
  constexpr std::size_t size = 32 * 1024 * 1024;
  memory room(p.far_context, true, std::string(size, '-'));
  std::vector<error_code> results;
  p.server.handle<custom>(
    [&](std::uint64_t, const rpc::call_info& call) -> std::uint64_t
    {
      const rpc::bulk from = call.exposed(0);
      for (std::size_t i = 0; i != 30; ++i)
        from.async_pull(
          0, room.buffer(), [&](const error_code& ec, std::size_t) { results.push_back(ec); });
      return 5;
    });
  p.start();
  memory mine(p.near_context, GENERATE(true, false), std::string(size, 's'));
  CHECK(p.call<custom>(0, {.timeout = patience, .exposed = rpc::expose(mine.buffer())})
    == std::pair(error_code(), std::uint64_t{5}));
  REQUIRE(run_until(p.io, [&] { return results.size() == 30; }));
  CHECK(std::ranges::count(results, error_code(asio::error::operation_aborted)) == 30);
  CHECK(p.client.is_open());
}

TEST_CASE("a transfer that is cancelled ends, and the call goes on")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc_pair p(served_by(transports), client_by(transports));
  constexpr std::size_t size = 32 * 1024 * 1024;
  memory room(p.far_context, true, std::string(size, '-'));
  bytes_record pulled;
  asio::cancellation_signal cancel;
  std::optional<rpc::responder<custom>> answer;
  p.server.handle<custom>(
    [&](std::uint64_t, const rpc::call_info& call, rpc::responder<custom> by)
    {
      answer.emplace(std::move(by));
      call.exposed(0).async_pull(
        0, room.buffer(), asio::bind_cancellation_slot(cancel.slot(), pulled.handler()));
      cancel.emit(asio::cancellation_type::terminal);
      CHECK_FALSE(pulled.done());
    });
  p.start();
  memory mine(p.near_context, true, std::string(size, 's'));
  record<std::uint64_t> r;
  p.client.async_call<custom>(0, {.exposed = rpc::expose(mine.buffer())}, r.handler());
  REQUIRE(run_until(p.io, [&] { return pulled.done(); }));
  CHECK(pulled.ec == asio::error::operation_aborted);
  CHECK_FALSE(r.done());
  answer->reply(3);
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
}

TEST_CASE("calls that are cancelled at any point end once and keep no memory")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc_pair p(served_by(transports), client_by(transports));
  storage kept(p, true);
  p.start();
  memory mine(p.near_context, true, pattern(300'000));
  std::optional<rpc::client> next;
  rpc::client* client = &p.client;
  const std::size_t calls = 200;
  std::size_t ended = 0;
  for (std::size_t i = 0; i != calls; ++i)
  {
    if (!client->is_open()) // the server was too slow
    {
      next.emplace(p.io, p.near_context, client_by(transports));
      client = &*next;
      REQUIRE(p.connect(*client) == error_code());
    }
    std::size_t turns = 0;
    bool done = false;
    asio::cancellation_signal cancel;
    client->async_call<store>({}, {.exposed = rpc::expose(mine.buffer())},
      asio::bind_cancellation_slot(cancel.slot(),
        [&](const error_code& ec, std::uint64_t size)
        {
          CHECK_FALSE(std::exchange(done, true));
          ++ended;
          if (!ec)
            CHECK(size == 300'000);
        }));
    REQUIRE(run_until(p.io, [&] { return done || turns++ >= i % 20; }));
    if (!done)
      cancel.emit(asio::cancellation_type::terminal);
    REQUIRE(run_until(p.io, [&] { return done; }));
  }
  CHECK(ended == calls);
}

TEST_CASE("an io_context is destroyed while a call exposes memory")
{
  std::optional<rpc_pair> p;
  p.emplace();
  std::optional<rpc::responder<custom>> answer;
  memory room(p->far_context, true, std::string(5'000'000, '-'));
  p->server.handle<custom>(
    [&](std::uint64_t, const rpc::call_info& call, rpc::responder<custom> by)
    {
      answer.emplace(std::move(by));
      call.exposed(0).async_pull(0, room.buffer(), [](const error_code&, std::size_t) {});
    });
  p->start();
  memory mine(p->near_context, GENERATE(true, false), std::string(5'000'000, 's'));
  const auto alive = std::make_shared<int>(0);
  p->client.async_call<custom>(
    0, {.exposed = rpc::expose(mine.buffer())}, [alive](const error_code&, std::uint64_t) {});
  REQUIRE(run_until(p->io, [&] { return answer.has_value(); }));
  answer.reset();
  p.reset();
}

} // namespace test::rpc_bulk
