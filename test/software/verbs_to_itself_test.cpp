//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests queue pairs that are connected to themselves, through which programs order their own
// memory.

#include "software/verbs_failure.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace test;

namespace {

/// A queue pair that is its own peer, and memory of its device.
struct lonely
{
  explicit lonely(const pair_options& with = {})
    : e(on, with)
  {
    from.fill(sent_byte);
    into.fill(kept_byte);
    must(e.to_init() == 0, "to_init");
    must(e.to_ready_to_receive(e) == 0, "to_ready_to_receive");
    must(e.to_ready_to_send() == 0, "to_ready_to_send");
  }

  void check_sent(std::uint64_t id, ibv_wc_status status = IBV_WC_SUCCESS) const
  {
    const ibv_wc wc = e.sent().next();
    CHECK(wc.wr_id == id);
    CAPTURE(wc.status, status);
    CHECK(is_status(wc.status, status));
  }
  void check_received(std::uint64_t id, ibv_wc_status status = IBV_WC_SUCCESS) const
  {
    const ibv_wc wc = e.received().next();
    CHECK(wc.wr_id == id);
    CAPTURE(wc.status, status);
    CHECK(is_status(wc.status, status));
    CHECK(wc.qp_num == e.qp()->qp_num);
  }

  static constexpr std::size_t size = 1 << 20;

  verbs_device on;
  endpoint e;
  memory from{on, size};
  memory into{on, size};
};

pair_options with_rnr_retry(std::uint8_t count)
{
  pair_options result;
  result.rnr_retry = count;
  return result;
}

} // namespace

TEST_CASE("a queue pair connected to itself carries out requests of any size")
{
  lonely l;
  const std::size_t size = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{700'000});
  CAPTURE(size);
  SECTION("send")
  {
    REQUIRE(l.e.receive(1, l.into.sge()) == 0);
    request r(IBV_WR_SEND_WITH_IMM, {l.from.sge(0, size)}, 2);
    r.wr.imm_data = 0x04030201;
    REQUIRE(l.e.post(r.wr) == 0);
    const ibv_wc wc = l.e.received().next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.byte_len == size);
    CHECK(wc.imm_data == 0x04030201);
  }
  SECTION("write")
  {
    REQUIRE(l.e.write(2, l.from.sge(0, size), l.into.address(), l.into.key()) == 0);
  }
  SECTION("read")
  {
    REQUIRE(l.e.read(2, l.into.sge(0, size), l.from.address(), l.from.key()) == 0);
  }
  SECTION("write with immediate data") // the last one: Catch does not see sections behind a return
  {
    if (!has(feature::write_with_immediate))
      return;
    REQUIRE(l.e.receive(1, std::vector<ibv_sge>{}) == 0);
    request r(IBV_WR_RDMA_WRITE_WITH_IMM, {l.from.sge(0, size)}, 2);
    REQUIRE(l.e.post(r.remote(l.into.address(), l.into.key()).wr) == 0);
    l.check_received(1);
  }
  l.check_sent(2);
  CHECK(l.into.holds(sent_byte, 0, size));
  CHECK(l.into.holds(kept_byte, size));
  CHECK(l.e.state() == IBV_QPS_RTS);
}

TEST_CASE("a queue pair connected to itself executes atomics, in order and behind a fence")
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  lonely l;
  *l.into.word(0) = 5;
  request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {l.from.sge(0, 8)}, 1);
  REQUIRE(l.e.post(add.atomic(l.into.address(), l.into.key(), 3).wr) == 0);
  request swap(IBV_WR_ATOMIC_CMP_AND_SWP, {l.from.sge(8, 8)}, 2);
  REQUIRE(l.e.post(swap.atomic(l.into.address(), l.into.key(), 8, 9).wr) == 0);
  REQUIRE(l.e.write(3, l.from.sge(0, 8), l.into.address(8), l.into.key(), IBV_SEND_FENCE) == 0);
  for (const std::uint64_t id : {1u, 2u, 3u})
    l.check_sent(id);
  CHECK(*l.from.word(0) == 5);
  CHECK(*l.from.word(1) == 8);
  CHECK(*l.into.word(0) == 9);
  CHECK(*l.into.word(1) == 5);
}

TEST_CASE("a queue pair connected to itself has many requests in flight")
{
  lonely l;
  constexpr unsigned rounds = 50;
  constexpr unsigned depth = 32;
  for (unsigned round = 0; round != rounds; ++round)
  {
    for (unsigned i = 0; i != depth; ++i)
      REQUIRE(l.e.receive(i, l.into.sge(i * 64, 64)) == 0);
    for (unsigned i = 0; i != depth; ++i)
      REQUIRE(l.e.send(i, l.from.sge(0, 64)) == 0);
    for (unsigned i = 0; i != depth; ++i)
    {
      l.check_received(i);
      l.check_sent(i);
    }
  }
}

TEST_CASE("a message of a queue pair to itself waits for a receive")
{
  lonely l;
  REQUIRE(l.e.send(1, l.from.sge(0, 8)) == 0);
  // The device has found no receive by the time that another queue pair's message has arrived.
  const lonely other;
  REQUIRE(other.e.write(2, other.from.sge(0, 8), other.into.address(), other.into.key()) == 0);
  other.check_sent(2);
  CHECK_FALSE(l.e.sent().poll());
  REQUIRE(l.e.receive(3, l.into.sge(0, 8)) == 0);
  l.check_received(3);
  l.check_sent(1);
  CHECK(l.into.holds(sent_byte, 0, 8));
}

