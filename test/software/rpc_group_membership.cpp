//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"
#include "rpc/group_gossip.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/group.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace test::rpc_group_membership {

// Tests failure detection in groups whose members are in one process.

namespace {

namespace rpc = rdma::rpc;
using namespace rdma::detail::rpc;
using namespace std::chrono_literals;

using total = rpc::method<"total/1", std::uint64_t, std::uint64_t>;
using total_result = rpc::group_result<std::uint64_t>;
using missing_list = std::vector<rpc::missing_member>;
using failed_list = std::vector<std::uint32_t>;

// Only members that are known to have failed are bypassed.
constexpr rpc::group_call_options patient{.timeout = 24h};

rpc::group_options probing()
{
  rpc::group_options options;
  options.fan_out = 2;
  options.probe_period = emulated() ? 2s : 100ms;
  options.suspicion_time = 15 * options.probe_period;
  return options;
}

// Members without probes of their own, so that the test sends the only ones.
rpc::group_options idle()
{
  rpc::group_options options;
  options.probe_period = 24h;
  return options;
}

struct member
{
  explicit member(asio::io_context& io)
    : port(io)
    , context(make_context())
    , server(io, context, port.endpoint())
  {
  }

  reserved_port port; // also for the next server
  rdma::context context;
  rpc::server server;
  std::optional<rpc::group> group;
};

struct members
{
  members(std::uint32_t count, const rpc::group_options& o)
    : options(o)
  {
    for (std::uint32_t i = 0; i != count; ++i)
      endpoints.push_back(all.emplace_back(io).server.local_endpoint());
  }

  void start(std::uint32_t rank)
  {
    member& m = all[rank];
    m.group.emplace(m.server, m.context, endpoints, rank, options);
    m.group->handle<total>([rank](std::uint64_t n) { return n + rank; }, std::plus<>());
    m.server.start();
  }
  void start()
  {
    for (std::uint32_t i = 0; i != all.size(); ++i)
      start(i);
  }
  void end(std::uint32_t rank)
  {
    all[rank].group.reset();
    all[rank].server.close();
  }
  void start_again(std::uint32_t rank)
  {
    all[rank].server = rpc::server(io, all[rank].context, endpoints[rank]);
    start(rank);
  }

  // Waits until all members that have a group have found these to have failed.
  void wait_for(const failed_list& failed)
  {
    const auto is_found = [&]
    {
      for (const member& each : all)
        if (each.group && each.group->membership().failed != failed)
          return false;
      return true;
    };
    REQUIRE(run_until(io, is_found));
  }

  // On a busy machine a living member may be found to have failed, until it objects.
  total_result broadcast_until(std::size_t answered)
  {
    for (const auto limit = std::chrono::steady_clock::now() + patience;;)
    {
      REQUIRE(std::chrono::steady_clock::now() < limit);
      record<total_result> r;
      all[0].group->async_broadcast<total>(10, patient, r.handler());
      REQUIRE(run_until(io, [&] { return r.done(); }));
      REQUIRE(r.value().answered <= answered);
      if (r.value().answered == answered)
        return r.value();
    }
  }

  asio::io_context io;
  rpc::group_options options;
  std::vector<rpc::group::endpoint_type> endpoints;
  std::deque<member> all;
};

// A client that sends messages as a member would.
struct peer
{
  peer(members& m, std::uint32_t rank)
    : io(m.io)
    , client(m.io, m.all[0].context)
  {
    plain_record r;
    client.async_connect(m.endpoints[rank], r.handler());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    REQUIRE(r.ec == error_code());
  }

  auto send(const std::vector<std::byte>& bytes)
  {
    record<std::vector<std::byte>> r;
    client.async_call<gossip_transport>(bytes, r.handler());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return std::pair(r.ec, r.value());
  }
  static std::vector<std::byte> encoded(const gossip_request& what)
  {
    std::vector<std::byte> bytes;
    append_gossip_request(bytes, what);
    return bytes;
  }

  asio::io_context& io;
  rpc::client client;
};

} // namespace

