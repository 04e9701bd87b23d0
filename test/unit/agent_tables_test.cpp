//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/lease_tables.hpp"
#include "agent/request_table.hpp"
#include "common/catch.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

// Tests the transitions of an agent's requests and leases at times that the test chooses.

namespace test::agent_tables {
namespace {

using namespace rdma::detail;
using namespace std::chrono_literals;
using time_point = lease_clock::time_point;

constexpr time_point begin(1h);

struct lent_or_granted : lease_terms
{
  void close() noexcept { is_open = false; }
  bool is_open = true;
};

struct held
{
  held(int, std::uint64_t number, const rdma::remote_buffer&, time_point end)
    : id(number)
    , expires(end.time_since_epoch())
  {
  }
  const std::uint64_t id;
  std::atomic<lease_clock::duration> expires;
  std::atomic<bool> ended{false};
};

using requests = request_table<int>;
using owned = owned_leases<lent_or_granted>;

agent_message message_of(message_type type, std::uint64_t lease = 0, std::uint64_t lifetime = 0)
{
  agent_message m;
  m.type = type;
  m.lease = lease;
  m.lifetime = lifetime;
  return m;
}

/// Adds a request that is over after a second.
std::uint32_t add(requests& to, message_type type, int waiting = 7)
{
  const std::uint32_t id = to.next_id();
  to.add(id, begin, begin + 1s, waiting);
  to.ask(id, message_of(type, 5, 1000));
  return id;
}

std::uint32_t add_sent(requests& to, message_type type)
{
  const std::uint32_t id = add(to, type);
  REQUIRE(to.next() != nullptr);
  to.on_sent();
  return id;
}

} // namespace

TEST_CASE("an agent's request is sent, answered and forgotten")
{
  requests all;
  const std::uint32_t id = add(all, message_type::renew);
  CHECK(all.next_deadline() == begin + 1s);
  CHECK_FALSE(all.asked(id));
  const agent_message* const next = all.next();
  REQUIRE(next);
  CHECK(next->id == id);
  all.on_sent();
  CHECK_FALSE(all.next());
  REQUIRE(all.asked(id));
  CHECK_FALSE(all.asked(id + 1));
  CHECK_FALSE(requests::give_back(*all.asked(id), message_of(message_type::granted, 5)));
  all.on_answered();
  CHECK(all.finish(id) == 7);
  CHECK_FALSE(all.finish(id));
  CHECK_FALSE(all.contains(id));
  CHECK_FALSE(all.is_waiting());
}

TEST_CASE("an agent sends at most 16 requests and the next one after an answer")
{
  requests all;
  for (int i = 0; i != 17; ++i)
    add(all, message_type::allocate);
  unsigned sent = 0;
  for (; all.next(); ++sent)
    all.on_sent();
  CHECK(sent == 16);
  CHECK(all.give_up(1) == 7); // it stays in flight
  CHECK_FALSE(all.next());
  all.on_answered();
  CHECK_FALSE(all.finish(1));
  REQUIRE(all.next());
  CHECK(all.next()->id == 17);
}

TEST_CASE("an agent's request that is given up has the effects of its message")
{
  requests all;
  SECTION("none before it is sent")
  {
    const std::uint32_t id = add(all, message_type::renew);
    CHECK(all.overdue(begin + 1s) == id);
    CHECK_FALSE(all.overdue(begin + 999ms));
    CHECK(all.give_up(id) == 7);
    CHECK_FALSE(all.give_up(id));
    CHECK_FALSE(all.next());
    CHECK_FALSE(all.contains(id));
  }
  SECTION("the end of a lease, which is sent later")
  {
    const auto type = GENERATE(message_type::release, message_type::hand_over);
    const std::uint32_t id = add(all, type);
    CHECK(all.give_up(id) == 7);
    CHECK_FALSE(all.is_waiting());
    REQUIRE(all.next());
    CHECK(all.next()->type == type);
  }
  SECTION("a lease, which is given back")
  {
    const std::uint32_t id = add_sent(all, message_type::allocate);
    CHECK(all.give_up(id) == 7);
    REQUIRE(all.asked(id));
    const auto release = requests::give_back(*all.asked(id), message_of(message_type::granted, 9));
    REQUIRE(release);
    CHECK(release->type == message_type::release);
    CHECK(release->lease == 9);
    CHECK_FALSE(all.finish(id));
    CHECK_FALSE(all.contains(id));
  }
  SECTION("a lifetime")
  {
    held_leases<held> leases;
    const auto lease = leases.hold(message_of(message_type::granted, 5, 60'000), begin, 0);
    const std::uint32_t id = add_sent(all, message_type::renew);
    CHECK(all.give_up(id) == 7);
    leases.on_answer(*all.asked(id), answer_to({}, refusal_status::unknown_lease));
    CHECK(time_point(lease->expires.load()) == begin + 60s);
    leases.on_answer(*all.asked(id), message_of(message_type::done, 0, 500));
    CHECK(time_point(lease->expires.load()) == begin + 500ms);
  }
}

TEST_CASE("a held lease ends once")
{
  held_leases<held> leases;
  auto lease = leases.hold(message_of(message_type::lend, 5, 1000), begin, 0);
  leases.keep_lent(lease);
  CHECK(leases.contains(5));
  SECTION("by a recall")
  {
    CHECK(leases.recall(5) == lease);
    CHECK_FALSE(leases.recall(5));
    CHECK_FALSE(leases.give_back(*lease));
    CHECK_FALSE(leases.take_lent());
  }
  SECTION("by its holder")
  {
    CHECK(leases.take_lent() == lease);
    REQUIRE(leases.give_back(*lease));
    CHECK_FALSE(leases.give_back(*lease));
    CHECK_FALSE(leases.recall(5));
  }
  SECTION("with the connection")
  {
    leases.end_all();
    CHECK_FALSE(leases.give_back(*lease));
  }
  CHECK(lease->ended);
  CHECK(leases.empty());
}

TEST_CASE("an owned lease lasts from the message about it to the last renewal's end")
{
  owned leases(10s);
  const std::uint64_t number = leases.next_number();
  CHECK(leases.next_number() != number);
  lent_or_granted terms;
  terms.lifetime = 5s;
  leases.add(number, terms);
  CHECK(leases.next_end() == time_point::max());
  CHECK_FALSE(leases.find_exposed(number)); // the peer cannot have the number
  CHECK(leases.on_renew(message_of(message_type::renew, number, 1000), begin).status
    == refusal_status::unknown_lease);
  leases.expose(number, begin);
  CHECK(leases.next_end() == begin + 5s);
  const auto [asked, answered] = GENERATE(std::pair{9'000u, 9'000u}, std::pair{1'000u, 1'000u},
    std::pair{11'000u, 10'000u}, std::pair{0u, 0u});
  const agent_message answer =
    leases.on_renew(message_of(message_type::renew, number, asked), begin + 1s);
  CHECK(answer.type == message_type::done);
  CHECK(answer.lifetime == answered);
  const time_point end = begin + 1s + std::chrono::milliseconds(answered);
  CHECK(leases.next_end() == end);
  CHECK_FALSE(leases.overdue(end - 1ns));
  CHECK(leases.overdue(end) == number);
  const auto taken = leases.take(number);
  REQUIRE(taken);
  CHECK_FALSE(taken->is_open);
  CHECK_FALSE(leases.take(number));
  CHECK_FALSE(leases.overdue(end));
  CHECK(leases.on_renew(message_of(message_type::renew, number, 1), end).status
    == refusal_status::unknown_lease);
}

TEST_CASE("a lent lease keeps the lifetime that the program chose")
{
  owned leases(1s);
  lent_or_granted terms;
  terms.lifetime = 5s;
  terms.is_lent = true;
  const std::uint64_t number = leases.next_number();
  leases.add(number, terms);
  leases.expose(number, begin);
  CHECK(leases.next_end() == begin + 5s);
  CHECK(leases.find_exposed(number));
  CHECK_FALSE(leases.find_granted(number));
  CHECK(leases.on_renew(message_of(message_type::renew, number, 1), begin).status
    == refusal_status::unknown_lease);
  CHECK(leases.next_end() == begin + 5s);
}

} // namespace test::agent_tables
