//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/flow_fsm.hpp"
#include "rpc/message_reader.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/flow.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace test::rpc_flows {

// Tests calls with items: by clients and servers in one process, and by peers of bytes.

namespace {

namespace rpc = rdma::rpc;
namespace wire = rdma::detail::rpc;
using asio::ip::tcp;
using namespace std::chrono_literals;

/// The server sends the numbers below the request.
using count_to =
  rpc::streaming_method<"count/1", std::uint32_t, std::uint32_t, rpc::nothing, std::uint32_t>;
/// The server adds the client's numbers.
using total =
  rpc::streaming_method<"total/1", rpc::nothing, std::uint64_t, std::uint32_t, rpc::nothing>;
/// The server sends each text back.
using talk =
  rpc::streaming_method<"talk/1", rpc::nothing, std::uint32_t, std::string_view, std::string_view>;

using number_record = record<std::optional<std::uint32_t>>;
using text_record = record<std::optional<std::string>>;

asio::awaitable<std::uint32_t> count(std::uint32_t to, rpc::server_flow<count_to>& numbers)
{
  for (std::uint32_t i = 0; i != to; ++i)
    co_await numbers.async_write(i, asio::use_awaitable);
  co_return to;
}

asio::awaitable<std::uint64_t> add_all(rpc::nothing, rpc::server_flow<total>& numbers)
{
  std::uint64_t sum = 0;
  while (const auto each = co_await numbers.async_read(asio::use_awaitable))
    sum += *each;
  co_return sum;
}

asio::awaitable<std::uint32_t> repeat(rpc::nothing, rpc::server_flow<talk>& texts)
{
  std::uint32_t count = 0;
  while (const auto each = co_await texts.async_read(asio::use_awaitable))
  {
    co_await texts.async_write(*each, asio::use_awaitable);
    ++count;
  }
  co_return count;
}

// Handlers of `talk` that do what the test does with their flows, until the test lets them answer.
struct held_flows
{
  explicit held_flows(rpc::server& of)
  {
    of.handle<talk>(
      [this](rpc::nothing, rpc::server_flow<talk>& texts) -> asio::awaitable<std::uint32_t>
      {
        flow = &texts;
        asio::steady_timer wait(co_await asio::this_coro::executor, patience);
        answer = [&wait] { wait.cancel(); };
        const auto [ec] = co_await wait.async_wait(asio::as_tuple(asio::use_awaitable));
        CHECK(ec == asio::error::operation_aborted);
        flow = nullptr;
        const auto state = co_await asio::this_coro::cancellation_state;
        cancelled = state.cancelled() != asio::cancellation_type::none;
        co_return 7;
      });
  }

  rpc::server_flow<talk>* flow = nullptr;
  std::function<void()> answer;
  bool cancelled = false;
};

struct held_pair
  : rpc_pair
  , held_flows
{
  explicit held_pair(
    const rpc::server_options& server_options = {}, const rpc::client_options& client_options = {})
    : rpc_pair(server_options, client_options)
    , held_flows(server)
  {
    server.handle<add>([](const numbers& n) { return n.a + n.b; });
  }

  rpc::client_flow<talk> open(const rpc::call_options& options = {})
  {
    start();
    auto made = client.open<talk>({}, options);
    REQUIRE(run_until(io, [&] { return flow != nullptr; }));
    return made;
  }
};

template <class Flow>
auto read(asio::io_context& io, Flow& from)
{
  record<std::optional<typename Flow::read_type>> r;
  from.async_read(r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(io, [&] { return r.done(); }));
  return std::pair(r.ec, r.value());
}

template <class Flow>
error_code write(asio::io_context& io, Flow& to, const typename Flow::write_type& item)
{
  plain_record r;
  to.async_write(item, r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(io, [&] { return r.done(); }));
  return r.ec;
}

template <class Flow>
auto finish(asio::io_context& io, Flow& of)
{
  record<typename Flow::result_type> r;
  of.async_finish(r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(io, [&] { return r.done(); }));
  return std::pair(r.ec, r.value());
}

// Runs a coroutine and rethrows its exception.
template <class Coroutine>
void run(asio::io_context& io, Coroutine coroutine)
{
  bool done = false;
  std::exception_ptr thrown;
  asio::co_spawn(io, std::move(coroutine),
    [&](std::exception_ptr e)
    {
      done = true;
      thrown = std::move(e);
    });
  REQUIRE(run_until(io, [&] { return done; }));
  if (thrown)
    std::rethrow_exception(thrown);
}

// The bytes that a flow takes of the credit for a text.
std::size_t cost(std::string_view text)
{
  return wire::flow_fsm::cost(text.size());
}

} // namespace

