//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests extended queue pairs (ibv_qp_ex): the ibv_wr calls.

#include "software/verbs_failure.hpp"

#include "verbs/software/foreign/exports.hpp"

#include <cerrno>
#include <cstring>
#include <vector>

using namespace test;
namespace software = rdma::software;
namespace protocol = rdma::software::protocol;

namespace {

// Two connected queue pairs; the first one supports the ibv_wr_*() calls.
struct built
{
  explicit built(std::uint64_t operations, ibv_qp_type service = IBV_QPT_RC)
    : peer(far, with(service))
    , sent(near)
    , received(near)
  {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = sent.get();
    attr.recv_cq = received.get();
    attr.qp_type = service;
    attr.cap = {8, 8, 4, 4, 128};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = near.pd();
    attr.send_ops_flags = operations;
    qp = verbs_get_ctx(near.context())->create_qp_ex(near.context(), &attr);
    must(qp != nullptr, "create_qp_ex");
    qpx = software::qp_to_qp_ex(qp);
    must(qpx != nullptr && &qpx->qp_base == qp, "qp_to_qp_ex");
    must(peer.to_init() == 0, "to_init");
    end_name mine;
    mine.gid = near.gid();
    mine.lid = near.lid();
    mine.qp = qp->qp_num;
    must(peer.to_ready_to_receive(mine) == 0 && peer.to_ready_to_send() == 0, "the peer's states");
    to_ready_to_send(service);
  }
  ~built() { must(near.api().destroy_qp(qp) == 0, "destroy_qp"); }
  built(const built&) = delete;
  built& operator=(const built&) = delete;

  static pair_options with(ibv_qp_type service)
  {
    pair_options o;
    o.service = service;
    return o;
  }

  void to_ready_to_send(ibv_qp_type service) const
  {
    const int reliable = service == IBV_QPT_RC ? -1 : 0;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    must(near.api().modify_qp(
           qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
        == 0,
      "INIT");
    const end_name other = peer.name();
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = other.qp;
    attr.rq_psn = attr.sq_psn = endpoint::first_psn;
    attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = other.gid;
    attr.ah_attr.grh.sgid_index = near.gid_index();
    attr.ah_attr.dlid = other.lid;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    attr.timeout = 14;
    attr.rnr_retry = 7;
    attr.retry_cnt = 1;
    must(near.api().modify_qp(qp, &attr,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
             | (reliable & (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
        == 0,
      "RTR");
    attr.qp_state = IBV_QPS_RTS;
    must(near.api().modify_qp(qp, &attr,
           IBV_QP_STATE | IBV_QP_SQ_PSN
             | (reliable
               & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)))
        == 0,
      "RTS");
  }

  verbs_device near;
  verbs_device far;
  endpoint peer;
  completions sent;
  completions received;
  ibv_qp* qp = nullptr;
  ibv_qp_ex* qpx = nullptr;
};

constexpr std::uint64_t rc_operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM
  | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ
  | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
  | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW
  | protocol::qp_ex_with_atomic_write;

} // namespace

TEST_CASE("the ibv_wr calls have the same effects as ibv_post_send")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  built b(rc_operations);
  memory near(b.near, 4096);
  memory far(b.far, 4096);
  near.fill(sent_byte);
  far.fill(kept_byte);
  REQUIRE(b.peer.receive(1, far.sge(1024, 256)) == 0);
  REQUIRE(b.peer.receive(2, far.sge(1280, 256)) == 0);
  ibv_qp_ex* const qpx = b.qpx;
  ibv_wr_start(qpx);
  qpx->wr_flags = 0;
  qpx->wr_id = 1;
  ibv_wr_rdma_write(qpx, far.key(), far.address());
  ibv_wr_set_sge(qpx, near.mr()->lkey, near.address(), 64);
  qpx->wr_id = 2;
  ibv_wr_send_imm(qpx, 0x01020304);
  const ibv_sge two[] = {near.sge(0, 16), near.sge(16, 16)};
  ibv_wr_set_sge_list(qpx, 2, two);
  qpx->wr_flags = IBV_SEND_SIGNALED;
  qpx->wr_id = 3;
  ibv_wr_send(qpx);
  char words[] = "inline";
  ibv_wr_set_inline_data(qpx, words, sizeof words);
  CHECK(ibv_wr_complete(qpx) == 0);
  std::memset(words, 0, sizeof words);
  ibv_wc wc = b.sent.next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.wr_id == 3);
  wc = b.peer.received().next();
  CHECK(wc.imm_data == 0x01020304);
  CHECK(wc.byte_len == 32);
  wc = b.peer.received().next();
  CHECK(wc.byte_len == sizeof words);
  CHECK(std::memcmp(far.bytes().data() + 1280, "inline", 7) == 0);
  CHECK(far.holds(sent_byte, 0, 64));
  CHECK(far.holds(kept_byte, 64, 960));
  CHECK(far.holds(sent_byte, 1024, 32));

