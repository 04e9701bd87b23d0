//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the delivery of unreliable datagrams (IBA 9.8.3), and foreign packets at the datagram port.

#include "software/raw_peer.hpp"
#include "software/verbs_datagrams.hpp"

#include <cstring>
#include <memory>
#include <random>
#include <vector>

using namespace test;
namespace software = rdma::software;

namespace {

// The test's own UDP socket.
class udp_peer
{
public:
  explicit udp_peer(std::uint16_t port)
    : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))
  {
    to_.sin_family = AF_INET;
    to_.sin_port = htons(port);
    to_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  ~udp_peer() { ::close(fd_); }
  udp_peer(const udp_peer&) = delete;
  udp_peer& operator=(const udp_peer&) = delete;
  void send(const std::vector<std::byte>& bytes) const
  {
    [[maybe_unused]] const ssize_t n = ::sendto(
      fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to_), sizeof to_);
  }

private:
  int fd_;
  sockaddr_in to_{};
};

std::vector<std::byte> bytes_of(const protocol::header& h, std::size_t payload)
{
  protocol::header_bytes bytes;
  const std::size_t size = encode(h, bytes);
  std::vector<std::byte> all(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  all.resize(size + payload, std::byte{0xee});
  return all;
}

} // namespace

TEST_CASE("a datagram arrives with its route header and can be answered by it")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s(GENERATE("127.0.0.1", "::1"));
  const std::size_t size = GENERATE(0u, 1u, 2048u, 4096u);
  CAPTURE(size);
  REQUIRE(s.b.receive(1, s.into.sge(0, route + 4096)) == 0);
  REQUIRE(s.a.send(2, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, size)) == 0);
  ibv_wc wc = s.a.sent().next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.wr_id == 2);
  CHECK(wc.opcode == IBV_WC_SEND);
  wc = s.b.received().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_RECV);
  CHECK(wc.byte_len == route + size);
  CHECK(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM));
  CHECK(wc.imm_data == 0x0a0b0c0d);
  CHECK(wc.src_qp == s.a.qp()->qp_num);
  CHECK(wc.qp_num == s.b.qp()->qp_num);
  CHECK(wc.slid == 0);
  CHECK(s.into.holds(sent_byte, route, size));
  CHECK(s.into.holds(kept_byte, route + size));

  ibv_grh grh;
  std::memcpy(&grh, s.into.bytes().data(), sizeof grh);
  ibv_ah_attr attr;
  REQUIRE(software::init_ah_from_wc(s.far.context(), 1, &wc, &grh, &attr) == 0);
  CHECK(attr.dlid == 0);
  CHECK(attr.is_global == 1);
  CHECK(std::memcmp(attr.grh.dgid.raw, s.near.gid().raw, 16) == 0);
  const handle back(software::create_ah_from_wc(s.far.pd(), &wc, &grh, 1));
  memory answer(s.near, 256);
  REQUIRE(s.a.receive(3, answer.sge()) == 0);
  REQUIRE(s.b.send(4, back.get(), wc.src_qp, s.into.sge(8192, 8)) == 0);
  CHECK(s.b.sent().next().status == IBV_WC_SUCCESS);
  wc = s.a.received().next();
  CHECK(wc.wr_id == 3);
  CHECK(wc.byte_len == route + 8);
  // A header that the program invents is refused.
  std::memset(&grh, 0x33, sizeof grh);
  CHECK(software::init_ah_from_wc(s.far.context(), 1, &wc, &grh, &attr) == -1);
}