TEST_CASE("a server sends items and then its reply")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc_pair p(served_by(transports), client_by(transports));
  p.server.handle<count_to>(count);
  p.start();
  auto numbers = p.client.open<count_to>(3);
  for (std::uint32_t i = 0; i != 3; ++i)
    CHECK(read(p.io, numbers) == std::pair(error_code(), std::optional(i)));
  CHECK(read(p.io, numbers) == std::pair(error_code(), std::optional<std::uint32_t>()));
  CHECK(read(p.io, numbers) == std::pair(error_code(), std::optional<std::uint32_t>()));
  CHECK(finish(p.io, numbers) == std::pair(error_code(), std::uint32_t{3}));
}

TEST_CASE("many items arrive at a slow reader, and other calls are answered meanwhile")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc::client_options options = client_by(transports);
  options.flow_bytes = 16 * 1024;
  constexpr std::uint32_t items = 5000; // six times the credit
  constexpr std::uint32_t at_once = 16 * 1024 / (16 + sizeof(std::uint32_t));
  rpc_pair p(served_by(transports), options);
  std::uint32_t sent = 0;
  p.server.handle<count_to>(
    [&](std::uint32_t to, rpc::server_flow<count_to>& numbers) -> asio::awaitable<std::uint32_t>
    {
      for (; sent != to; ++sent)
        co_await numbers.async_write(sent, asio::use_awaitable);
      co_return to;
    });
  p.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  p.start();
  auto numbers = p.client.open<count_to>(items);
  // Without a reader the server stops.
  REQUIRE(run_until(p.io, [&] { return sent == at_once; }));
  for (int i = 0; i != 20; ++i)
    REQUIRE(p.call<add>({i, 2}) == std::pair(error_code(), i + 2));
  CHECK(sent == at_once);
  std::uint32_t wrong = 0;
  std::uint32_t ahead = 0;
  run(p.io,
    [&]() -> asio::awaitable<void>
    {
      for (std::uint32_t i = 0; i != items; ++i)
      {
        const auto each = co_await numbers.async_read(asio::use_awaitable);
        wrong += each != i;
        ahead = std::max(ahead, sent - i);
        if (i % 1000 == 0)
        {
          const auto sum = co_await p.client.async_call<add>({1, 2}, asio::use_awaitable);
          wrong += sum != 3;
        }
      }
      const auto last = co_await numbers.async_read(asio::use_awaitable);
      wrong += last.has_value();
    });
  CHECK(wrong == 0);
  CHECK(ahead <= at_once + 2); // one that waits, and the one that was read
  CHECK(finish(p.io, numbers) == std::pair(error_code(), items));
}

TEST_CASE("a client sends items, ends them, and gets the reply")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc::server_options options = served_by(transports);
  options.flow_bytes = GENERATE(1024u, 256u * 1024);
  rpc_pair p(options, client_by(transports));
  p.server.handle<total>(add_all);
  p.start();
  auto numbers = p.client.open<total>({});
  std::uint64_t sum = 0;
  run(p.io,
    [&]() -> asio::awaitable<void>
    {
      for (std::uint32_t i = 0; i != 2000; ++i)
        co_await numbers.async_write(i, asio::use_awaitable);
      sum = co_await numbers.async_finish(asio::use_awaitable);
    });
  CHECK(sum == std::uint64_t{1999} * 2000 / 2);
  CHECK(write(p.io, numbers, 1) == asio::error::broken_pipe);
}

