//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the data of successful sends, writes, reads and atomics.

#include "software/verbs_fixture.hpp"

#include "verbs/software/protocol/work_queue.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

using namespace test;
namespace protocol = rdma::software::protocol;

namespace {

void fill(memory& m, unsigned seed)
{
  for (std::size_t i = 0; i < m.bytes().size(); ++i)
    m[i] = static_cast<std::uint8_t>(i * 31 + seed + i / 251);
}

void check_success(const ibv_wc& wc, std::uint64_t id, ibv_wc_opcode opcode)
{
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.wr_id == id);
  CHECK(wc.opcode == opcode);
}

} // namespace

TEST_CASE("a send of any size arrives completely in the oldest receive")
{
  const std::size_t size = GENERATE(0u, 1u, 64u, 4096u, 65'537u, 262'144u, 262'145u, 3'000'001u);
  connected c;
  memory from(c.near, std::max<std::size_t>(size, 1));
  memory into(c.far, size + 16);
  fill(from, 1);
  REQUIRE(c.b.receive(7, into.sge()) == 0);
  REQUIRE(c.b.receive(8, into.sge()) == 0);
  REQUIRE(c.a.send(3, from.sge(0, size)) == 0);
  const ibv_wc got = c.b.received().next();
  check_success(got, 7, IBV_WC_RECV);
  CHECK(got.byte_len == size);
  CHECK(got.qp_num == c.b.qp()->qp_num);
  if (has(feature::completion_details))
    CHECK(got.src_qp == c.a.qp()->qp_num);
  CHECK(flags_of(got) == 0);
  check_success(c.a.sent().next(), 3, IBV_WC_SEND);
  CHECK(std::equal(
    from.bytes().begin(), from.bytes().begin() + static_cast<long>(size), into.bytes().begin()));
  CHECK(std::count(into.bytes().end() - 16, into.bytes().end(), 0) == 16);
}

TEST_CASE("small messages are sent in order after many others when the program stops polling")
{
  constexpr std::size_t count = 30;
  connected c;
  memory from(c.near, count);
  memory into(c.far, count);
  fill(from, 3);
  for (std::size_t i = 0; i < count; ++i)
    REQUIRE(c.b.receive(i, into.sge(i, 1)) == 0);
  CHECK_FALSE(c.a.sent().poll()); // the device expects a thread that has just polled to poll again
  for (std::size_t i = 0; i < count; ++i)
    REQUIRE(c.a.send(i, from.sge(i, 1)) == 0);
  for (std::size_t i = 0; i < count; ++i)
    check_success(c.b.received().next(), i, IBV_WC_RECV);
  CHECK(from.bytes() == into.bytes());
  for (std::size_t i = 0; i < count; ++i)
    check_success(c.a.sent().next(), i, IBV_WC_SEND);
}

TEST_CASE("messages gather and scatter element lists and skip empty elements")
{
  connected c;
  memory from(c.near, 300'000);
  memory into(c.far, 300'000);
  fill(from, 5);
  REQUIRE(c.b.receive(
            1, {into.sge(0, 10), {0, 0, 12345}, into.sge(10, 70'000), into.sge(70'010, 229'990)})
    == 0);
  request r(
    IBV_WR_SEND, {from.sge(0, 1), {0, 0, 99}, from.sge(1, 269'999), from.sge(270'000, 30'000)});
  REQUIRE(c.a.post(r.wr) == 0);
  CHECK(c.b.received().next().byte_len == 300'000);
  check_success(c.a.sent().next(), 1, IBV_WC_SEND);
  CHECK(from.bytes() == into.bytes());
}

TEST_CASE("a message can have more elements than one system call takes")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr std::size_t elements = 1024;
  rdma::software::device_settings with;
  with.max_sge = elements;
  verbs_device near(with);
  verbs_device far(with);
  pair_options o;
  o.elements = elements;
  endpoint a(near, o);
  endpoint b(far, o);
  connect(a, b);
  memory from(near, 3 * elements);
  memory to(far, 3 * elements);
  for (std::size_t i = 0; i < from.bytes().size(); ++i)
    from.bytes()[i] = static_cast<std::uint8_t>(i * 7);
  std::vector<ibv_sge> reversed;
  std::vector<ibv_sge> scattered;
  for (std::size_t i = 0; i < elements; ++i)
  {
    reversed.push_back(from.sge(3 * (elements - 1 - i), 3));
    scattered.push_back(to.sge(3 * (elements - 1 - i), 3));
  }
  REQUIRE(b.receive(1, scattered) == 0);
  request r(IBV_WR_SEND, reversed);
  REQUIRE(a.post(r.wr) == 0);
  CHECK(a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(b.received().next().byte_len == from.bytes().size());
  CHECK(std::equal(from.bytes().begin(), from.bytes().end(), to.bytes().begin()));
}

TEST_CASE("inline data is copied when it is posted")
{
  connected c;
  memory into(c.far, 64);
  std::array<char, 5> text = {'h', 'e', 'l', 'l', 'o'};
  REQUIRE(c.b.receive(1, into.sge()) == 0);
  // The memory is not registered: the key is ignored.
  REQUIRE(c.a.send(1, {reinterpret_cast<std::uint64_t>(text.data()), 5, 0}, IBV_SEND_INLINE) == 0);
  text.fill('x');
  CHECK(c.b.received().next().byte_len == 5);
  CHECK(std::memcmp(into.bytes().data(), "hello", 5) == 0);
  check_success(c.a.sent().next(), 1, IBV_WC_SEND);
  std::array<char, 300> much{};
  CHECK(
    c.a.send(1, {reinterpret_cast<std::uint64_t>(much.data()), 257, 0}, IBV_SEND_INLINE) == EINVAL);
}

TEST_CASE("sends and writes deliver immediate data in network byte order")
{
  connected c;
  memory from(c.near, 600'000);
  memory into(c.far, 600'000);
  fill(from, 9);
  REQUIRE(c.b.receive(1, into.sge()) == 0);
  request send(IBV_WR_SEND_WITH_IMM, {from.sge(0, 8)});
  send.wr.imm_data = 0x01020304;
  REQUIRE(c.a.post(send.wr) == 0);
  ibv_wc wc = c.b.received().next();
  check_success(wc, 1, IBV_WC_RECV);
  CHECK(flags_of(wc) == IBV_WC_WITH_IMM);
  CHECK(wc.imm_data == 0x01020304);
  const std::size_t size = GENERATE(0u, 100u, 600'000u);
  REQUIRE(c.b.receive(2, std::vector<ibv_sge>{}) == 0);
  request write(IBV_WR_RDMA_WRITE_WITH_IMM, {from.sge(0, size)}, 2);
  write.remote(into.address(), into.key()).wr.imm_data = 77;
  REQUIRE(c.a.post(write.wr) == 0);
  wc = c.b.received().next();
  check_success(wc, 2, IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK(flags_of(wc) == IBV_WC_WITH_IMM);
  CHECK(wc.imm_data == 77);
  CHECK(wc.byte_len == size);
  check_success(c.a.sent().next(), 1, IBV_WC_SEND);
  check_success(c.a.sent().next(), 2, IBV_WC_RDMA_WRITE);
  CHECK(std::equal(
    from.bytes().begin(), from.bytes().begin() + static_cast<long>(size), into.bytes().begin()));
}

TEST_CASE("a completed write is in the peer's memory without action of its program")
{
  const std::size_t size = GENERATE(0u, 1u, 8u, 262'144u, 1'000'000u, 5'000'003u);
  connected c;
  memory from(c.near, size + 1);
  memory into(c.far, size + 10);
  fill(from, 3);
  REQUIRE(c.a.write(4, from.sge(0, size), into.address(5), into.key()) == 0);
  check_success(c.a.sent().next(), 4, IBV_WC_RDMA_WRITE);
  CHECK(std::equal(from.bytes().begin(), from.bytes().begin() + static_cast<long>(size),
    into.bytes().begin() + 5));
  CHECK(into[4] == 0);
  CHECK(into[size + 5] == 0);
}

TEST_CASE("reads return the peer's memory when they exceed the read depth")
{
  const std::size_t size = GENERATE(0u, 1u, 262'144u, 1'000'001u);
  connected c;
  memory from(c.far, size + 1);
  std::vector<std::unique_ptr<memory>> into;
  fill(from, 8);
  constexpr unsigned count = 10; // max_rd_atomic is 4
  for (unsigned i = 0; i < count; ++i)
  {
    into.push_back(std::make_unique<memory>(c.near, size + 1));
    REQUIRE(c.a.read(i, into.back()->sge(0, size), from.address(), from.key()) == 0);
  }
  for (unsigned i = 0; i < count; ++i)
  {
    const ibv_wc wc = c.a.sent().next();
    check_success(wc, i, IBV_WC_RDMA_READ);
    CHECK(wc.byte_len == size);
    CHECK(std::equal(from.bytes().begin(), from.bytes().begin() + static_cast<long>(size),
      into[i]->bytes().begin()));
  }
}

TEST_CASE("concurrent reads, writes and sends of both ends do not interfere")
{
  connected c;
  constexpr std::size_t size = 700'000;
  memory near(c.near, size * 4);
  memory far(c.far, size * 4);
  fill(near, 1);
  fill(far, 2);
  const auto near_before = near.bytes();
  const auto far_before = far.bytes();
  for (unsigned round = 0; round < 3; ++round)
  {
    REQUIRE(c.a.receive(0, near.sge(size * 3, size)) == 0);
    REQUIRE(c.b.receive(0, far.sge(size * 3, size)) == 0);
    REQUIRE(c.a.write(1, near.sge(0, size), far.address(size), far.key()) == 0);
    REQUIRE(c.b.write(1, far.sge(0, size), near.address(size), near.key()) == 0);
    REQUIRE(c.a.read(2, near.sge(2 * size, size), far.address(), far.key()) == 0);
    REQUIRE(c.b.read(2, far.sge(2 * size, size), near.address(), near.key()) == 0);
    REQUIRE(c.a.send(3, near.sge(0, size)) == 0);
    REQUIRE(c.b.send(3, far.sge(0, size)) == 0);
    for (const endpoint* e : {&c.a, &c.b})
    {
      for (std::uint64_t id : {1u, 2u, 3u})
      {
        const ibv_wc wc = e->sent().next();
        CHECK(wc.status == IBV_WC_SUCCESS);
        CHECK(wc.wr_id == id);
      }
      CHECK(e->received().next().status == IBV_WC_SUCCESS);
    }
  }
  for (const std::size_t part : {1u, 2u, 3u})
  {
    const auto at = static_cast<long>(part * size);
    CHECK(std::equal(near_before.begin(), near_before.begin() + size, far.bytes().begin() + at));
    CHECK(std::equal(far_before.begin(), far_before.begin() + size, near.bytes().begin() + at));
  }
}

TEST_CASE("atomics change the word and return its previous value")
{
  connected c;
  memory word(c.far, 16);
  memory result(c.near, 8);
  *word.word() = 40;
  request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {result.sge()});
  REQUIRE(c.a.post(add.atomic(word.address(), word.key(), 2).wr) == 0);
  const ibv_wc wc = c.a.sent().next();
  check_success(wc, 1, IBV_WC_FETCH_ADD);
  CHECK(wc.byte_len == 8);
  CHECK(*result.word() == 40);
  CHECK(*word.word() == 42);
  request swap(IBV_WR_ATOMIC_CMP_AND_SWP, {result.sge()});
  REQUIRE(c.a.post(swap.atomic(word.address(), word.key(), 42, 0x1122334455667788).wr) == 0);
  check_success(c.a.sent().next(), 1, IBV_WC_COMP_SWAP);
  CHECK(*result.word() == 42);
  CHECK(*word.word() == 0x1122334455667788);
  REQUIRE(c.a.post(swap.wr) == 0);
  check_success(c.a.sent().next(), 1, IBV_WC_COMP_SWAP);
  CHECK(*result.word() == 0x1122334455667788);
  CHECK(*word.word() == 0x1122334455667788);
  CHECK(*word.word(1) == 0);
}

TEST_CASE("an atomic write stores eight bytes in the peer's memory")
{
  BOOST_RDMA_TEST_NEEDS(atomic_writes);
  connected c;
  memory value(c.near, 8, 0); // it is only read
  memory word(c.far, 24, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  word.fill(kept_byte);
  // The first ones travel as frames, later ones may not.
  for (std::uint64_t i = 1; i != 20; ++i)
  {
    *value.word() = 0x1122334455667788 * i;
    request write(protocol::wr_atomic_write, {value.sge(0, 3), value.sge(3, 5)});
    if (i % 2 == 0)
      write.flags(IBV_SEND_INLINE);
    REQUIRE(c.a.post(write.remote(word.address(8), word.key()).wr) == 0);
    const ibv_wc wc = c.a.sent().next();
    check_success(wc, 1, protocol::wc_atomic_write);
    CHECK(wc.byte_len == 8);
    CHECK(*word.word(1) == *value.word());
    CHECK(word.holds(kept_byte, 0, 8));
    CHECK(word.holds(kept_byte, 16));
  }
}

TEST_CASE("a fenced write waits for preceding reads")
{
  connected c;
  constexpr std::size_t size = 2'000'000;
  memory near(c.near, size);
  memory far(c.far, size);
  memory copy(c.far, size);
  fill(far, 4);
  // The write sends the data of the read, which is correct only if the read has completed before.
  REQUIRE(c.a.read(1, near.sge(), far.address(), far.key()) == 0);
  REQUIRE(c.a.write(2, near.sge(), copy.address(), copy.key(), IBV_SEND_FENCE) == 0);
  check_success(c.a.sent().next(), 1, IBV_WC_RDMA_READ);
  check_success(c.a.sent().next(), 2, IBV_WC_RDMA_WRITE);
  CHECK(copy.bytes() == far.bytes());
}

TEST_CASE("unsignaled requests have no completion and release their slots with the next one")
{
  pair_options o;
  o.signal_all = 0;
  o.depth = 4;
  connected c(o);
  memory m(c.near, 8);
  memory into(c.far, 8);
  for (unsigned round = 0; round < 5; ++round)
  {
    for (unsigned i = 0; i < 3; ++i)
      REQUIRE(c.a.write(i, m.sge(), into.address(), into.key()) == 0);
    REQUIRE(c.a.write(3, m.sge(), into.address(), into.key(), IBV_SEND_SIGNALED) == 0);
    if (has(feature::exact_depths))
      CHECK(c.a.write(4, m.sge(), into.address(), into.key()) == ENOMEM);
    check_success(c.a.sent().next(), 3, IBV_WC_RDMA_WRITE);
  }
}

TEST_CASE("a message is repeated until the peer posts a receive")
{
  pair_options o;
  o.rnr_timer = 14; // 1 ms
  connected c(o);
  memory from(c.near, 1'000'000);
  memory into(c.far, 1'000'000);
  fill(from, 6);
  REQUIRE(c.a.send(1, from.sge()) == 0);
  REQUIRE(c.a.send(2, from.sge(0, 10)) == 0);
  request w(IBV_WR_RDMA_WRITE_WITH_IMM, {from.sge()}, 3);
  REQUIRE(c.a.post(w.remote(into.address(), into.key()).wr) == 0);
  // A later message with a limit fails after as many repetitions.
  o.rnr_retry = 6;
  endpoint limited(c.near, o);
  endpoint other(c.far, o);
  connect(limited, other);
  REQUIRE(limited.send(1, from.sge(0, 10)) == 0);
  CHECK(limited.sent().next().status == IBV_WC_RNR_RETRY_EXC_ERR);
  CHECK_FALSE(c.a.sent().poll());
  REQUIRE(c.b.receive(11, into.sge()) == 0);
  CHECK(c.b.received().next().wr_id == 11);
  check_success(c.a.sent().next(), 1, IBV_WC_SEND);
  CHECK(from.bytes() == into.bytes());
  REQUIRE(c.b.receive(12, into.sge()) == 0);
  CHECK(c.b.received().next().byte_len == 10);
  REQUIRE(c.b.receive(13, into.sge()) == 0);
  CHECK(c.b.received().next().opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  check_success(c.a.sent().next(), 2, IBV_WC_SEND);
  check_success(c.a.sent().next(), 3, IBV_WC_RDMA_WRITE);
}

TEST_CASE("two queue pairs of one device connect to each other")
{
  verbs_device d;
  endpoint a(d);
  endpoint b(d);
  connect(a, b);
  memory m(d, 64);
  memory into(d, 64);
  fill(m, 2);
  REQUIRE(b.receive(1, into.sge()) == 0);
  REQUIRE(a.send(1, m.sge()) == 0);
  check_success(b.received().next(), 1, IBV_WC_RECV);
  check_success(a.sent().next(), 1, IBV_WC_SEND);
  CHECK(m.bytes() == into.bytes());
}
