//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the device's limits and attributes, and registrations without bytes or addresses.

#include "software/verbs_fixture.hpp"

#include "verbs/software/objects/address_handle.hpp"
#include "verbs/software/objects/memory.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace test;

namespace {

rdma::software::device_settings small()
{
  rdma::software::device_settings result;
  result.max_queue_pairs = 3;
  result.max_completion_queues = 4;
  result.max_shared_receive_queues = 5;
  result.max_protection_domains = 6;
  result.max_memory_regions = 7;
  result.max_memory_windows = 8;
  result.max_address_handles = 9;
  return result;
}

/// Creates objects until the device refuses one, destroys one, and creates it again. Returns the
/// number of objects. Destroys all.
template <class Object>
int count_possible(
  const std::function<Object*()>& create, const std::function<int(Object*)>& destroy)
{
  constexpr std::size_t more_than_any_limit = 100;
  std::vector<Object*> made;
  errno = 0;
  for (Object* each = nullptr; made.size() != more_than_any_limit && (each = create()) != nullptr;)
    made.push_back(each);
  CHECK(errno == ENOMEM);
  const auto count = static_cast<int>(made.size());
  REQUIRE(count != 0);
  CHECK(destroy(made.back()) == 0);
  made.back() = create();
  CHECK(made.back() != nullptr);
  CHECK(create() == nullptr);
  for (Object* const each : made)
    CHECK(destroy(each) == 0);
  return count;
}

} // namespace

TEST_CASE("the device refuses more objects of a kind than it reports to be possible")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const verbs_device d(small());
  const rdma::verbs::api& api = d.api();
  ibv_context* const context = d.context();
  ibv_device_attr limits{};
  REQUIRE(api.query_device(context, &limits) == 0);
  CHECK(limits.max_qp == 3);
  CHECK(limits.max_cq == 4);
  CHECK(limits.max_srq == 5);
  CHECK(limits.max_pd == 6);
  CHECK(limits.max_mr == 7);
  CHECK(limits.max_mw == 8);
  CHECK(limits.max_ah == 9);
  CHECK(limits.max_res_rd_atom == 3 * limits.max_qp_rd_atom);
  {
    const completions cq(d);
    ibv_qp_init_attr with{};
    with.send_cq = with.recv_cq = cq.get();
    with.qp_type = GENERATE(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD);
    CHECK(count_possible<ibv_qp>([&] { return api.create_qp(d.pd(), &with); },
            [&](ibv_qp* qp) { return api.destroy_qp(qp); })
      == 3);
  }
  CHECK(count_possible<ibv_cq>([&] { return api.create_cq(context, 1, nullptr, nullptr, 0); },
          [&](ibv_cq* cq) { return api.destroy_cq(cq); })
    == 4);
  ibv_srq_init_attr queue{};
  queue.attr.max_wr = 1;
  CHECK(count_possible<ibv_srq>([&] { return api.create_srq(d.pd(), &queue); },
          [&](ibv_srq* srq) { return api.destroy_srq(srq); })
    == 5);
  CHECK(count_possible<ibv_pd>(
          [&] { return api.alloc_pd(context); }, [&](ibv_pd* pd) { return api.dealloc_pd(pd); })
    == 6 - 1); // there is one already
  char bytes[8] = {};
  CHECK(count_possible<ibv_mr>([&] { return api.reg_mr(d.pd(), bytes, sizeof bytes, 0); },
          [&](ibv_mr* mr) { return api.dereg_mr(mr); })
    == 7);
  CHECK(count_possible<ibv_mw>([&] { return context->ops.alloc_mw(d.pd(), IBV_MW_TYPE_2); },
          [&](ibv_mw* mw) { return context->ops.dealloc_mw(mw); })
    == 8);
  ibv_ah_attr to{};
  to.is_global = 1;
  to.port_num = 1;
  to.grh.dgid = d.gid();
  to.grh.sgid_index = d.gid_index();
  CHECK(count_possible<ibv_ah>([&] { return rdma::software::create_ah(d.pd(), &to); },
          [&](ibv_ah* ah) { return rdma::software::destroy_ah(ah); })
    == 9);
}