TEST_CASE("items go in both directions at the same time")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  rpc_pair p(served_by(transports), client_by(transports));
  p.server.handle<talk>(repeat);
  p.start();
  auto texts = p.client.open<talk>({});
  const std::vector<std::size_t> sizes{0, 1, 100, 70'000, 131'056, 5};
  bool written = false;
  asio::co_spawn(
    p.io,
    [&]() -> asio::awaitable<void>
    {
      for (int i = 0; i != 20; ++i)
        for (const std::size_t size : sizes)
        {
          const std::string text(size, static_cast<char>('a' + i));
          co_await texts.async_write(text, asio::use_awaitable);
        }
      texts.end_writing();
      written = true;
    },
    asio::detached);
  std::uint32_t wrong = 0;
  std::uint32_t reply = 0;
  run(p.io,
    [&]() -> asio::awaitable<void>
    {
      for (int i = 0; i != 20; ++i)
        for (const std::size_t size : sizes)
        {
          const auto each = co_await texts.async_read(asio::use_awaitable);
          wrong += each != std::string(size, static_cast<char>('a' + i));
        }
      const auto last = co_await texts.async_read(asio::use_awaitable);
      wrong += last.has_value();
      reply = co_await texts.async_finish(asio::use_awaitable);
    });
  CHECK(written);
  CHECK(wrong == 0);
  CHECK(reply == 20 * sizes.size());
}

TEST_CASE("a write waits for credit, and its value is not used any more")
{
  rpc::server_options options;
  options.flow_bytes = 1024;
  held_pair p(options);
  auto texts = p.open();
  const std::string text(300, 'x');
  std::size_t written = 0;
  for (; (written + 1) * cost(text) <= options.flow_bytes; ++written)
    CHECK(write(p.io, texts, text) == error_code());
  plain_record waits;
  {
    const std::string other(300, 'y');
    texts.async_write(other, waits.handler());
  }
  plain_record second;
  texts.async_write("z", second.handler());
  REQUIRE(run_until(p.io, [&] { return second.done(); }));
  CHECK(second.ec == asio::error::already_started);
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
  CHECK_FALSE(waits.done());
  asio::cancellation_signal unused;
  SECTION("until the other side reads")
  {
    texts.end_writing(); // follows the item that waits
    for (std::size_t i = 0; i != written; ++i)
      CHECK(read(p.io, *p.flow).second == text);
    CHECK(read(p.io, *p.flow).second == std::string(300, 'y'));
    REQUIRE(run_until(p.io, [&] { return waits.done(); }));
    CHECK(waits.ec == error_code());
    CHECK(read(p.io, *p.flow) == std::pair(error_code(), std::optional<std::string>()));
    CHECK(write(p.io, texts, "z") == asio::error::broken_pipe);
  }
  SECTION("or the operations are cancelled")
  {
    texts.cancel();
    REQUIRE(run_until(p.io, [&] { return waits.done(); }));
    CHECK(waits.ec == asio::error::operation_aborted);
    CHECK(texts.is_open());
    for (std::size_t i = 0; i != written; ++i)
      CHECK(read(p.io, *p.flow).second == text);
    CHECK(write(p.io, texts, "z") == error_code());
    CHECK(read(p.io, *p.flow).second == "z");
  }
  SECTION("or the server replies")
  {
    p.answer();
    REQUIRE(run_until(p.io, [&] { return waits.done(); }));
    CHECK(waits.ec == asio::error::broken_pipe);
    CHECK(finish(p.io, texts) == std::pair(error_code(), std::uint32_t{7}));
  }
  CHECK(waits.calls == 1);
}

