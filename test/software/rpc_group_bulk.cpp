//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_content.hpp"
#include "rpc/group_message.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/group.hpp>
#include <boost_rdma/statistics.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace test::rpc_group_bulk {

// Tests broadcasts that expose memory, with members in one process. rpc_group_bulk_processes.cpp
// has separate ones.

namespace {

namespace rpc = rdma::rpc;
using namespace rdma::detail::rpc;
using namespace std::chrono_literals;

// The number of members that have the same content as the root.
using same = rpc::method<"same/1", rpc::nothing, std::uint64_t>;
using same_result = rpc::group_result<std::uint64_t>;
using owner = std::shared_ptr<const rdma::registered_buffer>;

// Longer than anything takes, so that only members without a connection are bypassed.
constexpr std::chrono::minutes long_time{10};
constexpr std::size_t part = group_content::part_max;

struct member
{
  member(asio::io_context& io, const rpc::server_options& options)
    : context(make_context())
    , server(io, context, {asio::ip::address_v4::loopback(), 0}, options)
  {
  }

  rdma::context context;
  rpc::server server;
  std::optional<rpc::group> group;
  std::optional<owner> kept; // by the handler, if there is a value
};

std::vector<std::byte> pattern(std::size_t size)
{
  std::vector<std::byte> made(size);
  for (std::size_t i = 0; i != size; ++i)
    made[i] = static_cast<std::byte>(i * 7 + (i >> 8) + (i >> 18));
  return made;
}

struct members
{
  members(std::uint32_t count, std::size_t size, const rpc::group_options& how = {},
    rdma::stream_transports transports = rdma::stream_transports::rdma_or_tcp)
    : options(how)
    , plain(pattern(size))
  {
    options.client.stream.transports = transports;
    for (std::uint32_t i = 0; i != count; ++i)
      endpoints.push_back(all.emplace_back(io, served_by(transports)).server.local_endpoint());
    block = all[0].context.allocate(size);
    std::memcpy(block.data(), plain.data(), size);
  }

  // Ranks from `first` on are members of the group.
  void start(std::uint32_t first = 0)
  {
    for (std::uint32_t i = first; i != all.size(); ++i)
    {
      member& m = all[i];
      m.group.emplace(m.server, m.context, endpoints, i, options);
      m.group->handle<same>(
        [this, &m](rpc::nothing, const rpc::call_info& info)
        {
          if (m.kept)
            m.kept = info.content_owner();
          return std::uint64_t{std::ranges::equal(info.content(), plain)};
        },
        std::plus<>());
      m.server.start();
    }
  }

  same_result call(const rdma::const_buffer& exposed, std::uint32_t root = 0)
  {
    record<same_result> r;
    all[root].group->async_broadcast<same>(
      {}, {.timeout = long_time, .exposed = exposed}, r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    CHECK(r.ec == error_code());
    return r.value();
  }

  asio::io_context io;
  rpc::group_options options;
  std::vector<rpc::group::endpoint_type> endpoints;
  std::deque<member> all;
  const std::vector<std::byte> plain;
  rdma::registered_buffer block;
};

// A call of rank 0 for rank 1 alone, of a group of three.
group_request bulk_request(std::uint64_t size)
{
  group_request r;
  r.kind = group_request_kind::bulk;
  r.members = 3;
  r.range = {1, 1};
  r.fan_out = 2;
  r.sequence = r.oldest = 1;
  r.left = r.patience = long_time;
  r.bytes = size;
  r.method = rpc::detail::description_of<same>;
  return r;
}

group_request part_request(std::uint64_t offset)
{
  group_request r = bulk_request(offset);
  r.kind = group_request_kind::part;
  return r;
}

// Calls rank 1 as another member does.
struct caller
{
  caller(members& m, asio::io_context& io)
    : client(io, m.all[0].context)
  {
    plain_record connected;
    client.async_connect(m.endpoints[1], connected.handler());
    for (bool ended = false; !ended; ended = connected.done())
      REQUIRE(run_until(m.io,
        [&]
        {
          io.poll();
          return connected.done();
        }));
  }

