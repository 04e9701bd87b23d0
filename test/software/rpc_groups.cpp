//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_message.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/group.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace test::rpc_groups {

// Tests groups whose members are in one process. rpc_group_processes.cpp has separate ones.

namespace {

namespace rpc = rdma::rpc;
using namespace std::chrono_literals;

using ranks = rpc::method<"ranks/1", std::uint64_t, std::string>; // their letters, in order
using total = rpc::method<"total/1", std::uint64_t, std::uint64_t>;
using total_result = rpc::group_result<std::uint64_t>;
using missing_list = std::vector<rpc::missing_member>;

// Longer than anything takes, so that only members without a connection are bypassed.
constexpr rpc::group_call_options patient{.timeout = 10min};

struct member
{
  member(asio::io_context& io)
    : context(make_context())
    , server(io, context, {asio::ip::address_v4::loopback(), 0})
  {
  }

  rdma::context context;
  rpc::server server;
  std::optional<rpc::group> group;
  int calls = 0;
};

struct members
{
  explicit members(std::uint32_t count, std::uint32_t fan_out = 2)
  {
    options.fan_out = fan_out;
    for (std::uint32_t i = 0; i != count; ++i)
      endpoints.push_back(all.emplace_back(io).server.local_endpoint());
    for (std::uint32_t i = 0; i != count; ++i)
      join(i);
  }

  void join(std::uint32_t rank)
  {
    member& m = all[rank];
    m.group.emplace(m.server, m.context, endpoints, rank, options);
  }

  // All members answer with their letter and the sum of the request and their rank.
  void start()
  {
    for (std::uint32_t i = 0; i != all.size(); ++i)
      start(i);
  }
  void start(std::uint32_t rank)
  {
    member& m = all[rank];
    m.group->handle<ranks>(
      [&m, rank](std::uint64_t)
      {
        ++m.calls;
        return std::string(1, static_cast<char>('a' + rank));
      },
      std::plus<>());
    m.group->handle<total>([rank](std::uint64_t n) { return n + rank; }, std::plus<>());
    m.server.start();
  }