TEST_CASE("single reads, writes and waits for the reply can be cancelled")
{
  rpc::server_options options;
  options.flow_bytes = 1024;
  held_pair p(options);
  auto texts = p.open();
  asio::cancellation_signal signal;
  SECTION("a read")
  {
    text_record r;
    texts.async_read(asio::bind_cancellation_slot(signal.slot(), r.handler()));
    signal.emit(asio::cancellation_type::total);
    CHECK_FALSE(r.done());
    REQUIRE(run_until(p.io, [&] { return r.done(); }));
    CHECK(r.ec == asio::error::operation_aborted);
    // The signal has no effect on the next one.
    text_record next;
    texts.async_read(next.handler());
    text_record second;
    texts.async_read(second.handler());
    signal.emit(asio::cancellation_type::total);
    CHECK(write(p.io, *p.flow, "one") == error_code());
    REQUIRE(run_until(p.io, [&] { return next.done() && second.done(); }));
    CHECK(next.value() == "one");
    CHECK(second.ec == asio::error::already_started);
  }
  SECTION("a write")
  {
    const std::string text(496, 'x');
    CHECK(write(p.io, texts, text) == error_code());
    CHECK(write(p.io, texts, text) == error_code());
    plain_record r;
    texts.async_write(text, asio::bind_cancellation_slot(signal.slot(), r.handler()));
    signal.emit(asio::cancellation_type::partial);
    REQUIRE(run_until(p.io, [&] { return r.done(); }));
    CHECK(r.ec == asio::error::operation_aborted);
    CHECK(read(p.io, *p.flow).second == text);
    CHECK(read(p.io, *p.flow).second == text);
    CHECK(write(p.io, texts, "next") == error_code());
    CHECK(read(p.io, *p.flow).second == "next");
  }
  SECTION("a wait for the reply")
  {
    record<std::uint32_t> r;
    texts.async_finish(asio::bind_cancellation_slot(signal.slot(), r.handler()));
    signal.emit(asio::cancellation_type::terminal);
    REQUIRE(run_until(p.io, [&] { return r.done(); }));
    CHECK(r.ec == asio::error::operation_aborted);
    record<std::uint32_t> again;
    texts.async_finish(again.handler());
    p.answer();
    REQUIRE(run_until(p.io, [&] { return again.done(); }));
    CHECK(again.ec == error_code());
    CHECK(again.value() == 7);
    CHECK_FALSE(p.cancelled);
  }
  SECTION("operations of the server")
  {
    text_record r;
    p.flow->async_read(asio::bind_cancellation_slot(signal.slot(), r.handler()));
    signal.emit(asio::cancellation_type::total);
    REQUIRE(run_until(p.io, [&] { return r.done(); }));
    CHECK(r.ec == asio::error::operation_aborted);
    CHECK(write(p.io, texts, "one") == error_code());
    CHECK(read(p.io, *p.flow).second == "one");
  }
}

TEST_CASE("waiting for the reply drops items that were not read")
{
  rpc::client_options options;
  options.flow_bytes = 1024;
  rpc_pair p({}, options);
  p.server.handle<count_to>(count);
  p.start();
  auto numbers = p.client.open<count_to>(500); // more than the credit
  CHECK(read(p.io, numbers).second == 0u);
  CHECK(finish(p.io, numbers) == std::pair(error_code(), std::uint32_t{500}));
  CHECK(read(p.io, numbers).first == asio::error::operation_aborted);
}

TEST_CASE("an outstanding read ends when the program waits for the reply")
{
  held_pair p;
  auto texts = p.open();
  text_record r;
  texts.async_read(r.handler());
  record<std::uint32_t> reply;
  texts.async_finish(reply.handler());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
  CHECK(read(p.io, *p.flow) == std::pair(error_code(), std::optional<std::string>()));
  p.answer();
  REQUIRE(run_until(p.io, [&] { return reply.done(); }));
  CHECK(reply.value() == 7);
}

TEST_CASE("all operations of a call with items end, each once")
{
  rpc::client_options client_options;
  client_options.flow_bytes = 1024;
  rpc::server_options server_options;
  server_options.flow_bytes = 1024;
  held_pair p(server_options, client_options);
  auto texts = p.open();
  const std::string text(496, 'x');
  for (int i = 0; i != 2; ++i)
  {
    plain_record to_server;
    plain_record to_client;
    texts.async_write(text, to_server.handler());
    p.flow->async_write(text, to_client.handler());
    REQUIRE(run_until(p.io, [&] { return to_server.done() && to_client.done(); }));
  }
  plain_record written;
  text_record seen;
  text_record at_server_read;
  // The client's items have arrived, and the server's, too, but the client reads all of them.
  CHECK(read(p.io, texts).second == text);
  CHECK(read(p.io, texts).second == text);
  CHECK(read(p.io, *p.flow).second == text);
  CHECK(read(p.io, *p.flow).second == text);
  texts.async_read(seen.handler());
  p.flow->async_read(at_server_read.handler());
  record<std::uint32_t> reply;
  error_code expected = asio::error::operation_aborted;
  SECTION("when the client's flow is closed")
  {
    texts.close();
    CHECK_FALSE(texts.is_open());
  }
  SECTION("when the client cancels all calls")
  {
    p.client.cancel();
  }
  SECTION("when the client closes")
  {
    p.client.close();
  }
  SECTION("when the client's flow is destroyed")
  {
    auto moved = std::move(texts);
  }
  SECTION("when the server closes")
  {
    p.server.close();
    expected = rdma::error::peer_closed;
  }
  REQUIRE(
    run_until(p.io, [&] { return seen.done() && at_server_read.done() && p.flow == nullptr; }));
  CHECK(seen.ec == expected);
  CHECK_FALSE(seen.value());
  CHECK(at_server_read.ec == asio::error::operation_aborted);
  CHECK(p.cancelled);
  texts.async_finish(reply.handler());
  texts.async_write(text, written.handler());
  REQUIRE(run_until(p.io, [&] { return reply.done() && written.done(); }));
  if (reply.ec != rdma::error::closed) // it was moved from
  {
    CHECK(reply.ec == expected);
    CHECK(written.ec == expected);
  }
  CHECK((seen.calls == 1 && at_server_read.calls == 1 && reply.calls == 1));
}

