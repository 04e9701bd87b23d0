//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/verbs_failure.hpp"

// Tests requests to peers that do not answer or have vanished.

using namespace test;

TEST_CASE("a send fails with RNR_RETRY_EXC_ERR when the peer posts no receive")
{
  pair_options o;
  o.rnr_retry = GENERATE(std::uint8_t{0}, std::uint8_t{2});
  connected c(o);
  failure_scene s(c.a, c.b);
  const std::size_t size = GENERATE(std::size_t{64}, 2 * frame_bytes + 1);
  memory near(c.near, size);
  near.fill(sent_byte);
  request r(IBV_WR_SEND, {near.sge()});
  s.check(r, stayed_here(IBV_WC_RNR_RETRY_EXC_ERR));
}

TEST_CASE("a request fails with RETRY_EXC_ERR in time when the peer does not exist")
{
  rdma::software::device_settings quick; // a NIC uses only the queue pair's timeout
  quick.retry_time_min = std::chrono::milliseconds(50);
  std::optional<verbs_device> opened;
  if (missing(feature::software_device).empty())
    opened.emplace(quick);
  else
    opened.emplace();
  const verbs_device& near = *opened;
  verbs_device far;
  endpoint a(near);
  endpoint b(far);
  memory m(near, 8);
  memory kept(far, 8);
  m.fill(sent_byte);
  kept.fill(kept_byte);
  REQUIRE(a.to_init() == 0);
  REQUIRE(a.receive(100, m.sge()) == 0);
  REQUIRE(a.to_ready_to_receive(b) == 0);
  REQUIRE(a.to_ready_to_send() == 0);
  // The engine detects the time-out without polling.
  REQUIRE(a.write(1, m.sge(), kept.address(), kept.key()) == 0);
  REQUIRE(a.send(2, m.sge()) == 0);
  check_error(a.sent(), 1, IBV_WC_RETRY_EXC_ERR);
  check_flushed(a.sent(), {2});
  check_flushed(a.received(), {100});
  check_ended(a);
  CHECK_FALSE(near.has_event());
  CHECK(b.state() == IBV_QPS_RESET);
  CHECK_FALSE(far.has_event());
  CHECK(kept.holds(kept_byte));
}

TEST_CASE("requests fail soon when the peer's queue pair was destroyed and idle queue pairs stay")
{
  connected c;
  memory near(c.near, 64);
  memory far(c.far, 64);
  near.fill(sent_byte);
  REQUIRE(c.a.write(1, near.sge(0, 32), far.address(), far.key()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(sent_byte, 0, 32));
  far.fill(kept_byte);
  for (const std::uint64_t id : {100u, 101u})
    REQUIRE(c.a.receive(id, near.sge()) == 0);
  c.b.destroy();
  const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  CHECK(until([&] { return std::chrono::steady_clock::now() > later || c.a.received().poll(); }));
  CHECK(c.a.state() == IBV_QPS_RTS);
  const auto before = std::chrono::steady_clock::now();
  REQUIRE(c.a.write(2, near.sge(), far.address(), far.key()) == 0);
  check_error(c.a.sent(), 2, IBV_WC_RETRY_EXC_ERR);
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(2));
  check_flushed(c.a.received(), {100, 101});
  check_ended(c.a);
  CHECK(far.holds(kept_byte));
  CHECK_FALSE(c.far.has_event());
}

TEST_CASE("data for other queue pairs is readable before requests to a vanished peer fail")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // other devices have no connection whose end is visible
  verbs_device near;
  verbs_device far;
  endpoint a(near);
  endpoint b(far);
  endpoint other_a(near);
  endpoint other_b(far);
  connect(a, b);
  connect(other_a, other_b);
  memory m(near, 8);
  memory peers(far, 8);
  // Data sent before the connections are established would be lost with the queue pairs.
  for (const std::uint64_t id : {100u, 101u})
    REQUIRE(other_a.receive(id, m.sge()) == 0);
  REQUIRE(other_b.send(1, peers.sge()) == 0);
  CHECK(other_b.sent().next().status == IBV_WC_SUCCESS);
  CHECK(other_a.received().next().wr_id == 100);
  REQUIRE(b.receive(100, peers.sge()) == 0);
  REQUIRE(a.send(2, m.sge()) == 0);
  CHECK(a.sent().next().status == IBV_WC_SUCCESS);

  REQUIRE(a.send(3, m.sge()) == 0); // finds no receive
  REQUIRE(other_b.send(4, peers.sge()) == 0);
  const auto before = std::chrono::steady_clock::now();
  b.destroy();
  other_b.destroy();
  check_error(a.sent(), 3, IBV_WC_RETRY_EXC_ERR);
  const auto after = std::chrono::steady_clock::now();
  // 0.1 s, or less if a NIC would give up earlier: 4.096 us * 2^timeout * (retries + 1) is 0.13 s
  // here.
  CHECK(after - before >= std::chrono::milliseconds(100));
  const std::optional<ibv_wc> received = other_a.received().poll();
  REQUIRE(received.has_value());
  CHECK(received->wr_id == 101);
  CHECK(received->status == IBV_WC_SUCCESS);
}
