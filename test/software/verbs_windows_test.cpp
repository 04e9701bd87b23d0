//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Memory windows and shared receive queues.

#include "software/verbs_fixture.hpp"

#include <algorithm>
#include <cerrno>

using namespace test;

namespace {

class window
{
public:
  explicit window(const verbs_device& on, ibv_mw_type type = IBV_MW_TYPE_2)
    : mw_(on.context()->ops.alloc_mw(on.pd(), type))
  {
    REQUIRE(mw_ != nullptr);
  }
  ~window() { CHECK(mw_->context->ops.dealloc_mw(mw_) == 0); }
  window(const window&) = delete;
  window& operator=(const window&) = delete;

  ibv_mw* get() const noexcept { return mw_; }

  /// Binds it on `e`; the status.
  ibv_wc_status bind(const endpoint& e, memory& to, std::size_t offset, std::size_t size,
                     unsigned access)
  {
    request r(IBV_WR_BIND_MW, {}, 1000);
    r.wr.bind_mw.mw = mw_;
    r.wr.bind_mw.rkey = ibv_inc_rkey(mw_->rkey);
    r.wr.bind_mw.bind_info.mr = to.mr();
    r.wr.bind_mw.bind_info.addr = to.address(offset);
    r.wr.bind_mw.bind_info.length = size;
    r.wr.bind_mw.bind_info.mw_access_flags = access;
    REQUIRE(e.post(r.flags(IBV_SEND_SIGNALED).wr) == 0);
    const ibv_wc wc = e.sent().next();
    CHECK(wc.wr_id == 1000);
    if (wc.status == IBV_WC_SUCCESS)
    {
      CHECK(wc.opcode == IBV_WC_BIND_MW);
      mw_->rkey = r.wr.bind_mw.rkey;
    }
    return wc.status;
  }

private:
  ibv_mw* mw_;
};

} // namespace