TEST_CASE("many datagrams in a list arrive in order, gathered and inline")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  for (unsigned i = 0; i < 32; ++i)
    REQUIRE(s.b.receive(i, s.into.sge(i * 256, 256)) == 0);
  std::vector<std::unique_ptr<request>> list;
  for (unsigned i = 0; i < 32; ++i)
  {
    s.from[i] = static_cast<std::uint8_t>(i);
    auto r = std::make_unique<request>(
      IBV_WR_SEND, std::vector<ibv_sge>{s.from.sge(i, 1), s.from.sge(64, 100)}, i);
    r->wr.wr.ud = {s.to_far.get(), s.b.qp()->qp_num, the_key};
    r->flags(i % 2 == 0 ? unsigned{IBV_SEND_INLINE} : 0u);
    if (!list.empty())
      list.back()->wr.next = &r->wr;
    list.push_back(std::move(r));
  }
  ibv_send_wr* bad = nullptr;
  REQUIRE(ibv_post_send(s.a.qp(), &list.front()->wr, &bad) == 0);
  for (unsigned i = 0; i < 32; ++i)
  {
    CHECK(s.a.sent().next().wr_id == i);
    const ibv_wc wc = s.b.received().next();
    CHECK(wc.wr_id == i);
    CHECK(wc.byte_len == route + 101);
    CHECK(s.into[i * 256 + route] == i);
  }
}

TEST_CASE("datagrams with a wrong queue key are dropped and counted")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  REQUIRE(s.b.receive(1, s.into.sge(0, 512)) == 0);
  REQUIRE(s.a.send(1, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 8), the_key + 1) == 0);
  CHECK(s.a.sent().next().status == IBV_WC_SUCCESS);
  // The high bit selects the sender's own key, which is the right one.
  REQUIRE(s.a.send(2, s.to_far.get(), s.b.qp()->qp_num, s.from.sge(0, 9), 0x8000'0000) == 0);
  const ibv_wc wc = s.b.received().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.byte_len == route + 9);
  ibv_port_attr port{};
  REQUIRE(verbs_get_ctx(s.far.context())->query_port(s.far.context(), 1, &port, sizeof port) == 0);
  CHECK(port.qkey_viol_cntr == 1);
}

TEST_CASE("a datagram without a suitable receive or queue pair is lost without other effects")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  const int what = GENERATE(0, 1, 2, 3);
  CAPTURE(what);
  std::uint32_t to = s.b.qp()->qp_num;
  // This receive is too small and stays posted for a datagram that fits.
  if (what == 1)
    REQUIRE(s.b.receive(999, s.into.sge(8192, route + 16)) == 0);
  if (what == 2)
    to ^= 1;
  if (what == 3)
    to = s.a.qp()->qp_num; // at another port, without a receive
  REQUIRE(s.a.send(1, s.to_far.get(), to, s.from.sge(0, 17)) == 0);
  CHECK(s.a.sent().next().status == IBV_WC_SUCCESS);
  // A datagram to another queue pair arrives after the first one was processed.
  datagrams other(s.far);
  other.start();
  REQUIRE(other.receive(5, s.into.sge(0, 256)) == 0);
  REQUIRE(s.a.send(2, s.to_far.get(), other.qp()->qp_num, s.from.sge(0, 8)) == 0);
  CHECK(other.received().next().wr_id == 5);
  CHECK(s.a.sent().next().status == IBV_WC_SUCCESS);
  s.check_alive();
  CHECK(s.b.state() == IBV_QPS_RTS);
}