TEST_CASE("the operations of a call with items end at its deadline")
{
  held_pair p;
  p.start();
  auto texts = p.client.open<talk>({}, {.timeout = 20ms});
  text_record seen;
  texts.async_read(seen.handler());
  REQUIRE(run_until(p.io, [&] { return seen.done(); }));
  CHECK(seen.ec == asio::error::timed_out);
  CHECK(write(p.io, texts, "late") == asio::error::timed_out);
  CHECK(finish(p.io, texts).first == asio::error::timed_out);
  REQUIRE(run_until(p.io, [&] { return p.flow == nullptr; }));
}

TEST_CASE("the error of a handler follows the items that it has sent")
{
  rpc_pair p;
  p.server.handle<count_to>(
    [](std::uint32_t to, rpc::server_flow<count_to>& numbers) -> asio::awaitable<std::uint32_t>
    {
      for (std::uint32_t i = 0; i != to; ++i)
        co_await numbers.async_write(i, asio::use_awaitable);
      throw rdma::system_error(rdma::error::object_full);
    });
  p.start();
  auto numbers = p.client.open<count_to>(2);
  CHECK(read(p.io, numbers) == std::pair(error_code(), std::optional(std::uint32_t{0})));
  CHECK(read(p.io, numbers).second == 1u);
  CHECK(read(p.io, numbers).first == rdma::error::object_full);
  CHECK(finish(p.io, numbers).first == rdma::error::object_full);
}

TEST_CASE("an item of more than half of the credit is refused")
{
  rpc::client_options client_options;
  client_options.flow_bytes = 2048;
  rpc::server_options server_options;
  server_options.flow_bytes = 1024;
  held_pair p(server_options, client_options);
  auto texts = p.open();
  CHECK(write(p.io, texts, std::string(512 - 16, 'x')) == error_code());
  CHECK(write(p.io, texts, std::string(512 - 15, 'x')) == rdma::error::message_too_large);
  CHECK(read(p.io, *p.flow).second == std::string(512 - 16, 'x'));
  CHECK(write(p.io, *p.flow, std::string(1024 - 16, 'x')) == error_code());
  CHECK(write(p.io, *p.flow, std::string(1024 - 15, 'x')) == rdma::error::message_too_large);
  CHECK(read(p.io, texts).second == std::string(1024 - 16, 'x'));
}

TEST_CASE("errors of starting a call with items are those of its operations")
{
  rpc_pair p;
  p.server.handle<count_to>(count);
  {
    auto numbers = p.client.open<count_to>(1);
    CHECK(read(p.io, numbers).first == rdma::error::not_connected);
    CHECK(finish(p.io, numbers).first == rdma::error::not_connected);
  }
  p.start();
  auto unknown = p.client.open<total>({});
  CHECK(write(p.io, unknown, 1) == rdma::error::no_such_method);
  CHECK(finish(p.io, unknown).first == rdma::error::no_such_method);
  using other_items =
    rpc::streaming_method<"count/1", std::uint32_t, std::uint32_t, rpc::nothing, std::uint64_t>;
  using no_items = rpc::method<"count/1", std::uint32_t, std::uint32_t>;
  auto other = p.client.open<other_items>(1);
  CHECK(read(p.io, other).first == rdma::error::method_mismatch);
  CHECK(p.call<no_items>(1).first == rdma::error::method_mismatch);
  rpc::client gone(std::move(p.client));
  auto of_none = p.client.open<count_to>(1);
  CHECK(read(p.io, of_none).first == rdma::error::closed);
  CHECK(finish(p.io, of_none).first == rdma::error::closed);
}