  template <class Method>
  auto call(std::uint32_t root, const typename Method::request_type& request,
    const rpc::group_call_options& how = patient)
  {
    record<rpc::group_result<typename Method::result_type>> r;
    all[root].group->async_broadcast<Method>(request, how, r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    CHECK(r.ec == error_code());
    return r.value();
  }

  asio::io_context io;
  rpc::group_options options;
  std::vector<rpc::group::endpoint_type> endpoints;
  std::deque<member> all;
};

std::vector<std::uint32_t> ranks_of(const missing_list& missing)
{
  std::vector<std::uint32_t> result;
  for (const auto& each : missing)
    result.push_back(each.rank);
  return result;
}

} // namespace

TEST_CASE("a broadcast runs once at every member and combines the replies in order")
{
  const auto count = GENERATE(1U, 2U, 3U, 7U);
  const auto fan_out = GENERATE(1U, 2U, 16U);
  CAPTURE(count, fan_out);
  members m(count, fan_out);
  m.start();
  for (std::uint32_t root = 0; root != count; ++root)
  {
    const auto result = m.call<ranks>(root, 0);
    CHECK(result.answered == count);
    CHECK(result.missing.empty());
    std::string expected;
    for (std::uint32_t i = 0; i != count; ++i)
      expected += static_cast<char>('a' + (root + i) % count);
    CHECK(result.reply == expected);
  }
  for (const member& each : m.all)
    CHECK(each.calls == static_cast<int>(count));
  CHECK(m.call<total>(0, 100).reply == 100 * count + count * (count - 1) / 2);
}

TEST_CASE("members below a member that does not listen are called without it")
{
  members m(7);
  const auto absent = GENERATE(std::vector<std::uint32_t>{1}, std::vector<std::uint32_t>{1, 2},
    std::vector<std::uint32_t>{1, 4}, std::vector<std::uint32_t>{2, 3, 6});
  for (const std::uint32_t rank : absent)
    m.all[rank].server.close();
  m.start();
  const auto result = m.call<ranks>(0, 0);
  CHECK(result.answered == 7 - absent.size());
  CHECK(ranks_of(result.missing) == absent);
  for (const auto& each : result.missing)
    CHECK(each.ec == asio::error::connection_refused);
  std::string expected = "abcdefg";
  for (const std::uint32_t rank : absent)
    std::erase(expected, static_cast<char>('a' + rank));
  CHECK(result.reply == expected);
}

TEST_CASE("a member that was started again takes part in the next broadcast")
{
  members m(3);
  m.start();
  CHECK(m.call<ranks>(0, 0).reply == "abc");
  m.all[1].group.reset();
  m.all[1].server.close();
  member& again = m.all[1];
  again.server = rpc::server(m.io, again.context, m.endpoints[1]);
  m.join(1);
  m.start(1);
  CHECK(m.call<ranks>(0, 0).reply == "abc");
  CHECK(m.call<ranks>(1, 0).reply == "bca");
  CHECK(again.calls == 3);
}

TEST_CASE("handlers of a group can be coroutines or answer later, and their failures are named")
{
  members m(4);
  std::optional<rpc::responder<total>> later;
  m.all[0].group->handle<total>([](std::uint64_t n) { return n; }, std::plus<>());
  m.all[1].group->handle<total>(
    [](std::uint64_t n, const rpc::call_info& info) -> asio::awaitable<std::uint64_t>
    {
      CHECK(info.deadline() != std::chrono::steady_clock::time_point::max());
      co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
      co_return n;
    },
    std::plus<>());
  m.all[2].group->handle<total>([&](std::uint64_t, rpc::responder<total> answer)
    { later.emplace(std::move(answer)); },
    std::plus<>());
  m.all[3].group->handle<total>([](std::uint64_t) -> std::uint64_t
    { throw rdma::system_error(rdma::error::contended); },
    std::plus<>());
  for (member& each : m.all)
    each.server.start();
  record<total_result> r;
  m.all[0].group->async_broadcast<total>(10, patient, r.handler());
  REQUIRE(run_until(m.io, [&] { return later.has_value(); }));
  later->reply(5);
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
  CHECK(r.value().reply == 25);
  CHECK(r.value().answered == 3);
  REQUIRE(ranks_of(r.value().missing) == std::vector<std::uint32_t>{3});
  CHECK(r.value().missing[0].ec == rdma::error::contended);
}

TEST_CASE("members without the method, or with other types, are named")
{
  using other = rpc::method<"total/1", std::uint32_t, std::uint64_t>;
  members m(5);
  for (const std::uint32_t rank : {0, 3, 4})
    m.all[rank].group->handle<total>([](std::uint64_t n) { return n; }, std::plus<>());
  m.all[2].group->handle<other>([](std::uint32_t n) { return n; }, std::plus<>());
  for (member& each : m.all)
    each.server.start();
  const auto result = m.call<total>(0, 1);
  CHECK(result.reply == 3);
  REQUIRE(ranks_of(result.missing) == std::vector<std::uint32_t>{1, 2});
  CHECK(result.missing[0].ec == rdma::error::no_such_method);
  CHECK(result.missing[1].ec == rdma::error::method_mismatch);
  record<rpc::group_result<std::string>> r;
  m.all[0].group->async_broadcast<ranks>(1, patient, r.handler());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::no_such_method);
}

TEST_CASE("a reduction that throws fails its member, or the operation at the root")
{
  members m(7);
  const std::uint32_t thrower = GENERATE(0, 1);
  for (std::uint32_t i = 0; i != 7; ++i)
  {
    m.all[i].group->handle<total>([i](std::uint64_t n) { return n + i; },
      [i, thrower](std::uint64_t a, std::uint64_t b)
      {
        if (i == thrower)
          throw rdma::system_error(rdma::error::out_of_range);
        return a + b;
      });
    m.all[i].server.start();
  }
  record<total_result> r;
  m.all[0].group->async_broadcast<total>(0, patient, r.handler());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  if (thrower == 0)
  {
    CHECK(r.ec == rdma::error::out_of_range);
    return;
  }
  CHECK(r.ec == error_code());
  CHECK(r.value().reply == 20);
  REQUIRE(ranks_of(r.value().missing) == std::vector<std::uint32_t>{1});
  CHECK(r.value().missing[0].ec == rdma::error::out_of_range);
}