TEST_CASE("a member that has ended is found, bypassed, and taken back when it was started again")
{
  members m(4, probing());
  m.start();
  record<rpc::group_membership> changed;
  m.all[0].group->async_wait_change(0, changed.handler());
  m.end(1);
  m.wait_for({1});
  REQUIRE(run_until(m.io, [&] { return changed.done(); }));
  CHECK(changed.ec == error_code());
  CHECK(changed.calls == 1);
  CHECK(changed.value().version != 0);

  const total_result without = m.broadcast_until(3);
  CHECK(without.reply == 3 * 10 + 0 + 2 + 3);
  REQUIRE(without.missing.size() == 1);
  CHECK(without.missing[0].rank == 1);
  CHECK(without.missing[0].ec == rdma::error::peer_lost);

  m.start_again(1);
  m.wait_for({});
  CHECK(m.broadcast_until(4).reply == 4 * 10 + 0 + 1 + 2 + 3);
}

TEST_CASE("a call goes on without a silent member when the member is found to have failed")
{
  rpc::group_options options = probing();
  options.client.queue_pair.connect_timeout = 1h; // so that no attempt to connect ends before that
  members m(3, options);
  // Connections are queued there, and nobody accepts them.
  asio::ip::tcp::acceptor silent(m.io, {asio::ip::address_v4::loopback(), 0});
  m.endpoints[1] = silent.local_endpoint();
  m.start(0);
  m.start(2);
  record<total_result> r;
  record<missing_list> at_root;
  record<missing_list> at_other;
  m.all[0].group->async_broadcast<total>(10, patient, r.handler());
  m.all[0].group->async_barrier(patient, at_root.handler());
  m.all[2].group->async_barrier(patient, at_other.handler());
  REQUIRE(run_until(m.io, [&] { return r.done() && at_root.done() && at_other.done(); }));
  CHECK(r.value().answered == 2);
  for (const auto& missing : {r.value().missing, at_root.value(), at_other.value()})
  {
    REQUIRE(missing.size() == 1);
    CHECK(missing[0].rank == 1);
    CHECK(missing[0].ec == rdma::error::peer_lost);
  }
}

TEST_CASE("a barrier ends when rank 0 is found to have failed, and goes on with its next process")
{
  members m(3, probing());
  m.start();
  using records = std::deque<record<missing_list>>;
  const auto done = [](const records& all)
  { return std::ranges::all_of(all, [](const auto& each) { return each.done(); }); };
  records lost(4);
  m.all[1].group->async_barrier(patient, lost[0].handler());
  m.all[2].group->async_barrier(patient, lost[1].handler());
  m.end(0);
  m.wait_for({0});
  m.all[1].group->async_barrier(patient, lost[2].handler()); // completes at once
  m.all[2].group->async_barrier(patient, lost[3].handler());
  REQUIRE(run_until(m.io, [&] { return done(lost); }));
  for (const auto& each : lost)
  {
    CHECK(each.ec == rdma::error::peer_lost);
    REQUIRE(each.value().size() == 1);
    CHECK(each.value()[0].rank == 0);
  }
  m.start_again(0);
  m.wait_for({});
  records next(3);
  for (std::uint32_t rank = 0; rank != 3; ++rank)
    m.all[rank].group->async_barrier(patient, next[rank].handler());
  REQUIRE(run_until(m.io, [&] { return done(next); }));
  for (const auto& each : next)
  {
    CHECK(each.ec == error_code());
    CHECK(each.value().empty());
  }
}

TEST_CASE("a wait for a change completes at once if the program has another version")
{
  members m(2, idle());
  m.start();
  record<rpc::group_membership> r;
  m.all[0].group->async_wait_change(7, r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
  CHECK(r.value().version == 0);
  CHECK(r.value().failed.empty());
}

TEST_CASE("a wait for a change ends by cancellation or with the group")
{
  members m(2, idle());
  m.start();
  rpc::group& group = *m.all[0].group;
  record<rpc::group_membership> r;
  record<rpc::group_membership> other;
  asio::cancellation_signal signal;
  group.async_wait_change(0, asio::bind_cancellation_slot(signal.slot(), r.handler()));
  group.async_wait_change(0, other.handler());
  const bool is_closed = GENERATE(false, true);
  if (is_closed)
    group.close();
  else
    signal.emit(asio::cancellation_type::total);
  CHECK_FALSE(r.done());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
  m.io.poll();
  CHECK(r.calls == 1);
  CHECK(other.done() == is_closed);
  group.close();
  record<rpc::group_membership> late;
  group.async_wait_change(0, late.handler());
  const rpc::group moved = std::move(group);
  record<rpc::group_membership> from_nothing;
  group.async_wait_change(0, from_nothing.handler());
  CHECK(group.membership().failed.empty());
  REQUIRE(run_until(m.io, [&] { return late.done() && from_nothing.done() && other.done(); }));
  CHECK(late.ec == rdma::error::closed);
  CHECK(from_nothing.ec == rdma::error::closed);
}

TEST_CASE("a group without probes has no failure detection")
{
  members m(2, {});
  m.start();
  record<rpc::group_membership> r;
  m.all[0].group->async_wait_change(0, r.handler());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_not_supported);
  CHECK(m.all[0].group->membership().version == 0);
  for (const auto period : {-1s, 11 * 24 * 3600s})
  {
    rpc::group_options wrong;
    wrong.probe_period = period;
    rpc::server server(m.io, m.all[0].context, {asio::ip::address_v4::loopback(), 0});
    CHECK_THROWS_AS(
      rpc::group(server, m.all[0].context, m.endpoints, 0, wrong), rdma::system_error);
    wrong = {};
    wrong.suspicion_time = period;
    CHECK_THROWS_AS(
      rpc::group(server, m.all[0].context, m.endpoints, 0, wrong), rdma::system_error);
  }
}

