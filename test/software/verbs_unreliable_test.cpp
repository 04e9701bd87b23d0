//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests unreliable connections (IBA 9.8): there are no acknowledgements and no retries, and
// failures are silent.

#include "software/raw_peer.hpp"
#include "software/verbs_failure.hpp"

#include <cerrno>
#include <cstring>

using namespace test;

namespace {

pair_options unreliable()
{
  pair_options o;
  o.service = IBV_QPT_UC;
  return o;
}

// Reads memory that the device is writing, like programs that poll memory. TSan would report this
// race.
__attribute__((no_sanitize("thread"))) bool has_arrived(const memory& in, std::size_t at)
{
  return *reinterpret_cast<const volatile std::uint8_t*>(in.address(at)) == sent_byte;
}

// Both ends, and memory on each.
struct unreliable_scene
{
  explicit unreliable_scene(const pair_options& with = unreliable())
    : c(with)
    , near(c.near, 1 << 20)
    , far(c.far, 1 << 20)
  {
    near.fill(sent_byte);
    far.fill(kept_byte);
  }

  /// Checks that a message arrives, so the peer has processed all earlier ones.
  void check_alive()
  {
    REQUIRE(c.b.receive(999, far.sge(0, 16)) == 0);
    REQUIRE(c.a.send(998, near.sge(0, 16)) == 0);
    ibv_wc wc = c.a.sent().next();
    CHECK(wc.wr_id == 998);
    CHECK(wc.status == IBV_WC_SUCCESS);
    wc = c.b.received().next();
    CHECK(wc.wr_id == 999);
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.byte_len == 16);
    CHECK(c.a.state() == IBV_QPS_RTS);
    CHECK(c.b.state() == IBV_QPS_RTS);
  }

  connected c;
  memory near;
  memory far;
};

} // namespace

