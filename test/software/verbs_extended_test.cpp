//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the functions of an extended context: ibv_create_cq_ex, ibv_qp_ex and the newer queries.

#include "software/verbs_failure.hpp"

#include "verbs/software/foreign/exports.hpp"

#include <cerrno>
#include <cstring>

using namespace test;
namespace software = rdma::software;

namespace {

class extended_completions
{
public:
  extended_completions(const verbs_device& on, std::uint64_t flags, unsigned depth = 16)
    : api_(on.api())
  {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = depth;
    attr.wc_flags = flags;
    cq_ = ibv_create_cq_ex(on.context(), &attr);
    must(cq_ != nullptr, "create_cq_ex");
  }
  ~extended_completions() { must(api_.destroy_cq(plain()) == 0, "destroy_cq"); }
  extended_completions(const extended_completions&) = delete;
  extended_completions& operator=(const extended_completions&) = delete;

  ibv_cq_ex* get() const noexcept { return cq_; }
  ibv_cq* plain() const noexcept { return ibv_cq_ex_to_cq(cq_); }

  /// Starts a batch with the next completion.
  void begin() const
  {
    ibv_poll_cq_attr attr{};
    must(until([&] { return ibv_start_poll(cq_, &attr) == 0; }), "a completion in time");
  }

private:
  const rdma::verbs::api& api_;
  ibv_cq_ex* cq_;
};

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
  | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;

} // namespace

TEST_CASE("an extended completion queue reports the requested fields of each completion")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  const extended_completions cq(device,
    std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
      | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
  ibv_poll_cq_attr attr{};
  CHECK(ibv_start_poll(cq.get(), &attr) == ENOENT);
  attr.comp_mask = 1;
  CHECK(ibv_start_poll(cq.get(), &attr) == EINVAL);

  // Its completions are flushed receives.
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.plain();
  init.qp_type = IBV_QPT_RC;
  init.cap = {4, 4, 1, 1, 0};
  ibv_qp* const qp = device.api().create_qp(device.pd(), &init);
  REQUIRE(qp != nullptr);
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = 1;
  REQUIRE(device.api().modify_qp(
            qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
    == 0);
  for (std::uint64_t id : {7u, 8u})
  {
    ibv_recv_wr wr{};
    wr.wr_id = id;
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_recv(qp, &wr, &bad) == 0);
  }
  ibv_values_ex before{IBV_VALUES_MASK_RAW_CLOCK, {}};
  REQUIRE(ibv_query_rt_values_ex(device.context(), &before) == 0);
  CHECK(before.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
  to.qp_state = IBV_QPS_ERR;
  REQUIRE(device.api().modify_qp(qp, &to, IBV_QP_STATE) == 0);
  ibv_values_ex after{IBV_VALUES_MASK_RAW_CLOCK, {}};
  REQUIRE(ibv_query_rt_values_ex(device.context(), &after) == 0);

  cq.begin();
  CHECK(cq.get()->wr_id == 7);
  CHECK(cq.get()->status == IBV_WC_WR_FLUSH_ERR);
  CHECK(ibv_wc_read_qp_num(cq.get()) == qp->qp_num);
  CHECK(ibv_wc_read_vendor_err(cq.get()) != 0);
  const std::uint64_t stamp = ibv_wc_read_completion_ts(cq.get());
  CHECK(stamp >= static_cast<std::uint64_t>(before.raw_clock.tv_nsec));
  CHECK(stamp <= static_cast<std::uint64_t>(after.raw_clock.tv_nsec));
  const auto wall = static_cast<std::int64_t>(ibv_wc_read_completion_wallclock_ns(cq.get()));
  const std::int64_t wall_now =
    std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  CHECK(wall <= wall_now);
  CHECK(wall_now - wall < std::chrono::nanoseconds(patience).count());
  CHECK(ibv_next_poll(cq.get()) == 0);
  CHECK(cq.get()->wr_id == 8);
  CHECK(ibv_wc_read_completion_ts(cq.get()) >= stamp);
  CHECK(ibv_next_poll(cq.get()) == ENOENT);
  ibv_end_poll(cq.get());
  // ibv_poll_cq works on it as well.
  ibv_wc wc{};
  CHECK(ibv_poll_cq(cq.plain(), 1, &wc) == 0);
  CHECK(device.api().resize_cq(cq.plain(), 64) == 0);
  REQUIRE(device.api().destroy_qp(qp) == 0);
}

TEST_CASE("ibv_create_cq_ex fails when the device does not support the attributes")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  int expected = EOPNOTSUPP;
  SECTION("Ethernet fields")
  {
    attr.wc_flags = IBV_WC_EX_WITH_CVLAN;
  }
  SECTION("tag matching fields")
  {
    attr.wc_flags = IBV_WC_EX_WITH_TM_INFO;
  }
  SECTION("unknown fields")
  {
    attr.wc_flags = std::uint64_t{1} << 40;
  }
  SECTION("ignored overruns")
  {
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  }
  SECTION("a parent domain")
  {
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  }
  SECTION("no depth")
  {
    attr.cqe = 0;
    expected = EINVAL;
  }
  SECTION("a depth that exceeds int")
  {
    attr.cqe = 0x80000001;
    expected = EINVAL;
  }
  errno = 0;
  CHECK(ibv_create_cq_ex(device.context(), &attr) == nullptr);
  CHECK(errno == expected);
}

