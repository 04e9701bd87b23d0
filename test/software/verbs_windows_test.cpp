//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests memory windows and shared receive queues.

#include "software/verbs_failure.hpp"

#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

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

  /// Sets up `r` as the request that binds the window.
  request& describe(
    request& r, const memory& to, std::size_t offset, std::size_t size, unsigned access) const
  {
    r.wr.bind_mw.mw = mw_;
    r.wr.bind_mw.rkey = ibv_inc_rkey(mw_->rkey);
    r.wr.bind_mw.bind_info.mr = to.mr();
    r.wr.bind_mw.bind_info.addr = to.address(offset);
    r.wr.bind_mw.bind_info.length = size;
    r.wr.bind_mw.bind_info.mw_access_flags = access;
    return r;
  }

  /// Binds it on `e` and stores its new key.
  void bind(
    const endpoint& e, const memory& to, std::size_t offset, std::size_t size, unsigned access)
  {
    request r(IBV_WR_BIND_MW, {}, 1000);
    REQUIRE(e.post(describe(r, to, offset, size, access).flags(IBV_SEND_SIGNALED).wr) == 0);
    const ibv_wc wc = e.sent().next();
    CHECK(wc.wr_id == 1000);
    REQUIRE(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.opcode == IBV_WC_BIND_MW);
    mw_->rkey = r.wr.bind_mw.rkey;
  }

private:
  ibv_mw* mw_;
};

} // namespace

