//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_message.hpp"
#include "software/rpc_group_bulk_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace test::rpc_group_bulk_peers {

// Tests members of a broadcast that exposes memory beside others that break the rules or stop.

namespace {

using namespace bulk_group;

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

// Returns the number of messages of other members that were not answered.
std::uint64_t calls_at(const member& of)
{
  std::uint64_t result = 0;
  for (const auto& each : of.server.statistics().methods)
    result += each.in_flight;
  return result;
}

// Runs the handlers of both until the condition is true.
template <class Condition>
void run_both(asio::io_context& a, asio::io_context& b, Condition condition)
{
  const auto end = std::chrono::steady_clock::now() + 1min;
  while (!condition() && std::chrono::steady_clock::now() < end)
  {
    b.poll();
    a.poll();
  }
  REQUIRE(condition());
}

// Calls rank 1 as another member does.
struct caller
{
  caller(members& m, asio::io_context& io)
    : client(io, m.all[0].context)
  {
    plain_record connected;
    client.async_connect(m.endpoints[1], connected.handler());
    run_both(m.io, io, [&] { return connected.done(); });
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
  REQUIRE(run_until(m.io, [&] { return calls_at(m.all[1]) == 1; }));
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
  const auto work = asio::make_work_guard(stopped);
  caller first(m, stopped);
  caller call(m, m.io);
  call.start(bulk_request(size), {});
  REQUIRE(run_until(m.io, [&] { return calls_at(m.all[1]) == 1; }));
  // Plain memory travels in messages, and nobody sends them.
  first.start(part_request(0), std::span(m.plain).first(part));
  run_both(m.io, stopped, [&] { return calls_at(m.all[1]) == 2; });
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

} // namespace test::rpc_group_bulk_peers