TEST_CASE("an error of a queue pair connected to itself ends it")
{
  SECTION("no receive")
  {
    const lonely l(with_rnr_retry(0));
    REQUIRE(l.e.send(1, l.from.sge(0, 8)) == 0);
    l.check_sent(1, IBV_WC_RNR_RETRY_EXC_ERR);
    CHECK(l.e.state() == IBV_QPS_ERR);
  }
  SECTION("a wrong key")
  {
    const lonely l;
    REQUIRE(l.e.receive(3, l.into.sge(0, 8)) == 0);
    REQUIRE(l.e.write(1, l.from.sge(0, 8), l.into.address(), l.into.key() + 1) == 0);
    REQUIRE(l.e.write(2, l.from.sge(0, 8), l.into.address(), l.into.key()) == 0);
    l.check_sent(1, IBV_WC_REM_ACCESS_ERR);
    l.check_sent(2, IBV_WC_WR_FLUSH_ERR);
    l.check_received(3, IBV_WC_WR_FLUSH_ERR);
    CHECK(l.into.holds(kept_byte));
    CHECK(l.e.state() == IBV_QPS_ERR);
  }
  SECTION("a receive that is too small")
  {
    const lonely l;
    REQUIRE(l.e.receive(3, l.into.sge(0, 7)) == 0);
    REQUIRE(l.e.send(1, l.from.sge(0, 8)) == 0);
    l.check_received(3, IBV_WC_LOC_LEN_ERR);
    l.check_sent(1, IBV_WC_REM_INV_REQ_ERR);
    CHECK(l.into.holds(kept_byte));
  }
  SECTION("a wrong local key")
  {
    BOOST_RDMA_TEST_NEEDS(local_statuses);
    const lonely l;
    ibv_sge wrong = l.from.sge(0, 8);
    ++wrong.lkey;
    REQUIRE(l.e.write(1, wrong, l.into.address(), l.into.key()) == 0);
    l.check_sent(1, IBV_WC_LOC_PROT_ERR);
    CHECK(l.into.holds(kept_byte));
  }
}

TEST_CASE("memory that is not mapped ends a queue pair connected to itself with an error")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a NIC pins the pages
  const lonely l;
  constexpr std::size_t size = 100'000;
  pages gone(l.on, size, PROT_READ | PROT_WRITE, all_access);
  gone.take_away();
  if (GENERATE(true, false))
  {
    REQUIRE(l.e.write(1, gone.sge(size), l.into.address(), l.into.key()) == 0);
    l.check_sent(1, IBV_WC_LOC_PROT_ERR);
  }
  else
  {
    REQUIRE(l.e.write(1, l.from.sge(0, size), gone.address(), gone.mr()->rkey) == 0);
    l.check_sent(1, IBV_WC_REM_OP_ERR);
  }
  CHECK(l.into.holds(kept_byte));
}

TEST_CASE("a queue pair connected to itself can be reset and connected again")
{
  const lonely l;
  REQUIRE(l.e.send(1, l.from.sge(0, 8)) == 0); // waits for a receive
  REQUIRE(l.e.to(IBV_QPS_RESET) == 0);
  REQUIRE(l.e.to_init() == 0);
  REQUIRE(l.e.receive(2, l.into.sge(0, 8)) == 0);
  REQUIRE(l.e.to_ready_to_receive(l.e) == 0);
  REQUIRE(l.e.to_ready_to_send() == 0);
  REQUIRE(l.e.send(3, l.from.sge(0, 8)) == 0);
  l.check_received(2);
  l.check_sent(3);
  CHECK(l.into.holds(sent_byte, 0, 8));
}

TEST_CASE("an unreliable queue pair can be connected to itself")
{
  pair_options o;
  o.service = IBV_QPT_UC;
  const lonely l(o);
  REQUIRE(l.e.send(1, l.from.sge(0, 8)) == 0); // is lost: there is no receive
  l.check_sent(1);
  REQUIRE(l.e.receive(2, l.into.sge(0, 300'000)) == 0);
  REQUIRE(l.e.send(3, l.from.sge(0, 300'000)) == 0);
  l.check_sent(3);
  l.check_received(2);
  CHECK(l.into.holds(sent_byte, 0, 300'000));
}

TEST_CASE("a queue pair that sends itself other PSNs than it expects gets no answer")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  rdma::software::device_settings hasty;
  hasty.retry_time_min = std::chrono::milliseconds(1);
  const verbs_device on(hasty);
  const endpoint e(on);
  const memory m(on, 8);
  REQUIRE(e.to_init() == 0);
  REQUIRE(e.to_ready_to_receive(e) == 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = endpoint::first_psn + 1;
  attr.timeout = 1;
  REQUIRE(e.modify(attr,
            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
              | IBV_QP_MAX_QP_RD_ATOMIC)
    == 0);
  REQUIRE(e.write(1, m.sge(), m.address(), m.key()) == 0);
  CHECK(e.sent().next().status == IBV_WC_RETRY_EXC_ERR);
}