TEST_CASE("datagram queue pairs support shared receives and the ibv_wr calls")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  ibv_pd* const other = s.far.api().alloc_pd(s.far.context()); // of the shared queue
  REQUIRE(other != nullptr);
  ibv_srq_init_attr with{nullptr, {16, 2, 0}};
  ibv_srq* const shared = s.far.api().create_srq(other, &with);
  REQUIRE(shared != nullptr);
  {
    datagrams c(s.far, shared);
    c.start();
    const memory of_queue(s.far, 512, all_access, other);
    ibv_sge into = of_queue.sge();
    ibv_recv_wr wr{};
    wr.wr_id = 70;
    wr.sg_list = &into;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_srq_recv(shared, &wr, &bad) == 0);

    const completions cq(s.near);
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq.get();
    attr.qp_type = IBV_QPT_UD;
    attr.cap = {8, 8, 1, 1, 64};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = s.near.pd();
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
    ibv_qp* const qp = verbs_get_ctx(s.near.context())->create_qp_ex(s.near.context(), &attr);
    REQUIRE(qp != nullptr);
    ibv_qp_attr to{};
    to.port_num = 1;
    to.qkey = the_key;
    to.qp_state = IBV_QPS_INIT;
    REQUIRE(
      s.near.api().modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
      == 0);
    to.qp_state = IBV_QPS_RTR;
    REQUIRE(s.near.api().modify_qp(qp, &to, IBV_QP_STATE) == 0);
    to.qp_state = IBV_QPS_RTS;
    REQUIRE(s.near.api().modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    ibv_qp_ex* const qpx = software::qp_to_qp_ex(qp);
    REQUIRE(qpx != nullptr);
    qpx->wr_id = 71;
    qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qpx);
    ibv_wr_send(qpx);
    ibv_wr_set_sge(qpx, s.from.mr()->lkey, s.from.address(), 32);
    CHECK(ibv_wr_complete(qpx) == EINVAL); // without a destination
    ibv_wr_start(qpx);
    ibv_wr_send(qpx);
    ibv_wr_set_ud_addr(qpx, s.to_far.get(), c.qp()->qp_num, the_key);
    ibv_wr_set_sge(qpx, s.from.mr()->lkey, s.from.address(), 32);
    REQUIRE(ibv_wr_complete(qpx) == 0);
    CHECK(cq.next().wr_id == 71);
    const ibv_wc wc = c.received().next();
    CHECK(wc.wr_id == 70);
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.byte_len == route + 32);
    CHECK(of_queue.holds(sent_byte, route, 32));
    REQUIRE(s.near.api().destroy_qp(qp) == 0);
  }
  CHECK(s.far.api().destroy_srq(shared) == 0);
  CHECK(s.far.api().dealloc_pd(other) == 0);
}

