//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/flow_fsm.hpp"

#include "common/catch.hpp"
#include "unit/simulated_seeds.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <tuple>

// The state machine of one side of the items of a call, transition by transition.

namespace test::rpc_flow_fsm_test {
namespace {

namespace asio = boost::asio;
using rdma::error;
using rdma::error_code;
using rdma::detail::rpc::flow_fsm;
using next = flow_fsm::next;

// What an item takes in addition to its bytes.
constexpr std::size_t overhead = 16;

} // namespace

TEST_CASE("an RPC flow accepts items up to its window")
{
  flow_fsm f(1024);
  CHECK(f.window() == 1024);
  CHECK(flow_fsm::cost(0) == overhead);
  CHECK(flow_fsm::cost(100) == 100 + overhead);
  CHECK(f.next_read() == next::nothing_yet);
  CHECK_FALSE(f.take_item(1024 - overhead + 1));
  CHECK(f.take_item(1000 - overhead));
  CHECK(f.next_read() == next::item);
  CHECK_FALSE(f.take_item(24 - overhead + 1));
  CHECK(f.take_item(24 - overhead));
  CHECK_FALSE(f.take_item(0));
}

TEST_CASE("an RPC flow without a window accepts no items")
{
  flow_fsm f(0);
  CHECK_FALSE(f.take_item(0));
  CHECK(f.next_read() == next::nothing_yet);
  CHECK(f.discard() == 0);
}

TEST_CASE("an RPC flow gives credit when half of its window was read")
{
  flow_fsm f(1024);
  REQUIRE(f.take_item(300 - overhead));
  REQUIRE(f.take_item(212 - overhead));
  REQUIRE(f.take_item(512 - overhead));
  REQUIRE_FALSE(f.take_item(0));
  CHECK(f.read(300 - overhead) == 0);
  REQUIRE_FALSE(f.take_item(0));
  CHECK(f.read(212 - overhead) == 512);
  CHECK(f.take_item(512 - overhead));
  CHECK_FALSE(f.take_item(0));
  CHECK(f.read(512 - overhead) == 512);
  CHECK(f.read(512 - overhead) == 512);
  CHECK(f.next_read() == next::nothing_yet);
}

TEST_CASE("an RPC flow that discards gives credit for all items")
{
  flow_fsm f(1024);
  REQUIRE(f.take_item(600 - overhead));
  REQUIRE(f.take_item(0));
  CHECK_FALSE(f.discards());
  CHECK(f.discard() == 616);
  CHECK(f.discards());
  CHECK(f.next_read() == next::end);
  CHECK(f.read_error() == asio::error::operation_aborted);
  REQUIRE(f.take_item(500 - overhead));
  CHECK(f.discard() == 0);
  REQUIRE(f.take_item(500 - overhead));
  CHECK(f.discard() == 1000);
  REQUIRE(f.take_item(1024 - overhead));
}

TEST_CASE("the reads of an RPC flow end behind the items")
{
  flow_fsm f(1024);
  REQUIRE(f.take_item(0));
  error_code expected;
  SECTION("by the peer's end")
  {
    REQUIRE(f.take_end());
    CHECK_FALSE(f.take_item(0));
    CHECK_FALSE(f.take_end());
    SECTION("also if the call fails later")
    {
      f.close(error::peer_lost);
    }
  }
  SECTION("by a reply")
  {
    f.close({});
    CHECK(f.is_closed());
    CHECK(f.close_error() == error_code());
  }
  SECTION("by an error")
  {
    f.close(error::peer_lost);
    f.close(error::closed); // has no effect
    expected = error::peer_lost;
    CHECK(f.close_error() == expected);
  }
  CHECK(f.next_read() == next::item);
  CHECK(f.read(0) == 0);
  CHECK(f.next_read() == next::end);
  CHECK(f.read_error() == expected);
}

TEST_CASE("an RPC flow gives no credit to a peer that sends no more items")
{
  flow_fsm f(1024);
  REQUIRE(f.take_item(1000));
  SECTION("because it has ended them")
  {
    REQUIRE(f.take_end());
  }
  SECTION("because the call has ended")
  {
    f.close({});
  }
  CHECK(f.read(1000) == 0);
  CHECK(f.discard() == 0);
}

TEST_CASE("an RPC flow writes when it has credit")
{
  flow_fsm f(1024);
  CHECK_FALSE(f.write_error(1'000'000)); // the peer's window is not known yet
  CHECK_FALSE(f.may_write(0));
  REQUIRE(f.take_credit(1000));
  CHECK(f.write_error(500 - overhead + 1) == error::message_too_large);
  CHECK_FALSE(f.write_error(500 - overhead));
  REQUIRE(f.may_write(500 - overhead));
  f.write(500 - overhead);
  REQUIRE(f.may_write(500 - overhead));
  f.write(499 - overhead);
  CHECK_FALSE(f.may_write(0));
  REQUIRE(f.take_credit(overhead - 2));
  CHECK_FALSE(f.may_write(0));
  REQUIRE(f.take_credit(1));
  CHECK(f.may_write(0));
  CHECK_FALSE(f.may_write(1));
  // Later credit does not change the size of items.
  REQUIRE(f.take_credit(100'000));
  CHECK(f.write_error(500 - overhead + 1) == error::message_too_large);
}

TEST_CASE("an RPC flow refuses more credit than 32 bits hold")
{
  flow_fsm f(1024);
  REQUIRE(f.take_credit(UINT32_MAX));
  CHECK_FALSE(f.take_credit(1));
  f.write(0);
  CHECK(f.take_credit(overhead));
  CHECK_FALSE(f.take_credit(1));
}

TEST_CASE("the writes of an RPC flow end")
{
  flow_fsm f(1024);
  REQUIRE(f.take_credit(1000));
  SECTION("by the program")
  {
    CHECK(f.end_writing());
    CHECK_FALSE(f.end_writing());
    CHECK(f.write_error(0) == asio::error::broken_pipe);
    f.close(error::peer_lost);
    CHECK(f.write_error(0) == error::peer_lost);
  }
  SECTION("by a reply")
  {
    f.close({});
    CHECK(f.write_error(0) == asio::error::broken_pipe);
    CHECK_FALSE(f.end_writing());
  }
  SECTION("by an error")
  {
    f.close(asio::error::timed_out);
    CHECK(f.write_error(0) == asio::error::timed_out);
    CHECK_FALSE(f.end_writing());
  }
}

TEST_CASE("two sides of an RPC flow never wait for each other, and never exceed the window")
{
  std::minstd_rand random(GENERATE(1u, 2u, 3u));
  for (const std::uint32_t window : {1024u, 1025u, 3000u, 65'536u})
  {
    CAPTURE(window);
    flow_fsm sender(0);
    flow_fsm receiver(window);
    REQUIRE(sender.take_credit(window));
    std::deque<std::size_t> items; // under way and unread
    std::size_t size = 0;          // of the next item
    std::uint64_t kept = 0;
    for (std::uint64_t sent = 0; sent != share(20'000);)
    {
      const bool writes = sender.may_write(size);
      REQUIRE((writes || !items.empty()));
      if (writes && (items.empty() || random() % 2 == 0))
      {
        sender.write(size);
        REQUIRE(receiver.take_item(size));
        items.push_back(size);
        kept += flow_fsm::cost(size);
        REQUIRE(kept <= window);
        ++sent;
        // Often the largest one.
        const std::size_t most = window / 2 - overhead;
        size = random() % 2 == 0 ? most : random() % (most + 1);
        REQUIRE_FALSE(sender.write_error(size));
      }
      else
      {
        const std::size_t first = items.front();
        items.pop_front();
        kept -= flow_fsm::cost(first);
        if (const std::uint32_t credit = receiver.read(first))
          REQUIRE(sender.take_credit(credit));
      }
    }
  }
}

} // namespace test::rpc_flow_fsm_test