TEST_CASE("a type 2 window gives its queue pair's peer what it was bound for, until invalidated")
{
  connected c;
  memory near(c.near, 64);
  memory far(c.far, 64);
  std::fill(near.bytes().begin(), near.bytes().end(), std::uint8_t{1});
  window w(c.far);
  REQUIRE(w.bind(c.b, far, 16, 32, IBV_ACCESS_REMOTE_WRITE) == IBV_WC_SUCCESS);
  CHECK(c.far.api().dereg_mr(far.mr()) == EBUSY);
  REQUIRE(c.a.write(1, near.sge(0, 32), far.address(16), w.get()->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(std::count(far.bytes().begin(), far.bytes().end(), 1) == 32);
  CHECK(w.bind(c.b, far, 0, 8, IBV_ACCESS_REMOTE_READ) == IBV_WC_MW_BIND_ERR); // bound already
}

TEST_CASE("a window is checked as a region is: bounds, rights and whose it is")
{
  connected c;
  memory near(c.near, 64);
  memory far(c.far, 64);
  window w(c.far);
  const int what = GENERATE(range(0, 4));
  CAPTURE(what);
  endpoint other(c.far);
  endpoint its_peer(c.near);
  connect(other, its_peer);
  REQUIRE(w.bind(what == 3 ? other : c.b, far, 16, 32, IBV_ACCESS_REMOTE_WRITE) == IBV_WC_SUCCESS);
  if (what == 0)
    REQUIRE(c.a.write(1, near.sge(0, 33), far.address(16), w.get()->rkey) == 0);
  else if (what == 1)
    REQUIRE(c.a.read(1, near.sge(0, 8), far.address(16), w.get()->rkey) == 0);
  else if (what == 2)
    REQUIRE(c.a.write(1, near.sge(0, 8), far.address(16), ibv_inc_rkey(w.get()->rkey)) == 0);
  else
    REQUIRE(c.a.write(1, near.sge(0, 8), far.address(16), w.get()->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a window is taken back by its owner or by the peer's last word")
{
  connected c;
  memory near(c.near, 64);
  memory far(c.far, 64);
  window w(c.far);
  REQUIRE(w.bind(c.b, far, 0, 64, IBV_ACCESS_REMOTE_WRITE) == IBV_WC_SUCCESS);
  const std::uint32_t key = w.get()->rkey;
  if (GENERATE(true, false))
  {
    request r(IBV_WR_LOCAL_INV, {}, 5);
    r.wr.invalidate_rkey = key;
    REQUIRE(c.b.post(r.wr) == 0);
    const ibv_wc wc = c.b.sent().next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.opcode == IBV_WC_LOCAL_INV);
  }
  else
  {
    memory into(c.far, 64);
    REQUIRE(c.b.receive(1, into.sge()) == 0);
    request r(IBV_WR_SEND_WITH_INV, {near.sge()});
    r.wr.invalidate_rkey = key;
    REQUIRE(c.a.post(r.wr) == 0);
    const ibv_wc wc = c.b.received().next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wc_flags == IBV_WC_WITH_INV);
    CHECK(wc.invalidated_rkey == key);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  }
  // It may be bound anew, and the old key stays dead.
  REQUIRE(w.bind(c.b, far, 0, 8, IBV_ACCESS_REMOTE_WRITE) == IBV_WC_SUCCESS);
  REQUIRE(c.a.write(1, near.sge(0, 8), far.address(), w.get()->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  REQUIRE(c.a.write(2, near.sge(0, 8), far.address(), key) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a window that may not be bound or invalidated is an error of the work request")
{
  connected c;
  memory plain(c.far, 64, IBV_ACCESS_LOCAL_WRITE); // no IBV_ACCESS_MW_BIND
  memory read_only(c.far, 64, IBV_ACCESS_MW_BIND);
  memory far(c.far, 64);
  window w(c.far);
  const int what = GENERATE(range(0, 4));
  CAPTURE(what);
  if (what == 0)
    CHECK(w.bind(c.b, plain, 0, 8, IBV_ACCESS_REMOTE_READ) == IBV_WC_MW_BIND_ERR);
  else if (what == 1)
    CHECK(w.bind(c.b, read_only, 0, 8, IBV_ACCESS_REMOTE_WRITE) == IBV_WC_MW_BIND_ERR);
  else if (what == 2)
    CHECK(w.bind(c.b, far, 1, 64, IBV_ACCESS_REMOTE_WRITE) == IBV_WC_MW_BIND_ERR);
  else
  {
    request r(IBV_WR_LOCAL_INV, {});
    r.wr.invalidate_rkey = far.key();
    REQUIRE(c.b.post(r.wr) == 0);
    CHECK(c.b.sent().next().status == IBV_WC_MW_BIND_ERR);
  }
  CHECK(c.b.state() == IBV_QPS_ERR);
}

TEST_CASE("invalidating a key that is no window's ends the receive and the send with errors")
{
  connected c;
  memory near(c.near, 64);
  memory far(c.far, 64);
  REQUIRE(c.b.receive(1, far.sge()) == 0);
  request r(IBV_WR_SEND_WITH_INV, {near.sge()});
  r.wr.invalidate_rkey = far.key(); // a region
  REQUIRE(c.a.post(r.wr) == 0);
  CHECK(c.b.received().next().status == IBV_WC_REM_INV_REQ_ERR);
  CHECK(c.a.sent().next().status == IBV_WC_REM_INV_REQ_ERR);
  CHECK(c.b.state() == IBV_QPS_ERR);
}

TEST_CASE("a type 1 window is bound by its own verb, for every queue pair of the domain")
{
  connected c;
  memory near(c.near, 64);
  memory far(c.far, 64);
  window w(c.far, IBV_MW_TYPE_1);
  ibv_mw_bind bind{};
  bind.wr_id = 9;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {far.mr(), far.address(), 64, IBV_ACCESS_REMOTE_WRITE};
  for (unsigned i = 0; i < 3; ++i)
  {
    REQUIRE(c.far.context()->ops.bind_mw(c.b.qp(), w.get(), &bind) == 0);
    CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
    REQUIRE(c.a.write(1, near.sge(), far.address(), w.get()->rkey) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  }
  bind.bind_info.length = 0;
  const std::uint32_t old = w.get()->rkey;
  REQUIRE(c.far.context()->ops.bind_mw(c.b.qp(), w.get(), &bind) == 0);
  CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
  REQUIRE(c.a.write(1, near.sge(), far.address(), old) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_REM_ACCESS_ERR);
}

namespace {

class shared_queue
{
public:
  shared_queue(const verbs_device& on, std::uint32_t depth)
    : api_(on.api())
  {
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = depth;
    attr.attr.max_sge = 4;
    srq_ = api_.create_srq(on.pd(), &attr);
    REQUIRE(srq_ != nullptr);
  }
  ~shared_queue() { CHECK(api_.destroy_srq(srq_) == 0); }
  shared_queue(const shared_queue&) = delete;
  shared_queue& operator=(const shared_queue&) = delete;

  ibv_srq* get() const noexcept { return srq_; }
  int post(std::uint64_t id, ibv_sge into) const
  {
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &into;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return srq_->context->ops.post_srq_recv(srq_, &wr, &bad);
  }
  int limit(std::uint32_t n) const
  {
    ibv_srq_attr attr{};
    attr.srq_limit = n;
    return api_.modify_srq(srq_, &attr, IBV_SRQ_LIMIT);
  }

private:
  const rdma::verbs::api& api_;
  ibv_srq* srq_;
};

} // namespace

TEST_CASE("queue pairs take receives from their shared queue, which tells when it runs low")
{
  verbs_device near;
  verbs_device far;
  shared_queue q(far, 8);
  pair_options with_shared;
  with_shared.shared = q.get();
  endpoint a1(near);
  endpoint a2(near);
  endpoint b1(far, with_shared);
  endpoint b2(far, with_shared);
  connect(a1, b1);
  connect(a2, b2);
  memory m(near, 8);
  memory into(far, 8 * 8);
  CHECK(far.api().destroy_srq(q.get()) == EBUSY);
  CHECK(b1.receive(1, into.sge(0, 8)) == EINVAL);
  for (unsigned i = 0; i < 8; ++i)
    REQUIRE(q.post(i, into.sge(i * 8, 8)) == 0);
  CHECK(q.post(9, into.sge(0, 8)) == ENOMEM);
  CHECK(q.limit(9) == EINVAL);
  REQUIRE(q.limit(6) == 0);
  for (unsigned i = 0; i < 4; ++i)
  {
    const endpoint& a = i % 2 == 0 ? a1 : a2;
    const endpoint& b = i % 2 == 0 ? b1 : b2;
    REQUIRE(a.send(i, m.sge()) == 0);
    const ibv_wc wc = b.received().next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == i);
    CHECK(wc.qp_num == b.qp()->qp_num);
    CHECK(far.has_event() == (i >= 2));
  }
  CHECK(far.event() == IBV_EVENT_SRQ_LIMIT_REACHED);
  CHECK_FALSE(far.has_event()); // once
  ibv_srq_attr attr{};
  REQUIRE(far.api().query_srq(q.get(), &attr) == 0);
  CHECK(attr.max_wr == 8);
  CHECK(attr.srq_limit == 0);
  // The shared receives stay when a queue pair fails.
  REQUIRE(b1.to(IBV_QPS_ERR) == 0);
  CHECK(far.event() == IBV_EVENT_QP_LAST_WQE_REACHED);
  REQUIRE(a2.send(5, m.sge()) == 0);
  CHECK(b2.received().next().wr_id == 4);
}

TEST_CASE("a message waits for a receive in the shared queue")
{
  verbs_device near;
  verbs_device far;
  shared_queue q(far, 8);
  pair_options with_shared;
  with_shared.shared = q.get();
  std::vector<std::unique_ptr<endpoint>> ends;
  memory m(near, 8);
  memory into(far, 8);
  for (unsigned i = 0; i < 3; ++i)
  {
    ends.push_back(std::make_unique<endpoint>(near));
    ends.push_back(std::make_unique<endpoint>(far, with_shared));
    connect(*ends[2 * i], *ends[2 * i + 1]);
    REQUIRE(ends[2 * i]->send(1, m.sge()) == 0);
  }
  const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
  CHECK(until([&]
              { return std::chrono::steady_clock::now() > later || ends[1]->received().poll(); }));
  for (unsigned i = 0; i < 3; ++i)
    REQUIRE(q.post(i, into.sge()) == 0);
  for (unsigned i = 0; i < 3; ++i)
  {
    CHECK(ends[2 * i + 1]->received().next().status == IBV_WC_SUCCESS);
    CHECK(ends[2 * i]->sent().next().status == IBV_WC_SUCCESS);
  }
}