TEST_CASE(
  "a type 2 window exposes its bound range to its queue pair's peer until it is invalidated")
{
  connected c;
  failure_scene s(c.b, c.a); // the end that binds is the one that fails
  memory near(c.near, 64);
  memory far(c.far, 64);
  near.fill(sent_byte);
  far.fill(kept_byte);
  window w(c.far);
  w.bind(c.b, far, 16, 32, IBV_ACCESS_REMOTE_WRITE);
  CHECK(c.far.api().dereg_mr(far.mr()) == (has(feature::argument_checks) ? EBUSY : EINVAL));
  REQUIRE(c.a.write(1, near.sge(0, 32), far.address(16), w.get()->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(kept_byte, 0, 16));
  CHECK(far.holds(sent_byte, 16, 32));
  CHECK(far.holds(kept_byte, 48));
  s.guard(far);
  request again(IBV_WR_BIND_MW); // already bound
  s.check(w.describe(again, far, 0, 8, IBV_ACCESS_REMOTE_READ), stayed_here(IBV_WC_MW_BIND_ERR));
}

TEST_CASE("a window is checked for bounds, rights and its queue pair")
{
  connected c;
  failure_scene s(c.a, c.b);
  memory near(c.near, 64);
  memory far(c.far, 64);
  near.fill(sent_byte);
  far.fill(kept_byte);
  s.guard(near);
  s.guard(far);
  const int what = GENERATE(range(0, 6));
  CAPTURE(what);
  if (what < 2 && !has(feature::window_bounds))
    return;
  endpoint other(c.far);
  endpoint its_peer(c.near);
  window w(c.far);
  connect(other, its_peer);
  w.bind(what == 4 ? other : c.b, far, 16, 32, IBV_ACCESS_REMOTE_WRITE);
  const std::uint32_t key = w.get()->rkey;
  request write(IBV_WR_RDMA_WRITE, {near.sge(0, what == 0 ? 33 : 8)});
  request read(IBV_WR_RDMA_READ, {near.sge(0, 8)});
  request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {near.sge(0, 8)});
  write.remote(far.address(what == 1 ? 15 : 16), what == 3 ? ibv_inc_rkey(key) : key);
  read.remote(far.address(16), key);
  add.atomic(far.address(16), key, 1);
  s.check(what == 2 ? read
      : what == 5   ? add
                    : write,
    refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
  if (what == 4)
  {
    // The peer of its own queue pair may use it.
    REQUIRE(its_peer.write(1, near.sge(0, 8), far.address(16), key) == 0);
    CHECK(its_peer.sent().next().status == IBV_WC_SUCCESS);
    CHECK(far.holds(sent_byte, 16, 8));
  }
}

TEST_CASE("a window can be invalidated by its owner or by the peer's send")
{
  connected c;
  failure_scene s(c.a, c.b);
  memory near(c.near, 64);
  memory far(c.far, 64);
  memory into(c.far, 64);
  near.fill(sent_byte);
  far.fill(kept_byte);
  into.fill(kept_byte);
  window w(c.far);
  w.bind(c.b, far, 0, 64, IBV_ACCESS_REMOTE_WRITE);
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
    REQUIRE(c.b.receive(1, into.sge()) == 0);
    request r(IBV_WR_SEND_WITH_INV, {near.sge()});
    r.wr.invalidate_rkey = key;
    REQUIRE(c.a.post(r.wr) == 0);
    const ibv_wc wc = c.b.received().next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    if (has(feature::completion_details))
      CHECK(wc.wc_flags == IBV_WC_WITH_INV);
    CHECK(wc.invalidated_rkey == key);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(into.holds(sent_byte));
  }
  CHECK(far.holds(kept_byte));
  // It can be bound again, and the old key stays invalid.
  w.bind(c.b, far, 0, 8, IBV_ACCESS_REMOTE_WRITE);
  REQUIRE(c.a.write(1, near.sge(0, 8), far.address(), w.get()->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(sent_byte, 0, 8));
  far.fill(kept_byte);
  s.guard(far);
  request r(IBV_WR_RDMA_WRITE, {near.sge(0, 8)}, 2);
  s.check(r.remote(far.address(), key), refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
}

TEST_CASE("a bind or invalidation without permission fails with MW_BIND_ERR")
{
  connected c;
  failure_scene s(c.b, c.a);
  memory plain(c.far, 64, IBV_ACCESS_LOCAL_WRITE); // no IBV_ACCESS_MW_BIND
  memory read_only(c.far, 64, IBV_ACCESS_MW_BIND);
  memory far(c.far, 64);
  for (memory* m : {&plain, &read_only, &far})
  {
    m->fill(kept_byte);
    s.guard(*m);
  }
  window w(c.far);
  const int what = GENERATE(range(0, 6));
  CAPTURE(what);
  if (what == 5 && !has(feature::unbound_invalidation))
    return;
  request bind(IBV_WR_BIND_MW);
  request invalidate(IBV_WR_LOCAL_INV);
  switch (what)
  {
  case 0:
    w.describe(bind, plain, 0, 8, IBV_ACCESS_REMOTE_READ);
    break;
  case 1:
    w.describe(bind, read_only, 0, 8, IBV_ACCESS_REMOTE_WRITE);
    break;
  case 2:
    w.describe(bind, far, 1, 64, IBV_ACCESS_REMOTE_WRITE);
    break;
  case 3: // a bind of zero bytes does not unbind a type 2 window
    w.describe(bind, far, 0, 0, IBV_ACCESS_REMOTE_WRITE);
    break;
  case 4: // a region
    invalidate.wr.invalidate_rkey = far.key();
    break;
  case 5: // an unbound window
    invalidate.wr.invalidate_rkey = w.get()->rkey;
    break;
  }
  s.check(what < 4 ? bind : invalidate, stayed_here(IBV_WC_MW_BIND_ERR));
  // No window was bound or invalidated: another window can use the region.
  endpoint e(c.far);
  endpoint its_peer(c.near);
  connect(e, its_peer);
  window another(c.far);
  another.bind(e, far, 0, 8, IBV_ACCESS_REMOTE_WRITE);
  memory from(c.near, 8);
  from.fill(sent_byte);
  REQUIRE(its_peer.write(1, from.sge(), far.address(), another.get()->rkey) == 0);
  CHECK(its_peer.sent().next().status == IBV_WC_SUCCESS);
  REQUIRE(its_peer.write(2, from.sge(), far.address(8), far.key()) == 0);
  CHECK(its_peer.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(sent_byte, 0, 16));
}

TEST_CASE("a bind takes the low 8 bits of its key from the program and the others from the window")
{
  connected c;
  failure_scene s(c.a, c.b);
  memory near(c.near, 8);
  memory far(c.far, 64);
  near.fill(sent_byte);
  far.fill(kept_byte);
  window w(c.far);
  const std::uint32_t before = w.get()->rkey;
  const std::uint32_t key = (before & ~0xffu) | ((before + 0x42) & 0xff);
  request r(IBV_WR_BIND_MW, {}, 1000);
  w.describe(r, far, 0, 64, IBV_ACCESS_REMOTE_WRITE);
  r.wr.bind_mw.rkey = key ^ 0x12345600;
  REQUIRE(c.b.post(r.wr) == 0);
  CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
  if (has(feature::software_device)) // other devices leave this to the program
    CHECK(w.get()->rkey == key);
  REQUIRE(c.a.write(1, near.sge(), far.address(), key) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(sent_byte, 0, 8));
  s.guard(far);
  request wrong(IBV_WR_RDMA_WRITE, {near.sge()});
  s.check(wrong.remote(far.address(), key ^ 0x12345600),
    refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
}

TEST_CASE("the addresses of a zero-based window begin at zero")
{
  BOOST_RDMA_TEST_NEEDS(window_bounds);
  connected c;
  failure_scene s(c.a, c.b);
  memory near(c.near, 64);
  memory far(c.far, 64);
  near.fill(sent_byte);
  far.fill(kept_byte);
  constexpr unsigned rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED;
  const bool type_2 = GENERATE(true, false);
  CAPTURE(type_2);
  window w(c.far, type_2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
  if (type_2)
  {
    w.bind(c.b, far, 16, 32, rights);
  }
  else
  {
    ibv_mw_bind bind{};
    bind.bind_info = {far.mr(), far.address(16), 32, rights};
    REQUIRE(c.far.context()->ops.bind_mw(c.b.qp(), w.get(), &bind) == 0);
    CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
  }
  for (unsigned i = 0; i != 5; ++i) // the later ones may go another way
  {
    far.fill(kept_byte);
    REQUIRE(c.a.write(1, near.sge(0, 32), 0, w.get()->rkey) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(far.holds(kept_byte, 0, 16));
    CHECK(far.holds(sent_byte, 16, 32));
    CHECK(far.holds(kept_byte, 48));
  }
  s.guard(far);
  request wrong(IBV_WR_RDMA_WRITE, {near.sge(0, 8)});
  s.check(wrong.remote(GENERATE(true, false) ? 25 : far.address(16), w.get()->rkey),
    refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
}

TEST_CASE("a window can be bound with a local right, which has no effect")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  connected c;
  memory far(c.far, 64);
  memory from(c.near, 8);
  from.fill(sent_byte);
  window w(c.far);
  w.bind(c.b, far, 0, 8, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE);
  REQUIRE(c.a.write(1, from.sge(), far.address(), w.get()->rkey) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(sent_byte, 0, 8));
}

TEST_CASE("a send that invalidates a key of no window fails on both sides")
{
  BOOST_RDMA_TEST_NEEDS(unbound_invalidation);
  connected c;
  failure_scene s(c.a, c.b);
  memory region(c.far, 64);
  region.fill(kept_byte);
  s.guard(region);
  memory into(c.far, 128);
  into.fill(kept_byte);
  window unbound(c.far);
  REQUIRE(c.b.receive(s.far_receive_id, into.sge()) == 0);
  request r(IBV_WR_SEND_WITH_INV, {s.near.sge()});
  r.wr.invalidate_rkey = GENERATE(true, false) ? region.key() : unbound.get()->rkey;
  s.check(r, met_receive(IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR));
  CHECK(into.holds(kept_byte, 64)); // behind the message
  // The region's key is still valid.
  endpoint e(c.far);
  endpoint its_peer(c.near);
  connect(e, its_peer);
  REQUIRE(its_peer.write(1, s.near.sge(), region.address(), region.key()) == 0);
  CHECK(its_peer.sent().next().status == IBV_WC_SUCCESS);
  CHECK(region.holds(sent_byte));
}

TEST_CASE("a type 1 window is bound by ibv_bind_mw for every queue pair of the domain")
{
  connected c;
  failure_scene s(c.a, c.b);
  endpoint other(c.far);
  endpoint its_peer(c.near);
  connect(other, its_peer);
  memory near(c.near, 64);
  memory far(c.far, 64);
  near.fill(sent_byte);
  window w(c.far, IBV_MW_TYPE_1);
  ibv_mw_bind bind{};
  bind.wr_id = 9;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {far.mr(), far.address(), 64, IBV_ACCESS_REMOTE_WRITE};
  for (unsigned i = 0; i < 3; ++i)
  {
    REQUIRE(c.far.context()->ops.bind_mw(c.b.qp(), w.get(), &bind) == 0);
    CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
    for (const endpoint* e : {&c.a, &its_peer})
    {
      far.fill(kept_byte);
      REQUIRE(e->write(1, near.sge(), far.address(), w.get()->rkey) == 0);
      CHECK(e->sent().next().status == IBV_WC_SUCCESS);
      CHECK(far.holds(sent_byte));
    }
  }
  bind.bind_info.length = 0;
  const std::uint32_t old = w.get()->rkey;
  REQUIRE(c.far.context()->ops.bind_mw(c.b.qp(), w.get(), &bind) == 0);
  CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
  far.fill(kept_byte);
  s.guard(far);
  request r(IBV_WR_RDMA_WRITE, {near.sge()});
  s.check(r.remote(far.address(), old), refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR));
}

TEST_CASE("binds and invalidations need no peer")
{
  verbs_device near;
  verbs_device far;
  const memory m(far, 64);
  endpoint a(near);
  endpoint b(far);
  window w(far);
  const auto bind_and_invalidate = [&]
  {
    for (unsigned i = 0; i != 2; ++i)
    {
      w.bind(b, m, 0, 64, IBV_ACCESS_REMOTE_WRITE);
      request r(IBV_WR_LOCAL_INV, {}, 5);
      r.wr.invalidate_rkey = w.get()->rkey;
      REQUIRE(b.post(r.wr) == 0);
      const ibv_wc wc = b.sent().next();
      CHECK(wc.status == IBV_WC_SUCCESS);
      CHECK(wc.opcode == IBV_WC_LOCAL_INV);
    }
    CHECK(b.state() == IBV_QPS_RTS);
  };
  // The peer is not ready yet.
  REQUIRE(a.to_init() == 0);
  REQUIRE(b.to_init() == 0);
  REQUIRE(b.to_ready_to_receive(a) == 0);
  REQUIRE(b.to_ready_to_send() == 0);
  bind_and_invalidate();
  REQUIRE(a.to_ready_to_receive(b) == 0);
  REQUIRE(a.to_ready_to_send() == 0);
  const memory from(near, 8);
  w.bind(b, m, 0, 64, IBV_ACCESS_REMOTE_WRITE);
  REQUIRE(a.write(1, from.sge(), m.address(), w.get()->rkey) == 0);
  CHECK(a.sent().next().status == IBV_WC_SUCCESS);
  request r(IBV_WR_LOCAL_INV, {}, 5);
  r.wr.invalidate_rkey = w.get()->rkey;
  REQUIRE(b.post(r.wr) == 0);
  CHECK(b.sent().next().status == IBV_WC_SUCCESS);
  // The peer is gone, and both devices have carried out another message since.
  endpoint other_a(near);
  endpoint other_b(far);
  connect(other_a, other_b);
  a.destroy();
  REQUIRE(other_a.write(1, from.sge(), m.address(), m.key()) == 0);
  CHECK(other_a.sent().next().status == IBV_WC_SUCCESS);
  bind_and_invalidate();
  request write(IBV_WR_RDMA_WRITE, {m.sge(0, 8)}, 6);
  REQUIRE(b.post(write.remote(from.address(), from.key()).wr) == 0);
  check_error(b.sent(), 6, IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("reads of a window that ends meanwhile are refused with REM_ACCESS_ERR")
{
  BOOST_RDMA_TEST_NEEDS(read_refusals);
  constexpr std::size_t size = 16 * 1024;
  constexpr unsigned depth = 32;
  constexpr unsigned warm_up = 100;
  const bool type_1 = GENERATE(true, false);
  CAPTURE(type_1);
  connected c;
  memory near(c.near, size);
  memory far(c.far, size);
  window w(c.far, type_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {far.mr(), far.address(), size, IBV_ACCESS_REMOTE_READ};
  const auto bind_type_1 = [&]
  {
    REQUIRE(c.far.context()->ops.bind_mw(c.b.qp(), w.get(), &bind) == 0);
    CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
  };
  if (type_1)
    bind_type_1();
  else
    w.bind(c.b, far, 0, size, IBV_ACCESS_REMOTE_READ);
  const std::uint32_t key = w.get()->rkey;
  std::atomic<unsigned> successes{0};
  ibv_wc_status last = IBV_WC_SUCCESS;
  std::thread reader(
    [&]
    {
      for (unsigned i = 0; i != depth; ++i)
        must(c.a.read(i, near.sge(), far.address(), key) == 0, "read");
      while ((last = c.a.sent().next().status) == IBV_WC_SUCCESS)
      {
        ++successes;
        must(c.a.read(0, near.sge(), far.address(), key) == 0, "read");
      }
    });
  const bool warm = until([&] { return successes >= warm_up; });
  if (type_1)
  {
    bind_type_1();
  }
  else
  {
    request r(IBV_WR_LOCAL_INV, {}, 5);
    r.wr.invalidate_rkey = key;
    REQUIRE(c.b.post(r.wr) == 0);
    CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
  }
  reader.join();
  CHECK(warm);
  CHECK(last == IBV_WC_REM_ACCESS_ERR);
}

namespace {

class shared_queue
{
public:
  shared_queue(const verbs_device& on, std::uint32_t depth, ibv_pd* in = nullptr)
    : api_(on.api())
  {
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = depth;
    attr.attr.max_sge = 4;
    srq_ = api_.create_srq(in != nullptr ? in : on.pd(), &attr);
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

pair_options receiving_from(const shared_queue& q)
{
  pair_options result;
  result.shared = q.get();
  return result;
}

/// Two pairs whose far ends receive from one queue.
struct shared_scene
{
  shared_scene()
  {
    connect(a1, b1);
    connect(a2, b2);
  }

  verbs_device near;
  verbs_device far;
  shared_queue q{far, 8};
  endpoint a1{near};
  endpoint a2{near};
  endpoint b1{far, receiving_from(q)};
  endpoint b2{far, receiving_from(q)};
};

} // namespace

TEST_CASE("queue pairs consume receives of their shared queue, which raises an event at its limit")
{
  shared_scene scene;
  auto& [near, far, q, a1, a2, b1, b2] = scene;
  memory m(near, 8);
  m.fill(sent_byte);
  memory into(far, 8 * 8);
  into.fill(kept_byte);
  CHECK(far.api().destroy_srq(q.get()) == EBUSY);
  CHECK(b1.receive(1, into.sge(0, 8)) == EINVAL);
  for (unsigned i = 0; i < 8; ++i)
    REQUIRE(q.post(i, into.sge(i * 8, 8)) == 0);
  if (has(feature::exact_depths))
  {
    CHECK(q.post(9, into.sge(0, 8)) == ENOMEM);
    CHECK(q.limit(9) == EINVAL);
  }
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
    CHECK(into.holds(sent_byte, 0, (i + 1) * 8));
    CHECK(into.holds(kept_byte, (i + 1) * 8));
    CHECK(a.sent().next().status == IBV_WC_SUCCESS);
    if (i < 2 || has(feature::affiliated_events)) // other devices may raise it later
      CHECK(far.has_event() == (i >= 2));
  }
  CHECK(far.event() == IBV_EVENT_SRQ_LIMIT_REACHED);
  CHECK_FALSE(far.has_event()); // only once
  ibv_srq_attr attr{};
  REQUIRE(far.api().query_srq(q.get(), &attr) == 0);
  if (has(feature::exact_depths))
    CHECK(attr.max_wr == 8);
  CHECK(attr.srq_limit == 0);
  // The shared receives stay posted when a queue pair fails.
  REQUIRE(b1.to(IBV_QPS_ERR) == 0);
  if (has(feature::affiliated_events))
    CHECK(far.event() == IBV_EVENT_QP_LAST_WQE_REACHED);
  REQUIRE(a2.send(5, m.sge()) == 0);
  CHECK(b2.received().next().wr_id == 4);
  CHECK(a2.sent().next().status == IBV_WC_SUCCESS);
  CHECK(into.holds(sent_byte, 0, 5 * 8));
  CHECK(into.holds(kept_byte, 5 * 8));
}

TEST_CASE("receives of a shared queue belong to the queue's domain, not to the queue pair's")
{
  BOOST_RDMA_TEST_NEEDS(shared_queue_domains);
  verbs_device near;
  verbs_device far;
  ibv_pd* const other = far.api().alloc_pd(far.context());
  REQUIRE(other != nullptr);
  {
    const shared_queue q(far, 8, other);
    endpoint a(near);
    endpoint b(far, receiving_from(q));
    connect(a, b);
    memory from(near, 1000);
    memory of_queue(far, 1000, all_access, other);
    memory of_queue_pair(far, 1000);
    from.fill(sent_byte);
    of_queue.fill(kept_byte);
    of_queue_pair.fill(kept_byte);
    const std::size_t size = GENERATE(std::size_t{8}, std::size_t{1000});
    REQUIRE(q.post(1, of_queue.sge()) == 0);
    REQUIRE(a.send(2, from.sge(0, size)) == 0);
    const ibv_wc wc = b.received().next();
    CHECK(wc.wr_id == 1);
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(of_queue.holds(sent_byte, 0, size));
    // One-sided requests have the rights of the queue pair's domain.
    REQUIRE(a.write(3, from.sge(0, 8), of_queue_pair.address(), of_queue_pair.key()) == 0);
    CHECK(a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(of_queue_pair.holds(sent_byte, 0, 8));
    REQUIRE(q.post(4, of_queue_pair.sge()) == 0);
    REQUIRE(a.send(5, from.sge(0, size)) == 0);
    check_error(b.received(), 4, IBV_WC_LOC_PROT_ERR);
    check_error(a.sent(), 5, IBV_WC_REM_OP_ERR);
    CHECK(of_queue_pair.holds(kept_byte, 8));
  }
  CHECK(far.api().dealloc_pd(other) == 0);
}

TEST_CASE("a shared receive queue can be resized while it is in use")
{
  shared_scene scene;
  auto& [near, far, q, a1, a2, b1, b2] = scene;
  ibv_device_attr device{};
  REQUIRE(far.api().query_device(far.context(), &device) == 0);
  if ((device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) == 0)
  {
    WARN("skipped on " << device_name() << ": its shared receive queues cannot be resized");
    return;
  }
  memory m(near, 8);
  m.fill(sent_byte);
  memory into(far, 64 * 8);
  into.fill(kept_byte);
  const auto resize = [&](std::uint32_t depth)
  {
    ibv_srq_attr attr{};
    attr.max_wr = depth;
    return far.api().modify_srq(q.get(), &attr, IBV_SRQ_MAX_WR);
  };
  const auto depth = [&]
  {
    ibv_srq_attr attr{};
    REQUIRE(far.api().query_srq(q.get(), &attr) == 0);
    return attr.max_wr;
  };
  unsigned posted = 0;
  unsigned sent = 0;
  const auto post = [&](unsigned count)
  {
    for (unsigned i = 0; i != count; ++i, ++posted)
      REQUIRE(q.post(posted, into.sge(posted * 8, 8)) == 0);
  };
  const auto send = [&](unsigned count)
  {
    for (unsigned i = 0; i != count; ++i, ++sent)
    {
      const endpoint& a = sent % 2 == 0 ? a1 : a2;
      REQUIRE(a.send(sent, m.sge()) == 0);
      CHECK((sent % 2 == 0 ? b1 : b2).received().next().wr_id == sent);
      CHECK(a.sent().next().status == IBV_WC_SUCCESS);
    }
  };
  post(8);
  send(5); // the three that are left do not begin at the first place
  post(3);
  REQUIRE(resize(20) == 0);
  CHECK(depth() >= 20);
  post(14);
  if (has(feature::exact_depths))
  {
    CHECK(depth() == 20);
    CHECK(q.post(posted, into.sge(0, 8)) == ENOMEM);
    CHECK(resize(19) == EINVAL); // fewer than are posted
  }
  CHECK(resize(static_cast<std::uint32_t>(device.max_srq_wr) + 1) == EINVAL);
  CHECK(resize(0) == EINVAL);
  send(18);
  REQUIRE(resize(2) == 0);
  if (has(feature::exact_depths))
  {
    CHECK(depth() == 2);
    CHECK(q.post(posted, into.sge(0, 8)) == ENOMEM);
    CHECK(q.limit(3) == EINVAL);
  }
  send(2);
  post(2);
  send(2);
  CHECK(into.holds(sent_byte, 0, posted * 8));
}

TEST_CASE("a message waits until the shared queue has a receive")
{
  verbs_device near;
  verbs_device far;
  shared_queue q(far, 8);
  std::vector<std::unique_ptr<endpoint>> ends;
  std::vector<std::unique_ptr<memory>> messages;
  memory into(far, 3 * 8);
  into.fill(kept_byte);
  for (unsigned i = 0; i < 3; ++i)
  {
    ends.push_back(std::make_unique<endpoint>(near));
    ends.push_back(std::make_unique<endpoint>(far, receiving_from(q)));
    connect(*ends[2 * i], *ends[2 * i + 1]);
    messages.push_back(std::make_unique<memory>(near, 8));
    messages.back()->fill(static_cast<std::uint8_t>(sent_byte + i));
    REQUIRE(ends[2 * i]->send(1, messages.back()->sge()) == 0);
  }
  // A read in the other direction completes after the messages have reached the far end.
  const memory answer(far, 8);
  for (unsigned i = 0; i < 3; ++i)
  {
    const memory& message = *messages[i];
    REQUIRE(ends[2 * i + 1]->read(2, answer.sge(), message.address(), message.key()) == 0);
    CHECK(ends[2 * i + 1]->sent().next().status == IBV_WC_SUCCESS);
    CHECK_FALSE(ends[2 * i + 1]->received().poll());
  }
  CHECK(into.holds(kept_byte));
  for (unsigned i = 0; i < 3; ++i)
    REQUIRE(q.post(i, into.sge(i * 8, 8)) == 0);
  for (unsigned i = 0; i < 3; ++i)
  {
    const ibv_wc wc = ends[2 * i + 1]->received().next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.byte_len == 8);
    REQUIRE(wc.wr_id < 3); // any of the receives
    CHECK(into.holds(static_cast<std::uint8_t>(sent_byte + i), wc.wr_id * 8, 8));
    CHECK(ends[2 * i]->sent().next().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a shared receive that is too small ends only the queue pair that used it")
{
  shared_scene scene;
  auto& [near, far, q, a1, a2, b1, b2] = scene;
  memory from(near, 64);
  from.fill(sent_byte);
  memory into(far, 64);
  into.fill(kept_byte);
  REQUIRE(q.post(1, into.sge(0, 8)) == 0);
  REQUIRE(q.post(2, into.sge(32, 32)) == 0);
  REQUIRE(a1.send(1, from.sge(0, 9)) == 0);
  check_error(b1.received(), 1, IBV_WC_LOC_LEN_ERR);
  check_error(a1.sent(), 1, IBV_WC_REM_INV_REQ_ERR);
  check_ended(a1);
  CHECK(until([&] { return b1.state() == IBV_QPS_ERR; }));
  if (has(feature::affiliated_events))
    CHECK(far.event() == IBV_EVENT_QP_LAST_WQE_REACHED);
  CHECK_FALSE(b1.received().poll()); // the queue pair must not flush the other shared receive
  CHECK(into.holds(kept_byte));
  REQUIRE(a2.send(2, from.sge(0, 32)) == 0);
  const ibv_wc wc = b2.received().next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.wr_id == 2);
  CHECK(a2.sent().next().status == IBV_WC_SUCCESS);
  CHECK(into.holds(kept_byte, 0, 32));
  CHECK(into.holds(sent_byte, 32));
  CHECK_FALSE(far.has_event());
}
