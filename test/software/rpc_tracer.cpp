//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/rpc_fixture.hpp"

#include <boost_rdma/rpc/client_pool.hpp>
#include <boost_rdma/rpc/tracer.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <vector>

// Tests what a tracer sees of calls.

namespace test::rpc_tracer {

namespace rpc = rdma::rpc;
using rpc::call_side;
using rpc::trace_context;

// A span that has begun. Without an outcome it has not ended.
struct span
{
  call_side side;
  std::string method;
  trace_context parent;
  trace_context context;
  std::chrono::steady_clock::time_point started;
  std::optional<error_code> outcome;
};

// Records all spans, of clients and servers.
class recorder final : public rpc::tracer
{
public:
  trace_context start(const rpc::traced_call& call) noexcept override
  {
    const std::lock_guard lock(mutex_);
    trace_context context = call.parent;
    if (!context.is_valid())
      context.trace_id[0] = ++last_trace_;
    context.parent_id = {0xab, ++last_span_};
    spans_.push_back(
      {call.side, std::string(call.method), call.parent, context, call.started, std::nullopt});
    return context;
  }

  void end(const rpc::traced_call& call, const error_code& outcome) noexcept override
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(spans_, call.context, &span::context);
    if (found == spans_.end() || found->outcome || found->side != call.side
      || found->method != call.method || found->parent != call.parent
      || found->started != call.started)
      ++wrong_;
    else
      found->outcome = outcome;
  }

  // Returns the spans in the order of their beginnings.
  std::vector<span> spans() const
  {
    const std::lock_guard lock(mutex_);
    CHECK(wrong_ == 0);
    return spans_;
  }

  [[nodiscard]] bool all_ended() const
  {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(spans_, [](const span& each) { return each.outcome.has_value(); });
  }

private:
  mutable std::mutex mutex_;
  std::vector<span> spans_;
  int wrong_ = 0;
  std::uint8_t last_trace_ = 0;
  std::uint8_t last_span_ = 0;
};

rpc::client_options client_seen_by(const std::shared_ptr<recorder>& by)
{
  rpc::client_options options;
  options.tracer = by;
  return options;
}

rpc::server_options server_seen_by(const std::shared_ptr<recorder>& by)
{
  rpc::server_options options;
  options.tracer = by;
  return options;
}

struct traced_pair : rpc_pair
{
  explicit traced_pair(const std::shared_ptr<recorder>& by = std::make_shared<recorder>(),
    const rpc::server_options& options = {})
    : rpc_pair(
      [&]
      {
        rpc::server_options traced = options;
        traced.tracer = by;
        return traced;
      }(),
      client_seen_by(by))
    , seen(by)
  {
  }

  const std::shared_ptr<recorder> seen;
};

const trace_context outer =
  trace_context::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").value();

TEST_CASE("a tracer sees a call at the client and at the server, with their relation")
{
  traced_pair p;
  trace_context of_handler;
  p.server.handle<add>(
    [&](const numbers& n, const rpc::call_info& info)
    {
      of_handler = info.trace();
      return n.a + n.b;
    });
  p.start();
  CHECK(p.call<add>({1, 2}, {.trace = outer}) == std::pair(error_code(), 3));
  const auto spans = p.seen->spans();
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].side == call_side::client);
  CHECK(spans[0].method == "add/1");
  CHECK(spans[0].parent == outer);
  CHECK(spans[0].outcome == error_code());
  CHECK(spans[1].side == call_side::server);
  CHECK(spans[1].method == "add/1");
  CHECK(spans[1].parent == spans[0].context);
  CHECK(spans[1].outcome == error_code());
  CHECK(spans[1].context.trace_id == outer.trace_id);
  CHECK(of_handler == spans[1].context);
}

TEST_CASE("a call without a trace has no parent, and a tracer may begin one")
{
  traced_pair p;
  p.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  p.start();
  CHECK(p.call<add>({1, 2}).first == error_code());
  const auto spans = p.seen->spans();
  REQUIRE(spans.size() == 2);
  CHECK_FALSE(spans[0].parent.is_valid());
  CHECK(spans[1].parent == spans[0].context);
}

TEST_CASE("calls of a handler are children of its span")
{
  const auto seen = std::make_shared<recorder>();
  traced_pair p(seen);
  p.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  rpc::client inner(p.io, p.far_context, client_seen_by(seen));
  p.server.handle<echo>(
    [&inner](std::string_view text, const rpc::call_info& info) -> asio::awaitable<std::string_view>
    {
      const numbers both{1, 2};
      co_await inner.async_call<add>(both, {.trace = info.trace()}, asio::use_awaitable);
      co_return text;
    });
  p.start();
  REQUIRE(p.connect(inner) == error_code());
  CHECK(p.call<echo>("text", {.trace = outer}).first == error_code());
  const auto spans = p.seen->spans();
  REQUIRE(spans.size() == 4);
  for (std::size_t i = 1; i < 4; ++i)
    CHECK(spans[i].parent == spans[i - 1].context);
  CHECK(spans[2].method == "add/1");
  CHECK(seen->all_ended());
}