TEST_CASE("a member that works for longer than the silence limit is not bypassed")
{
  members m(3, 1); // a chain
  std::optional<rpc::responder<total>> last;
  for (std::uint32_t i = 0; i != 2; ++i)
    m.all[i].group->handle<total>([](std::uint64_t n) { return n; }, std::plus<>());
  m.all[2].group->handle<total>([&](std::uint64_t, rpc::responder<total> answer)
    { last.emplace(std::move(answer)); },
    std::plus<>());
  for (member& each : m.all)
    each.server.start();
  record<total_result> r;
  m.all[0].group->async_broadcast<total>(1, {.timeout = 10min, .silence = 4s}, r.handler());
  REQUIRE(run_until(m.io, [&] { return last.has_value(); }));
  asio::steady_timer longer(m.io, 5s);
  plain_record waited;
  longer.async_wait(waited.handler());
  REQUIRE(run_until(m.io, [&] { return waited.done(); }));
  CHECK_FALSE(r.done());
  last->reply(1);
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.value().answered == 3);
  CHECK(r.value().reply == 3);
}

TEST_CASE("a handler that has not answered when the time is over is named and cancelled")
{
  members m(3, 1); // a chain
  bool cancelled = false;
  for (std::uint32_t i = 0; i != 3; ++i)
    if (i == 1)
      m.all[i].group->handle<total>(
        [&](std::uint64_t n) -> asio::awaitable<std::uint64_t>
        {
          if (n == 0)
            co_return n;
          asio::steady_timer never(
            co_await asio::this_coro::executor, std::chrono::steady_clock::time_point::max());
          const auto [ec] = co_await never.async_wait(asio::as_tuple(asio::use_awaitable));
          cancelled = ec == asio::error::operation_aborted;
          co_return n;
        },
        std::plus<>());
    else
      m.all[i].group->handle<total>([](std::uint64_t n) { return n; }, std::plus<>());
  for (member& each : m.all)
    each.server.start();
  CHECK(m.call<total>(0, 0).answered == 3); // makes the connections
  const auto result = m.call<total>(0, 1, {.timeout = 12s});
  CHECK(result.answered == 2);
  CHECK(result.reply == 2);
  REQUIRE(ranks_of(result.missing) == std::vector<std::uint32_t>{1});
  CHECK(result.missing[0].ec == asio::error::timed_out);
  CHECK(run_until(m.io, [&] { return cancelled; }));
}

TEST_CASE("broadcasts of all members can be under way at a time")
{
  members m(5);
  m.start();
  std::deque<record<rpc::group_result<std::string>>> records;
  for (int i = 0; i != 20; ++i)
    for (member& each : m.all)
      each.group->async_broadcast<ranks>(0, patient, records.emplace_back().handler());
  REQUIRE(run_until(m.io,
    [&] { return std::ranges::all_of(records, [](const auto& each) { return each.done(); }); }));
  for (const auto& each : records)
  {
    CHECK(each.calls == 1);
    CHECK(each.value().answered == 5);
  }
  for (const member& each : m.all)
    CHECK(each.calls == 100);
}

TEST_CASE("members that answer with malformed bytes are named and bypassed")
{
  using transport = rdma::detail::rpc::group_transport;
  members m(7);
  m.start();
  rpc::server liar(m.io, m.all[1].context, {asio::ip::address_v4::loopback(), 0});
  const auto pending_and_more = std::string("\0\0\0\1x", 5);
  const auto two_of_three = std::string("\0\0\0\2\0\0\0\2\0\0\0\0", 12);
  const std::string text = GENERATE_COPY(std::string(), pending_and_more, two_of_three);
  liar.handle<transport>([&](std::span<const std::byte>, const rpc::call_info&)
    { return std::as_bytes(std::span<const char>(text)); });
  liar.start();
  m.endpoints[1] = liar.local_endpoint();
  rpc::server other(m.io, m.all[0].context, {asio::ip::address_v4::loopback(), 0});
  m.endpoints[0] = other.local_endpoint();
  rpc::group root(other, m.all[0].context, m.endpoints, 0, m.options);
  root.handle<ranks>([](std::uint64_t) { return std::string("a"); }, std::plus<>());
  other.start();
  record<rpc::group_result<std::string>> r;
  root.async_broadcast<ranks>(0, patient, r.handler());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.value().reply == "acdefg");
  REQUIRE(ranks_of(r.value().missing) == std::vector<std::uint32_t>{1});
  CHECK(r.value().missing[0].ec == rdma::error::malformed_message);
}