  void start(const group_request& what, const rdma::const_buffer& exposed)
  {
    std::vector<std::byte> bytes;
    append_group_request(bytes, what);
    rpc::call_options options;
    if (exposed.size() != 0)
      options.exposed = rpc::expose(exposed);
    client.async_call<group_transport>(bytes, options, answer.handler());
  }

  rpc::client client;
  record<std::vector<std::byte>> answer;
};

std::pair<error_code, std::vector<std::byte>> answer_of(
  members& m, const group_request& what, const rdma::const_buffer& exposed = {})
{
  caller by(m, m.io);
  by.start(what, exposed);
  REQUIRE(run_until(m.io, [&] { return by.answer.done(); }));
  return {by.answer.ec, by.answer.value()};
}

} // namespace

TEST_CASE("a broadcast brings the memory of its root to all members before their handlers run")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  const std::size_t size = GENERATE(std::size_t{1}, std::size_t{4097}, 3 * part + 5);
  const auto count = GENERATE(1U, 2U, 7U);
  CAPTURE(size, count);
  members m(count, size, {}, transports);
  m.start();
  const rdma::const_buffer memory =
    GENERATE(true, false) ? rdma::const_buffer(m.block) : rdma::const_buffer(std::span(m.plain));
  for (const std::uint32_t root : {0U, count - 1})
  {
    const auto result = m.call(memory, root);
    CHECK(result.answered == count);
    CHECK(result.missing.empty());
    CHECK(result.reply == count);
  }
}

TEST_CASE("the root of a broadcast to 16 members sends its memory at most twice")
{
  constexpr std::size_t size = 8 * part;
  members m(16, size);
  m.start();
  const auto sent = [&]
  {
    const auto root = m.all[0].context.statistics();
    // Its children have 7 members below them, and read from nobody else.
    const auto first = m.all[1].context.statistics();
    const auto second = m.all[9].context.statistics();
    return root.sends.bytes + root.writes.bytes + root.batches.bytes + first.reads.bytes
      + second.reads.bytes;
  };
  CHECK(m.call(std::span(m.plain).first(1)).answered == 16); // makes the connections
  const auto before = sent();
  SECTION("by one-sided operations")
  {
    CHECK(m.call(m.block).reply == 16);
  }
  SECTION("by messages")
  {
    CHECK(m.call(std::span(m.plain)).reply == 16);
  }
  CHECK(sent() - before >= 2 * size);
  CHECK(sent() - before <= 2 * size + part);
}

TEST_CASE("a handler keeps the content without a copy, and content_max counts it")
{
  constexpr std::size_t size = 100'000;
  members m(4, size, {.content_max = 2 * size - 1});
  m.start();
  m.all[0].kept.emplace();
  m.all[1].kept.emplace();
  CHECK(m.call(m.block).reply == 4);
  CHECK(*m.all[0].kept == nullptr); // the root has the memory itself
  const owner kept = std::exchange(m.all[1].kept, std::nullopt).value();
  REQUIRE(kept != nullptr);
  CHECK(std::ranges::equal(kept->bytes(), m.plain));
  const auto refused = m.call(m.block);
  CHECK(refused.reply == 3);
  REQUIRE(refused.missing.size() == 1);
  CHECK(refused.missing[0].rank == 1);
  CHECK(refused.missing[0].ec == rdma::error::overloaded);
  m.all[1].kept.emplace();
  std::weak_ptr<const rdma::registered_buffer> last = kept;
  const_cast<owner&>(kept).reset();
  CHECK(last.expired());
  CHECK(m.call(m.block).reply == 4);
}

TEST_CASE(
  "a member refuses more content than content_max, and those below it are called without it")
{
  constexpr std::size_t size = 3 * part;
  members m(7, size);
  m.start(2);
  m.options.content_max = size - 1;
  for (const std::uint32_t rank : {0U, 1U}) // the root's own memory is not limited
  {
    member& each = m.all[rank];
    each.group.emplace(each.server, each.context, m.endpoints, rank, m.options);
    each.group->handle<same>([&](rpc::nothing, const rpc::call_info& info)
      { return std::uint64_t{std::ranges::equal(info.content(), m.plain)}; },
      std::plus<>());
    each.server.start();
  }
  const auto result = m.call(m.block);
  CHECK(result.reply == 6);
  REQUIRE(result.missing.size() == 1);
  CHECK(result.missing[0].rank == 1);
  CHECK(result.missing[0].ec == rdma::error::message_too_large);
}

