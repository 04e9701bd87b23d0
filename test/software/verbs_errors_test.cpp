//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// What goes wrong: the status on each side, the peer's memory untouched, the rest flushed.

#include "software/verbs_fixture.hpp"

#include <algorithm>
#include <cerrno>

#include <sys/mman.h>

using namespace test;

namespace {

/// Posts two more on each queue of both ends, so that their flushing shows.
struct bystanders
{
  explicit bystanders(connected& c)
    : near(c.near, 64)
    , far(c.far, 64)
  {
  }

  void receives(const endpoint& e, memory& m) const
  {
    REQUIRE(e.receive(100, m.sge()) == 0);
    REQUIRE(e.receive(101, m.sge()) == 0);
  }

  memory near;
  memory far;
};

void check_flushed(const completions& cq, std::initializer_list<std::uint64_t> ids)
{
  for (const std::uint64_t id : ids)
  {
    const ibv_wc wc = cq.next();
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(wc.wr_id == id);
    CHECK(wc.vendor_err != 0);
  }
}

void check_error(const completions& cq, std::uint64_t id, ibv_wc_status status)
{
  const ibv_wc wc = cq.next();
  CHECK(wc.status == status);
  CHECK(wc.wr_id == id);
  CHECK(wc.vendor_err != 0);
}

bool untouched(memory& m)
{
  return std::all_of(m.bytes().begin(), m.bytes().end(), [](std::uint8_t b) { return b == 0; });
}

std::vector<std::uint8_t> ones(std::size_t n)
{
  return std::vector<std::uint8_t>(n, 1);
}

} // namespace

