//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "software/verbs_failure.hpp"

#include "verbs/software/protocol/work_queue.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include <sys/mman.h>

// Tests failures: the status on each side, the peer's unchanged memory, and the flushed requests.

using namespace test;
namespace protocol = rdma::software::protocol;

TEST_CASE(
  "a send fails on both sides and flushes later requests when the receive buffer is too small")
{
  struct sizes
  {
    std::size_t message;
    std::size_t receive;
    std::size_t placed; // bytes of the frames before the one that does not fit
  };
  const auto [message, receive, placed] = GENERATE(sizes{65, 64, 0}, sizes{1, 0, 0},
    sizes{300'000, 64, 0}, sizes{2 * frame_bytes, frame_bytes + 1, frame_bytes},
    sizes{4 * frame_bytes + 1, 4 * frame_bytes, 4 * frame_bytes});
  CAPTURE(message, receive);
  connected c;
  failure_scene s(c.a, c.b);
  memory from(c.near, message);
  from.fill(sent_byte);
  s.guard(from);
  memory into(c.far, message + 64);
  into.fill(kept_byte);
  REQUIRE(c.b.receive(s.far_receive_id, into.sge(0, receive)) == 0);
  request r(IBV_WR_SEND, {from.sge()});
  s.check(r, met_receive(IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR));
  if (has(feature::software_device)) // the content of a failed receive depends on the device
  {
    CHECK(into.holds(sent_byte, 0, placed));
    CHECK(into.holds(kept_byte, placed));
  }
  CHECK(into.holds(kept_byte, receive));
}

TEST_CASE("an invalid local key fails only its request and later ones")
{
  connected c;
  failure_scene s(c.a, c.b);
  memory read_only(c.near, 64, 0);
  read_only.fill(sent_byte);
  s.guard(read_only);
  memory first(c.far, 64);
  first.fill(kept_byte);
  memory far(c.far, 1024);
  far.fill(kept_byte);
  s.guard(far);
  const int what = GENERATE(range(0, 6));
  CAPTURE(what);
  if (what == 5 && !has(feature::answers_checked_first))
    return;
  ibv_sge wrong = s.near.sge();
  ibv_wr_opcode opcode = IBV_WR_SEND;
  switch (what)
  {
  case 0:
    wrong.lkey ^= 0x100;
    break;
  case 1:
    wrong.length += 1;
    break;
  case 2:
    wrong.addr -= 1;
    opcode = IBV_WR_RDMA_WRITE;
    break;
  case 3:
    wrong = read_only.sge();
    opcode = IBV_WR_RDMA_READ;
    break;
  case 4:
    wrong.addr = ~std::uint64_t{0} - 8;
    break;
  case 5:
    wrong = read_only.sge(0, 8);
    opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    break;
  }
  request r(opcode, {wrong}, 2);
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    r.atomic(far.address(), far.key(), 1);
  else
    r.remote(far.address(), far.key());
  REQUIRE(c.a.write(1, s.near.sge(), first.address(), first.key()) == 0);
  // Nothing was sent, so the peer is not affected.
  s.check(r, stayed_here(IBV_WC_LOC_PROT_ERR), {1});
  CHECK(first.holds(sent_byte));
}

TEST_CASE("an invalid key of a receive is a local error there and a remote error of the sender")
{
  connected c;
  failure_scene s(c.a, c.b);
  memory into(c.far, 64);
  memory read_only(c.far, 64, 0);
  for (memory* m : {&into, &read_only})
  {
    m->fill(kept_byte);
    s.guard(*m);
  }
  ibv_sge wrong = into.sge();
  const int what = GENERATE(range(0, 3));
  CAPTURE(what);
  switch (what)
  {
  case 0:
    wrong = read_only.sge();
    break;
  case 1:
    wrong.lkey ^= 1;
    break;
  case 2:
    wrong.addr += 1;
    break;
  }
  REQUIRE(c.b.receive(s.far_receive_id, wrong) == 0);
  request r(IBV_WR_SEND, {s.near.sge()});
  s.check(r, met_receive(IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR));
}

TEST_CASE("the peer refuses an invalid remote key and raises an event")
{
  connected c;
  ibv_pd* other = c.far.api().alloc_pd(c.far.context());
  {
    failure_scene s(c.a, c.b);
    memory far(c.far, 1024);
    memory local_only(c.far, 64, IBV_ACCESS_LOCAL_WRITE);
    memory elsewhere(c.far, 64, all_access, other);
    for (memory* m : {&far, &local_only, &elsewhere})
    {
      m->fill(kept_byte);
      s.guard(*m);
    }
    memory near(c.near, 2048);
    near.fill(sent_byte);
    s.guard(near);
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
    const auto opcode = GENERATE(IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE);
    request r(opcode, {near.sge(0, size)});
    s.check(r.remote(at, key), refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
  }
  CHECK(c.far.api().dealloc_pd(other) == 0);
}

TEST_CASE("the receive of a refused write with immediate data ends with LOC_ACCESS_ERR")
{
  BOOST_RDMA_TEST_NEEDS(refusal_ends_receive);
  connected c;
  failure_scene s(c.a, c.b);
  REQUIRE(c.b.receive(s.far_receive_id, std::vector<ibv_sge>{}) == 0);
  request r(IBV_WR_RDMA_WRITE_WITH_IMM, {s.near.sge()});
  s.check(r.remote(s.far.address(1), s.far.key()),
    met_receive(IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR));
}

TEST_CASE("an operation that the peer's queue pair does not allow fails with REM_INV_REQ_ERR")
{
  pair_options closed;
  closed.access = 0;
  connected c(pair_options{}, closed);
  failure_scene s(c.a, c.b);
  memory near(c.near, 8);
  near.fill(sent_byte);
  s.guard(near);
  memory far(c.far, 8);
  far.fill(kept_byte);
  s.guard(far);
  const auto opcode = GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
    IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP);
  CAPTURE(opcode);
  request r(opcode, {near.sge()});
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
    r.atomic(far.address(), far.key(), *far.word(), 1);
  else
    r.remote(far.address(), far.key());
  s.check(r, refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR));
}