TEST_CASE("a member that answers parts of a content wrongly is named and bypassed")
{
  members m(7, 2 * part + 1);
  m.start(2);
  std::vector<std::byte> answer;
  const int how = GENERATE(0, 1, 2, 3);
  if (how == 0)
    append_progress(answer, 0); // no progress
  if (how == 1)
    append_progress(answer, 2 * part + 2);
  if (how == 2)
    append_pending(answer);
  m.all[1].server.handle<group_transport>(
    [&](std::span<const std::byte> request, rpc::responder<group_transport> to)
    {
      const auto r = decode_group_request(request);
      REQUIRE(r);
      std::vector<std::byte> pending;
      append_pending(pending);
      if (r->kind == group_request_kind::part && how == 3)
        return to.fail(rdma::error::contended);
      to.reply(r->kind == group_request_kind::part ? answer : pending);
    });
  m.all[1].server.start();
  member& root = m.all[0];
  root.group.emplace(root.server, root.context, m.endpoints, 0, m.options);
  root.group->handle<same>([](rpc::nothing) { return std::uint64_t{1}; }, std::plus<>());
  root.server.start();
  const auto result = m.call(m.block);
  CHECK(result.reply == 6);
  REQUIRE(result.missing.size() == 1);
  CHECK(result.missing[0].rank == 1);
  CHECK(
    result.missing[0].ec == (how == 3 ? rdma::error::contended : rdma::error::malformed_message));
}

TEST_CASE("a broadcast that is cancelled ends when no member can access its memory")
{
  members m(2, 2 * part);
  std::optional<rpc::responder<group_transport>> held;
  std::optional<rpc::bulk> exposed;
  m.all[1].server.handle<group_transport>(
    [&](std::span<const std::byte> request, const rpc::call_info& info,
      rpc::responder<group_transport> to)
    {
      if (decode_group_request(request)->kind != group_request_kind::part)
      {
        std::vector<std::byte> pending;
        append_pending(pending);
        return to.reply(pending);
      }
      exposed.emplace(info.exposed(0));
      held.emplace(std::move(to));
    });
  m.all[1].server.start();
  member& root = m.all[0];
  root.group.emplace(root.server, root.context, m.endpoints, 0, m.options);
  root.group->handle<same>([](rpc::nothing) { return std::uint64_t{1}; }, std::plus<>());
  root.server.start();
  record<same_result> r;
  asio::cancellation_signal signal;
  const int how = GENERATE(0, 1, 2);
  root.group->async_broadcast<same>({},
    {.timeout = how == 2 ? std::chrono::nanoseconds(6s) : long_time, .exposed = m.block},
    asio::bind_cancellation_slot(signal.slot(), r.handler()));
  REQUIRE(run_until(m.io, [&] { return held.has_value(); }));
  CHECK_FALSE(r.done());
  if (how == 0)
    signal.emit(asio::cancellation_type::total);
  if (how == 1)
    root.group->close();
  CHECK_FALSE(r.done());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.calls == 1);
  CHECK(r.ec == (how == 2 ? error_code() : error_code(asio::error::operation_aborted)));
  if (how == 2)
    CHECK(r.value().missing.at(0).ec == asio::error::timed_out);
  rdma::registered_buffer room = m.all[1].context.allocate(part);
  record<std::size_t> pulled;
  exposed->async_pull(0, room, pulled.handler());
  REQUIRE(run_until(m.io, [&] { return pulled.done(); }));
  CHECK(pulled.ec);
}

