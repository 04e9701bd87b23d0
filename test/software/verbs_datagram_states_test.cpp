//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the states of datagram queue pairs, errors that change them, and refused requests.

#include "software/verbs_datagrams.hpp"

#include <cerrno>

using namespace test;
namespace software = rdma::software;

TEST_CASE("an invalid local buffer of a datagram stops sending until the queue pair is set to RTS")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  const bool length = GENERATE(true, false);
  ibv_sge bad = s.from.sge(0, length ? 4097 : 64);
  if (!length)
    bad.lkey ^= 0xff00;
  REQUIRE(s.a.send(1, s.to_far.get(), s.b.qp()->qp_num, bad) == 0);
  CHECK(s.a.sent().next().status == (length ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR));
  CHECK(s.a.state() == IBV_QPS_SQE);
  REQUIRE(s.a.send(2, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  CHECK(s.a.sent().next().status == IBV_WC_WR_FLUSH_ERR);
  REQUIRE(s.a.to(IBV_QPS_RTS) == 0);
  s.check_alive();
}

TEST_CASE("an invalid receive buffer moves the datagram queue pair to the error state")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  ibv_sge bad = s.into.sge(0, 256);
  bad.lkey ^= 0xff00;
  REQUIRE(s.b.receive(1, bad) == 0);
  REQUIRE(s.b.receive(2, s.into.sge(0, 256)) == 0);
  REQUIRE(s.a.send(1, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  ibv_wc wc = s.b.received().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.status == IBV_WC_LOC_PROT_ERR);
  wc = s.b.received().next();
  CHECK(wc.wr_id == 2);
  CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
  CHECK(s.b.state() == IBV_QPS_ERR);
  REQUIRE(s.b.receive(3, s.into.sge(0, 256)) == 0); // flushed like the others
  CHECK(s.b.received().next().status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("datagram queue pairs require their own attributes in each state change")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  datagrams d(device);
  memory m(device, 256);
  const handle self(device, device);
  CHECK(d.receive(1, m.sge()) == EINVAL); // RESET
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  CHECK(d.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT) == EINVAL);
  CHECK(
    d.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == EINVAL);
  REQUIRE(d.to_init() == 0);
  REQUIRE(d.receive(1, m.sge()) == 0);
  CHECK(d.send(1, self.get(), d.qp()->qp_num, m.sge(0, 8)) == EINVAL);
  CHECK(d.to(IBV_QPS_RTS, IBV_QP_SQ_PSN) == EINVAL);
  CHECK(d.to(IBV_QPS_RTR, IBV_QP_AV) == EINVAL);
  REQUIRE(d.to(IBV_QPS_RTR) == 0);
  CHECK(d.send(1, self.get(), d.qp()->qp_num, m.sge(0, 8)) == EINVAL);
  CHECK(d.to(IBV_QPS_RTS) == EINVAL);
  REQUIRE(d.to(IBV_QPS_RTS, IBV_QP_SQ_PSN) == 0);
  REQUIRE(d.to(IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
  REQUIRE(d.send(2, self.get(), d.qp()->qp_num, m.sge(64, 8)) == 0);
  CHECK_FALSE(d.sent().poll().has_value());
  REQUIRE(d.to(IBV_QPS_RTS) == 0);
  CHECK(d.sent().next().wr_id == 2);
  CHECK(d.received().next().wr_id == 1); // the queue pair's own datagram
  REQUIRE(d.receive(3, m.sge()) == 0);
  REQUIRE(d.to(IBV_QPS_ERR) == 0);
  CHECK(d.received().next().status == IBV_WC_WR_FLUSH_ERR);
  REQUIRE(d.send(4, self.get(), d.qp()->qp_num, m.sge(0, 8)) == 0);
  CHECK(d.sent().next().status == IBV_WC_WR_FLUSH_ERR);
  REQUIRE(d.to(IBV_QPS_RESET) == 0);
  REQUIRE(d.to_init() == 0);
}

TEST_CASE("ibv_post_send refuses a datagram without a valid address handle and other operations")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  CHECK(s.a.send(1, nullptr, 2, s.from.sge(0, 8)) == EINVAL);
  CHECK(s.a.send(1, s.to_far.get(), 0x1000000, s.from.sge(0, 8)) == EINVAL);
  const handle foreign(s.far, s.near);
  CHECK(s.a.send(1, foreign.get(), 2, s.from.sge(0, 8)) == EINVAL);
  request write(IBV_WR_RDMA_WRITE, {s.from.sge(0, 8)});
  write.wr.wr.ud = {s.to_far.get(), 2, the_key};
  ibv_send_wr* bad = nullptr;
  CHECK(ibv_post_send(s.a.qp(), &write.wr, &bad) == EINVAL);
  CHECK(bad == &write.wr);
  CHECK(s.a.send(1, s.to_far.get(), 2, s.from.sge(0, 129), the_key, IBV_SEND_INLINE) == EINVAL);

  const auto refused = [&](auto change)
  {
    ibv_ah_attr attr = to_device(s.near, s.far);
    change(attr);
    errno = 0;
    return software::create_ah(s.near.pd(), &attr) == nullptr && errno == EINVAL;
  };
  CHECK(refused([](ibv_ah_attr& a) { a.is_global = 0; }));
  CHECK(refused([](ibv_ah_attr& a) { a.port_num = 2; }));
  CHECK(refused([](ibv_ah_attr& a) { a.grh.sgid_index = 9; }));
  CHECK(refused(
    [](ibv_ah_attr& a)
    {
      a.grh.sgid_index = 9;
      a.grh.dgid.raw[0] = 0x20;
    }));
  CHECK(refused([](ibv_ah_attr& a) { a.grh.dgid.raw[0] = 0x20; })); // IPv6, from an IPv4 address
  CHECK(s.near.api().dealloc_pd(s.near.pd()) == EBUSY);
}

TEST_CASE(
  "a completion queue overrun moves the datagram queue pair to the error state with an event")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  datagrams small(s.far, nullptr, 2);
  small.start();
  for (std::uint64_t i = 0; i < 4; ++i)
    REQUIRE(small.receive(i, s.into.sge(256 * i, 256)) == 0);
  for (unsigned i = 0; i < 3; ++i)
  {
    REQUIRE(s.a.send(i, s.to_far.get(), small.qp()->qp_num, s.from.sge(0, 8)) == 0);
    CHECK(s.a.sent().next().status == IBV_WC_SUCCESS);
  }
  // No thread polls: the engine receives the datagrams.
  const ibv_event_type first = s.far.event();
  const ibv_event_type second = s.far.event();
  CHECK(first == IBV_EVENT_CQ_ERR);
  CHECK(second == IBV_EVENT_QP_FATAL);
  CHECK(small.state() == IBV_QPS_ERR);
  CHECK(s.b.state() == IBV_QPS_RTS);
}

TEST_CASE("a datagram queue pair is in the error state when its fatal event arrives")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  for (int round = 0; round < 500; ++round)
  {
    datagrams small(s.far, nullptr, 1);
    small.start();
    for (std::uint64_t i = 0; i < 2; ++i)
      REQUIRE(small.receive(i, s.into.sge(256 * i, 256)) == 0);
    for (unsigned i = 0; i < 2; ++i)
    {
      REQUIRE(s.a.send(i, s.to_far.get(), small.qp()->qp_num, s.from.sge(0, 8)) == 0);
      REQUIRE(s.a.sent().next().status == IBV_WC_SUCCESS);
    }
    REQUIRE(s.far.event() == IBV_EVENT_CQ_ERR);
    REQUIRE(s.far.event() == IBV_EVENT_QP_FATAL);
    REQUIRE(small.state() == IBV_QPS_ERR);
  }
}
