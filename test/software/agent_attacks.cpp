//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/message.hpp"
#include "software/agent_attackers.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

// Tests hostile peers that try to access memory without a grant, to exceed their share, or to break
// the other side's agent.

using namespace test;

TEST_CASE("a key granted to one queue pair is refused for another queue pair")
{
  // Otherwise leases are registrations, which any queue pair of the domain can use.
  BOOST_RDMA_TEST_NEEDS(window_bounds);
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  attacked_fixture f;
  attacker eve(f);
  const rdma::remote_memory own = f.allocate(eve.own, 64);
  CHECK(is_access_error(eve.tries(f.protected_lease)));
  f.check_unharmed();
}

TEST_CASE("guessed keys are refused")
{
  attacked_fixture f;
  const rdma::remote_buffer& target = f.protected_lease;
  std::mt19937 random(20261122);
  std::vector<std::uint32_t> keys{1, 2, ~0u};
  const std::uint32_t known = target.key(
    has(feature::software_device) ? rdma::device_kind::software : rdma::device_kind::nic);
  for (const std::uint32_t step : {1u, 256u, 65536u, 1u << 24})
  {
    keys.push_back(known + step);
    keys.push_back(known - step);
  }
  for (int i = 0; i != 8; ++i)
    keys.push_back(static_cast<std::uint32_t>(random()));
  for (const std::uint32_t key : keys)
  {
    CAPTURE(key, known);
    attacker eve(f);
    CHECK(is_access_error(
      eve.tries({target.address(), target.size(), {key, key}, rdma::remote_access})));
  }
  f.check_unharmed();
}

TEST_CASE("access beyond the end of a lease is refused")
{
  attacked_fixture f;
  for (const auto& [offset, size] : std::vector<std::pair<std::int64_t, std::uint64_t>>{
         {64, 1}, {0, 65}, {-1, 1}, {-64, 64}, {-1, 66}, {63, 2}, {4096, 8}, {0, 1 << 20}})
  {
    CAPTURE(offset, size);
    attacker eve(f);
    const rdma::remote_memory own = f.allocate(eve.own, 64);
    // The adjacent memory contains other leases: they have the same size, and the pool is dense.
    const std::uint64_t address = own.buffer().address() + static_cast<std::uint64_t>(offset);
    CHECK(is_access_error(f.write(
      eve.own, std::string(size, 'x'), {address, size, own.buffer().keys(), own.rights()})));
  }
  f.check_unharmed();
}

TEST_CASE("leases of an ended connection are inaccessible")
{
  attacked_fixture f;
  rdma::remote_buffer left;
  {
    attacker gone(f);
    const rdma::remote_memory memory = f.allocate(gone.own, 64);
    left = memory;
    gone.own.close();
    REQUIRE(run_until(f.io, [&] { return f.lessor.statistics().regions == 1; }));
  }
  attacker eve(f);
  CHECK(is_access_error(eve.tries(left)));
  f.check_unharmed();
}

TEST_CASE("the owner's device refuses rights that were not granted")
{
  attacked_fixture f;
  rdma::allocation_options options;
  options.rights = rdma::access::remote_read;
  attacker eve(f);
  const rdma::remote_memory own = f.allocate(eve.own, 64, options);
  const rdma::remote_buffer forged(
    own.buffer().address(), 64, own.buffer().keys(), rdma::remote_access);
  CHECK(is_access_error(f.write(eve.own, "forged", forged)));
  f.check_unharmed();
}

TEST_CASE("a peer that requests all memory gets its share and others get theirs")
{
  rdma::lessor_options quotas;
  quotas.bytes_per_peer_max = 64 << 10;
  quotas.regions_per_peer_max = 100;
  quotas.bytes_max = 1 << 20;
  attacked_fixture f(quotas);
  attacker eve(f);
  std::deque<memory_record> granted(emulated() ? 500 : 5000);
  rdma::agent agent = eve.own.agent();
  agent.time_limit(patience);
  for (std::size_t i = 0; i != granted.size(); ++i)
    agent.async_allocate(i % 3 == 0 ? 1 << 16 : 1, granted[i].handler());
  REQUIRE(run_until(f.io,
    [&] {
      return std::all_of(granted.begin(), granted.end(), [](auto& each) { return each.done(); });
    }));
  std::size_t bytes = 0;
  std::size_t regions = 0;
  for (const memory_record& each : granted)
  {
    INFO(each.ec.message());
    CHECK((each.ec == error_code() || each.ec == error::quota_exceeded));
    bytes += each.value.size();
    regions += each.value.is_valid();
  }
  CHECK(regions <= 100);
  CHECK(bytes <= 64 << 10);
  CHECK(bytes != 0);
  f.check_unharmed();
}