TEST_CASE("an atomic fails when its target is misaligned or its result is not eight bytes")
{
  connected c;
  failure_scene s(c.a, c.b);
  memory near(c.near, 16);
  near.fill(sent_byte);
  s.guard(near);
  memory far(c.far, 16);
  memory plain(c.far, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  for (memory* m : {&far, &plain})
  {
    m->fill(kept_byte);
    s.guard(*m);
  }
  request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {near.sge(0, 8)});
  SECTION("misaligned target")
  {
    BOOST_RDMA_TEST_NEEDS(argument_checks); // otherwise ibv_post_send refuses it
    s.check(add.atomic(far.address(4), far.key(), 1),
      refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR));
  }
  SECTION("result too long")
  {
    BOOST_RDMA_TEST_NEEDS(argument_checks);
    request long_add(IBV_WR_ATOMIC_FETCH_AND_ADD, {near.sge()});
    s.check(long_add.atomic(far.address(), far.key(), 1), stayed_here(IBV_WC_LOC_LEN_ERR));
  }
  SECTION("past the end")
  {
    s.check(add.atomic(far.address(16), far.key(), 1),
      refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
  }
  SECTION("missing right")
  {
    s.check(add.atomic(plain.address(), plain.key(), 1),
      refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
  }
}

TEST_CASE("an atomic write fails when its target, its size or a right is wrong")
{
  BOOST_RDMA_TEST_NEEDS(atomic_writes);
  const bool writes = GENERATE(true, false);
  pair_options with;
  if (!writes)
    with.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  connected c(with);
  failure_scene s(c.a, c.b);
  memory near(c.near, 16);
  near.fill(sent_byte);
  s.guard(near);
  memory far(c.far, 16);
  memory atomics_only(c.far, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  for (memory* m : {&far, &atomics_only})
  {
    m->fill(kept_byte);
    s.guard(*m);
  }
  request r(protocol::wr_atomic_write, {near.sge(0, 8)});
  if (!writes)
  {
    s.check(
      r.remote(far.address(), far.key()), refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR));
    return;
  }
  SECTION("misaligned target")
  {
    s.check(
      r.remote(far.address(4), far.key()), refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR));
  }
  SECTION("value too long")
  {
    request long_write(protocol::wr_atomic_write, {near.sge()});
    s.check(long_write.remote(far.address(), far.key()), stayed_here(IBV_WC_LOC_LEN_ERR));
  }
  SECTION("invalid local key")
  {
    r.elements.front().lkey ^= 0x100;
    s.check(r.remote(far.address(), far.key()), stayed_here(IBV_WC_LOC_PROT_ERR));
  }
  SECTION("past the end")
  {
    s.check(r.remote(far.address(16), far.key()),
      refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
  }
  SECTION("missing right")
  {
    s.check(r.remote(atomics_only.address(), atomics_only.key()),
      refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
  }
}

TEST_CASE("more concurrent reads than the peer supports fail with REM_INV_REQ_ERR")
{
  BOOST_RDMA_TEST_NEEDS(read_limits);
  constexpr std::size_t size = 1'000'000;
  pair_options greedy;
  greedy.max_read_atomic = 16;
  pair_options modest;
  modest.max_peer_read_atomic = 1;
  connected c(greedy, modest);
  memory far(c.far, size);
  far.fill(kept_byte);
  REQUIRE(c.b.receive(100, far.sge()) == 0);
  // One list, so that they are sent together.
  std::vector<std::unique_ptr<memory>> into;
  std::vector<std::unique_ptr<request>> reads;
  for (unsigned i = 0; i < 16; ++i)
  {
    into.push_back(std::make_unique<memory>(c.near, size));
    into.back()->fill(sent_byte);
    reads.push_back(std::make_unique<request>(IBV_WR_RDMA_READ, std::vector{into[i]->sge()}, i));
    reads.back()->remote(far.address(), far.key());
    if (i != 0)
      reads[i - 1]->wr.next = &reads[i]->wr;
  }
  REQUIRE(c.a.post(reads[0]->wr) == 0);
  unsigned failed = 0;
  ibv_wc wc = c.a.sent().next();
  for (; wc.status == IBV_WC_SUCCESS; wc = c.a.sent().next())
    CHECK(wc.wr_id == failed++);
  CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR);
  REQUIRE(wc.wr_id == failed);
  for (unsigned i = failed + 1; i < 16; ++i)
    check_flushed(c.a.sent(), {i});
  check_ended(c.a);
  CHECK(c.far.event() == IBV_EVENT_QP_REQ_ERR);
  check_flushed(c.b.received(), {100});
  check_ended(c.b);
  for (unsigned i = 0; i < 16; ++i)
    CHECK(into[i]->holds(i < failed ? kept_byte : sent_byte));
  CHECK(far.holds(kept_byte));
}

TEST_CASE("a read fails with LOC_QP_OP_ERR when the initiator depth is zero")
{
  BOOST_RDMA_TEST_NEEDS(read_limits);
  pair_options none;
  none.max_read_atomic = 0;
  connected c(none, pair_options{});
  failure_scene s(c.a, c.b);
  request r(IBV_WR_RDMA_READ, {s.near.sge()});
  s.check(r.remote(s.far.address(), s.far.key()), stayed_here(IBV_WC_LOC_QP_OP_ERR));
}

TEST_CASE("a message fails with LOC_LEN_ERR when it exceeds the port's maximum")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  connected c;
  failure_scene s(c.a, c.b);
  // 3 GiB of address space that is never accessed.
  const pages space(c.near, std::size_t{3} << 30, PROT_READ, 0);
  const auto opcode = GENERATE(IBV_WR_SEND, IBV_WR_RDMA_WRITE);
  request r(opcode, {space.sge(1u << 31), space.sge(1)});
  s.check(r.remote(s.far.address(), s.far.key()), stayed_here(IBV_WC_LOC_LEN_ERR));
}