TEST_CASE("a refused object does not count")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const verbs_device d(small());
  const rdma::verbs::api& api = d.api();
  char bytes[8] = {};
  ibv_ah_attr nowhere{};
  for (unsigned i = 0; i != 20; ++i)
  {
    CHECK(api.create_cq(d.context(), 0, nullptr, nullptr, 0) == nullptr);
    CHECK(api.reg_mr(d.pd(), bytes, sizeof bytes, 1 << 30) == nullptr);
    CHECK(rdma::software::create_ah(d.pd(), &nowhere) == nullptr);
    CHECK(errno == EINVAL);
  }
  const completions cq(d);
  const memory m(d, 8);
}

TEST_CASE("the device reports its vendor and part")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // others may have zeros
  const verbs_device d;
  ibv_device_attr attributes{};
  REQUIRE(d.api().query_device(d.context(), &attributes) == 0);
  CHECK(attributes.vendor_id != 0);
  CHECK(attributes.vendor_part_id != 0);
}

TEST_CASE("the addresses of a zero-based region begin at zero, however it was registered")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // drivers ignore the flag
  connected c;
  memory near(c.near, 64);
  near.fill(sent_byte);
  std::vector<std::uint8_t> bytes(64, kept_byte);
  constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  const int how = GENERATE(range(0, 4));
  CAPTURE(how);
  ibv_mr* mr = nullptr;
  if (how == 0)
    mr = c.far.api().reg_mr(c.far.pd(), bytes.data(), 64, rights | IBV_ACCESS_ZERO_BASED);
  else if (how == 1) // as the macro ibv_reg_mr() for flags that are not constant
    mr = rdma::software::reg_mr_iova2(c.far.pd(), bytes.data(), 64,
      reinterpret_cast<std::uintptr_t>(bytes.data()), rights | IBV_ACCESS_ZERO_BASED);
  else
    mr = c.far.api().reg_mr(
      c.far.pd(), bytes.data(), 64, how == 2 ? rights : rights | IBV_ACCESS_ZERO_BASED);
  REQUIRE(mr != nullptr);
  if (how >= 2) // becomes zero-based, or ceases to be
    REQUIRE(rdma::software::rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
              how == 2 ? rights | IBV_ACCESS_ZERO_BASED : rights)
      == 0);
  const std::uint64_t begin = how != 3 ? 0 : reinterpret_cast<std::uintptr_t>(bytes.data());
  REQUIRE(c.a.write(1, near.sge(0, 8), begin + 16, mr->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(bytes[15] == kept_byte);
  CHECK(bytes[16] == sent_byte);
  CHECK(bytes[24] == kept_byte);
  CHECK(c.far.api().dereg_mr(mr) == 0);
}

TEST_CASE("a region of no bytes can be registered, and permits no access")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // some drivers refuse it
  connected c;
  const memory near(c.near, 8);
  std::vector<std::uint8_t> bytes(8, kept_byte);
  ibv_mr* const mr = c.far.api().reg_mr(c.far.pd(), bytes.data(), 0, all_access);
  REQUIRE(mr != nullptr);
  CHECK(mr->length == 0);
  const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
  REQUIRE(c.a.write(1, near.sge(0, 0), at, mr->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  REQUIRE(c.a.write(2, near.sge(0, 1), at, mr->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_REM_ACCESS_ERR);
  CHECK(bytes[0] == kept_byte);
  // ibv_rereg_mr() of libibverbs refuses it before any driver.
  CHECK(rdma::software::rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, bytes.data(), 0, 0)
    == IBV_REREG_MR_ERR_INPUT);
  CHECK(c.far.api().dereg_mr(mr) == 0);
}

TEST_CASE("the context has a valid command descriptor on which no command succeeds")
{
  const verbs_device d;
  CHECK(::fcntl(d.context()->cmd_fd, F_GETFD) >= 0);
  const char nothing = 0;
  CHECK(::write(d.context()->cmd_fd, &nothing, 1) == -1);
}