TEST_CASE("a broadcast can be cancelled before anything has left, and its handlers do not run")
{
  members m(2, part);
  m.start();
  record<same_result> r;
  asio::cancellation_signal signal;
  m.all[0].kept.emplace();
  m.all[0].group->async_broadcast<same>({}, {.timeout = long_time, .exposed = m.block},
    asio::bind_cancellation_slot(signal.slot(), r.handler()));
  signal.emit(asio::cancellation_type::total);
  CHECK_FALSE(r.done());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
  CHECK(m.call(m.block).reply == 2);
}

TEST_CASE("a member refuses parts that are malformed or that no call announces, and goes on")
{
  constexpr std::size_t size = 2 * part;
  members m(3, size);
  m.options.content_max = size;
  m.start();
  const auto refused = [&](const group_request& r, const rdma::const_buffer& exposed = {})
  { return answer_of(m, r, exposed).first; };
  CHECK(refused(part_request(0), m.block.first(part)) == rdma::error::malformed_message);
  CHECK(refused(bulk_request(size + 1)) == rdma::error::message_too_large);
  CHECK(refused(bulk_request(UINT64_MAX)) == rdma::error::message_too_large);
  caller announcing(m, m.io);
  announcing.start(bulk_request(size), {});
  // Nothing is exposed, or more than the call has.
  CHECK(refused(part_request(0)) == rdma::error::malformed_message);
  CHECK(refused(part_request(part + 1), m.block.first(part)) == rdma::error::malformed_message);
  CHECK(refused(part_request(UINT64_MAX), m.block.first(part)) == rdma::error::malformed_message);
  group_request other = bulk_request(size); // beyond content_max together with the first
  other.sequence = 2;
  CHECK(refused(other) == rdma::error::overloaded);
  // One that is not the next one tells the caller which one is.
  const auto [ec, bytes] = answer_of(m, part_request(part), m.block.first(part));
  CHECK(ec == error_code());
  CHECK(decode_progress(bytes) == std::uint64_t{0});
  CHECK_FALSE(announcing.answer.done());
  for (const std::uint64_t offset : {std::size_t{0}, part})
  {
    const auto pulled = answer_of(m, part_request(offset), m.block.slice(offset, part));
    CHECK(pulled.first == error_code());
    CHECK(decode_progress(pulled.second) == offset + part);
  }
  REQUIRE(run_until(m.io, [&] { return announcing.answer.done(); }));
  const auto answer = decode_group_answer(announcing.answer.value(), {1, 1});
  REQUIRE(answer);
  CHECK(answer->part.answered == 1);
  // A call without content.
  group_request empty = bulk_request(0);
  empty.kind = group_request_kind::call;
  empty.sequence = 3;
  CHECK(refused(empty) == error_code());
  empty.kind = group_request_kind::part;
  CHECK(refused(empty, m.block.first(part)) == rdma::error::malformed_message);
}

TEST_CASE("a member goes on with the parts of another one when its parent stops in a transfer")
{
  constexpr std::size_t size = 2 * part;
  members m(3, size);
  m.start();
  asio::io_context stopped;
  caller first(m, stopped);
  caller call(m, m.io);
  call.start(bulk_request(size), {});
  // Plain memory travels in messages, and nobody sends them.
  first.start(part_request(0), std::span(m.plain).first(part));
  REQUIRE(run_until(m.io,
    [&]
    {
      const auto methods = m.all[1].server.statistics().methods;
      return std::ranges::any_of(methods, [](const auto& each) { return each.in_flight == 2; });
    }));
  CHECK(answer_of(m, part_request(part), m.block.first(part)).first == error_code());
  for (const std::uint64_t offset : {std::size_t{0}, part})
    CHECK(decode_progress(answer_of(m, part_request(offset), m.block.slice(offset, part)).second)
      == offset + part);
  REQUIRE(run_until(m.io, [&] { return call.answer.done(); }));
  const auto answer = decode_group_answer(call.answer.value(), {1, 1});
  REQUIRE(answer);
  CHECK(answer->part.answered == 1);
  REQUIRE(answer->part.value.size() == sizeof(std::uint64_t));
  CHECK(answer->part.value[0] == std::byte{1}); // the content is right
}

} // namespace test::rpc_group_bulk