TEST_CASE("a work request too small for the message fails on both sides and flushes what follows")
{
  const std::size_t size = GENERATE(65u, 300'000u);
  connected c;
  bystanders s(c);
  memory from(c.near, size);
  REQUIRE(c.b.receive(5, s.far.sge()) == 0);
  s.receives(c.b, s.far);
  s.receives(c.a, s.near);
  REQUIRE(c.a.send(1, from.sge()) == 0);
  REQUIRE(c.a.send(2, s.near.sge(0, 1)) == 0);
  check_error(c.b.received(), 5, IBV_WC_LOC_LEN_ERR);
  check_flushed(c.b.received(), {100, 101});
  check_error(c.a.sent(), 1, IBV_WC_REM_INV_REQ_ERR);
  check_flushed(c.a.sent(), {2});
  check_flushed(c.a.received(), {100, 101});
  CHECK(c.a.state() == IBV_QPS_ERR);
  CHECK(c.b.state() == IBV_QPS_ERR);
}

TEST_CASE("a local key that does not permit it fails the request, after those before it")
{
  connected c;
  bystanders s(c);
  memory read_only(c.near, 64, 0);
  memory far(c.far, 1024);
  const int what = GENERATE(range(0, 5));
  CAPTURE(what);
  REQUIRE(c.b.receive(50, far.sge()) == 0);
  REQUIRE(c.a.write(1, s.near.sge(), far.address(), far.key()) == 0);
  ibv_sge wrong = s.near.sge();
  switch (what)
  {
  case 0:
    wrong.lkey ^= 0x100;
    REQUIRE(c.a.send(2, wrong) == 0);
    break;
  case 1:
    wrong.length += 1;
    REQUIRE(c.a.send(2, wrong) == 0);
    break;
  case 2:
    wrong.addr -= 1;
    REQUIRE(c.a.write(2, wrong, far.address(), far.key()) == 0);
    break;
  case 3:
    REQUIRE(c.a.read(2, read_only.sge(), far.address(), far.key()) == 0);
    break;
  case 4:
    wrong.addr = ~std::uint64_t{0} - 8;
    REQUIRE(c.a.send(2, wrong) == 0);
    break;
  }
  REQUIRE(c.a.send(3, s.near.sge()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  check_error(c.a.sent(), 2, IBV_WC_LOC_PROT_ERR);
  check_flushed(c.a.sent(), {3});
  // Nothing of it was sent, so the peer knows nothing of it.
  CHECK_FALSE(c.b.received().poll());
  CHECK(c.b.state() == IBV_QPS_RTS);
  CHECK(untouched(far));
}

TEST_CASE("a receive whose key does not permit it is a local error there, and the sender's remote one")
{
  connected c;
  bystanders s(c);
  memory read_only(c.far, 64, 0);
  ibv_sge wrong = s.far.sge();
  if (GENERATE(false, true))
    wrong = read_only.sge();
  else
    wrong.lkey ^= 1;
  REQUIRE(c.b.receive(5, wrong) == 0);
  s.receives(c.b, s.far);
  std::fill(s.near.bytes().begin(), s.near.bytes().end(), std::uint8_t{1});
  REQUIRE(c.a.send(1, s.near.sge()) == 0);
  check_error(c.b.received(), 5, IBV_WC_LOC_PROT_ERR);
  check_flushed(c.b.received(), {100, 101});
  check_error(c.a.sent(), 1, IBV_WC_REM_OP_ERR);
  CHECK(untouched(s.far));
  CHECK(untouched(read_only));
}

TEST_CASE("a remote key that does not permit it is refused and the peer's program is told")
{
  connected c;
  bystanders s(c);
  memory far(c.far, 1024);
  memory local_only(c.far, 64, IBV_ACCESS_LOCAL_WRITE);
  ibv_pd* other = c.far.api().alloc_pd(c.far.context());
  {
    memory elsewhere(c.far, 64, all_access, other);
    memory near(c.near, 2048);
    std::fill(near.bytes().begin(), near.bytes().end(), std::uint8_t{1});
    s.receives(c.b, s.far);
    std::uint64_t at = far.address();
    std::uint32_t key = far.key();
    std::size_t size = 64;
    const int what = GENERATE(range(0, 7));
    CAPTURE(what);
    switch (what)
    {
    case 0:
      key ^= 0x10000;
      break;
    case 1:
      size = 1025;
      break;
    case 2:
      at -= 1;
      break;
    case 3:
      at = ~std::uint64_t{0} - 3;
      break;
    case 4:
      at = elsewhere.address();
      key = elsewhere.key();
      break;
    case 5:
      at = local_only.address();
      key = local_only.key();
      break;
    case 6:
      at += 1024 - 63;
      break;
    }
    const bool reading = GENERATE(false, true);
    if (reading)
      REQUIRE(c.a.read(1, near.sge(0, size), at, key) == 0);
    else
      REQUIRE(c.a.write(1, near.sge(0, size), at, key) == 0);
    REQUIRE(c.a.send(2, s.near.sge()) == 0);
    check_error(c.a.sent(), 1, IBV_WC_REM_ACCESS_ERR);
    check_flushed(c.a.sent(), {2});
    CHECK(c.far.event() == IBV_EVENT_QP_ACCESS_ERR);
    check_flushed(c.b.received(), {100, 101});
    CHECK(untouched(far));
    CHECK(untouched(local_only));
    CHECK(untouched(elsewhere));
    CHECK(near.bytes() == ones(2048));
  }
  CHECK(c.far.api().dealloc_pd(other) == 0);
}

TEST_CASE("a refused write with immediate data does not use up a receive")
{
  connected c;
  bystanders s(c);
  s.receives(c.b, s.far);
  request r(IBV_WR_RDMA_WRITE_WITH_IMM, {s.near.sge()});
  REQUIRE(c.a.post(r.remote(s.far.address(1), s.far.key()).wr) == 0);
  check_error(c.a.sent(), 1, IBV_WC_REM_ACCESS_ERR);
  check_flushed(c.b.received(), {100, 101});
  CHECK(untouched(s.far));
}

TEST_CASE("what the queue pair does not allow is an invalid request")
{
  pair_options closed;
  closed.access = 0;
  connected c(pair_options{}, closed);
  memory near(c.near, 8);
  memory far(c.far, 8);
  const int what = GENERATE(range(0, 3));
  request write(IBV_WR_RDMA_WRITE, {near.sge()});
  request read(IBV_WR_RDMA_READ, {near.sge()});
  request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {near.sge()});
  write.remote(far.address(), far.key());
  read.remote(far.address(), far.key());
  add.atomic(far.address(), far.key(), 1);
  REQUIRE(c.a.post(what == 0 ? write.wr : what == 1 ? read.wr : add.wr) == 0);
  check_error(c.a.sent(), 1, IBV_WC_REM_INV_REQ_ERR);
  CHECK(c.far.event() == IBV_EVENT_QP_REQ_ERR);
  CHECK(untouched(far));
}

TEST_CASE("an atomic must be aligned, and its result have eight bytes")
{
  connected c;
  memory near(c.near, 16);
  memory far(c.far, 16);
  SECTION("misaligned")
  {
    request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {near.sge(0, 8)});
    REQUIRE(c.a.post(add.atomic(far.address(4), far.key(), 1).wr) == 0);
    check_error(c.a.sent(), 1, IBV_WC_REM_INV_REQ_ERR);
    CHECK(c.far.event() == IBV_EVENT_QP_REQ_ERR);
  }
  SECTION("too long a result")
  {
    request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {near.sge()});
    REQUIRE(c.a.post(add.atomic(far.address(), far.key(), 1).wr) == 0);
    check_error(c.a.sent(), 1, IBV_WC_LOC_LEN_ERR);
    CHECK(c.b.state() == IBV_QPS_RTS);
  }
  SECTION("no such right")
  {
    memory plain(c.far, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {near.sge(0, 8)});
    REQUIRE(c.a.post(add.atomic(plain.address(), plain.key(), 1).wr) == 0);
    check_error(c.a.sent(), 1, IBV_WC_REM_ACCESS_ERR);
    CHECK(untouched(plain));
  }
  CHECK(untouched(far));
}