TEST_CASE("calls with items wait for room in the client and in the server")
{
  rpc::client_options client_options;
  rpc::server_options server_options;
  SECTION("in the client")
  {
    client_options.calls = 1;
  }
  SECTION("in the server")
  {
    server_options.calls = 1;
  }
  held_pair p(server_options, client_options);
  p.server.handle<total>(add_all);
  auto texts = p.open();
  auto waiting = p.client.open<total>({});
  record<std::uint64_t> reply;
  waiting.async_finish(reply.handler()); // the end of the items follows the call
  auto third = p.client.open<total>({});
  plain_record written;
  third.async_write(5, written.handler());
  CHECK_FALSE(reply.done());
  p.answer();
  REQUIRE(run_until(p.io, [&] { return reply.done() && written.done(); }));
  CHECK(reply.ec == error_code());
  CHECK(reply.value() == 0);
  CHECK(finish(p.io, third) == std::pair(error_code(), std::uint64_t{5}));
}

TEST_CASE("a call with items is read although the requests of other handlers fill the server")
{
  rpc::server_options options;
  options.bytes = 1000;
  rpc_pair p(options);
  using keep =
    rpc::streaming_method<"keep/1", std::string_view, std::uint64_t, std::uint32_t, rpc::nothing>;
  p.server.handle<keep>(
    [](std::string_view, rpc::server_flow<keep>& numbers) -> asio::awaitable<std::uint64_t>
    {
      std::uint64_t sum = 0;
      while (const auto each = co_await numbers.async_read(asio::use_awaitable))
        sum += *each;
      co_return sum;
    });
  p.start();
  auto numbers = p.client.open<keep>(std::string(2000, 'x'));
  CHECK(write(p.io, numbers, 3) == error_code());
  CHECK(finish(p.io, numbers) == std::pair(error_code(), std::uint64_t{3}));
}

TEST_CASE("operations of items accept futures")
{
  rpc_pair p;
  p.server.handle<talk>(repeat);
  p.start();
  auto work = asio::make_work_guard(p.io);
  std::thread runs(
    [&]
    {
      p.io.restart();
      p.io.run();
    });
  // The client's own thread is the only one that uses it.
  auto texts = asio::co_spawn(
    p.io,
    [&]() -> asio::awaitable<std::unique_ptr<rpc::client_flow<talk>>>
    { co_return std::make_unique<rpc::client_flow<talk>>(p.client.open<talk>({})); },
    asio::use_future)
                 .get();
  texts->async_write("one", asio::use_future).get();
  const std::optional<std::string> item = texts->async_read(asio::use_future).get();
  const std::uint32_t reply = texts->async_finish(asio::use_future).get();
  work.reset();
  p.io.stop();
  runs.join();
  p.io.restart();
  CHECK(item == "one");
  CHECK(reply == 1);
}

TEST_CASE("a context can be destroyed while coroutines use items")
{
  std::optional<rpc_pair> p(std::in_place);
  p->server.handle<talk>(repeat);
  p->start();
  int read_items = 0;
  asio::co_spawn(
    p->io,
    [&]() -> asio::awaitable<void>
    {
      auto texts = p->client.open<talk>({});
      co_await texts.async_write("one", asio::use_awaitable);
      for (;;)
      {
        const auto each = co_await texts.async_read(asio::use_awaitable);
        ++read_items;
      }
    },
    asio::detached);
  REQUIRE(run_until(p->io, [&] { return read_items == 1; }));
  p.reset();
  CHECK(read_items == 1);
}

// --- peers of bytes ---

namespace {

std::vector<std::byte> bytes_of(
  wire::message_type type, std::uint32_t number, std::size_t content = 0, std::uint32_t detail = 0)
{
  wire::message m;
  m.type = type;
  m.number = number;
  m.detail = detail;
  if (type == wire::message_type::hello)
    m.selector = wire::message::version;
  std::vector<std::byte> bytes;
  const std::size_t at = wire::begin_message(bytes, m);
  bytes.resize(bytes.size() + content);
  wire::end_message(bytes, at);
  return bytes;
}

// A call of the first method, with this credit.
std::vector<std::byte> call(std::uint32_t number, std::uint32_t credit)
{
  wire::message m;
  m.type = wire::message_type::call;
  m.number = number;
  std::vector<std::byte> bytes;
  const std::size_t at = wire::begin_message(bytes, m);
  wire::append_first_credit(bytes, credit);
  wire::end_message(bytes, at);
  return bytes;
}

struct received_message
{
  wire::message head;
  std::size_t content;
};

// Reads messages from a socket.
struct raw_peer
{
  explicit raw_peer(asio::io_context& io)
    : socket(io)
  {
  }

