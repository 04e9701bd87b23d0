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

namespace {

/// Opens a device that retries at least this long. A NIC uses only the queue pair's timeout.
void open_device(std::optional<verbs_device>& device, std::chrono::milliseconds retry_time_min)
{
  rdma::software::device_settings settings;
  settings.retry_time_min = retry_time_min;
  if (missing(feature::software_device).empty())
    device.emplace(settings);
  else
    device.emplace();
}

} // namespace

TEST_CASE("a request fails with RETRY_EXC_ERR in time when the peer does not exist")
{
  std::optional<verbs_device> opened;
  open_device(opened, std::chrono::milliseconds(50));
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
  std::optional<verbs_device> opened;
  open_device(opened, 2 * patience); // it does not wait for this time
  const verbs_device& here = *opened;
  verbs_device there;
  endpoint a(here);
  endpoint b(there);
  endpoint other_a(here);
  endpoint other_b(there);
  connect(a, b);
  connect(other_a, other_b);
  memory near(here, 64);
  memory far(there, 64);
  near.fill(sent_byte);
  REQUIRE(a.write(1, near.sge(0, 32), far.address(), far.key()) == 0);
  CHECK(a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(sent_byte, 0, 32));
  for (const std::uint64_t id : {100u, 101u})
    REQUIRE(a.receive(id, near.sge()) == 0);
  b.destroy();
  // The device serves other queue pairs meanwhile.
  REQUIRE(other_a.write(1, near.sge(), far.address(), far.key()) == 0);
  CHECK(other_a.sent().next().status == IBV_WC_SUCCESS);
  CHECK_FALSE(a.received().poll());
  CHECK(a.state() == IBV_QPS_RTS);
  far.fill(kept_byte);
  REQUIRE(a.write(2, near.sge(), far.address(), far.key()) == 0);
  check_error(a.sent(), 2, IBV_WC_RETRY_EXC_ERR);
  check_flushed(a.received(), {100, 101});
  check_ended(a);
  CHECK(far.holds(kept_byte));
  CHECK_FALSE(there.has_event());
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
  b.destroy();
  other_b.destroy();
  check_error(a.sent(), 3, IBV_WC_RETRY_EXC_ERR);
  const std::optional<ibv_wc> received = other_a.received().poll();
  REQUIRE(received.has_value());
  CHECK(received->wr_id == 101);
  CHECK(received->status == IBV_WC_SUCCESS);
}