  *far.word(32) = 5;
  ibv_wr_start(qpx);
  qpx->wr_id = 4;
  ibv_wr_atomic_fetch_add(qpx, far.key(), far.address(256), 3);
  ibv_wr_set_sge(qpx, near.mr()->lkey, near.address(256), 8);
  qpx->wr_id = 5;
  ibv_wr_atomic_cmp_swp(qpx, far.key(), far.address(256), 8, 9);
  ibv_wr_set_sge(qpx, near.mr()->lkey, near.address(264), 8);
  qpx->wr_id = 6;
  ibv_wr_rdma_read(qpx, far.key(), far.address(256));
  ibv_wr_set_sge(qpx, near.mr()->lkey, near.address(272), 8);
  REQUIRE(ibv_wr_complete(qpx) == 0);
  for (std::uint64_t id : {4u, 5u, 6u})
  {
    wc = b.sent.next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == id);
  }
  CHECK(*near.word(32) == 5);
  CHECK(*near.word(33) == 8);
  CHECK(*near.word(34) == 9);

  std::uint64_t value = 0x0102030405060708;
  ibv_wr_start(qpx);
  qpx->wr_id = 7;
  ibv_wr_atomic_write(qpx, far.key(), far.address(512), &value);
  REQUIRE(ibv_wr_complete(qpx) == 0);
  value = 0; // copied by the call
  wc = b.sent.next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.wr_id == 7);
  CHECK(wc.opcode == protocol::wc_atomic_write);
  CHECK(*far.word(64) == 0x0102030405060708);
  CHECK(far.holds(kept_byte, 520, 504));

  // An aborted batch has no effect, and an empty one is no error.
  ibv_wr_start(qpx);
  ibv_wr_send(qpx);
  ibv_wr_abort(qpx);
  ibv_wr_start(qpx);
  CHECK(ibv_wr_complete(qpx) == 0);
  CHECK_FALSE(b.sent.poll().has_value());
}

TEST_CASE("ibv_wr_complete posts nothing when one request of the batch is invalid")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  built b(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND);
  memory near(b.near, 4096);
  memory far(b.far, 4096);
  far.fill(kept_byte);
  ibv_qp_ex* const qpx = b.qpx;
  qpx->wr_flags = IBV_SEND_SIGNALED;
  const auto good = [&]
  {
    ibv_wr_rdma_write(qpx, far.key(), far.address());
    ibv_wr_set_sge(qpx, near.mr()->lkey, near.address(), 64);
  };
  ibv_wr_start(qpx);
  good();
  int expected = EINVAL;
  SECTION("an operation that the queue pair was not created for")
  {
    ibv_wr_rdma_read(qpx, far.key(), far.address());
    ibv_wr_set_sge(qpx, near.mr()->lkey, near.address(), 64);
    expected = EOPNOTSUPP;
  }
  SECTION("too much inline data")
  {
    ibv_wr_send(qpx);
    ibv_wr_set_inline_data(qpx, near.bytes().data(), 129);
  }
  SECTION("too many elements")
  {
    const std::vector<ibv_sge> many(5, near.sge(0, 8));
    ibv_wr_send(qpx);
    ibv_wr_set_sge_list(qpx, many.size(), many.data());
  }
  SECTION("data set twice")
  {
    ibv_wr_set_sge(qpx, near.mr()->lkey, near.address(), 64);
  }
  SECTION("a datagram address")
  {
    ibv_wr_set_ud_addr(qpx, nullptr, 1, 1);
  }
  SECTION("more requests than the queue holds")
  {
    for (int i = 0; i < 8; ++i)
      good();
    expected = ENOMEM;
  }
  SECTION("segmentation")
  {
    ibv_wr_send_tso(qpx, nullptr, 0, 0);
    expected = EOPNOTSUPP;
  }
  CHECK(ibv_wr_complete(qpx) == expected);
  // The following batch is the first one that is executed.
  ibv_wr_start(qpx);
  qpx->wr_id = 77;
  ibv_wr_rdma_write(qpx, far.key(), far.address(128));
  ibv_wr_set_sge(qpx, near.mr()->lkey, near.address(), 64);
  REQUIRE(ibv_wr_complete(qpx) == 0);
  CHECK(b.sent.next().wr_id == 77);
  CHECK(far.holds(kept_byte, 0, 128));
}

TEST_CASE("create_qp_ex fails when the service lacks an operation or a flag")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  const completions cq(device);
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq.get();
  attr.cap = {8, 8, 1, 1, 0};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = device.pd();
  const auto create = [&]
  { return verbs_get_ctx(device.context())->create_qp_ex(device.context(), &attr); };
  const auto refused = [&](int error)
  {
    errno = 0;
    return create() == nullptr && errno == error;
  };
  attr.qp_type = IBV_QPT_UC;
  attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
  CHECK(refused(EOPNOTSUPP));
  attr.qp_type = IBV_QPT_UD;
  attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  CHECK(refused(EOPNOTSUPP));
  attr.qp_type = IBV_QPT_RC;
  attr.send_ops_flags = IBV_QP_EX_WITH_TSO;
  CHECK(refused(EOPNOTSUPP));
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  CHECK(refused(EOPNOTSUPP));
  attr.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  CHECK(refused(EINVAL)); // without a protection domain
  attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
  attr.qp_type = IBV_QPT_RAW_PACKET;
  CHECK(refused(EOPNOTSUPP));
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* const made = create();
  REQUIRE(made != nullptr);
  CHECK(software::qp_to_qp_ex(made) != nullptr);
  CHECK(device.api().destroy_qp(made) == 0);
  endpoint plain(device);
  CHECK(software::qp_to_qp_ex(plain.qp()) == nullptr);
}
