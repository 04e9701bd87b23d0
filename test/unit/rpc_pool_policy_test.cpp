//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/pool_policy.hpp"

#include "common/catch.hpp"

#include <boost/asio/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

// The decisions of a pool of clients, without I/O, clock and random numbers.

namespace test::rpc_pool_policy_test {
namespace {

using rdma::error;
using rdma::error_code;
using rdma::detail::rpc::pool_policy;
using call_state = pool_policy::call_state;
using kind = pool_policy::placement::kind;
using progress = rdma::detail::rpc::call::progress_type;
using time_point = pool_policy::time_point;
using namespace std::chrono_literals;

time_point at(std::chrono::milliseconds time)
{
  return time_point(1h) + time;
}

rdma::rpc::client_pool_options options(std::uint32_t connections = 1)
{
  rdma::rpc::client_pool_options result;
  result.connections = connections;
  result.backoff_min = 100ms;
  result.backoff_max = 350ms;
  result.idle_timeout = 1000ms;
  return result;
}

std::vector<std::size_t> open_all(pool_policy& policy, time_point now)
{
  std::vector<std::size_t> result;
  while (const auto next = policy.next_to_open(now))
  {
    policy.opened(*next, now);
    result.push_back(*next);
  }
  return result;
}

call_state begun(pool_policy& policy, bool idempotent = false)
{
  call_state result{.idempotent = idempotent};
  policy.begin(result);
  return result;
}

// Gives a call to the connection that the policy chooses.
std::size_t give(pool_policy& policy, call_state& what, std::uint32_t random = 0)
{
  const auto to = policy.place(what, random);
  REQUIRE(to.is == kind::connection);
  policy.give(what, to.index);
  return to.index;
}

} // namespace

TEST_CASE("pool_policy opens one connection to a server, and the others when that is open")
{
  pool_policy policy(2, options(3));
  CHECK(policy.size() == 6);
  CHECK(policy.server_of(2) == 0);
  CHECK(policy.server_of(3) == 1);
  CHECK(policy.next_to_open(at(0ms)) == 0);
  CHECK(policy.next_to_open(at(0ms)) == 3);
  CHECK(policy.next_to_open(at(0ms)) == std::nullopt);
  policy.opened(3, at(1ms));
  CHECK(policy.next_to_open(at(1ms)) == 4);
  CHECK(policy.next_to_open(at(1ms)) == 5);
  CHECK(policy.next_to_open(at(1ms)) == std::nullopt);
}

TEST_CASE("pool_policy waits longer after each attempt to connect, up to the limit")
{
  pool_policy policy(1, options());
  const double random = GENERATE(0.0, 0.5);
  const auto part = [&](std::chrono::milliseconds all) { return all / 2 + all / 2 * random; };
  auto now = at(0ms);
  for (const auto delay : {100ms, 200ms, 350ms, 350ms})
  {
    CHECK(policy.next_to_open(now) == 0);
    CHECK(policy.opens_at() == time_point::max());
    policy.not_opened(0, now, random);
    const auto next = now + std::chrono::duration_cast<time_point::duration>(part(delay));
    CHECK(policy.opens_at() == next);
    CHECK(policy.next_to_open(next - 1ns) == std::nullopt);
    now = next;
  }
  // An open connection ends the wait, and its first answer the growth.
  CHECK(policy.next_to_open(now) == 0);
  policy.opened(0, now);
  CHECK(policy.opens_at() == time_point::max());
  SECTION("after an answer a lost connection is opened at once, and the delay is the first again")
  {
    call_state call = begun(policy);
    give(policy, call);
    policy.take_back(0, progress::answered);
    policy.ended(0, now, random);
    CHECK(policy.opens_at() <= now);
    CHECK(policy.next_to_open(now) == 0);
    policy.not_opened(0, now, random);
    CHECK(policy.opens_at() - now == part(100ms));
  }
  SECTION("without an answer the delay continues")
  {
    call_state call = begun(policy);
    give(policy, call);
    policy.take_back(0, GENERATE(progress::kept, progress::sent, progress::refused));
    policy.ended(0, now, random);
    CHECK(policy.opens_at() - now == part(350ms));
  }
}

TEST_CASE("pool_policy chooses the connection with the fewest calls")
{
  pool_policy policy(2, options(2));
  open_all(policy, at(0ms));
  std::vector<call_state> calls;
  for (int i = 0; i != 8; ++i)
    give(policy, calls.emplace_back(begun(policy)), static_cast<std::uint32_t>(i * 7));
  for (std::size_t i = 0; i != 4; ++i)
    CHECK(policy.calls(i) == 2);
  policy.take_back(2, progress::answered);
  for (const std::uint32_t random : {0u, 1u, 2u, 3u, UINT32_MAX})
    CHECK(policy.place(calls[0], random).index == 2);
  // The random number chooses between equal ones.
  policy.take_back(3, progress::answered);
  CHECK(policy.place(calls[0], 0).index == 2);
  CHECK(policy.place(calls[0], 3).index == 3);
}

TEST_CASE("pool_policy lets a call wait until connecting to each server has failed since then")
{
  pool_policy policy(2, options());
  // A failure before the call does not count.
  CHECK(policy.next_to_open(at(0ms)) == 0);
  policy.not_opened(0, at(0ms), 0);
  call_state call = begun(policy);
  CHECK(policy.place(call, 0).is == kind::waits);
  CHECK(policy.next_to_open(at(0ms)) == 1);
  policy.not_opened(1, at(0ms), 0);
  CHECK(policy.place(call, 0).is == kind::waits);
  CHECK(policy.next_to_open(at(50ms)) == 0);
  CHECK(policy.place(call, 0).is == kind::waits);
  SECTION("which ends it")
  {
    policy.not_opened(0, at(50ms), 0);
    CHECK(policy.place(call, 0).is == kind::ends);
  }
  SECTION("or one is opened")
  {
    policy.opened(0, at(50ms));
    CHECK(give(policy, call) == 0);
  }
}

TEST_CASE("pool_policy does not count a further connection to a server as its failure")
{
  pool_policy policy(1, options(2));
  CHECK(policy.next_to_open(at(0ms)) == 0);
  policy.opened(0, at(0ms));
  CHECK(policy.next_to_open(at(0ms)) == 1);
  call_state call = begun(policy);
  policy.not_opened(1, at(0ms), 0);
  CHECK(policy.opens_at() == at(50ms));
  policy.ended(0, at(0ms), 0);
  CHECK(policy.place(call, 0).is == kind::waits);
}

TEST_CASE("pool_policy repeats a call that no server has started, and others if they may be")
{
  pool_policy policy(1, options());
  open_all(policy, at(0ms));
  const bool idempotent = GENERATE(false, true);
  call_state call = begun(policy, idempotent);
  give(policy, call);
  CHECK(policy.repeats(call, 0, error::peer_lost, progress::kept));
  CHECK(policy.repeats(call, 0, error::overloaded, progress::kept));
  CHECK(policy.repeats(call, 0, error::overloaded, progress::refused));
  CHECK(policy.repeats(call, 0, error::peer_closed, progress::refused));
  CHECK(policy.repeats(call, 0, error::peer_lost, progress::sent) == idempotent);
  CHECK_FALSE(policy.repeats(call, 0, error::overloaded, progress::answered));
  CHECK_FALSE(policy.repeats(call, 0, error::peer_closed, progress::answered));
  for (const error_code ec : {error_code(error::no_such_method), error_code(error::method_mismatch),
         error_code(error::message_too_large), error_code(boost::asio::error::invalid_argument)})
    CHECK_FALSE(policy.repeats(call, 0, ec, progress::kept));
}

TEST_CASE("pool_policy repeats a call until the attempts are used up")
{
  auto of = options();
  of.attempts = 2;
  pool_policy policy(1, of);
  open_all(policy, at(0ms));
  call_state call = begun(policy, true);
  give(policy, call);
  CHECK(policy.repeats(call, 0, error::peer_lost, progress::sent));
  give(policy, call);
  CHECK_FALSE(policy.repeats(call, 0, error::peer_lost, progress::sent));
}

TEST_CASE("pool_policy prefers servers that a call has not tried")
{
  pool_policy policy(3, options());
  CHECK(policy.next_to_open(at(0ms)) == 0);
  CHECK(policy.next_to_open(at(0ms)) == 1);
  CHECK(policy.next_to_open(at(0ms)) == 2);
  policy.opened(0, at(0ms));
  policy.opened(1, at(0ms));
  call_state call = begun(policy, true);
  const std::size_t first = give(policy, call);
  policy.take_back(first, progress::refused);
  SECTION("one that is open")
  {
    REQUIRE(policy.repeats(call, first, error::peer_closed, progress::refused));
    CHECK(give(policy, call, GENERATE(0u, 1u, 2u)) != first);
  }
  SECTION("one that is being opened, and then all others again")
  {
    REQUIRE(policy.repeats(call, 0, error::peer_closed, progress::refused));
    REQUIRE(policy.repeats(call, 1, error::peer_closed, progress::refused));
    CHECK(policy.place(call, 0).is == kind::waits);
    policy.not_opened(2, at(0ms), 0);
    CHECK(policy.place(call, 0).is == kind::connection);
  }
  SECTION("and gives a call up that all have refused because of overload")
  {
    REQUIRE(policy.repeats(call, 0, error::overloaded, progress::refused));
    REQUIRE(policy.repeats(call, 1, error::overloaded, progress::refused));
    CHECK(policy.place(call, 0).is == kind::waits);
    policy.not_opened(2, at(0ms), 0);
    CHECK(policy.place(call, 0).is == kind::ends);
    // It does not wait for a delay to end.
    call_state next = begun(policy);
    REQUIRE(policy.repeats(next, 0, error::overloaded, progress::refused));
    REQUIRE(policy.repeats(next, 1, error::overloaded, progress::refused));
    CHECK(policy.place(next, 0).is == kind::ends);
  }
}

TEST_CASE("pool_policy closes connections after a time without calls")
{
  pool_policy policy(1, options(2));
  CHECK(policy.idle_until() == time_point::max()); // none is open
  call_state call = begun(policy);
  open_all(policy, at(0ms));
  CHECK(policy.idle_until() == time_point::max());
  CHECK(policy.next_to_close(at(10h)) == std::nullopt);
  policy.end(at(5ms));
  CHECK(policy.idle_until() == at(1005ms));
  CHECK(policy.next_to_close(at(1004ms)) == std::nullopt);
  CHECK(policy.next_to_close(at(1005ms)) == 0);
  CHECK(policy.next_to_close(at(1005ms)) == 1);
  CHECK(policy.next_to_close(at(1005ms)) == std::nullopt);
  CHECK(policy.idle_until() == time_point::max());
  // They may be opened at once.
  CHECK(open_all(policy, at(1005ms)).size() == 2);
  CHECK(policy.idle_until() == at(2005ms));
}

TEST_CASE("pool_policy closes no connection without a limit")
{
  auto of = options();
  of.idle_timeout = 0ms;
  pool_policy policy(1, of);
  open_all(policy, at(0ms));
  CHECK(policy.idle_until() == time_point::max());
  CHECK(policy.next_to_close(at(10h)) == std::nullopt);
}

} // namespace test::rpc_pool_policy_test