TEST_CASE("a member refuses malformed requests and goes on")
{
  using transport = rdma::detail::rpc::group_transport;
  members m(3);
  m.start();
  rpc::client client(m.io, m.all[0].context);
  plain_record connected;
  client.async_connect(m.endpoints[1], connected.handler());
  REQUIRE(run_until(m.io, [&] { return connected.done(); }));
  rdma::detail::rpc::group_request request;
  request.kind = rdma::detail::rpc::group_request_kind::inquiry; // about no call
  request.members = 3;
  request.range = {1, 1};
  request.fan_out = 2;
  request.sequence = request.oldest = 1;
  request.left = request.patience = 1s;
  const int wrong = GENERATE(0, 1, 2, 3);
  if (wrong == 1)
    request.members = 4;
  if (wrong == 2)
    request.range = {2, 1}; // of another member
  std::vector<std::byte> bytes;
  append_group_request(bytes, request);
  if (wrong == 3)
    bytes.pop_back();
  record<std::vector<std::byte>> r;
  client.async_call<transport>(bytes, r.handler());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::malformed_message);
  CHECK(m.all[1].calls == 0);
  CHECK(m.call<ranks>(0, 0).reply == "abc");
}

TEST_CASE("a call that arrives twice runs once and is answered twice")
{
  using transport = rdma::detail::rpc::group_transport;
  members m(3);
  int calls = 0;
  std::optional<rpc::responder<total>> later;
  m.all[1].group->handle<total>(
    [&](std::uint64_t, rpc::responder<total> answer)
    {
      ++calls;
      later.emplace(std::move(answer));
    },
    std::plus<>());
  m.all[1].server.start();
  rdma::detail::rpc::group_request request;
  request.kind = rdma::detail::rpc::group_request_kind::call;
  request.members = 3;
  request.range = {1, 1};
  request.fan_out = 2;
  request.sequence = request.oldest = 1;
  request.left = request.patience = 10min;
  request.method = rpc::detail::description_of<total>;
  const std::uint64_t content = 1;
  request.content = std::as_bytes(std::span(&content, 1));
  std::vector<std::byte> bytes;
  append_group_request(bytes, request);
  // As from a parent, and from the one that has bypassed it.
  std::deque<rpc::client> clients;
  std::deque<record<std::vector<std::byte>>> records(3);
  for (int i = 0; i != 2; ++i)
  {
    plain_record connected;
    clients.emplace_back(m.io, m.all[0].context).async_connect(m.endpoints[1], connected.handler());
    REQUIRE(run_until(m.io, [&] { return connected.done(); }));
    clients[i].async_call<transport>(bytes, records[i].handler());
  }
  REQUIRE(run_until(m.io, [&] { return calls != 0; }));
  clients[0].close(); // the call goes on without its first caller
  later->reply(7);
  REQUIRE(run_until(m.io, [&] { return records[0].done() && records[1].done(); }));
  clients[1].async_call<transport>(bytes, records[2].handler());
  REQUIRE(run_until(m.io, [&] { return records[2].done(); }));
  for (const int i : {1, 2})
  {
    CHECK(records[i].ec == error_code());
    const auto answer = rdma::detail::rpc::decode_group_answer(records[i].value(), {1, 1});
    REQUIRE(answer);
    CHECK_FALSE(answer->is_pending);
    CHECK(answer->part.answered == 1);
    CHECK(answer->part.value.size() == sizeof content);
  }
  CHECK(calls == 1);
}