  void send(const std::vector<std::byte>& bytes) { asio::write(socket, asio::buffer(bytes)); }

  void read()
  {
    socket.async_read_some(asio::buffer(some),
      [this](const error_code& ec, std::size_t size)
      {
        ended = ec.failed();
        if (ended)
          return;
        std::span<const std::byte> bytes = std::span(some).first(size);
        CHECK(reader.read(bytes,
          [this](const wire::message& m, const auto& content)
          {
            all.push_back({m, content.size()});
            return true;
          }));
        read();
      });
  }

  [[nodiscard]] std::size_t count(wire::message_type type) const
  {
    std::size_t result = 0;
    for (const received_message& each : all)
      result += each.head.type == type ? 1 : 0;
    return result;
  }

  tcp::socket socket;
  wire::message_reader reader{1024 * 1024};
  std::array<std::byte, 4096> some;
  std::vector<received_message> all;
  bool ended = false;
};

} // namespace

TEST_CASE("a client that breaks the rules of items is disconnected, and others are not")
{
  using wire::message_type;
  rpc::server_options options;
  options.flow_bytes = 1024;
  held_pair p(options);
  p.start();
  raw_peer raw(p.io);
  raw.socket.connect(p.server.local_endpoint());
  raw.send(bytes_of(message_type::hello, 0));
  raw.send(call(1, 1000));
  raw.read();
  REQUIRE(run_until(p.io, [&] { return p.flow != nullptr; }));
  REQUIRE(run_until(p.io, [&] { return raw.count(message_type::credit) == 1; }));
  bool is_refused = true;
  SECTION("an item of more than the credit")
  {
    raw.send(bytes_of(message_type::item, 1, 1024 - 15));
  }
  SECTION("many items of more than the credit")
  {
    for (int i = 0; i != 1024 / 16 + 1; ++i)
      raw.send(bytes_of(message_type::item, 1, 0));
  }
  SECTION("as many items as the credit permits")
  {
    for (int i = 0; i != 1024 / 16; ++i)
      raw.send(bytes_of(message_type::item, 1, 0));
    is_refused = false;
  }
  SECTION("an item behind the end")
  {
    raw.send(bytes_of(message_type::end_of_items, 1));
    raw.send(bytes_of(message_type::item, 1, 0));
  }
  SECTION("two ends")
  {
    raw.send(bytes_of(message_type::end_of_items, 1));
    raw.send(bytes_of(message_type::end_of_items, 1));
  }
  SECTION("more credit than a number can hold")
  {
    raw.send(bytes_of(message_type::credit, 1, 0, UINT32_MAX - 1000));
    raw.send(bytes_of(message_type::credit, 1, 0, 1));
  }
  SECTION("an item, credit and an end of a call that the server does not have")
  {
    raw.send(bytes_of(message_type::item, 77, 5000));
    raw.send(bytes_of(message_type::credit, 77, 0, 5));
    raw.send(bytes_of(message_type::end_of_items, 77));
    is_refused = false;
  }
  SECTION("items of a call that it has cancelled")
  {
    raw.send(bytes_of(message_type::cancel, 1));
    raw.send(bytes_of(message_type::item, 1, 100));
    is_refused = false;
  }
  if (is_refused)
  {
    REQUIRE(run_until(p.io, [&] { return raw.ended && p.flow == nullptr; }));
    CHECK(p.cancelled);
  }
  else
  {
    raw.send(call(2, 0));
    raw.send(bytes_of(message_type::call, 3)); // has no credit
    REQUIRE(run_until(p.io, [&] { return raw.count(message_type::failure) == 1; }));
    CHECK(raw.all.back().head.number == 3);
    CHECK_FALSE(raw.ended);
  }
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
}

