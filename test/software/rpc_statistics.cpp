//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/message.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/error.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace test::rpc_statistics {

// Tests server.statistics().

namespace {

namespace rpc = rdma::rpc;
using namespace std::chrono_literals;

// A server of three methods: add and echo answer at once, wait_for_test when the test does.
struct counted_pair : rpc_pair
{
  explicit counted_pair(const rpc::server_options& options = {},
    rdma::stream_transports transports = rdma::stream_transports::rdma_or_tcp)
    : rpc_pair(options, client_by(transports))
  {
    server.handle<add>(
      [](const numbers& n)
      {
        if (n.a < 0)
          throw rdma::system_error(asio::error::access_denied);
        return n.a + n.b;
      });
    server.handle<echo>(
      [](std::string_view text) -> asio::awaitable<std::string_view>
      {
        co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
        co_return text;
      });
    server.handle<wait_for_test>([this](std::uint64_t, rpc::responder<wait_for_test> answer)
      { waiting.push_back(std::move(answer)); });
    start();
  }

  [[nodiscard]] rpc::method_statistics of(std::string_view name) const
  {
    for (const rpc::method_statistics& each : server.statistics().methods)
      if (each.name == name)
      {
        CHECK(each.arrived
          == each.in_flight + each.answered.count() + each.failed + each.refused + each.expired
            + each.cancelled);
        return each;
      }
    FAIL("no such method");
    std::abort();
  }

  std::deque<rpc::responder<wait_for_test>> waiting;
};

using wait_record = record<std::uint64_t>;

} // namespace

TEST_CASE("statistics of a server count calls that were answered and that failed")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  counted_pair p({}, transports);
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i != 10; ++i)
    CHECK(p.call<add>({1, i}).first == error_code());
  for (int i = 0; i != 3; ++i)
    CHECK(p.call<add>({-1, i}).first == asio::error::access_denied);
  for (int i = 0; i != 4; ++i)
    CHECK(p.call<echo>(std::string(1000, 'x'), {.timeout = patience}).first == error_code());
  const auto elapsed = std::chrono::steady_clock::now() - before;
  const rpc::server_statistics s = p.server.statistics();
  REQUIRE(s.methods.size() == 3);
  CHECK(s.methods[0].name == add::name);
  CHECK(s.methods[1].name == echo::name);
  CHECK(s.methods[2].name == wait_for_test::name);
  CHECK(s.methods[2].arrived == 0);
  CHECK(p.of(add::name).arrived == 13);
  CHECK(p.of(add::name).answered.count() == 10);
  CHECK(p.of(add::name).failed == 3);
  CHECK(p.of(echo::name).answered.count() == 4);
  CHECK(p.of(echo::name).arrived == 4);
  CHECK(p.of(add::name).answered.sum > 0ns);
  CHECK(p.of(add::name).answered.sum + p.of(echo::name).answered.sum <= elapsed);
}

TEST_CASE("the time of a call lasts from its arrival to its answer")
{
  counted_pair p;
  const auto before = std::chrono::steady_clock::now();
  wait_record r;
  p.client.async_call<wait_for_test>(1, r.handler());
  REQUIRE(run_until(p.io, [&] { return !p.waiting.empty(); }));
  const auto arrived = std::chrono::steady_clock::now();
  CHECK(p.of(wait_for_test::name).in_flight == 1);
  CHECK(p.call<add>({1, 2}).first == error_code()); // takes some time
  const auto answered = std::chrono::steady_clock::now();
  p.waiting[0].reply(1);
  const auto after = std::chrono::steady_clock::now();
  const rpc::method_statistics s = p.of(wait_for_test::name);
  CHECK(s.in_flight == 0);
  CHECK(s.answered.count() == 1);
  CHECK(s.answered.sum >= answered - arrived);
  CHECK(s.answered.sum <= after - before);
  for (std::size_t i = 0; i != s.answered.size; ++i)
    if (s.answered.counts[i] != 0)
    {
      CHECK(s.answered.sum <= s.answered.upper_bound(i));
      CHECK((i == 0 || s.answered.sum > s.answered.upper_bound(i - 1)));
    }
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
}

TEST_CASE("statistics of a server count calls that are refused, and those that are cancelled")
{
  rpc::server_options options;
  options.calls = 1;
  options.queue = 1;
  counted_pair p(options);
  asio::cancellation_signal cancel;
  std::array<wait_record, 3> calls;
  p.client.async_call<wait_for_test>(0, calls[0].handler());
  p.client.async_call<wait_for_test>(
    1, asio::bind_cancellation_slot(cancel.slot(), calls[1].handler()));
  p.client.async_call<wait_for_test>(2, calls[2].handler());
  REQUIRE(run_until(p.io, [&] { return calls[2].done(); }));
  CHECK(calls[2].ec == rdma::error::overloaded);
  CHECK(p.of(wait_for_test::name).arrived == 3);
  CHECK(p.of(wait_for_test::name).refused == 1);
  CHECK(p.of(wait_for_test::name).in_flight == 2);
  cancel.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(p.io, [&] { return p.of(wait_for_test::name).cancelled == 1; }));
  CHECK(p.of(wait_for_test::name).in_flight == 1);
  p.waiting[0].reply(0);
  REQUIRE(run_until(p.io, [&] { return calls[0].done() && calls[1].done(); }));
  CHECK(p.of(wait_for_test::name).answered.count() == 1);
  CHECK(p.of(wait_for_test::name).in_flight == 0);
}

