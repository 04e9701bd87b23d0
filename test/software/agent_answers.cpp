//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/agent_attackers.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

// Tests what an agent accepts as the answer to its own requests.

namespace test::answers {

namespace {

constexpr std::size_t size = 32;

rdma::allocation_options options_of_request()
{
  rdma::allocation_options result;
  result.alignment = 64;
  result.lifetime = std::chrono::hours(1);
  return result;
}

/// A server whose agent asks, and a client that answers as the test wants.
struct answering_fixture : attacked_fixture
{
  attacker eve{*this};
  std::shared_ptr<raw_channel> peer = raw_channel::open(eve);
  rdma::agent agent = eve.far->agent();

  void ask(memory_record& to) { agent.async_allocate(size, options_of_request(), to.handler()); }

  /// Returns the grant that answers the request with this number, from zero.
  agent_message grant_for(std::size_t number)
  {
    const agent_message question = peer->await(message_type::allocate, number);
    agent_message grant;
    grant.type = message_type::granted;
    grant.id = question.id;
    grant.lease = 100 + number;
    grant.lifetime = question.lifetime;
    grant.memory = rdma::remote_buffer(4096, size, {7, 7}, question.memory.rights());
    return grant;
  }

  void check_ended(const memory_record& asked)
  {
    CHECK(peer->is_told_over());
    REQUIRE(run_until(io, [&] { return asked.done(); }));
    CHECK(asked.ec == rdma::error::agent_ended);
    check_unharmed();
  }
};

} // namespace

TEST_CASE("an agent accepts only a grant that answers its request")
{
  answering_fixture f;
  memory_record asked;
  f.ask(asked);
  agent_message answer = f.grant_for(0);
  const auto remote = [](std::uint64_t address, std::size_t bytes, rdma::detail::device_keys keys,
                        rdma::access rights)
  { return rdma::remote_buffer(address, bytes, keys, rights); };
  const rdma::access rights = answer.memory.rights();
  bool good = false;
  SECTION("right")
  {
    good = true;
  }
  SECTION("another size")
  {
    answer.memory = remote(4096, size + 1, {7, 7}, rights);
  }
  SECTION("other rights")
  {
    answer.memory = remote(4096, size, {7, 7}, rdma::access::remote_read);
  }
  SECTION("no key for the device")
  {
    const bool software = has(feature::software_device);
    answer.memory = remote(4096, size, {software ? 7u : 0u, software ? 0u : 7u}, rights);
  }
  SECTION("another alignment")
  {
    answer.memory = remote(4096 + 32, size, {7, 7}, rights);
  }
  SECTION("a longer lifetime")
  {
    ++answer.lifetime;
  }
  SECTION("no memory")
  {
    answer = {.type = message_type::done, .id = answer.id};
  }
  f.peer->send(answer);
  if (!good)
    return f.check_ended(asked);
  REQUIRE(run_until(f.io, [&] { return asked.done(); }));
  CHECK(asked.ec == error_code());
  CHECK(asked.value.size() == size);
  CHECK_FALSE(f.peer->over());
  f.check_unharmed();
}

TEST_CASE("an agent accepts no second lease with the number of another one")
{
  answering_fixture f;
  memory_record first;
  f.ask(first);
  const agent_message grant = f.grant_for(0);
  f.peer->send(grant);
  REQUIRE(run_until(f.io, [&] { return first.done(); }));
  CHECK(first.ec == error_code());
  memory_record second;
  f.ask(second);
  agent_message again = f.grant_for(1);
  again.lease = grant.lease;
  f.peer->send(again);
  f.check_ended(second);
}

TEST_CASE("an agent accepts no renewal for longer than it has asked")
{
  answering_fixture f;
  memory_record asked;
  f.ask(asked);
  f.peer->send(f.grant_for(0));
  REQUIRE(run_until(f.io, [&] { return asked.done(); }));
  plain_record renewed;
  f.agent.async_renew(asked.value, std::chrono::minutes(1), renewed.handler());
  const agent_message question = f.peer->await(message_type::renew);
  const bool longer = GENERATE(false, true);
  f.peer->send(agent_message{.type = message_type::done,
    .id = question.id,
    .lifetime = question.lifetime + (longer ? 1 : 0)});
  REQUIRE(run_until(f.io, [&] { return renewed.done(); }));
  CHECK(renewed.ec == (longer ? error_code(rdma::error::agent_ended) : error_code()));
  if (longer)
    CHECK(f.peer->is_told_over());
  f.check_unharmed();
}

TEST_CASE(
  "a lease becomes as short as its owner has made it when the renewal ends before the answer")
{
  using clock = rdma::remote_memory::clock;
  answering_fixture f;
  memory_record asked;
  f.ask(asked);
  f.peer->send(f.grant_for(0));
  REQUIRE(run_until(f.io, [&] { return asked.done(); }));
  plain_record renewed;
  asio::cancellation_signal signal;
  f.agent.async_renew(asked.value, std::chrono::minutes(1),
    asio::bind_cancellation_slot(signal.slot(), renewed.handler()));
  const agent_message question = f.peer->await(message_type::renew);
  signal.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(f.io, [&] { return renewed.done(); }));
  CHECK(renewed.ec == asio::error::operation_aborted);
  CHECK(asked.value.expires_at() > clock::now() + std::chrono::minutes(1));
  f.peer->send(
    agent_message{.type = message_type::done, .id = question.id, .lifetime = question.lifetime});
  REQUIRE(run_until(
    f.io, [&] { return asked.value.expires_at() <= clock::now() + std::chrono::minutes(1); }));
  CHECK(asked.value.is_valid());
  f.check_unharmed();
}

TEST_CASE("an agent has a bounded number of requests under way and accepts no answer to others")
{
  answering_fixture f;
  constexpr std::size_t under_way = 16;
  std::deque<memory_record> asked(under_way + 1);
  for (memory_record& each : asked)
    f.ask(each);
  agent_message answer = f.grant_for(under_way - 1);
  ++answer.id; // of the request that waits
  f.peer->send(answer);
  f.check_ended(asked.back());
}

} // namespace test::answers