TEST_CASE("a server keeps few items for a client that gives credit and does not read")
{
  rpc_pair p;
  std::size_t written = 0;
  const std::string text(60'000, 'x');
  using fill =
    rpc::streaming_method<"fill/1", rpc::nothing, rpc::nothing, rpc::nothing, std::string_view>;
  p.server.handle<fill>(
    [&](rpc::nothing, rpc::server_flow<fill>& texts) -> asio::awaitable<rpc::nothing>
    {
      for (;;)
      {
        co_await texts.async_write(text, asio::use_awaitable);
        written += text.size();
      }
    });
  p.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  p.start();
  raw_peer raw(p.io);
  raw.socket.open(tcp::v4());
  raw.socket.set_option(asio::socket_base::receive_buffer_size(4096));
  raw.socket.connect(p.server.local_endpoint());
  raw.send(bytes_of(wire::message_type::hello, 0));
  for (std::uint32_t i = 0; i != 100; ++i)
    raw.send(call(i, UINT32_MAX));
  // Nothing more is written when the sockets are full.
  std::size_t before = 0;
  int same = 0;
  while (same != 50)
  {
    before = written;
    REQUIRE(p.call<add>({1, 2}) == std::pair(error_code(), 3));
    same = written == before && written != 0 ? same + 1 : 0;
  }
  CHECK(written < 64u * 1024 * 1024);
  // It goes on when the client reads.
  raw.read();
  REQUIRE(run_until(p.io, [&] { return written > before + 10'000'000; }));
}

TEST_CASE("a server that breaks the rules of items loses its client")
{
  using wire::message_type;
  asio::io_context io;
  const rdma::context context = make_context();
  rpc::client_options options = client_by(rdma::stream_transports::tcp);
  options.flow_bytes = 1024;
  rpc::client client(io, context, options);
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  plain_record connected;
  client.async_connect(acceptor.local_endpoint(), connected.handler());
  raw_peer raw(io);
  acceptor.accept(raw.socket);
  std::vector<std::byte> hello = bytes_of(message_type::hello, 0);
  wire::append_method(hello, rpc::detail::description_of<talk>);
  wire::append_method(hello, rpc::detail::description_of<echo>);
  wire::end_message(hello, 0);
  raw.send(hello);
  raw.read();
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  auto texts = client.open<talk>({});
  record<std::string> other;
  client.async_call<echo>("", other.handler());
  REQUIRE(run_until(io, [&] { return raw.count(message_type::call) == 2; }));
  CHECK(raw.all[1].content == wire::first_credit_size);
  const std::uint32_t number = raw.all[1].head.number;
  bool is_refused = true;
  SECTION("an item of more than the credit")
  {
    raw.send(bytes_of(message_type::item, number, 1024 - 15));
  }
  SECTION("an item of a call without items")
  {
    raw.send(bytes_of(message_type::item, raw.all[2].head.number, 1));
  }
  SECTION("credit of a call without items")
  {
    raw.send(bytes_of(message_type::credit, raw.all[2].head.number, 0, 1));
  }
  SECTION("an end")
  {
    raw.send(bytes_of(message_type::end_of_items, number));
  }
  SECTION("items of a call that it does not have, and of one that has ended")
  {
    texts.close();
    REQUIRE(run_until(io, [&] { return raw.count(message_type::cancel) == 1; }));
    raw.send(bytes_of(message_type::item, number, 2000));
    raw.send(bytes_of(message_type::credit, number, 0, 7));
    raw.send(bytes_of(message_type::item, 12'345, 2000));
    is_refused = false;
  }
  if (is_refused)
  {
    CHECK(read(io, texts).first == rdma::error::malformed_message);
    REQUIRE(run_until(io, [&] { return other.done(); }));
    CHECK(other.ec == rdma::error::malformed_message);
  }
  else
  {
    raw.send(bytes_of(message_type::reply, raw.all[2].head.number));
    REQUIRE(run_until(io, [&] { return other.done(); }));
    CHECK(other.ec == error_code());
  }
}

TEST_CASE("items stop when the peer's connection is lost")
{
  held_pair p(served_by(rdma::stream_transports::tcp));
  p.start();
  raw_peer raw(p.io);
  raw.socket.connect(p.server.local_endpoint());
  raw.send(bytes_of(wire::message_type::hello, 0));
  raw.send(call(1, 1000));
  REQUIRE(run_until(p.io, [&] { return p.flow != nullptr; }));
  text_record r;
  p.flow->async_read(r.handler());
  plain_record written;
  p.flow->async_write(std::string(400, 'x'), written.handler());
  raw.socket.close();
  REQUIRE(run_until(p.io, [&] { return r.done() && p.flow == nullptr; }));
  CHECK(r.ec == asio::error::operation_aborted);
  CHECK(r.calls == 1);
  CHECK(written.calls == 1);
}

} // namespace test::rpc_flows