TEST_CASE("statistics of a server count calls whose time is over before they are started")
{
  rpc::server_options options;
  options.calls = 1;
  counted_pair p(options);
  // The bytes of a client that does not cancel its calls.
  namespace wire = rdma::detail::rpc;
  std::vector<std::byte> bytes;
  const auto add_message = [&](const wire::message& m, std::size_t content)
  {
    const std::size_t at = wire::begin_message(bytes, m);
    bytes.resize(bytes.size() + content);
    wire::end_message(bytes, at);
  };
  wire::message m;
  m.type = wire::message_type::hello;
  m.selector = wire::message::version;
  add_message(m, 0);
  m.type = wire::message_type::call;
  m.selector = 2; // wait_for_test
  m.number = 1;
  add_message(m, sizeof(std::uint64_t));
  m.number = 2;
  m.detail = 1; // microsecond
  add_message(m, sizeof(std::uint64_t));
  asio::ip::tcp::socket socket(p.io);
  socket.connect(p.server.local_endpoint());
  asio::write(socket, asio::buffer(bytes));
  REQUIRE(run_until(p.io, [&] { return p.of(wait_for_test::name).arrived == 2; }));
  const auto over = std::chrono::steady_clock::now() + 1us;
  while (std::chrono::steady_clock::now() < over)
    ;
  p.waiting.at(0).reply(0);
  REQUIRE(run_until(p.io, [&] { return p.of(wait_for_test::name).expired == 1; }));
  CHECK(p.of(wait_for_test::name).in_flight == 0);
  CHECK(p.waiting.size() == 1);
}

TEST_CASE("statistics of a server count a call as cancelled while its handler goes on")
{
  counted_pair p;
  asio::cancellation_signal cancel;
  wait_record r;
  p.client.async_call<wait_for_test>(0, asio::bind_cancellation_slot(cancel.slot(), r.handler()));
  REQUIRE(run_until(p.io, [&] { return p.waiting.size() == 1; }));
  cancel.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(p.io, [&] { return p.of(wait_for_test::name).cancelled == 1; }));
  CHECK(p.of(wait_for_test::name).in_flight == 0);
  p.waiting[0].reply(0); // without effect
  CHECK(p.of(wait_for_test::name).cancelled == 1);
  CHECK(p.of(wait_for_test::name).answered.count() == 0);
}

TEST_CASE("statistics of a server count clients, and the calls that end with their connection")
{
  rpc::server_options options;
  options.clients = 2;
  counted_pair p(options);
  std::optional<rpc::client> second(std::in_place, p.io, p.near_context);
  REQUIRE(p.connect(*second) == error_code());
  CHECK(p.server.statistics().clients == 2);
  CHECK(p.server.statistics().clients_total == 2);
  rpc::client third(p.io, p.near_context);
  CHECK(p.connect(third) != error_code());
  CHECK(p.server.statistics().clients_refused == 1);

  wait_record first;
  wait_record other;
  second->async_call<wait_for_test>(1, other.handler());
  p.client.async_call<wait_for_test>(2, first.handler());
  REQUIRE(run_until(p.io, [&] { return p.waiting.size() == 2; }));
  second.reset();
  REQUIRE(run_until(p.io, [&] { return p.server.statistics().clients == 1; }));
  CHECK(p.of(wait_for_test::name).cancelled == 1);
  CHECK(p.of(wait_for_test::name).in_flight == 1);
  p.server.close();
  REQUIRE(run_until(p.io, [&] { return first.done() && other.done(); }));
  const rpc::server_statistics s = p.server.statistics();
  CHECK(s.clients == 0);
  CHECK(s.clients_total == 2);
  CHECK(p.of(wait_for_test::name).cancelled == 2);
  CHECK(p.of(wait_for_test::name).in_flight == 0);
}

TEST_CASE("statistics of a server count the calls that a shutdown refuses")
{
  counted_pair p;
  wait_record waits;
  p.client.async_call<wait_for_test>(1, waits.handler());
  REQUIRE(run_until(p.io, [&] { return p.waiting.size() == 1; }));
  record<std::int32_t> late;
  p.client.async_call<add>({1, 2}, late.handler()); // leaves before the client learns it
  plain_record ended;
  p.server.async_shutdown(ended.handler());
  REQUIRE(run_until(p.io, [&] { return late.done(); }));
  CHECK(late.ec == rdma::error::peer_closed);
  REQUIRE(run_until(p.io, [&] { return p.of(add::name).refused == 1; }));
  p.waiting[0].reply(1);
  REQUIRE(run_until(p.io, [&] { return ended.done() && waits.done(); }));
  CHECK(p.of(wait_for_test::name).answered.count() == 1);
  CHECK(p.server.statistics().clients == 0);
}

TEST_CASE("statistics of a server can be taken while another thread serves calls")
{
  counted_pair p;
  std::atomic<bool> done{false};
  std::thread reader(
    [&]
    {
      for (std::uint64_t last = 0; !done;)
      {
        const rpc::method_statistics s = p.server.statistics().methods.at(0);
        if (s.arrived < last || s.in_flight > s.arrived)
          std::abort();
        last = s.arrived;
      }
    });
  for (int i = 0; i != 500; ++i)
    CHECK(p.call<add>({1, i}).second == 1 + i);
  done = true;
  reader.join();
  CHECK(p.of(add::name).answered.count() == 500);
}

} // namespace test::rpc_statistics