TEST_CASE("cancellation ends a broadcast at once")
{
  members m(2);
  std::optional<rpc::responder<total>> waiting;
  m.all[0].group->handle<total>([](std::uint64_t n) { return n; }, std::plus<>());
  m.all[1].group->handle<total>([&](std::uint64_t, rpc::responder<total> answer)
    { waiting.emplace(std::move(answer)); },
    std::plus<>());
  for (member& each : m.all)
    each.server.start();
  record<total_result> r;
  asio::cancellation_signal signal;
  m.all[0].group->async_broadcast<total>(
    1, patient, asio::bind_cancellation_slot(signal.slot(), r.handler()));
  REQUIRE(run_until(m.io, [&] { return waiting.has_value(); }));
  SECTION("by the slot")
  {
    signal.emit(GENERATE(asio::cancellation_type::terminal, asio::cancellation_type::partial,
      asio::cancellation_type::total));
  }
  SECTION("by close()")
  {
    m.all[0].group->close();
    CHECK_FALSE(m.all[0].group->is_open());
  }
  SECTION("by the destructor")
  {
    m.all[0].group.reset();
  }
  CHECK_FALSE(r.done());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
  CHECK(r.calls == 1);
  waiting->reply(1); // has no effect
  m.io.poll();
  CHECK(r.calls == 1);
}

TEST_CASE("operations of a closed group fail, and other members call without it")
{
  members m(3, 1);
  m.start();
  m.all[1].group->close();
  record<total_result> r;
  m.all[1].group->async_broadcast<total>(1, r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::closed);
  const auto result = m.call<ranks>(0, 0);
  CHECK(result.reply == "ac");
  REQUIRE(result.missing.size() == 1);
  CHECK(result.missing[0].ec == rdma::error::closed);
  rpc::group moved = std::move(*m.all[0].group);
  record<missing_list> b;
  m.all[0].group->async_broadcast<total>(1, r.handler());
  m.all[0].group->async_barrier({}, b.handler());
  REQUIRE(run_until(m.io, [&] { return r.calls == 2 && b.done(); }));
  CHECK(r.ec == rdma::error::closed);
  CHECK(b.ec == rdma::error::closed);
}

TEST_CASE("options of a group out of range are reported")
{
  members m(2);
  m.start();
  rpc::group_options none;
  none.fan_out = 0;
  rpc::server server(m.io, m.all[0].context, {asio::ip::address_v4::loopback(), 0});
  CHECK_THROWS_AS(rpc::group(server, m.all[0].context, m.endpoints, 0, none), rdma::system_error);
  CHECK_THROWS_AS(rpc::group(server, m.all[0].context, m.endpoints, 2), rdma::system_error);
  for (const rpc::group_call_options& each : {rpc::group_call_options{.timeout = 0s},
         rpc::group_call_options{.timeout = 11 * 24h}, rpc::group_call_options{.silence = -1s}})
  {
    record<total_result> r;
    record<missing_list> b;
    m.all[0].group->async_broadcast<total>(1, each, r.handler());
    m.all[0].group->async_barrier(each, b.handler());
    REQUIRE(run_until(m.io, [&] { return r.done() && b.done(); }));
    CHECK(r.ec == asio::error::invalid_argument);
    CHECK(b.ec == asio::error::invalid_argument);
  }
}

TEST_CASE("a group works with tokens and strands")
{
  members m(1);
  m.start();
  auto strand = asio::make_strand(m.io);
  rpc::basic_server<decltype(strand)> server(
    strand, m.all[0].context, {asio::ip::address_v4::loopback(), 0});
  rpc::basic_group group(server, m.all[0].context, {server.local_endpoint()}, 0);
  group.handle<total>([](std::uint64_t n) { return n; }, std::plus<>());
  server.start();
  const auto run = [&]() -> asio::awaitable<std::uint64_t>
  {
    const auto first = co_await group.async_broadcast<total>(1, patient, asio::use_awaitable);
    const auto missing = co_await group.async_barrier(patient, asio::use_awaitable);
    const auto [ec, second] =
      co_await group.async_broadcast<total>(2, asio::as_tuple(asio::use_awaitable));
    co_return first.reply + missing.size() + second.reply;
  };
  auto future = asio::co_spawn(m.io, run(), asio::use_future);
  REQUIRE(run_until(m.io, [&] { return future.wait_for(0s) == std::future_status::ready; }));
  CHECK(future.get() == 3);
}