TEST_CASE("more reads than the peer takes are an invalid request")
{
  pair_options greedy;
  greedy.max_read_atomic = 16;
  pair_options modest;
  modest.max_peer_read_atomic = 1;
  connected c(greedy, modest);
  memory near(c.near, 1'000'000);
  memory far(c.far, 1'000'000);
  // One list, so that they leave together.
  std::vector<std::unique_ptr<request>> reads;
  for (unsigned i = 0; i < 16; ++i)
  {
    reads.push_back(std::make_unique<request>(IBV_WR_RDMA_READ, std::vector{near.sge()}, i));
    reads.back()->remote(far.address(), far.key());
    if (i != 0)
      reads[i - 1]->wr.next = &reads[i]->wr;
  }
  REQUIRE(c.a.post(reads[0]->wr) == 0);
  ibv_wc wc{};
  do
    wc = c.a.sent().next();
  while (wc.status == IBV_WC_SUCCESS);
  CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR);
  CHECK(c.far.event() == IBV_EVENT_QP_REQ_ERR);
}

TEST_CASE("without an initiator depth there are no reads")
{
  pair_options none;
  none.max_read_atomic = 0;
  connected c(none);
  memory near(c.near, 8);
  REQUIRE(c.a.read(1, near.sge(), 0, 1) == 0);
  check_error(c.a.sent(), 1, IBV_WC_LOC_QP_OP_ERR);
  CHECK(c.b.state() == IBV_QPS_RTS);
}

TEST_CASE("a message longer than the port's maximum is a local length error")
{
  connected c;
  memory near(c.near, 1);
  // 3 GiB of address space that is never touched.
  constexpr std::size_t size = std::size_t{3} << 30;
  void* space = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(space != MAP_FAILED);
  ibv_mr* mr = c.near.api().reg_mr(c.near.pd(), space, size, 0);
  REQUIRE(mr != nullptr);
  const auto at = reinterpret_cast<std::uint64_t>(space);
  request r(IBV_WR_SEND, {{at, 1u << 31, mr->lkey}, {at, 1, mr->lkey}});
  REQUIRE(c.a.post(r.wr) == 0);
  check_error(c.a.sent(), 1, IBV_WC_LOC_LEN_ERR);
  CHECK(c.near.api().dereg_mr(mr) == 0);
  ::munmap(space, size);
}