TEST_CASE("a member answers pings with its reports, and refutes those of itself")
{
  members m(4, idle());
  m.start();
  peer p(m, 1);
  const auto [ec, content] =
    p.send(peer::encoded({4, 0, 1, 5, {{2, swim_health::failed, swim_report::incarnation_max}}}));
  CHECK(ec == error_code());
  const auto first = decode_gossip_answer(content, 4);
  REQUIRE(first);
  CHECK(m.all[1].group->membership().failed == failed_list{2});
  const auto second = decode_gossip_answer(
    p.send(peer::encoded({4, 0, 1, 5, {{1, swim_health::failed, first->incarnation}}})).second, 4);
  REQUIRE(second);
  CHECK(second->incarnation == first->incarnation + 1);
  CHECK(std::ranges::count(
          second->reports, swim_report{2, swim_health::failed, swim_report::incarnation_max})
    == 1);
  // For another member: its answer, and nothing of a member that cannot be reached.
  const auto relayed = decode_gossip_answer(p.send(peer::encoded({4, 0, 3, 5, {}})).second, 4);
  REQUIRE(relayed);
  CHECK(relayed->incarnation > 5);
  m.end(3);
  CHECK(p.send(peer::encoded({4, 0, 3, 5, {}})).first);
}

TEST_CASE("a member refuses messages of failure detection that are malformed")
{
  members m(3, idle());
  m.start();
  peer p(m, 1);
  auto cut = peer::encoded({3, 0, 1, 5, {{2, swim_health::failed, 1}}});
  cut.pop_back();
  const gossip_request wrong_members{4, 0, 1, 5, {}};
  const gossip_request wrong_report{3, 0, 1, 5, {{3, swim_health::failed, 1}}};
  const gossip_request same_rank{3, 1, 2, 5, {}};
  for (const auto& each : {cut, peer::encoded(wrong_members), peer::encoded(wrong_report),
         peer::encoded(same_rank), std::vector<std::byte>()})
    CHECK(p.send(each).first == rdma::error::malformed_message);
  CHECK(m.all[1].group->membership().failed.empty());
  CHECK(p.send(peer::encoded({3, 0, 1, 5, {}})).first == error_code());
}

TEST_CASE("a member pings for others a bounded number of times at once")
{
  members m(3, idle());
  asio::ip::tcp::acceptor silent(m.io, {asio::ip::address_v4::loopback(), 0});
  m.endpoints[2] = silent.local_endpoint();
  m.start(0);
  m.start(1);
  peer p(m, 1);
  const auto request = peer::encoded({3, 0, 2, 5, {}});
  std::deque<record<std::vector<std::byte>>> waiting(group_gossip::relays_max);
  for (auto& each : waiting)
    p.client.async_call<gossip_transport>(request, each.handler());
  CHECK(p.send(request).first == rdma::error::overloaded);
  for (const auto& each : waiting)
    CHECK_FALSE(each.done());
  m.all[1].group->close();
  REQUIRE(run_until(m.io,
    [&] { return std::ranges::all_of(waiting, [](const auto& each) { return each.done(); }); }));
  for (const auto& each : waiting)
    CHECK(each.ec);
}

} // namespace test::rpc_group_membership
