//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the functions of an extended context: ibv_create_cq_ex, the newer queries and regions.

#include "software/shared_region.hpp"
#include "software/verbs_failure.hpp"

#include "verbs/descriptor.hpp"
#include "verbs/software/foreign/exports.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

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
  srq.srq_type = IBV_SRQT_TM;
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
  CHECK(plain.vendor_id != 0);
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
  CHECK(port.lid == 0);
  CHECK(port.flags == IBV_QPF_GRH_REQUIRED);
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
  CHECK(software::query_gid_table(device.context(), entries, 0, 0, sizeof entries[0]) == -EINVAL);
  int type = 0;
  CHECK(software::query_gid_type(device.context(), 1, 0, &type) == 0);
  CHECK(type == 1);
  CHECK(software::get_pkey_index(device.context(), 1, 0xffff) == 0);
  CHECK(software::get_pkey_index(device.context(), 1, 0x1234) == -1);
  CHECK(std::strcmp(software::port_state_str(port.state), "PORT_ACTIVE") == 0);
  CHECK(std::strcmp(software::node_type_str(IBV_NODE_CA), "InfiniBand channel adapter") == 0);
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

TEST_CASE("the pages of a DMA buffer can be registered by its descriptor")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // others take only descriptors of the kernel's exporters
  constexpr std::size_t size = 3 * 4096;
  constexpr std::uint64_t offset = 4096 + 64;
  constexpr std::uint64_t iova = 0x7000'0000'0000 + 64;
  const rdma::detail::descriptor buffer(::memfd_create("buffer", MFD_CLOEXEC));
  REQUIRE(::ftruncate(buffer.get(), size) == 0);
  connected c;
  memory near(c.near, 64);
  near.fill(sent_byte);
  const int writable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  ibv_mr* const mr =
    software::reg_dmabuf_mr(c.far.pd(), offset, 4096, iova, buffer.get(), writable);
  REQUIRE(mr != nullptr);
  CHECK(mr->length == 4096);
  CHECK(
    software::rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ)
    == IBV_REREG_MR_ERR_INPUT);
  REQUIRE(c.a.write(1, near.sge(), iova + 128, mr->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  std::uint8_t found[66]{};
  REQUIRE(::pread(buffer.get(), found, sizeof found, offset + 127) == sizeof found);
  CHECK(found[0] == 0);
  CHECK(std::all_of(found + 1, found + 65, [](std::uint8_t b) { return b == sent_byte; }));
  CHECK(found[65] == 0);
  near.fill(kept_byte);
  REQUIRE(c.a.read(2, near.sge(), iova + 128, mr->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(near.holds(sent_byte));
  REQUIRE(c.a.write(3, near.sge(), iova - 1, mr->rkey) == 0); // the page's earlier bytes
  CHECK(c.a.sent().next().status == IBV_WC_REM_ACCESS_ERR);
  CHECK(c.far.api().dereg_mr(mr) == 0);

  const auto refused = [&](std::uint64_t from, std::size_t length, std::uint64_t at, int access)
  {
    errno = 0;
    return software::reg_dmabuf_mr(c.far.pd(), from, length, at, buffer.get(), access) == nullptr
      ? errno
      : 0;
  };
  CHECK(refused(offset, size - offset + 1, iova, writable) == EINVAL); // behind the end
  CHECK(refused(offset, ~std::size_t{0}, iova, writable) == EINVAL);
  CHECK(refused(offset, 64, iova + 1, writable) == EINVAL); // another page offset
  CHECK(refused(offset, 0, iova, writable) == EINVAL);
  CHECK(refused(offset, 64, iova, IBV_ACCESS_REMOTE_WRITE) == EINVAL); // without local write
  CHECK(refused(offset, 64, iova, IBV_ACCESS_MW_BIND) == EOPNOTSUPP);
  CHECK(software::reg_dmabuf_mr(c.far.pd(), 0, 64, 0, -1, writable) == nullptr);
  CHECK(errno == EBADF);
  CHECK(software::reg_dmabuf_mr(c.far.pd(), 0, 64, 0, c.far.context()->async_fd, writable)
    == nullptr); // it cannot be mapped
}

TEST_CASE("a region keeps its keys when its memory stays the same")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr int read_only = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  connected c;
  memory near(c.near, 64);
  const shared_region far(c.far, 4096);
  const std::uint32_t key = far.mr()->rkey;
  REQUIRE(c.a.write(1, near.sge(), far.address(), key) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);

  REQUIRE(
    software::rereg_mr(far.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, all_access) == 0);
  CHECK(far.mr()->rkey == key);
  CHECK(far.mr()->lkey == key);
  near.fill(sent_byte);
  REQUIRE(c.a.write(2, near.sge(), far.address(), key) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.data()[63] == std::byte{sent_byte});

  ibv_pd* const other = software::alloc_pd(c.far.context());
  REQUIRE(other != nullptr);
  REQUIRE(software::rereg_mr(far.mr(), IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0) == 0);
  CHECK(far.mr()->rkey == key);
  CHECK(software::dealloc_pd(other) == EBUSY);
  REQUIRE(software::rereg_mr(far.mr(), IBV_REREG_MR_CHANGE_PD, c.far.pd(), nullptr, 0, 0) == 0);
  CHECK(software::dealloc_pd(other) == 0);

  REQUIRE(
    software::rereg_mr(far.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, read_only) == 0);
  near.fill(kept_byte);
  REQUIRE(c.a.read(3, near.sge(), far.address(), key) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(near.holds(sent_byte));
  near.fill(kept_byte);
  REQUIRE(c.a.write(4, near.sge(), far.address(), key) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_REM_ACCESS_ERR);
  CHECK(far.data()[63] == std::byte{sent_byte});
}