TEST_CASE("unreliable connections deliver sends and writes of any size in order")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // other devices lose some messages under load
  unreliable_scene s;
  REQUIRE(s.c.b.receive(1, s.far.sge(0, 600'000)) == 0);
  REQUIRE(s.c.b.receive(2, s.far.sge(700'000, 16)) == 0);
  request send(IBV_WR_SEND_WITH_IMM, {s.near.sge(0, 1000), s.near.sge(1000, 599'000)}, 1);
  send.wr.imm_data = 0x04030201;
  REQUIRE(s.c.a.post(send.wr) == 0);
  REQUIRE(s.c.a.write(2, s.near.sge(0, 300'000), s.far.address(720'000), s.far.key()) == 0);
  request write(IBV_WR_RDMA_WRITE_WITH_IMM, {s.near.sge(0, 8)}, 3);
  write.wr.imm_data = 0x11;
  REQUIRE(s.c.a.post(write.remote(s.far.address(1'030'000), s.far.key()).wr) == 0);
  ibv_wc wc = s.c.b.received().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.byte_len == 600'000);
  CHECK(wc.imm_data == 0x04030201);
  CHECK(wc.opcode == IBV_WC_RECV);
  wc = s.c.b.received().next();
  CHECK(wc.wr_id == 2);
  CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK(wc.imm_data == 0x11);
  for (std::uint64_t id : {1u, 2u, 3u})
  {
    wc = s.c.a.sent().next();
    CHECK(wc.wr_id == id);
    CHECK(wc.status == IBV_WC_SUCCESS);
  }
  CHECK(s.far.holds(sent_byte, 0, 600'000));
  CHECK(s.far.holds(kept_byte, 600'000, 120'000));
  CHECK(s.far.holds(sent_byte, 720'000, 300'000));
  CHECK(s.far.holds(sent_byte, 1'030'000, 8));
}

TEST_CASE("unreliable connections refuse reads, atomics and invalidation")
{
  BOOST_RDMA_TEST_NEEDS(argument_checks);
  unreliable_scene s;
  const auto opcode = GENERATE(
    IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_SEND_WITH_INV);
  request r(opcode, {s.near.sge(0, 8)});
  r.remote(s.far.address(), s.far.key());
  CHECK(s.c.a.post(r.wr) == EINVAL);
  s.check_alive();
}

TEST_CASE("unreliable connections require their own attributes and refuse others")
{
  BOOST_RDMA_TEST_NEEDS(argument_checks);
  verbs_device device;
  endpoint e(device, unreliable());
  REQUIRE(e.to_init() == 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 5;
  attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = device.gid();
  attr.ah_attr.grh.sgid_index = device.gid_index();
  constexpr int needed =
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  CHECK(e.modify(attr, needed | IBV_QP_MIN_RNR_TIMER) == EINVAL);
  CHECK(e.modify(attr, needed | IBV_QP_MAX_DEST_RD_ATOMIC) == EINVAL);
  CHECK(e.modify(attr, needed & ~IBV_QP_RQ_PSN) == EINVAL);
  CHECK(e.modify(attr, needed) == 0);
  attr.qp_state = IBV_QPS_RTS;
  CHECK(e.modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT) == EINVAL);
  CHECK(e.modify(attr, IBV_QP_STATE) == EINVAL);
  CHECK(e.modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
  CHECK(e.state() == IBV_QPS_RTS);
}

TEST_CASE("an unreliable message is lost when it finds no receive")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  unreliable_scene s;
  SECTION("no receive at all")
  {
    REQUIRE(s.c.a.send(1, s.near.sge(0, 64)) == 0);
  }
  SECTION("no receive for a message of many frames")
  {
    REQUIRE(s.c.a.send(1, s.near.sge(0, 900'000)) == 0);
  }
  SECTION("no receive for the immediate data of a write")
  {
    request write(IBV_WR_RDMA_WRITE_WITH_IMM, {s.near.sge(0, 600'000)}, 1);
    REQUIRE(s.c.a.post(write.remote(s.far.address(64), s.far.key()).wr) == 0);
  }
  ibv_wc wc = s.c.a.sent().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  request late(IBV_WR_RDMA_WRITE, {s.near.sge(0, 8)}, 2);
  REQUIRE(s.c.a.post(late.remote(s.far.address(1'000'000), s.far.key()).wr) == 0);
  REQUIRE(until(
    [&]
    {
      (void)s.c.b.received().poll();
      return has_arrived(s.far, 1'000'007);
    }));
  CHECK(s.c.a.sent().next().wr_id == 2);
  s.check_alive();
  while (s.c.far.has_event())
    CHECK(s.c.far.event() == IBV_EVENT_COMM_EST);
}

TEST_CASE("an unreliable message that is too long leaves the receive for the next message")
{
  // Other devices complete it with an error (IBA 9.9.3 permits it: classes D and E).
  BOOST_RDMA_TEST_NEEDS(software_device);
  unreliable_scene s;
  const std::size_t size = GENERATE(17u, 700'000u);
  REQUIRE(s.c.b.receive(1, s.far.sge(0, 16)) == 0);
  REQUIRE(s.c.a.send(1, s.near.sge(0, size)) == 0);
  REQUIRE(s.c.a.send(2, s.near.sge(0, 15)) == 0);
  const ibv_wc wc = s.c.b.received().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.byte_len == 15);
  CHECK(s.c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(s.c.a.sent().next().status == IBV_WC_SUCCESS);
  s.check_alive();
}

TEST_CASE("an unreliable write without a right is lost and changes no memory")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  unreliable_scene s;
  memory guarded(s.c.far, 4096, IBV_ACCESS_LOCAL_WRITE);
  guarded.fill(kept_byte);
  const int what = GENERATE(0, 1, 2);
  CAPTURE(what);
  if (what == 0)
    REQUIRE(s.c.a.write(1, s.near.sge(0, 64), guarded.address(), guarded.key()) == 0);
  else if (what == 1)
    REQUIRE(s.c.a.write(1, s.near.sge(0, 64), s.far.address(s.far.bytes().size() - 32), s.far.key())
      == 0);
  else
    REQUIRE(s.c.a.write(1, s.near.sge(0, 600'000), s.far.address(), s.far.key() ^ 0xff00) == 0);
  CHECK(s.c.a.sent().next().status == IBV_WC_SUCCESS);
  s.check_alive();
  CHECK(guarded.holds(kept_byte));
  CHECK(s.far.holds(kept_byte, 16));
}

TEST_CASE("an invalid request stops sending of an unreliable queue pair until it is set to RTS")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  unreliable_scene s;
  ibv_sge bad = s.near.sge(0, 64);
  bad.lkey ^= 0xff00;
  REQUIRE(s.c.a.receive(50, s.near.sge(0, 64)) == 0);
  REQUIRE(s.c.a.send(1, bad) == 0);
  CHECK(s.c.a.sent().next().status == IBV_WC_LOC_PROT_ERR);
  CHECK(s.c.a.state() == IBV_QPS_SQE);
  REQUIRE(s.c.a.send(2, s.near.sge(0, 64)) == 0);
  CHECK(s.c.a.sent().next().status == IBV_WC_WR_FLUSH_ERR);
  // Its receive queue still works.
  REQUIRE(s.c.b.send(1, s.far.sge(0, 64)) == 0);
  CHECK(s.c.a.received().next().status == IBV_WC_SUCCESS);
  CHECK(s.c.b.sent().next().status == IBV_WC_SUCCESS);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.cur_qp_state = IBV_QPS_SQE;
  REQUIRE(s.c.a.modify(attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == 0);
  s.near.fill(sent_byte);
  s.check_alive();
}

TEST_CASE("an invalid receive buffer moves the unreliable queue pair to the error state")
{
  BOOST_RDMA_TEST_NEEDS(local_statuses);
  unreliable_scene s;
  ibv_sge bad = s.far.sge(0, 64);
  bad.lkey ^= 0xff00;
  REQUIRE(s.c.b.receive(1, bad) == 0);
  REQUIRE(s.c.b.receive(2, s.far.sge(0, 64)) == 0);
  REQUIRE(s.c.a.send(1, s.near.sge(0, 64)) == 0);
  CHECK(s.c.a.sent().next().status == IBV_WC_SUCCESS);
  const ibv_wc wc = s.c.b.received().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.status == IBV_WC_LOC_PROT_ERR);
  CHECK(s.c.b.received().next().status == IBV_WC_WR_FLUSH_ERR);
  CHECK(s.c.b.state() == IBV_QPS_ERR);
  CHECK(s.c.a.state() == IBV_QPS_RTS);
}

TEST_CASE("messages to an unreliable peer are lost until it is connected again")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  unreliable_scene s;
  s.check_alive();
  REQUIRE(s.c.b.to(IBV_QPS_RESET) == 0);
  for (std::uint64_t i = 0; i < 200; ++i) // more than the queue holds
  {
    REQUIRE(s.c.a.send(i, s.near.sge(0, 1000)) == 0);
    const ibv_wc wc = s.c.a.sent().next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == i);
  }
  CHECK(s.c.a.state() == IBV_QPS_RTS);
  REQUIRE(s.c.b.to_init() == 0);
  REQUIRE(s.c.b.receive(7, s.far.sge(0, 64)) == 0);
  REQUIRE(s.c.b.to_ready_to_receive(s.c.a) == 0);
  REQUIRE(s.c.b.to_ready_to_send() == 0);
  std::optional<ibv_wc> got;
  REQUIRE(until(
    [&]
    {
      if (s.c.a.send(1, s.near.sge(0, 64)) == 0)
        CHECK(s.c.a.sent().next().status == IBV_WC_SUCCESS);
      got = s.c.b.received().poll();
      return got.has_value();
    }));
  CHECK(got->wr_id == 7);
  CHECK(got->status == IBV_WC_SUCCESS);
}

TEST_CASE("a message to an unreliable peer that is not ready waits for a limited time")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  rdma::software::device_settings hurried;
  hurried.retry_time_min = std::chrono::milliseconds(20);
  const bool comes = GENERATE(true, false);
  verbs_device near(comes ? rdma::software::device_settings{} : hurried);
  verbs_device far;
  endpoint a(near, unreliable());
  endpoint b(far, unreliable());
  memory from(near, 64);
  memory to(far, 64);
  REQUIRE(a.to_init() == 0);
  REQUIRE(b.to_init() == 0);
  REQUIRE(a.to_ready_to_receive(b) == 0);
  REQUIRE(a.to_ready_to_send() == 0);
  REQUIRE(a.send(1, from.sge()) == 0);
  if (comes)
  {
    REQUIRE(b.receive(2, to.sge()) == 0);
    REQUIRE(b.to_ready_to_receive(a) == 0);
    CHECK(b.received().next().wr_id == 2);
  }
  const ibv_wc wc = a.sent().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(a.state() == IBV_QPS_RTS);
}

TEST_CASE("a frame of another service moves the queue pair to the error state")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  protocol::header h;
  h.op = protocol::opcode::send_only;
  h.kind = protocol::service_uc;
  h.dest_qp = v.e.qp()->qp_num;
  h.psn = endpoint::first_psn;
  protocol::header_bytes bytes;
  s.send(bytes.data(), encode(h, bytes));
  CHECK(v.device.event() == IBV_EVENT_QP_FATAL);
  check_flushed(v.e.received(), {0, 1, 2, 3, 4, 5, 6, 7});
}