TEST_CASE("a datagram wakes a thread that waits for its completion")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  ibv_comp_channel* const channel = s.far.api().create_comp_channel(s.far.context());
  REQUIRE(channel != nullptr);
  ibv_cq* const cq = s.far.api().create_cq(s.far.context(), 8, nullptr, channel, 0);
  REQUIRE(cq != nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_UD;
  init.cap = {4, 4, 1, 1, 0};
  ibv_qp* const qp = s.far.api().create_qp(s.far.pd(), &init);
  REQUIRE(qp != nullptr);
  ibv_qp_attr to{};
  to.port_num = 1;
  to.qkey = the_key;
  to.qp_state = IBV_QPS_INIT;
  REQUIRE(
    s.far.api().modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
    == 0);
  to.qp_state = IBV_QPS_RTR;
  REQUIRE(s.far.api().modify_qp(qp, &to, IBV_QP_STATE) == 0);
  ibv_sge into = s.into.sge(0, 256);
  ibv_recv_wr wr{};
  wr.sg_list = &into;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  REQUIRE(ibv_post_recv(qp, &wr, &bad) == 0);
  REQUIRE(ibv_req_notify_cq(cq, 1) == 0);
  REQUIRE(
    s.a.send(1, s.to_far.get(), qp->qp_num, s.from.sge(0, 8), the_key, IBV_SEND_SOLICITED) == 0);
  ibv_cq* which = nullptr;
  void* user = nullptr;
  REQUIRE(s.far.api().get_cq_event(channel, &which, &user) == 0);
  CHECK(which == cq);
  s.far.api().ack_cq_events(cq, 1);
  ibv_wc wc{};
  CHECK(ibv_poll_cq(cq, 1, &wc) == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(s.far.api().destroy_qp(qp) == 0);
  CHECK(s.far.api().destroy_cq(cq) == 0);
  CHECK(s.far.api().destroy_comp_channel(channel) == 0);
}

TEST_CASE("foreign packets at the datagram port have no effect")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  for (std::uint64_t i = 0; i < 8; ++i)
    REQUIRE(s.b.receive(i, s.into.sge(1024 * i, 512)) == 0);
  const udp_peer foreign(software::port_of(s.b.qp()->qp_num));
  const unsigned seed = GENERATE(range(1u, 20u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  protocol::header good;
  good.op = protocol::opcode::send_only;
  good.kind = protocol::service_ud;
  good.dest_qp = s.b.qp()->qp_num;
  good.queue_key = the_key;
  good.source_qp = 5;
  for (unsigned i = 0; i < 100; ++i)
  {
    protocol::header h = good;
    std::size_t payload = random() % 300;
    h.payload = static_cast<std::uint32_t>(payload);
    switch (random() % 6)
    {
    case 0: // wrong size
      h.payload += 1 + random() % 1000;
      break;
    case 1: // opcode of another service, or invalid
      h.op = static_cast<protocol::opcode>(random() % 32);
      h.kind = static_cast<protocol::service>(random() % 8 << 5);
      if (h.kind == protocol::service_ud)
        h.queue_key = 0;
      break;
    case 2: // above the maximum size
      payload = 4097 + random() % 8000;
      h.payload = static_cast<std::uint32_t>(payload);
      break;
    case 3:
      h.queue_key = random() | 1u << 30;
      break;
    case 4:
      h.dest_qp = random() & 0xffffff;
      h.queue_key = 0;
      break;
    case 5: // too large for the receives
      payload = 473 + random() % 1000;
      h.payload = static_cast<std::uint32_t>(payload);
      break;
    }
    std::vector<std::byte> bytes = bytes_of(h, payload);
    if (random() % 4 == 0)
      bytes.resize(random() % 28); // truncated
    foreign.send(bytes);
  }
  foreign.send(bytes_of(
    [&]
    {
      protocol::header h = good;
      h.payload = 7;
      return h;
    }(),
    7));
  const ibv_wc wc = s.b.received().next();
  CHECK(wc.wr_id == 0);
  CHECK(wc.byte_len == route + 7);
  CHECK(wc.src_qp == 5);
  CHECK(s.into.holds(kept_byte, route + 7));
  CHECK(s.b.state() == IBV_QPS_RTS);
}

TEST_CASE("a packet that no datagram queue pair sends is lost")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  datagram_scene s;
  REQUIRE(s.b.receive(1, s.into.sge()) == 0);
  ibv_qp_attr open{};
  open.qkey = 0; // as that of a packet without one
  REQUIRE(s.b.modify(open, IBV_QP_QKEY) == 0);
  const udp_peer foreign(software::port_of(s.b.qp()->qp_num));
  protocol::header good;
  good.op = protocol::opcode::send_only;
  good.kind = protocol::service_ud;
  good.dest_qp = s.b.qp()->qp_num;
  good.source_qp = 5;
  const auto packet = [&](auto change, std::size_t payload)
  {
    protocol::header h = good;
    h.payload = static_cast<std::uint32_t>(payload);
    change(h);
    return bytes_of(h, payload);
  };
  const auto same = [](protocol::header&) {};
  foreign.send(packet([](protocol::header& h) { h.kind = protocol::service_rc; }, 8));
  foreign.send(packet([](protocol::header& h) { h.kind = protocol::service_uc; }, 8));
  foreign.send(packet(same, 4097));
  foreign.send(packet([](protocol::header& h) { ++h.payload; }, 8));
  auto reserved = packet(same, 8);
  reserved[1] |= std::byte{1}; // a bit that this version leaves at zero
  foreign.send(reserved);
  foreign.send({});
  {
    datagrams ended(s.far);
    ended.start();
    good.dest_qp = ended.qp()->qp_num;
  }
  foreign.send(packet([](protocol::header& h) { h.queue_key = the_key + 1; }, 8));
  good.dest_qp = s.b.qp()->qp_num;
  foreign.send(packet(same, 7));
  const ibv_wc wc = s.b.received().next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.byte_len == route + 7);
  ibv_port_attr port{};
  REQUIRE(verbs_get_ctx(s.far.context())->query_port(s.far.context(), 1, &port, sizeof port) == 0);
  CHECK(port.qkey_viol_cntr == 0);
}

TEST_CASE("the datagram port is opened only when a datagram queue pair becomes ready to receive")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  datagrams d(device);
  const auto taken = [&]
  {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(software::port_of(d.qp()->qp_num));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool free = ::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
    ::close(fd);
    return !free;
  };
  REQUIRE(d.to_init() == 0);
  CHECK_FALSE(taken());
  REQUIRE(d.to(IBV_QPS_RTR) == 0);
  CHECK(taken());
}
