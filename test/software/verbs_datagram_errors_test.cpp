//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests datagram queue pairs whose memory, sockets or completion queues fail, and their resets.

#include "common/system_calls.hpp"
#include "software/verbs_datagrams.hpp"

#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace test::verbs_datagram_errors_test {
namespace {

namespace software = rdma::software;

ibv_srq* make_shared(const verbs_device& on)
{
  ibv_srq_init_attr with{nullptr, {16, 2, 0}};
  ibv_srq* const made = on.api().create_srq(on.pd(), &with);
  must(made != nullptr, "create_srq");
  return made;
}

void post(ibv_srq* to, std::uint64_t id, ibv_sge into)
{
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &into;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  must(ibv_post_srq_recv(to, &wr, &bad) == 0, "post_srq_recv");
}

// Posts requests as one list.
void post(const datagrams& to, std::deque<request>& list)
{
  for (std::size_t i = 1; i < list.size(); ++i)
    list[i - 1].wr.next = &list[i].wr;
  ibv_send_wr* bad = nullptr;
  must(ibv_post_send(to.qp(), &list.front().wr, &bad) == 0, "post_send");
}

} // namespace

TEST_CASE("a datagram queue pair that was reset forgets its requests and works again")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  s.check_alive();
  // A datagram that does not fit takes a receive, which stays for the next one.
  REQUIRE(s.b.receive(1, s.into.sge(0, route + 4)) == 0);
  REQUIRE(s.a.send(2, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  REQUIRE(s.a.send(3, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 4)) == 0);
  CHECK(s.a.sent().next().wr_id == 2);
  CHECK(s.a.sent().next().wr_id == 3);
  CHECK(s.b.received().next().wr_id == 1);
  REQUIRE(s.b.receive(4, s.into.sge(0, route + 4)) == 0);
  datagrams other(s.far);
  other.start();
  REQUIRE(other.receive(5, s.into.sge(512, 256)) == 0);
  REQUIRE(s.a.send(6, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  REQUIRE(s.a.send(7, s.to_far.get(), other.qp()->qp_num, s.from.sge(0, 8)) == 0);
  CHECK(other.received().next().wr_id == 5); // the one before it has arrived
  CHECK(s.a.sent().next().wr_id == 6);
  CHECK(s.a.sent().next().wr_id == 7);
  // A datagram that arrives before the queue pair is ready again is lost.
  REQUIRE(s.b.to(IBV_QPS_RESET) == 0);
  REQUIRE(s.b.to_init() == 0);
  REQUIRE(s.b.receive(8, s.into.sge(0, 256)) == 0);
  REQUIRE(other.receive(9, s.into.sge(512, 256)) == 0);
  REQUIRE(s.a.send(10, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  REQUIRE(s.a.send(11, s.to_far.get(), other.qp()->qp_num, s.from.sge(0, 8)) == 0);
  CHECK(other.received().next().wr_id == 9);
  CHECK_FALSE(s.b.received().poll());
  for (const datagrams* each : {&s.a, &s.b})
  {
    REQUIRE(each->to(IBV_QPS_RESET) == 0);
    each->start();
  }
  s.check_alive();
}

TEST_CASE("a datagram queue pair reports that its send queue has drained")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  REQUIRE(s.a.modify(attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
  CHECK(s.near.event() == IBV_EVENT_SQ_DRAINED);
}

TEST_CASE("a datagram queue pair with shared receives flushes only the one that it took")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  ibv_srq* const shared = make_shared(s.far);
  {
    const datagrams c(s.far, shared);
    c.start();
    post(shared, 1, s.into.sge(0, route + 4));
    post(shared, 2, s.into.sge(256, 256));
    const bool is_taken = GENERATE(true, false);
    if (is_taken)
      REQUIRE(s.a.send(3, s.to_far.get(), c.qp()->qp_num, s.from.sge(0, 8)) == 0);
    // After it.
    REQUIRE(s.b.receive(4, s.into.sge(512, 256)) == 0);
    REQUIRE(s.a.send(5, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
    CHECK(s.b.received().next().wr_id == 4);
    REQUIRE(c.to(IBV_QPS_ERR) == 0);
    CHECK(s.far.event() == IBV_EVENT_QP_LAST_WQE_REACHED);
    REQUIRE(c.to(IBV_QPS_ERR) == 0);
    CHECK_FALSE(s.far.has_event()); // once
    if (is_taken)
    {
      const ibv_wc wc = c.received().next();
      CHECK(wc.wr_id == 1);
      CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
    }
    // The others belong to other queue pairs.
    const datagrams d(s.far, shared);
    d.start();
    REQUIRE(s.a.send(6, s.to_far.get(), d.qp()->qp_num, s.from.sge(0, 4)) == 0);
    CHECK(d.received().next().wr_id == (is_taken ? 2 : 1));
    CHECK_FALSE(c.received().poll());
  }
  CHECK(s.far.api().destroy_srq(shared) == 0);
}

TEST_CASE("a datagram is not written to memory that the queue pair may only read")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  memory constant(s.far, 256, 0);
  constant.fill(kept_byte);
  REQUIRE(s.b.receive(1, constant.sge()) == 0);
  REQUIRE(s.a.send(2, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  CHECK(s.b.received().next().status == IBV_WC_LOC_PROT_ERR);
  CHECK(constant.holds(kept_byte));
  CHECK(s.b.state() == IBV_QPS_ERR);
}

TEST_CASE("the receives of a datagram queue pair that fails are flushed although no thread polls")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  datagrams small(s.far, nullptr, 1);
  small.start();
  ibv_sge bad = s.into.sge(0, 256);
  bad.lkey ^= 0xff00;
  REQUIRE(small.receive(1, bad) == 0);
  REQUIRE(small.receive(2, s.into.sge(0, 256)) == 0);
  REQUIRE(s.a.send(3, s.to_far.get(), small.qp()->qp_num, s.from.sge(0, 8)) == 0);
  CHECK(s.far.event() == IBV_EVENT_CQ_ERR); // no room for the second completion
}

TEST_CASE("datagrams before a bad one leave, and those behind it are flushed")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  pages lost(s.near, 8192, PROT_READ | PROT_WRITE, 0);
  const int what = GENERATE(0, 1, 2);
  CAPTURE(what);
  ibv_sge bad = s.from.sge(0, 4097);
  if (what == 1)
  {
    bad = s.from.sge(0, 8);
    bad.lkey ^= 0xff00;
  }
  if (what == 2)
  {
    bad = lost.sge(8); // registered, but not mapped
    lost.take_away();
  }
  REQUIRE(s.b.receive(1, s.into.sge(0, 256)) == 0);
  std::deque<request> list;
  for (const ibv_sge& each : {s.from.sge(0, 8), bad, s.from.sge(0, 8)})
  {
    list.emplace_back(IBV_WR_SEND, std::vector<ibv_sge>{each}, 10 + list.size());
    list.back().wr.wr.ud = {s.to_far.get(), s.b.qp()->qp_num, the_key};
  }
  post(s.a, list);
  ibv_wc wc = s.a.sent().next();
  CHECK(wc.wr_id == 10);
  CHECK(wc.status == IBV_WC_SUCCESS);
  wc = s.a.sent().next();
  CHECK(wc.wr_id == 11);
  CHECK(wc.status == (what == 0 ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR));
  wc = s.a.sent().next();
  CHECK(wc.wr_id == 12);
  CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
  CHECK(s.b.received().next().wr_id == 1);
  CHECK(s.a.state() == IBV_QPS_SQE);
}

TEST_CASE("a datagram without a route is lost")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  ibv_ah_attr attr = to_device(s.near, s.far);
  const std::uint8_t elsewhere[] = {192, 0, 2, 1}; // not from an address of the loopback
  std::memcpy(attr.grh.dgid.raw + 12, elsewhere, 4);
  const handle unreachable(software::create_ah(s.near.pd(), &attr));
  REQUIRE(s.a.send(1, unreachable.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  const ibv_wc wc = s.a.sent().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  s.check_alive();
}

TEST_CASE("a datagram waits while its socket has no room")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  if (!failing_calls::are_supported())
    return;
  datagram_scene s;
  // Another thread's call may be the one that fails.
  CHECK(until(
    [&]
    {
      bool is_refused = false;
      REQUIRE(s.b.receive(1, s.into.sge(0, 256)) == 0);
      {
        const failing_calls one(0, false, 0); // ENOBUFS
        REQUIRE(s.a.send(2, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
        is_refused = failed_call().find("sendmmsg") != std::string::npos;
      }
      // No thread polls for the sender: the engine sends the datagram.
      CHECK(s.b.received().next().wr_id == 1);
      CHECK(s.a.sent().next().wr_id == 2);
      return is_refused;
    }));
}

TEST_CASE("datagrams of a list leave by the addresses of their handles")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  software::device_settings both;
  both.addresses = {"127.0.0.1", "127.0.0.2"};
  const verbs_device near(both);
  const verbs_device far(both);
  const datagrams a(near);
  const datagrams b(far);
  a.start();
  b.start();
  memory from(near, 64);
  memory into(far, 4096);
  std::vector<ibv_ah*> handles;
  for (const std::uint8_t index : {0, 1})
  {
    ibv_ah_attr attr = to_device(near, far);
    attr.grh.sgid_index = index;
    attr.grh.dgid = far.gid(index);
    handles.push_back(software::create_ah(near.pd(), &attr));
    REQUIRE(handles.back() != nullptr);
  }
  constexpr unsigned count = 8;
  std::deque<request> list;
  for (unsigned i = 0; i != count; ++i)
  {
    REQUIRE(b.receive(i, into.sge(i * 256, 256)) == 0);
    list.emplace_back(IBV_WR_SEND, std::vector<ibv_sge>{from.sge(0, 8)}, i);
    list.back().wr.wr.ud = {handles[i % 2], b.qp()->qp_num, the_key};
  }
  post(a, list);
  std::vector<unsigned> arrived(2);
  for (unsigned i = 0; i != count; ++i)
  {
    CHECK(a.sent().next().status == IBV_WC_SUCCESS);
    ibv_wc wc = b.received().next();
    ibv_grh grh;
    std::memcpy(&grh, into.bytes().data() + wc.wr_id * 256, sizeof grh);
    ibv_ah_attr attr{};
    REQUIRE(software::init_ah_from_wc(far.context(), 1, &wc, &grh, &attr) == 0);
    CHECK(std::memcmp(attr.grh.dgid.raw, near.gid(attr.grh.sgid_index).raw, 16) == 0); // the source
    ++arrived.at(attr.grh.sgid_index);
  }
  CHECK(arrived == std::vector<unsigned>{count / 2, count / 2});
  for (ibv_ah* each : handles)
    CHECK(software::destroy_ah(each) == 0);
}

TEST_CASE("datagrams of many elements leave in several batches")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  constexpr std::uint32_t elements = 16;
  constexpr unsigned count = 16;
  const datagrams a(s.near, nullptr, 64, nullptr, true, elements);
  a.start();
  std::deque<request> list;
  for (unsigned i = 0; i != count; ++i)
  {
    REQUIRE(s.b.receive(i, s.into.sge(i * 256, 256)) == 0);
    s.from[i] = static_cast<std::uint8_t>(i);
    list.emplace_back(IBV_WR_SEND, std::vector<ibv_sge>(elements, s.from.sge(i, 1)), i);
    list.back().wr.wr.ud = {s.to_far.get(), s.b.qp()->qp_num, the_key};
  }
  post(a, list);
  for (unsigned i = 0; i != count; ++i)
  {
    CHECK(a.sent().next().status == IBV_WC_SUCCESS);
    const ibv_wc wc = s.b.received().next();
    CHECK(wc.wr_id == i);
    CHECK(wc.byte_len == route + elements);
    CHECK(s.into.holds(static_cast<std::uint8_t>(i), i * 256 + route, elements));
  }
}

TEST_CASE("a datagram request completes with an error or when it is signalled")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  const datagrams a(s.near, nullptr, 2, nullptr, false);
  a.start();
  const auto send = [&](std::uint64_t id, const ibv_sge& what, unsigned flags)
  { REQUIRE(a.send(id, s.to_far.get(), s.b.qp()->qp_num, what, the_key, flags) == 0); };
  SECTION("one of two is signalled")
  {
    send(1, s.from.sge(0, 8), 0);
    send(2, s.from.sge(0, 8), IBV_SEND_SIGNALED);
    CHECK(a.sent().next().wr_id == 2);
    CHECK_FALSE(a.sent().poll());
  }
  SECTION("an error")
  {
    send(1, s.from.sge(0, 4097), 0);
    const ibv_wc wc = a.sent().next();
    CHECK(wc.wr_id == 1);
    CHECK(wc.status == IBV_WC_LOC_LEN_ERR);
  }
  SECTION("more than the completion queue stores")
  {
    for (std::uint64_t i = 0; i != 4; ++i)
      send(i, s.from.sge(0, 8), IBV_SEND_SIGNALED);
    CHECK(s.near.event() == IBV_EVENT_CQ_ERR);
    CHECK(s.near.event() == IBV_EVENT_QP_FATAL);
    CHECK(a.state() == IBV_QPS_ERR);
  }
  SECTION("a list of more than the completion queue stores")
  {
    // The requests behind those that leave together do not leave.
    constexpr unsigned count = 30;
    std::deque<request> list;
    for (unsigned i = 0; i != count; ++i)
    {
      REQUIRE(s.b.receive(i, s.into.sge(i * 64, 64)) == 0);
      list.emplace_back(IBV_WR_SEND, std::vector<ibv_sge>{s.from.sge(0, 8)}, i);
      list.back().wr.send_flags = IBV_SEND_SIGNALED;
      list.back().wr.wr.ud = {s.to_far.get(), s.b.qp()->qp_num, the_key};
    }
    post(a, list);
    CHECK(s.near.event() == IBV_EVENT_CQ_ERR);
    CHECK(s.near.event() == IBV_EVENT_QP_FATAL);
    REQUIRE(s.a.send(count, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
    unsigned arrived = 0;
    while (s.b.received().next().src_qp == a.qp()->qp_num)
      ++arrived;
    CHECK(arrived < count);
  }
}

TEST_CASE("address handles belong to their domain and end with the device")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  ibv_pd* const domain = s.near.api().alloc_pd(s.near.context());
  REQUIRE(domain != nullptr);
  ibv_ah_attr attr = to_device(s.near, s.far);
  ibv_ah* const made = software::create_ah(domain, &attr);
  REQUIRE(made != nullptr);
  CHECK(s.near.api().dealloc_pd(domain) == EBUSY);
  CHECK(software::destroy_ah(made) == 0);
  CHECK(s.near.api().dealloc_pd(domain) == 0);

  // The route header lies in memory of the program.
  ibv_grh grh;
  REQUIRE(s.b.receive(1, s.into.sge(0, 256)) == 0);
  REQUIRE(s.a.send(2, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  ibv_wc wc = s.b.received().next();
  const auto error = [&](const verbs_device& at, auto change)
  {
    std::memcpy(&grh, s.into.bytes().data(), sizeof grh);
    change(reinterpret_cast<std::uint8_t*>(&grh));
    ibv_ah_attr to{};
    return software::init_ah_from_wc(at.context(), 1, &wc, &grh, &to) == 0 ? 0 : errno;
  };
  CHECK(error(s.far, [](std::uint8_t*) {}) == 0);
  CHECK(error(s.far, [](std::uint8_t* at) { at[32] ^= 1; }) == EPROTONOSUPPORT); // the source
  CHECK(error(s.far,
          [](std::uint8_t* at)
          {
            at[20] = 0x44; // a header of four words, whose checksum is 0x100 more
            const unsigned sum = (at[30] << 8 | at[31]) + 0x100u;
            at[30] = static_cast<std::uint8_t>(sum >> 8);
            at[31] = static_cast<std::uint8_t>(at[31] + (sum >> 16));
          })
    == EPROTONOSUPPORT);
  const verbs_device elsewhere(only_at("::1"));
  CHECK(error(elsewhere, [](std::uint8_t*) {}) == EINVAL);
  wc.wc_flags = 0;
  ibv_ah_attr without{};
  REQUIRE(software::init_ah_from_wc(s.far.context(), 1, &wc, &grh, &without) == 0);
  CHECK(without.is_global == 0);

  software::remove_device(s.near.context());
  errno = 0;
  CHECK(software::create_ah(s.near.pd(), &attr) == nullptr);
  CHECK(errno == EIO);
}

} // namespace test::verbs_datagram_errors_test
