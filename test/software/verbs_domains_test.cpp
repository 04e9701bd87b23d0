//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests parent and thread domains: ibv_alloc_parent_domain(3), ibv_alloc_td(3).

#include "software/verbs_datagrams.hpp"

#include <cerrno>
#include <cstdlib>

using namespace test;

namespace {

/// A thread domain, if `threaded`, and a parent domain of the device's protection domain.
class parent_domain
{
public:
  parent_domain(const verbs_device& on, ibv_parent_domain_init_attr with, bool threaded = false)
    : device_(on)
  {
    if (threaded)
    {
      ibv_td_init_attr none{};
      td_ = ibv_alloc_td(on.context(), &none);
      must(td_ != nullptr, "alloc_td");
    }
    with.pd = on.pd();
    with.td = td_;
    pd_ = ibv_alloc_parent_domain(on.context(), &with);
    must(pd_ != nullptr, "alloc_parent_domain");
  }
  ~parent_domain()
  {
    must(device_.api().dealloc_pd(pd_) == 0, "dealloc_pd");
    must(td_ == nullptr || ibv_dealloc_td(td_) == 0, "dealloc_td");
  }
  parent_domain(const parent_domain&) = delete;
  parent_domain& operator=(const parent_domain&) = delete;

  ibv_pd* get() const noexcept { return pd_; }
  ibv_td* thread() const noexcept { return td_; }

private:
  const verbs_device& device_;
  ibv_td* td_ = nullptr;
  ibv_pd* pd_;
};

/// The program's memory for queues, which an ibv_parent_domain_init_attr names.
struct program_memory
{
  int allocations = 0;
  int in_use = 0;
  bool uses_default = false;
  bool fails = false;
  ibv_pd* asked_for = nullptr;

  ibv_parent_domain_init_attr attributes() noexcept
  {
    ibv_parent_domain_init_attr with{};
    with.comp_mask =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    with.pd_context = this;
    with.alloc = [](ibv_pd* pd, void* context, std::size_t size, std::size_t alignment,
                   std::uint64_t) -> void*
    {
      auto& self = *static_cast<program_memory*>(context);
      ++self.allocations;
      self.asked_for = pd;
      if (self.fails)
        return nullptr;
      if (self.uses_default)
        return IBV_ALLOCATOR_USE_DEFAULT;
      ++self.in_use;
      return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    };
    with.free = [](ibv_pd*, void* context, void* memory, std::uint64_t)
    {
      --static_cast<program_memory*>(context)->in_use;
      std::free(memory);
    };
    return with;
  }
};

} // namespace