TEST_CASE("a tracer gets the error that the caller gets")
{
  traced_pair p;
  p.server.handle<add>(
    [](const numbers&) -> std::int32_t { throw rdma::system_error(rdma::error::not_exposed); });
  p.server.handle<wait_for_test>([](std::uint64_t, rpc::responder<wait_for_test> answer)
    { answer.fail(rdma::error::message_too_large); });
  p.start();
  CHECK(p.call<add>({1, 2}).first == rdma::error::not_exposed);
  CHECK(p.call<wait_for_test>(1).first == rdma::error::message_too_large);
  const auto spans = p.seen->spans();
  REQUIRE(spans.size() == 4);
  CHECK(spans[0].outcome == make_error_code(rdma::error::not_exposed));
  CHECK(spans[1].outcome == make_error_code(rdma::error::not_exposed));
  CHECK(spans[2].outcome == make_error_code(rdma::error::message_too_large));
  CHECK(spans[3].outcome == make_error_code(rdma::error::message_too_large));
}

TEST_CASE("the spans of a call that is cancelled end on both sides, also if it waits")
{
  rpc::server_options one;
  one.calls = 1;
  traced_pair p(std::make_shared<recorder>(), one);
  std::vector<rpc::responder<wait_for_test>> answers;
  p.server.handle<wait_for_test>([&](std::uint64_t, rpc::responder<wait_for_test> answer)
    { answers.push_back(std::move(answer)); });
  p.start();
  asio::cancellation_signal first;
  asio::cancellation_signal second;
  record<std::uint64_t> running;
  record<std::uint64_t> waiting;
  p.client.async_call<wait_for_test>(
    1, asio::bind_cancellation_slot(first.slot(), running.handler()));
  p.client.async_call<wait_for_test>(
    2, asio::bind_cancellation_slot(second.slot(), waiting.handler()));
  REQUIRE(run_until(p.io, [&] { return p.seen->spans().size() == 4; }));
  second.emit(asio::cancellation_type::terminal);
  first.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(p.io, [&] { return p.seen->all_ended(); }));
  for (const span& each : p.seen->spans())
    CHECK(each.outcome == error_code(asio::error::operation_aborted));
  REQUIRE(run_until(p.io, [&] { return running.done() && waiting.done(); }));
}

TEST_CASE("spans end with the connection")
{
  traced_pair p;
  std::vector<rpc::responder<wait_for_test>> answers;
  p.server.handle<wait_for_test>([&](std::uint64_t, rpc::responder<wait_for_test> answer)
    { answers.push_back(std::move(answer)); });
  p.start();
  record<std::uint64_t> r;
  p.client.async_call<wait_for_test>(1, r.handler());
  REQUIRE(run_until(p.io, [&] { return !answers.empty(); }));
  p.client.close();
  REQUIRE(run_until(p.io, [&] { return r.done() && p.seen->all_ended(); }));
  const auto spans = p.seen->spans();
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].outcome == error_code(asio::error::operation_aborted));
  CHECK(spans[1].outcome.value());
  answers.front().reply(1); // without effect
  CHECK(p.seen->spans().size() == 2);
}

struct throwing
{
  std::string text;
};

} // namespace test::rpc_tracer

template <>
struct rdma::rpc::codec<test::rpc_tracer::throwing>
{
  static constexpr std::uint64_t type = 0x7400;
  static void encode(const test::rpc_tracer::throwing&, output&)
  {
    throw std::runtime_error("a value that cannot be encoded");
  }
  static std::optional<test::rpc_tracer::throwing> decode(std::span<const std::byte>)
  {
    return test::rpc_tracer::throwing();
  }
};

namespace test::rpc_tracer {

TEST_CASE("the span of a call whose request cannot be encoded ends")
{
  using method = rpc::method<"throwing/1", throwing, std::int32_t>;
  traced_pair p;
  p.server.handle<method>([](const throwing&) { return 1; });
  p.start();
  record<std::int32_t> r;
  CHECK_THROWS_AS(p.client.async_call<method>({}, r.handler()), std::runtime_error);
  const auto spans = p.seen->spans();
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].outcome == error_code(asio::error::operation_aborted));
}

TEST_CASE("a call with items has one span on each side")
{
  using numbers_to =
    rpc::streaming_method<"numbers/1", std::int32_t, std::int32_t, rpc::nothing, std::int32_t>;
  traced_pair p;
  p.server.handle<numbers_to>(
    [](std::int32_t end, rpc::server_flow<numbers_to>& items) -> asio::awaitable<std::int32_t>
    {
      for (std::int32_t i = 0; i < end; ++i)
        co_await items.async_write(i, asio::use_awaitable);
      co_return end;
    });
  p.start();
  auto flow = p.client.open<numbers_to>(3, {.trace = outer});
  record<std::int32_t> r;
  flow.async_finish(r.handler());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  const auto spans = p.seen->spans();
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].parent == outer);
  CHECK(spans[1].parent == spans[0].context);
  CHECK(p.seen->all_ended());
}

TEST_CASE("each attempt of a pool has a span")
{
  const auto seen = std::make_shared<recorder>();
  rpc_pair p(server_seen_by(seen));
  p.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  p.server.start();
  rpc::client_pool_options options;
  options.client.tracer = seen;
  rpc::client_pool pool(p.io, p.near_context, {p.server.local_endpoint()}, options);
  record<std::int32_t> r;
  pool.async_call<add>({1, 2}, {.trace = outer}, r.handler());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
  const auto spans = seen->spans();
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].parent == outer);
  CHECK(spans[1].parent == spans[0].context);
  CHECK(seen->all_ended());
}

} // namespace test::rpc_tracer