TEST_CASE("a barrier ends at every member when all have entered it")
{
  members m(6);
  m.start();
  for (int round = 0; round != 3; ++round)
  {
    std::deque<record<missing_list>> records(6);
    // Any member can be the last one.
    const std::uint32_t last = round == 0 ? 0 : round == 1 ? 4 : 5;
    for (std::uint32_t i = 0; i != 6; ++i)
      if (i != last)
        m.all[i].group->async_barrier(patient, records[i].handler());
    CHECK(m.call<ranks>(2, 0).answered == 6); // the others have had time
    for (const auto& each : records)
      CHECK_FALSE(each.done());
    m.all[last].group->async_barrier(patient, records[last].handler());
    REQUIRE(run_until(m.io,
      [&] { return std::ranges::all_of(records, [](const auto& each) { return each.done(); }); }));
    for (const auto& each : records)
    {
      CHECK(each.calls == 1);
      CHECK(each.ec == error_code());
      CHECK(each.value().empty());
    }
  }
}

TEST_CASE("a barrier ends without members that fail or come too late")
{
  members m(5, 4); // all are the root's children: none has to wait for the late one
  m.start();
  CHECK(m.call<ranks>(0, 0).answered == 5); // makes the connections
  m.all[2].server.close();
  std::deque<record<missing_list>> records(5);
  for (const std::uint32_t i : {0U, 1U, 3U})
    m.all[i].group->async_barrier({.timeout = 12s}, records[i].handler());
  REQUIRE(
    run_until(m.io, [&] { return records[0].done() && records[1].done() && records[3].done(); }));
  for (const std::uint32_t i : {0U, 1U, 3U})
  {
    CHECK(records[i].ec == error_code());
    CHECK(ranks_of(records[i].value()) == std::vector<std::uint32_t>{2, 4});
  }
  m.all[4].group->async_barrier(patient, records[4].handler());
  REQUIRE(run_until(m.io, [&] { return records[4].done(); }));
  CHECK(records[4].ec == asio::error::timed_out);
  // The members that were missing have reached it, or not yet.
  CHECK(std::ranges::count(ranks_of(records[4].value()), 4U) == 1);
  // It is in step with the others.
  std::deque<record<missing_list>> next(5);
  for (const std::uint32_t i : {0U, 1U, 3U, 4U})
    m.all[i].group->async_barrier(patient, next[i].handler());
  REQUIRE(run_until(
    m.io, [&] { return next[0].done() && next[1].done() && next[3].done() && next[4].done(); }));
  CHECK(next[4].ec == error_code());
  CHECK(ranks_of(next[0].value()) == std::vector<std::uint32_t>{2});
}

TEST_CASE("a wait at a barrier ends by its own time, by cancellation, or with the group")
{
  members m(2);
  m.start();
  record<missing_list> r;
  asio::cancellation_signal signal;
  const int how = GENERATE(0, 1, 2);
  m.all[1].group->async_barrier(how == 0 ? rpc::group_call_options{.timeout = 1ms} : patient,
    asio::bind_cancellation_slot(signal.slot(), r.handler()));
  if (how == 1)
    signal.emit(asio::cancellation_type::total);
  if (how == 2)
    m.all[1].group->close();
  CHECK_FALSE(r.done());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == (how == 0 ? asio::error::timed_out : asio::error::operation_aborted));
  if (how == 2)
    return;
  // The member has entered the barrier all the same.
  record<missing_list> other;
  m.all[0].group->async_barrier(patient, other.handler());
  REQUIRE(run_until(m.io, [&] { return other.done(); }));
  CHECK(other.value().empty());
}

TEST_CASE("barriers go on when rank 0 or another member was started again")
{
  members m(3);
  m.start();
  const auto all_enter = [&]
  {
    std::deque<record<missing_list>> records(3);
    for (std::uint32_t i = 0; i != 3; ++i)
      m.all[i].group->async_barrier(patient, records[i].handler());
    REQUIRE(run_until(m.io,
      [&] { return std::ranges::all_of(records, [](const auto& each) { return each.done(); }); }));
    for (const auto& each : records)
      CHECK((each.ec == error_code() && each.value().empty()));
  };
  all_enter();
  all_enter();
  for (const std::uint32_t rank : {0U, 1U})
  {
    member& again = m.all[rank];
    again.group.reset();
    again.server.close();
    again.server = rpc::server(m.io, again.context, m.endpoints[rank]);
    m.join(rank);
    m.start(rank);
    all_enter();
    all_enter();
  }
}

} // namespace test::rpc_groups