TEST_CASE("a parent domain is interchangeable with its protection domain")
{
  BOOST_RDMA_TEST_NEEDS(parent_domains);
  connected c; // for the devices, and a pair outside of the parent domain
  const parent_domain near(c.near, {}, GENERATE(false, true));
  // The memory is in the protection domain and the queue pair in the parent domain, and vice versa.
  memory source(c.near, 64);
  memory target(c.far, 64);
  const endpoint a(c.near, {}, near.get());
  const endpoint b(c.far);
  connect(a, b);
  source.fill(sent_byte);
  REQUIRE(a.write(1, source.sge(), target.address(), target.key()) == 0);
  CHECK(a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(target.holds(sent_byte));

  memory inside(c.near, 64, all_access, near.get());
  inside.fill(kept_byte);
  REQUIRE(c.a.read(2, inside.sge(), target.address(), target.key()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(inside.holds(sent_byte));
  REQUIRE(c.b.write(3, target.sge(), inside.address(), inside.key()) == 0);
  CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
}

TEST_CASE("a parent domain does not reach memory of another protection domain")
{
  BOOST_RDMA_TEST_NEEDS(parent_domains);
  connected c;
  const parent_domain near(c.near, {});
  ibv_pd* const other = c.near.api().alloc_pd(c.near.context());
  REQUIRE(other != nullptr);
  {
    memory foreign(c.near, 64, all_access, other);
    memory target(c.far, 64);
    const endpoint a(c.near, {}, near.get());
    const endpoint b(c.far);
    connect(a, b);
    REQUIRE(a.write(1, foreign.sge(), target.address(), target.key()) == 0);
    CHECK(a.sent().next().status == IBV_WC_LOC_PROT_ERR);
  }
  CHECK(c.near.api().dealloc_pd(other) == 0);
}

TEST_CASE("a shared receive queue of a parent domain serves its protection domain")
{
  BOOST_RDMA_TEST_NEEDS(parent_domains);
  verbs_device near;
  verbs_device far;
  const parent_domain domain(far, {}, true);
  ibv_srq_init_attr with{};
  with.attr = {8, 1, 0};
  ibv_srq* const shared = far.api().create_srq(domain.get(), &with);
  REQUIRE(shared != nullptr);
  {
    memory source(near, 64);
    memory target(far, 64, all_access, domain.get());
    source.fill(sent_byte);
    pair_options sharing;
    sharing.shared = shared;
    const endpoint a(near);
    const endpoint b(far, sharing); // in the protection domain
    connect(a, b);
    ibv_sge into = target.sge();
    ibv_recv_wr wr{7, nullptr, &into, 1};
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_srq_recv(shared, &wr, &bad) == 0);
    REQUIRE(a.send(1, source.sge()) == 0);
    CHECK(b.received().next().status == IBV_WC_SUCCESS);
    CHECK(target.holds(sent_byte));
  }
  REQUIRE(far.api().destroy_srq(shared) == 0);
}

TEST_CASE("datagrams of a parent domain take address handles of its protection domain")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  const parent_domain domain(device, {});
  const datagrams both(device, nullptr, 64, domain.get());
  both.start();
  const handle to(device, device);
  memory source(device, 8);
  memory target(device, route + 8, all_access, domain.get());
  source.fill(sent_byte);
  REQUIRE(both.receive(1, target.sge()) == 0);
  REQUIRE(both.send(2, to.get(), both.qp()->qp_num, source.sge()) == 0);
  CHECK(both.sent().next().status == IBV_WC_SUCCESS);
  CHECK(both.received().next().status == IBV_WC_SUCCESS);
  CHECK(target.holds(sent_byte, route));
}

TEST_CASE("domains that are in use cannot be deallocated")
{
  BOOST_RDMA_TEST_NEEDS(parent_domains);
  verbs_device device;
  ibv_pd* const protection = device.api().alloc_pd(device.context());
  REQUIRE(protection != nullptr);
  ibv_td_init_attr none{};
  ibv_td* const thread = ibv_alloc_td(device.context(), &none);
  REQUIRE(thread != nullptr);
  ibv_parent_domain_init_attr with{};
  with.pd = protection;
  with.td = thread;
  ibv_pd* const parent = ibv_alloc_parent_domain(device.context(), &with);
  REQUIRE(parent != nullptr);
  CHECK(parent->context == device.context());
  CHECK(device.api().dealloc_pd(protection) == EBUSY);
  CHECK(ibv_dealloc_td(thread) == EBUSY);
  {
    const memory inside(device, 64, all_access, parent);
    CHECK(inside.mr()->pd == parent);
    CHECK(device.api().dealloc_pd(parent) == EBUSY);
  }
  ibv_cq_init_attr_ex queue{};
  queue.cqe = 4;
  queue.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  queue.parent_domain = parent;
  ibv_cq_ex* const cq = ibv_create_cq_ex(device.context(), &queue);
  REQUIRE(cq != nullptr);
  CHECK(device.api().dealloc_pd(parent) == EBUSY);
  CHECK(device.api().destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
  CHECK(device.api().dealloc_pd(parent) == 0);
  CHECK(ibv_dealloc_td(thread) == 0);
  CHECK(device.api().dealloc_pd(protection) == 0);
}

TEST_CASE("domains with invalid attributes are refused")
{
  BOOST_RDMA_TEST_NEEDS(parent_domains);
  verbs_device device;
  verbs_device other;
  const auto refused = [](const void* made, int error)
  {
    const bool good = made == nullptr && errno == error;
    errno = 0;
    return good;
  };
  errno = 0;
  ibv_td_init_attr td{};
  td.comp_mask = 1;
  CHECK(refused(ibv_alloc_td(device.context(), &td), EINVAL));
  ibv_parent_domain_init_attr with{};
  CHECK(refused(ibv_alloc_parent_domain(device.context(), &with), EINVAL)); // no protection domain
  with.pd = other.pd();
  CHECK(refused(ibv_alloc_parent_domain(device.context(), &with), EINVAL));
  with.pd = device.pd();
  with.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT << 1;
  CHECK(refused(ibv_alloc_parent_domain(device.context(), &with), EINVAL));
  program_memory program;
  with = program.attributes();
  with.pd = device.pd();
  with.free = nullptr;
  CHECK(refused(ibv_alloc_parent_domain(device.context(), &with), EINVAL));
  // A completion queue takes a parent domain only.
  ibv_cq_init_attr_ex queue{};
  queue.cqe = 4;
  queue.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  CHECK(refused(ibv_create_cq_ex(device.context(), &queue), EINVAL));
  queue.parent_domain = device.pd();
  CHECK(refused(ibv_create_cq_ex(device.context(), &queue), EINVAL));
}

TEST_CASE("queues of a parent domain are in the memory of the program's allocator")
{
  BOOST_RDMA_TEST_NEEDS(parent_domains);
  verbs_device near;
  verbs_device far;
  program_memory program;
  program.uses_default = GENERATE(false, true);
  {
    const parent_domain domain(near, program.attributes());
    memory source(near, 64);
    memory back(near, 64);
    memory target(far, 64);
    source.fill(sent_byte);
    {
      const endpoint a(near, {}, domain.get());
      const endpoint b(far);
      CHECK(program.allocations > 0);
      CHECK((program.in_use > 0) != program.uses_default);
      CHECK(program.asked_for == domain.get());
      connect(a, b);
      const int allocations = program.allocations;
      for (std::uint64_t i = 0; i != 2 * pair_options{}.depth; ++i)
      {
        REQUIRE(a.receive(i, back.sge()) == 0);
        REQUIRE(b.receive(i, target.sge()) == 0);
        REQUIRE(a.send(i, source.sge()) == 0);
        REQUIRE(b.send(i, target.sge()) == 0);
        for (const completions* each : {&a.sent(), &a.received(), &b.sent(), &b.received()})
          CHECK(each->next().status == IBV_WC_SUCCESS);
      }
      CHECK(target.holds(sent_byte));
      CHECK(program.allocations == allocations); // none while it runs
    }
    CHECK(program.in_use == 0);
    ibv_srq_init_attr with{};
    with.attr = {8, 1, 0};
    ibv_srq* const shared = near.api().create_srq(domain.get(), &with);
    REQUIRE(shared != nullptr);
    CHECK((program.in_use > 0) != program.uses_default);
    CHECK(near.api().destroy_srq(shared) == 0);
    CHECK(program.in_use == 0);
    program.fails = true;
    errno = 0;
    CHECK(near.api().create_srq(domain.get(), &with) == nullptr);
    CHECK(errno == ENOMEM);
  }
}