TEST_CASE("unsupported functions of an extended context fail with EOPNOTSUPP")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  const auto refused = [](const void* made)
  {
    const bool good = made == nullptr && errno == EOPNOTSUPP;
    errno = 0;
    return good;
  };
  errno = 0;
  ibv_td_init_attr td{};
  CHECK(refused(ibv_alloc_td(device.context(), &td)));
  ibv_parent_domain_init_attr domain{};
  CHECK(refused(ibv_alloc_parent_domain(device.context(), &domain)));
  ibv_xrcd_init_attr xrcd{};
  CHECK(refused(ibv_open_xrcd(device.context(), &xrcd)));
  ibv_alloc_dm_attr dm{};
  CHECK(refused(ibv_alloc_dm(device.context(), &dm)));
  ibv_counters_init_attr counters{};
  CHECK(refused(ibv_create_counters(device.context(), &counters)));
  CHECK(refused(ibv_alloc_null_mr(device.pd())));
  ibv_wq_init_attr wq{};
  CHECK(refused(ibv_create_wq(device.context(), &wq)));
  CHECK(ibv_advise_mr(device.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 0) == EOPNOTSUPP);
  ibv_values_ex values{IBV_VALUES_MASK_RESERVED, {}};
  CHECK(ibv_query_rt_values_ex(device.context(), &values) == EOPNOTSUPP);
  ibv_srq_init_attr_ex srq{};
  srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  srq.srq_type = IBV_SRQT_XRC;
  srq.pd = device.pd();
  srq.attr = {8, 1, 0};
  CHECK(refused(verbs_get_ctx(device.context())->create_srq_ex(device.context(), &srq)));
  srq.srq_type = IBV_SRQT_BASIC;
  ibv_srq* const basic = verbs_get_ctx(device.context())->create_srq_ex(device.context(), &srq);
  REQUIRE(basic != nullptr);
  CHECK(device.api().destroy_srq(basic) == 0);
}