TEST_CASE("requests of a queue pair in the error state are flushed and never reach the peer")
{
  connected c;
  memory near(c.near, 64);
  memory far(c.far, 64);
  near.fill(sent_byte);
  far.fill(kept_byte);
  REQUIRE(c.b.receive(5, far.sge()) == 0);
  REQUIRE(c.a.write(1, near.sge(0, 1), far.address(), far.key()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  REQUIRE(c.a.receive(100, near.sge()) == 0);
  REQUIRE(c.a.to(IBV_QPS_ERR) == 0);
  REQUIRE(c.a.write(2, near.sge(), far.address(), far.key()) == 0);
  REQUIRE(c.a.send(3, near.sge()) == 0);
  REQUIRE(c.a.read(4, near.sge(), far.address(), far.key()) == 0);
  check_flushed(c.a.sent(), {2, 3, 4});
  check_flushed(c.a.received(), {100});
  check_ended(c.a);
  // The peer detects it by a request.
  CHECK(c.b.state() == IBV_QPS_RTS);
  REQUIRE(c.b.send(6, far.sge()) == 0);
  check_error(c.b.sent(), 6, IBV_WC_RETRY_EXC_ERR);
  check_flushed(c.b.received(), {5});
  check_ended(c.b);
  CHECK(far.holds(sent_byte, 0, 1));
  CHECK(far.holds(kept_byte, 1));
  CHECK(near.holds(sent_byte));
  CHECK_FALSE(c.near.has_event());
  CHECK_FALSE(c.far.has_event());
}

TEST_CASE("an operation fails when its registered memory is no longer mapped")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr std::size_t size = 1 << 20;
  connected c;
  failure_scene s(c.a, c.b);
  memory near(c.near, size);
  memory far(c.far, size);
  near.fill(sent_byte);
  far.fill(kept_byte);
  s.guard(near);
  s.guard(far);
  SECTION("the source of a write")
  {
    pages gone(c.near, size, PROT_READ | PROT_WRITE, all_access);
    gone.take_away();
    memory first(c.far, 8);
    REQUIRE(c.a.write(1, near.sge(0, 8), first.address(), first.key()) == 0);
    request r(IBV_WR_RDMA_WRITE, {gone.sge(size)}, 2);
    s.check(r.remote(far.address(), far.key()), stayed_here(IBV_WC_LOC_PROT_ERR), {1});
    CHECK(first.holds(sent_byte));
  }
  SECTION("the peer's source of a read")
  {
    pages gone(c.far, size, PROT_READ | PROT_WRITE, all_access);
    gone.take_away();
    request r(IBV_WR_RDMA_READ, {near.sge()});
    failure expected = refused(IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
    expected.late = true;
    s.check(r.remote(gone.address(), gone.mr()->rkey), expected);
  }
}

TEST_CASE("the peer refuses the key of a deregistered region")
{
  connected c;
  failure_scene s(c.a, c.b);
  memory far(c.far, 64);
  REQUIRE(c.a.write(2, s.near.sge(), far.address(), far.key()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(sent_byte));
  far.fill(kept_byte);
  s.guard(far);
  const std::uint32_t key = far.key();
  far.deregister();
  // Registering the same bytes under another key does not make the old one valid again.
  ibv_mr* again = nullptr;
  if (GENERATE(false, true))
  {
    again = c.far.api().reg_mr(c.far.pd(), far.bytes().data(), 64, all_access);
    REQUIRE(again != nullptr);
    CHECK(again->rkey != key);
  }
  const auto opcode = GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD);
  request r(opcode, {s.near.sge(0, 8)});
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    r.atomic(far.address(), key, 1);
  else
    r.remote(far.address(), key);
  s.check(r, refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
  if (again != nullptr)
    CHECK(c.far.api().dereg_mr(again) == 0);
}

TEST_CASE("a list of work requests for which there is no memory is not posted")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  connected c;
  memory near(c.near, 8);
  memory far(c.far, 8);
  constexpr std::size_t count = 48;
  ibv_sge element = near.sge();
  std::array<ibv_send_wr, count> list{};
  for (std::size_t i = 0; i != count; ++i)
  {
    list[i].wr_id = i;
    list[i].opcode = IBV_WR_RDMA_WRITE;
    list[i].sg_list = &element;
    list[i].num_sge = 1;
    list[i].wr.rdma.remote_addr = far.address();
    list[i].wr.rdma.rkey = far.key();
    list[i].next = i + 1 != count ? &list[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  const auto post = [&](std::size_t allowed)
  {
    const failing_allocations failures(allowed, true);
    const int error = ibv_post_send(c.a.qp(), list.data(), &bad);
    return std::pair(error, failures.failed() != 0);
  };
  std::size_t refused = 0;
  for (;;)
  {
    const auto [error, failed] = post(refused);
    if (!failed)
    {
      CHECK(error == 0);
      break;
    }
    CHECK(error == ENOMEM);
    CHECK(bad == list.data());
    CHECK_FALSE(c.a.sent().poll());
    ++refused;
  }
  CHECK(refused != 0);
  for (std::size_t i = 0; i != count; ++i)
  {
    const ibv_wc wc = c.a.sent().next();
    CHECK(wc.wr_id == i);
    CHECK(wc.status == IBV_WC_SUCCESS);
  }
  CHECK_FALSE(c.a.sent().poll());
}