TEST_CASE("an invalid agent message ends only the sender's agent and leases")
{
  attacked_fixture f;
  attacker eve(f);
  const auto agent_channel = raw_channel::open(eve);
  const auto granted = agent_channel->ask(message_of(message_type::allocate, 1));
  REQUIRE(granted);
  REQUIRE(granted->type == message_type::granted);
  CHECK(f.lessor.statistics().regions == 2);

  std::vector<std::byte> bytes;
  SECTION("too short")
  {
    bytes.assign(63, std::byte(1));
  }
  SECTION("too long")
  {
    bytes.assign(65, std::byte(1));
  }
  SECTION("all zeros")
  {
    bytes.assign(64, std::byte(0));
  }
  SECTION("an answer without a request")
  {
    agent_message m = message_of(message_type::done, 77);
    m.lease = 0;
    const auto encoded = m.encode();
    bytes.assign(encoded.begin(), encoded.end());
  }
  SECTION("a grant without a request")
  {
    agent_message m = message_of(message_type::lend, 77);
    m.type = message_type::granted;
    const auto encoded = m.encode();
    bytes.assign(encoded.begin(), encoded.end());
  }
  SECTION("the same lease lent twice")
  {
    const auto encoded = message_of(message_type::lend, 77).encode();
    REQUIRE(agent_channel->ask(message_of(message_type::lend, 76))->type == message_type::done);
    bytes.assign(encoded.begin(), encoded.end());
  }
  SECTION("a lease without a key")
  {
    agent_message m = message_of(message_type::lend, 77);
    const bool software = has(feature::software_device);
    m.memory =
      rdma::remote_buffer(4096, 32, {software ? 7u : 0u, software ? 0u : 7u}, rdma::remote_access);
    const auto encoded = m.encode();
    bytes.assign(encoded.begin(), encoded.end());
  }
  agent_channel->send(bytes);
  CHECK(agent_channel->is_told_over());
  REQUIRE(run_until(f.io, [&] { return f.lessor.statistics().regions == 1; }));
  CHECK(is_access_error(f.write(eve.own, "late", granted->memory)));
  f.check_unharmed();
}

TEST_CASE("an agent connects to no address but the peer's own when the peer offers another")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  attacked_fixture f;
  attacker eve(f);
  const bool server_attacks = GENERATE(false, true);
  const bool other_address = GENERATE(false, true);
  CAPTURE(server_attacks, other_address);
  rdma::queue_pair& liar = server_attacks ? *eve.far : eve.own;
  rdma::queue_pair& victim = server_attacks ? eve.own : *eve.far;

  std::optional<bystander> third;
  const auto agent_channel = raw_channel::pretend(f, liar,
    [&](rdma::endpoint_description& own)
    {
      if (other_address)
      {
        const asio::ip::address_v4 at({127, 0, 0, 200});
        own.gid = asio::ip::make_address_v6(asio::ip::v4_mapped, at).to_bytes();
      }
      third.emplace(asio::ip::make_address_v4(asio::ip::v4_mapped, asio::ip::address_v6(own.gid)));
      own.queue_pair_number = third->queue_pair_number();
    });
  memory_record asked;
  rdma::agent agent = victim.agent();
  agent.time_limit(patience);
  agent.async_allocate(16, asked.handler());
  bool reached = false;
  REQUIRE(run_until(f.io,
    [&]
    {
      reached = reached || third->connected_to();
      asio::post(f.io, [] {}); // looks again
      return reached || (asked.done() && agent_channel->over());
    }));
  CHECK_FALSE(reached);
  CHECK(asked.ec == error::agent_ended);
  CHECK(agent_channel->over());
  CHECK_FALSE(third->connected_to());
  CHECK(victim.is_connected());
  f.check_unharmed();
}

TEST_CASE("requests for leases of other peers fail with unknown_lease")
{
  attacked_fixture f;
  attacker eve(f);
  const auto agent_channel = raw_channel::open(eve);
  for (const message_type type :
    {message_type::renew, message_type::release, message_type::hand_over})
    for (const std::uint64_t lease : {std::uint64_t{1}, std::uint64_t{2}, UINT64_MAX})
    {
      agent_message m = message_of(type, 5);
      m.lease = lease;
      const auto said = agent_channel->ask(m);
      REQUIRE(said);
      CHECK(said->type == message_type::refused);
      CHECK(said->status == rdma::detail::refusal_status::unknown_lease);
    }
  agent_message silent = message_of(message_type::release, 0);
  CHECK(agent_channel->send(silent));
  silent.type = message_type::recall;
  CHECK(agent_channel->send(silent));
  CHECK(agent_channel->ask(message_of(message_type::allocate, 6))->type == message_type::granted);
  f.check_unharmed();
}