TEST_CASE("the extended queries agree with the plain ones")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  const verbs_context& context = *verbs_get_ctx(device.context());
  ibv_device_attr plain{};
  REQUIRE(device.api().query_device(device.context(), &plain) == 0);
  ibv_device_attr_ex extended{};
  REQUIRE(context.query_device_ex(device.context(), nullptr, &extended, sizeof extended) == 0);
  CHECK(std::memcmp(&plain, &extended.orig_attr, sizeof plain) == 0);
  CHECK(plain.max_ah > 0);
  CHECK(extended.completion_timestamp_mask == UINT64_MAX);
  CHECK(extended.hca_core_clock == 1'000'000);
  CHECK(extended.odp_caps.general_caps == 0);
  CHECK(extended.phys_port_cnt_ex == 1);
  // Callers with an older structure get only its fields.
  std::memset(&extended, 0x11, sizeof extended);
  REQUIRE(
    context.query_device_ex(device.context(), nullptr, &extended, sizeof extended.orig_attr) == 0);
  CHECK(extended.hca_core_clock == 0x1111'1111'1111'1111);
  CHECK(context.query_device_ex(device.context(), nullptr, &extended, 8) == EINVAL);
  ibv_port_attr port{};
  REQUIRE(context.query_port(device.context(), 1, &port, sizeof port) == 0);
  CHECK(port.lid == device.lid());
  CHECK(port.active_mtu == IBV_MTU_4096);
  CHECK(port.phys_state == 5);
  CHECK(port.state == IBV_PORT_ACTIVE);
  CHECK(context.query_port(device.context(), 2, &port, sizeof port) == EINVAL);
  ibv_gid_entry entries[4]{};
  CHECK(software::query_gid_table(device.context(), entries, 4, 0, sizeof entries[0])
    == port.gid_tbl_len);
  CHECK(std::memcmp(entries[0].gid.raw, device.gid().raw, 16) == 0);
  CHECK(
    software::query_gid_table(device.context(), entries, 4, 1, sizeof entries[0]) == -EOPNOTSUPP);
  int type = 0;
  CHECK(software::query_gid_type(device.context(), 1, 0, &type) == 0);
  CHECK(type == 1);
  CHECK(software::get_pkey_index(device.context(), 1, 0xffff) == 0);
  CHECK(software::get_pkey_index(device.context(), 1, 0x1234) == -1);
  CHECK(std::strcmp(software::port_state_str(port.state), "PORT_ACTIVE") == 0);
  CHECK(std::strcmp(software::node_type_str(IBV_NODE_CA), "InfiniBand channel adapter") == 0);
}

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

TEST_CASE("a region can have its own addresses and can be reregistered")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  connected c;
  memory near(c.near, 4096);
  near.fill(sent_byte);
  std::vector<std::uint8_t> bytes(8192, kept_byte);
  ibv_mr* const mr = software::reg_mr_iova2(
    c.far.pd(), bytes.data(), 4096, 0x7000'0000'0000, all_access | IBV_ACCESS_OPTIONAL_FIRST << 5);
  REQUIRE(mr != nullptr);
  REQUIRE(c.a.write(1, near.sge(0, 64), 0x7000'0000'0000 + 128, mr->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(bytes[127] == kept_byte);
  CHECK(bytes[128] == sent_byte);
  CHECK(bytes[191] == sent_byte);
  const std::uint32_t before = mr->rkey;
  REQUIRE(
    software::rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, bytes.data() + 4096, 4096, 0)
    == 0);
  CHECK(mr->rkey != before);
  CHECK(mr->addr == bytes.data() + 4096);
  REQUIRE(
    c.a.write(2, near.sge(0, 8), reinterpret_cast<std::uintptr_t>(bytes.data()) + 4096, mr->rkey)
    == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(bytes[4096] == sent_byte);
  CHECK(software::rereg_mr(mr, 0, nullptr, nullptr, 0, 0) == IBV_REREG_MR_ERR_INPUT);
  CHECK(
    software::rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE)
    == IBV_REREG_MR_ERR_INPUT); // without local write
  REQUIRE(
    software::rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ)
    == 0);
  REQUIRE(c.a.write(3, near.sge(0, 8), reinterpret_cast<std::uintptr_t>(mr->addr), before) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_REM_ACCESS_ERR); // the old key is invalid
  CHECK(c.far.api().dereg_mr(mr) == 0);
}
