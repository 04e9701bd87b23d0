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
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace test::rpc_calls {

// Tests calls of methods in one process. rpc_ends.cpp tests the ends of connections.

namespace {

namespace rpc = rdma::rpc;
using namespace std::chrono_literals;

std::int32_t sum(const numbers& n)
{
  return n.a + n.b;
}

// Keeps calls of wait_for_test, in the order of their arrival.
struct waiting_calls
{
  explicit waiting_calls(rpc::server& of)
  {
    of.handle<wait_for_test>([this](std::uint64_t number, rpc::responder<wait_for_test> answer)
      { all.emplace_back(number, std::move(answer)); });
  }

  std::deque<std::pair<std::uint64_t, rpc::responder<wait_for_test>>> all;
};

} // namespace

TEST_CASE("a method is called with its request and returns its reply")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc_pair p(served_by(transports), client_by(transports));
  p.server.handle<add>(sum);
  p.server.handle<echo>([](std::string_view text) { return text; });
  p.start();
  CHECK((p.client.transport().wire == rdma::wire::socket)
    == (transports == rdma::stream_transports::tcp));
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
  CHECK(p.call<add>({-5, 2}) == std::pair(error_code(), -3));
  for (const std::size_t size : {0, 1, 100, 5000, 300'000, 3'000'000})
  {
    CAPTURE(size);
    std::string text(size, 'x');
    for (std::size_t i = 0; i != size; ++i)
      text[i] = static_cast<char>('a' + i % 23);
    const auto [ec, reply] = p.call<echo>(text);
    CHECK(ec == error_code());
    CHECK((reply == text));
  }
}

TEST_CASE("a handler can be a coroutine or answer by a responder")
{
  rpc_pair p;
  p.server.handle<add>(
    [](const numbers& n, const rpc::call_info& info) -> asio::awaitable<std::int32_t>
    {
      CHECK(info.deadline() == std::chrono::steady_clock::time_point::max());
      co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
      co_return n.a + n.b;
    });
  p.server.handle<echo>(
    [](std::string_view text) -> asio::awaitable<std::string_view>
    {
      co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
      co_return text; // the request is still there
    });
  waiting_calls waiting(p.server);
  p.start();
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
  CHECK(p.call<echo>(std::string(1000, 'x')).second == std::string(1000, 'x'));
  record<std::uint64_t> first;
  record<std::uint64_t> second;
  p.client.async_call<wait_for_test>(1, first.handler());
  p.client.async_call<wait_for_test>(2, second.handler());
  REQUIRE(run_until(p.io, [&] { return waiting.all.size() == 2; }));
  SECTION("in any order")
  {
    waiting.all[1].second.reply(20);
    REQUIRE(run_until(p.io, [&] { return second.done(); }));
    CHECK_FALSE(first.done());
    waiting.all[0].second.reply(10);
    REQUIRE(run_until(p.io, [&] { return first.done(); }));
    CHECK(first.value() == 10);
    CHECK(second.value() == 20);
  }
  SECTION("with an error, or not at all")
  {
    waiting.all[0].second.fail(asio::error::access_denied);
    waiting.all.pop_back();
    REQUIRE(run_until(p.io, [&] { return first.done() && second.done(); }));
    CHECK(first.ec == asio::error::access_denied);
    CHECK(second.ec == rdma::error::call_failed);
  }
}

TEST_CASE("an exception of a handler fails the call and not the connection")
{
  rpc_pair p;
  const bool later = GENERATE(false, true);
  const auto fail = [](const numbers& n)
  {
    if (n.a == 0)
      throw rdma::system_error(rdma::error::object_full);
    if (n.a == 1)
      throw rdma::system_error(asio::error::access_denied);
    if (n.a == 2)
      throw std::runtime_error("of the test");
    return n.b;
  };
  if (later)
    p.server.handle<add>(
      [fail](const numbers& n) -> asio::awaitable<std::int32_t>
      {
        co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
        co_return fail(n);
      });
  else
    p.server.handle<add>(fail);
  p.start();
  CHECK(p.call<add>({0, 0}).first == rdma::error::object_full);
  CHECK(p.call<add>({1, 0}).first == asio::error::access_denied);
  CHECK(p.call<add>({2, 0}).first == rdma::error::call_failed);
  CHECK(p.call<add>({3, 7}) == std::pair(error_code(), 7));
}

TEST_CASE("a method that the server does not have, or has with other types, is not called")
{
  using other_request = rpc::method<"add/1", std::array<std::int16_t, 4>, std::int32_t>;
  using other_reply = rpc::method<"add/1", numbers, std::int64_t>;
  rpc_pair p;
  p.server.handle<add>(sum);
  p.start();
  CHECK(p.call<echo>("").first == rdma::error::no_such_method);
  CHECK(p.call<other_request>({}).first == rdma::error::method_mismatch);
  CHECK(p.call<other_reply>({}).first == rdma::error::method_mismatch);
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
}

TEST_CASE("sequences and values without content are requests and replies")
{
  using total = rpc::method<"total/1", std::span<const std::uint32_t>, std::uint64_t>;
  using count = rpc::method<"count/1", std::uint32_t, std::vector<std::uint32_t>>;
  using reset = rpc::method<"reset/1", rpc::nothing, rpc::nothing>;
  rpc_pair p;
  int resets = 0;
  p.server.handle<total>(
    [](std::span<const std::uint32_t> values)
    {
      std::uint64_t result = 0;
      for (const std::uint32_t each : values)
        result += each;
      return result;
    });
  p.server.handle<count>(
    [](std::uint32_t to)
    {
      std::vector<std::uint32_t> result(to);
      for (std::uint32_t i = 0; i != to; ++i)
        result[i] = i;
      return result;
    });
  p.server.handle<reset>(
    [&](rpc::nothing)
    {
      ++resets;
      return rpc::nothing();
    });
  p.start();
  const std::vector<std::uint32_t> values{1, 20, 300};
  CHECK(p.call<total>(values) == std::pair(error_code(), std::uint64_t{321}));
  CHECK(p.call<count>(3).second == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(p.call<count>(0).second.empty());
  CHECK(p.call<reset>({}).first == error_code());
  CHECK(resets == 1);
}

TEST_CASE("a call ends at its deadline, and the server's handler learns it")
{
  rpc_pair p;
  waiting_calls waiting(p.server);
  bool cancelled = false;
  std::optional<rpc::call_info> seen;
  p.server.handle<add>(
    [&](const numbers&, const rpc::call_info& info) -> asio::awaitable<std::int32_t>
    {
      seen = info;
      asio::steady_timer never(co_await asio::this_coro::executor, patience);
      try
      {
        co_await never.async_wait(asio::use_awaitable);
      }
      catch (const rdma::system_error&)
      {
        cancelled = true;
        throw;
      }
      co_return 0;
    });
  p.start();
  const auto before = std::chrono::steady_clock::now();
  CHECK(p.call<add>({}, {.timeout = 20ms}).first == asio::error::timed_out);
  CHECK(std::chrono::steady_clock::now() >= before + 20ms);
  REQUIRE(run_until(p.io, [&] { return cancelled; }));
  CHECK(seen->deadline() >= before);
  CHECK(seen->deadline() <= std::chrono::steady_clock::now() + 20ms);
  // The late reply is dropped, and belongs to no later call.
  CHECK(p.call<wait_for_test>(1, {.timeout = 5ms}).first == asio::error::timed_out);
  REQUIRE(run_until(p.io, [&] { return waiting.all.size() == 1; }));
  record<std::uint64_t> next;
  p.client.async_call<wait_for_test>(2, {.timeout = patience}, next.handler());
  waiting.all[0].second.reply(10);
  REQUIRE(run_until(p.io, [&] { return waiting.all.size() == 2; }));
  waiting.all[1].second.reply(20);
  REQUIRE(run_until(p.io, [&] { return next.done(); }));
  CHECK(next.ec == error_code());
  CHECK(next.value() == 20);
}

TEST_CASE("a handler learns the trace of its call")
{
  rpc_pair p;
  const auto trace =
    rpc::trace_context::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  REQUIRE(trace);
  std::vector<rpc::trace_context> seen;
  p.server.handle<add>(
    [&](const numbers& n, const rpc::call_info& info)
    {
      seen.push_back(info.trace());
      return n.a + n.b;
    });
  p.start();
  const rdma::registered_buffer memory = p.near_context.allocate(10'000);
  CHECK(p.call<add>({1, 2}, {.trace = *trace}).second == 3);
  CHECK(p.call<add>({1, 2}, {.exposed = rpc::expose(memory), .trace = *trace}).second == 3);
  CHECK(p.call<add>({1, 2}).second == 3);
  REQUIRE(seen.size() == 3);
  CHECK((seen[0] == *trace));
  CHECK((seen[1] == *trace));
  CHECK_FALSE(seen[2].is_valid());
}

TEST_CASE("a call that is cancelled ends at once")
{
  rpc_pair p;
  waiting_calls waiting(p.server);
  p.start();
  asio::cancellation_signal signal;
  record<std::uint64_t> cancelled;
  record<std::uint64_t> other;
  p.client.async_call<wait_for_test>(
    1, asio::bind_cancellation_slot(signal.slot(), cancelled.handler()));
  p.client.async_call<wait_for_test>(2, other.handler());
  SECTION("before the server has it") {}
  SECTION("while the server has it")
  {
    REQUIRE(run_until(p.io, [&] { return waiting.all.size() == 2; }));
  }
  signal.emit(asio::cancellation_type::total);
  CHECK_FALSE(cancelled.done());
  REQUIRE(run_until(p.io, [&] { return cancelled.done(); }));
  CHECK(cancelled.ec == asio::error::operation_aborted);
  signal.emit(asio::cancellation_type::total); // has no effect any more
  REQUIRE(run_until(p.io, [&] { return waiting.all.size() == 2; }));
  CHECK_FALSE(other.done());
  waiting.all[0].second.reply(1);
  waiting.all[1].second.reply(2);
  REQUIRE(run_until(p.io, [&] { return other.done(); }));
  CHECK(other.value() == 2);
  CHECK(cancelled.calls == 1);
}

TEST_CASE("calls beyond the client's limit wait, and those beyond its queue are refused")
{
  rpc::client_options options;
  options.calls = 2;
  options.queue = 1;
  rpc_pair p({}, options);
  waiting_calls waiting(p.server);
  p.start();
  std::array<record<std::uint64_t>, 4> calls;
  for (std::uint64_t i = 0; i != calls.size(); ++i)
    p.client.async_call<wait_for_test>(i, calls[i].handler());
  REQUIRE(run_until(p.io, [&] { return calls[3].done() && waiting.all.size() == 2; }));
  CHECK(calls[3].ec == rdma::error::overloaded);
  CHECK_FALSE(calls[2].done());
  waiting.all[1].second.reply(1);
  REQUIRE(run_until(p.io, [&] { return waiting.all.size() == 3; }));
  CHECK(waiting.all[2].first == 2);
  waiting.all[0].second.reply(0);
  waiting.all[2].second.reply(2);
  REQUIRE(run_until(p.io, [&] { return calls[0].done() && calls[1].done() && calls[2].done(); }));
  for (std::uint64_t i = 0; i != 3; ++i)
    CHECK(calls[i].value() == i);
}

TEST_CASE("the client's limit of bytes delays requests, but not a large one alone")
{
  rpc::client_options options;
  options.bytes = 1000;
  rpc_pair p({}, options);
  std::vector<rpc::responder<echo>> answers;
  std::vector<std::size_t> sizes;
  p.server.handle<echo>(
    [&](std::string_view text, rpc::responder<echo> answer)
    {
      sizes.push_back(text.size());
      answers.push_back(std::move(answer));
    });
  p.start();
  record<std::string> large;
  record<std::string> small;
  p.client.async_call<echo>(std::string(5000, 'x'), large.handler());
  p.client.async_call<echo>("y", small.handler());
  REQUIRE(run_until(p.io, [&] { return answers.size() == 1; }));
  CHECK(sizes == std::vector<std::size_t>{5000});
  answers[0].reply("large");
  REQUIRE(run_until(p.io, [&] { return answers.size() == 2; }));
  answers[1].reply("small");
  REQUIRE(run_until(p.io, [&] { return small.done(); }));
  CHECK(large.value() == "large");
  CHECK(small.value() == "small");
}

TEST_CASE(
  "calls beyond the server's limit wait, are refused beyond its queue, and can expire there")
{
  rpc::server_options options;
  options.calls = 1;
  options.queue = 2;
  rpc_pair p(options);
  waiting_calls waiting(p.server);
  p.start();
  std::array<record<std::uint64_t>, 4> calls;
  asio::cancellation_signal cancel;
  p.client.async_call<wait_for_test>(0, calls[0].handler());
  p.client.async_call<wait_for_test>(
    1, asio::bind_cancellation_slot(cancel.slot(), calls[1].handler()));
  p.client.async_call<wait_for_test>(2, calls[2].handler());
  p.client.async_call<wait_for_test>(3, calls[3].handler());
  REQUIRE(run_until(p.io, [&] { return calls[3].done(); }));
  CHECK(calls[3].ec == rdma::error::overloaded);
  cancel.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(p.io, [&] { return calls[1].done(); }));
  CHECK(waiting.all.size() == 1);
  // Requests of one client are taken in order: this one shows that the cancellation has arrived.
  record<std::uint64_t> last;
  p.client.async_call<wait_for_test>(4, last.handler());
  waiting.all[0].second.reply(0);
  REQUIRE(run_until(p.io, [&] { return waiting.all.size() == 2; }));
  CHECK(waiting.all[1].first == 2);
  waiting.all[1].second.reply(2);
  REQUIRE(run_until(p.io, [&] { return waiting.all.size() == 3; }));
  CHECK(waiting.all[2].first == 4);
  waiting.all[2].second.reply(4);
  REQUIRE(run_until(p.io, [&] { return last.done(); }));
  CHECK(calls[2].value() == 2);
}

TEST_CASE("many calls of several clients are all answered once")
{
  rpc_pair p;
  p.server.handle<add>(sum);
  p.start();
  constexpr int each = 2000;
  constexpr int at_once = 64;
  std::deque<rpc::client> clients;
  for (int i = 0; i != 4; ++i)
  {
    clients.emplace_back(p.io, p.near_context);
    REQUIRE(p.connect(clients.back()) == error_code());
  }
  int answered = 0;
  bool right = true;
  const auto caller = [&](rpc::client& by) -> asio::awaitable<void>
  {
    for (int i = 0; i != each / at_once; ++i)
    {
      right = co_await by.async_call<add>({i, answered}, asio::use_awaitable) >= i && right;
      ++answered;
    }
  };
  for (rpc::client& by : clients)
    for (int i = 0; i != at_once; ++i)
      asio::co_spawn(p.io, caller(by), asio::detached);
  REQUIRE(run_until(p.io, [&] { return answered == 4 * (each / at_once) * at_once; }));
  CHECK(right);
}

TEST_CASE("servers and clients work while several threads run their io_context")
{
  asio::io_context io;
  const rdma::context near_context = make_context();
  const rdma::context far_context = make_context();
  const asio::any_io_executor of_server = asio::make_strand(io);
  rpc::server server(of_server, far_context, {asio::ip::address_v4::loopback(), 0});
  server.handle<add>(sum);
  server.handle<echo>(
    [](std::string_view text) -> asio::awaitable<std::string>
    {
      co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
      co_return std::string(text);
    });
  server.start();
  const auto use = [&]() -> asio::awaitable<int>
  {
    rpc::client client(co_await asio::this_coro::executor, near_context);
    co_await client.async_connect(server.local_endpoint(), asio::use_awaitable);
    int right = 0;
    for (int i = 0; i != 200; ++i)
    {
      right += co_await client.async_call<add>({i, 1}, {.timeout = patience}, asio::use_awaitable)
        == i + 1;
      const std::string text(static_cast<std::size_t>(i) * 10, 'x');
      right += co_await client.async_call<echo>(text, asio::use_awaitable) == text;
      // Ends at its deadline or before.
      co_await client.async_call<add>(
        {i, 1}, {.timeout = 1us}, asio::as_tuple(asio::use_awaitable));
    }
    co_return right;
  };
  std::vector<std::future<int>> clients;
  for (int i = 0; i != 4; ++i)
    clients.push_back(asio::co_spawn(asio::make_strand(io), use, asio::use_future));
  std::vector<std::thread> threads;
  for (int i = 0; i != 4; ++i)
    threads.emplace_back([&] { io.run(); });
  std::vector<int> right;
  for (auto& each : clients)
    right.push_back(each.wait_for(patience) == std::future_status::ready ? each.get() : -1);
  asio::post(of_server, [&] { server.close(); });
  for (std::thread& each : threads)
    each.join();
  CHECK(right == std::vector<int>(4, 400));
}

TEST_CASE("a client without calls does not keep its io_context running")
{
  rpc_pair p;
  p.server.handle<add>(sum);
  asio::io_context io;
  rpc::client client(io, p.near_context);
  p.server.start();
  plain_record connected;
  client.async_connect(p.server.local_endpoint(), connected.handler());
  REQUIRE(run_until(p.io, io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  record<std::int32_t> r;
  client.async_call<add>({1, 2}, {.timeout = patience}, r.handler());
  REQUIRE(run_until(p.io, io, [&] { return r.done(); }));
  CHECK(run_out(io));
}

} // namespace test::rpc_calls