TEST_CASE("a lessor refuses an alignment that its pool does not support")
{
  attacked_fixture f;
  attacker eve(f);
  const auto agent_channel = raw_channel::open(eve);
  for (const std::uint32_t alignment : {3u, 8192u, UINT32_MAX})
  {
    CAPTURE(alignment);
    agent_message m = message_of(message_type::allocate, 1);
    m.alignment = alignment;
    const auto said = agent_channel->ask(m);
    REQUIRE(said);
    CHECK(said->type == message_type::refused);
    CHECK(said->status == rdma::detail::refusal_status::bad_alignment);
  }
  f.check_unharmed();
}

TEST_CASE("expired loans do not block later loans")
{
  attacked_fixture f;
  attacker eve(f);
  const auto agent_channel = raw_channel::open(eve);
  agent_message brief = message_of(message_type::lend, 1);
  for (const std::uint64_t lifetime : {0, 1, 2})
  {
    brief.lease = 10 + lifetime;
    brief.lifetime = lifetime;
    REQUIRE(agent_channel->ask(brief)->type == message_type::done);
  }
  // The lifetimes began before the answers arrived.
  asio::steady_timer over(f.io, std::chrono::milliseconds(brief.lifetime));
  plain_record waited;
  over.async_wait(waited.handler());
  REQUIRE(run_until(f.io, [&] { return waited.done(); }));
  memory_record borrowed;
  eve.far->agent().async_receive_remote(borrowed.handler());
  brief.lease = 20;
  brief.lifetime = agent_message::no_limit;
  // The answer may arrive after the releases of the other loans.
  REQUIRE(agent_channel->send(brief));
  REQUIRE(run_until(f.io, [&] { return borrowed.done(); }));
  CHECK(borrowed.ec == error_code());
  CHECK(borrowed.value.is_valid());
  f.check_unharmed();
}

TEST_CASE("a loan to a peer that does not answer is returned when its lifetime is over")
{
  attacked_fixture f;
  attacker eve(f);
  const auto agent_channel = raw_channel::open(eve);
  const rdma::registered_buffer region = buffer_of(f.server_context, "lent");
  rdma::lend_options options;
  options.lifetime = std::chrono::milliseconds(30);
  options.time_limit = std::chrono::milliseconds::max();
  loan_record lent;
  eve.far->agent().async_lend(region, options, lent.handler());
  const rdma::remote_buffer memory = agent_channel->await(message_type::lend).memory;
  agent_channel->await(message_type::recall);
  error_code ec;
  CHECK(f.read(eve.own, memory, ec).empty());
  CHECK(is_access_error(ec));
  f.check_unharmed();
}

TEST_CASE("a peer that receives no answers cannot exceed its share of work")
{
  attacked_fixture f;
  {
    attacker eve(f);
    const auto agent_channel = raw_channel::open(eve, 1);
    constexpr int flood = 2000;
    for (int i = 1; i <= flood; ++i)
      agent_channel->post(message_of(message_type::allocate, static_cast<std::uint32_t>(i)));
    // The server serves others meanwhile; the single receive limits the rate of answers to the
    // flood.
    for (int i = 0; i != 20; ++i)
      f.check_unharmed();
    // In addition to memory that the honest client is releasing at this moment.
    CHECK(run_until(f.io,
      [&]
      { return f.lessor.statistics().regions <= 1 + f.lessor.options().regions_per_peer_max; }));
    eve.own.close();
  }
  REQUIRE(run_until(f.io, [&] { return f.lessor.statistics().regions == 1; }));
  f.check_unharmed();
}

TEST_CASE("random agent messages do not harm other clients")
{
  attacked_fixture f;
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::unique_ptr<attacker> eve;
  std::shared_ptr<raw_channel> agent_channel;
  const int count = emulated() ? 100 : 1000;
  for (int i = 0; i != count; ++i)
  {
    if (!agent_channel || agent_channel->over())
    {
      agent_channel.reset();
      eve = std::make_unique<attacker>(f);
      agent_channel = raw_channel::open(*eve);
    }
    agent_message m = message_of(static_cast<message_type>(1 + random() % 9), random() % 4);
    if (m.lease != 0)
      m.lease = 1 + random() % 3;
    auto bytes = m.encode();
    if (random() % 8 == 0)
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << random() % 8);
    agent_channel->send(bytes);
  }
  f.check_unharmed();
  agent_channel.reset();
  eve.reset();
  REQUIRE(run_until(f.io, [&] { return f.lessor.statistics().regions == 1; }));
}