TEST_CASE("a peer that posts no receive is given up after so many tries")
{
  pair_options o;
  o.rnr_retry = 2;
  connected c(o);
  bystanders s(c);
  REQUIRE(c.a.send(1, s.near.sge()) == 0);
  REQUIRE(c.a.send(2, s.near.sge()) == 0);
  check_error(c.a.sent(), 1, IBV_WC_RNR_RETRY_EXC_ERR);
  check_flushed(c.a.sent(), {2});
  CHECK(c.b.state() == IBV_QPS_RTS);
}

TEST_CASE("a peer that is not there is given up in time")
{
  rdma::software::device_settings quick;
  quick.retry_time_min = std::chrono::milliseconds(50);
  verbs_device near(quick);
  verbs_device far;
  endpoint a(near);
  endpoint b(far);
  memory m(near, 8);
  REQUIRE(a.to_init() == 0);
  REQUIRE(a.to_ready_to_receive(b) == 0);
  REQUIRE(a.to_ready_to_send() == 0);
  // Nobody polls for it: the engine has the time.
  REQUIRE(a.send(1, m.sge()) == 0);
  REQUIRE(a.send(2, m.sge()) == 0);
  check_error(a.sent(), 1, IBV_WC_RETRY_EXC_ERR);
  check_flushed(a.sent(), {2});
  CHECK(a.state() == IBV_QPS_ERR);
}

TEST_CASE("a peer whose queue pair goes ends requests at once; an idle queue pair does not notice")
{
  connected c;
  bystanders s(c);
  memory far(c.far, 64);
  REQUIRE(c.a.write(1, s.near.sge(), far.address(), far.key()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  s.receives(c.a, s.near);
  c.b.destroy();
  const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  CHECK(until([&] { return std::chrono::steady_clock::now() > later || c.a.received().poll(); }));
  CHECK(c.a.state() == IBV_QPS_RTS);
  const auto before = std::chrono::steady_clock::now();
  REQUIRE(c.a.send(2, s.near.sge()) == 0);
  check_error(c.a.sent(), 2, IBV_WC_RETRY_EXC_ERR);
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(2));
  check_flushed(c.a.received(), {100, 101});
}

TEST_CASE("memory that is registered and no longer mapped is a protection error, not a crash")
{
  connected c;
  constexpr std::size_t size = 1 << 20;
  const bool local = GENERATE(true, false);
  const verbs_device& whose = local ? c.near : c.far;
  void* gone = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(gone != MAP_FAILED);
  ibv_mr* mr = whose.api().reg_mr(whose.pd(), gone, size, all_access);
  REQUIRE(mr != nullptr);
  REQUIRE(::mprotect(gone, size, PROT_NONE) == 0);
  memory near(c.near, size);
  memory far(c.far, size);
  const ibv_sge sge{reinterpret_cast<std::uint64_t>(gone), size, mr->lkey};
  if (local)
  {
    REQUIRE(c.a.write(1, near.sge(0, 8), far.address(), far.key()) == 0);
    REQUIRE(c.a.write(2, sge, far.address(), far.key()) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
    check_error(c.a.sent(), 2, IBV_WC_LOC_PROT_ERR);
    CHECK(untouched(far));
  }
  else
  {
    REQUIRE(c.a.read(1, near.sge(), sge.addr, mr->rkey) == 0);
    const ibv_wc wc = c.a.sent().next();
    CHECK(wc.status == IBV_WC_REM_OP_ERR);
  }
  CHECK(whose.api().dereg_mr(mr) == 0);
  ::munmap(gone, size);
}

TEST_CASE("a region that is deregistered is out of reach for requests that come later")
{
  connected c;
  memory near(c.near, 64);
  memory far(c.far, 64);
  REQUIRE(c.a.write(1, near.sge(), far.address(), far.key()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  const std::uint32_t key = far.key();
  far.deregister();
  REQUIRE(c.a.write(2, near.sge(), far.address(), key) == 0);
  check_error(c.a.sent(), 2, IBV_WC_REM_ACCESS_ERR);
}
