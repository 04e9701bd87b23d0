//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests extended reliable connections: XRC domains, their shared receive queues, and the initiators
// that name a queue in each request.

#include "software/verbs_fixture.hpp"

#include "verbs/software/foreign/exports.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace test::verbs_xrc_test {
namespace {

namespace software = rdma::software;

ibv_xrcd* open_domain(const verbs_device& on, int fd = -1, int flags = O_CREAT)
{
  ibv_xrcd_init_attr with{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd, flags};
  return ibv_open_xrcd(on.context(), &with);
}

struct domain
{
  explicit domain(const verbs_device& on)
    : xrcd(open_domain(on))
  {
    must(xrcd != nullptr, "open_xrcd");
  }
  ~domain() { must(ibv_close_xrcd(xrcd) == 0, "close_xrcd"); }
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;

  ibv_xrcd* const xrcd;
};

// A shared receive queue of a domain, with a completion queue.
struct shared_queue
{
  shared_queue(const verbs_device& on, const domain& in, ibv_pd* pd = nullptr)
    : device(on)
    , received(on)
  {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {64, 4, 0};
    attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd != nullptr ? pd : on.pd();
    attr.xrcd = in.xrcd;
    attr.cq = received.get();
    srq = verbs_get_ctx(on.context())->create_srq_ex(on.context(), &attr);
    must(srq != nullptr && ibv_get_srq_num(srq, &number) == 0, "create_srq_ex");
  }
  ~shared_queue() { destroy(); }
  shared_queue(const shared_queue&) = delete;
  shared_queue& operator=(const shared_queue&) = delete;

  void destroy()
  {
    if (srq != nullptr)
      must(device.api().destroy_srq(std::exchange(srq, nullptr)) == 0, "destroy_srq");
  }

  int post(std::uint64_t id, ibv_sge into) const
  {
    ibv_recv_wr wr{id, nullptr, &into, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq, &wr, &bad);
  }

  const verbs_device& device;
  completions received;
  ibv_srq* srq = nullptr;
  std::uint32_t number = 0;
};

// The receive half of a connection.
struct target
{
  target(const verbs_device& on, const domain& in)
    : device(on)
  {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = in.xrcd;
    qp = verbs_get_ctx(on.context())->create_qp_ex(on.context(), &attr);
    must(qp != nullptr, "create_qp_ex");
  }
  ~target() { must(device.api().destroy_qp(qp) == 0, "destroy_qp"); }
  target(const target&) = delete;
  target& operator=(const target&) = delete;

  end_name name() const
  {
    end_name n;
    n.gid = device.gid();
    n.lid = device.lid();
    n.qp = qp->qp_num;
    return n;
  }

  void to_ready_to_receive(const end_name& peer) const
  {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    change(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp;
    attr.rq_psn = attr.sq_psn = endpoint::first_psn;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = device.gid_index();
    attr.ah_attr.grh.hop_limit = 1;
    change(attr,
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    change(attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT);
  }

  ibv_qp_state state() const
  {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    must(device.api().query_qp(qp, &attr, IBV_QP_STATE, &init) == 0, "query_qp");
    return attr.qp_state;
  }

  const verbs_device& device;
  ibv_qp* qp = nullptr;

private:
  void change(ibv_qp_attr& attr, int mask) const
  {
    must(device.api().modify_qp(qp, &attr, mask) == 0, "modify_qp");
  }
};

pair_options of_initiator()
{
  pair_options o;
  o.service = IBV_QPT_XRC_SEND;
  return o;
}

void connect(const endpoint& initiator, const target& with)
{
  must(initiator.to_init() == 0, "to_init");
  with.to_ready_to_receive(initiator.name());
  must(initiator.to_ready_to_receive(with.name()) == 0, "to_ready_to_receive");
  must(initiator.to_ready_to_send() == 0, "to_ready_to_send");
}

// Posts a request that names a shared receive queue.
int post(const endpoint& by, request& what, std::uint32_t queue)
{
  what.wr.qp_type.xrc.remote_srqn = queue;
  return by.post(what.wr);
}

// An initiator, and a domain with a target that is connected to it and a queue.
struct extended
{
  explicit extended(const pair_options& with = of_initiator())
    : of_far(far)
    , queue(far, of_far)
    , to(far, of_far)
    , from(near, with)
  {
    connect(from, to);
  }

  ibv_wc_status send(const ibv_sge& what, std::uint32_t number) const
  {
    request r(IBV_WR_SEND, {what});
    must(post(from, r, number) == 0, "post");
    return from.sent().next().status;
  }

  verbs_device near;
  verbs_device far;
  domain of_far;
  shared_queue queue;
  target to;
  endpoint from;
};

} // namespace

TEST_CASE("an XRC send is received by the shared receive queue that it names")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  extended x;
  const shared_queue other(x.far, x.of_far);
  REQUIRE(other.number != x.queue.number);
  const std::size_t size = GENERATE(std::size_t{0}, std::size_t{8}, std::size_t{700'000});
  CAPTURE(size);
  memory from(x.near, size + 1);
  memory into(x.far, 2 * size + 2);
  from.fill(sent_byte);
  into.fill(kept_byte);
  REQUIRE(x.queue.post(1, into.sge(0, size)) == 0);
  REQUIRE(other.post(2, into.sge(size + 1, size)) == 0);
  for (const shared_queue* const to : {&other, &std::as_const(x.queue)})
  {
    request r(IBV_WR_SEND_WITH_IMM, {from.sge(0, size)}, 7);
    r.wr.imm_data = 0x1234;
    REQUIRE(post(x.from, r, to->number) == 0);
    const ibv_wc got = to->received.next();
    CHECK(got.status == IBV_WC_SUCCESS);
    CHECK(got.wr_id == (to == &other ? 2u : 1u));
    CHECK(got.opcode == IBV_WC_RECV);
    CHECK(got.byte_len == size);
    CHECK(got.imm_data == 0x1234);
    CHECK(got.qp_num == x.to.qp->qp_num);
    CHECK(got.src_qp == x.from.qp()->qp_num);
    const ibv_wc sent = x.from.sent().next();
    CHECK(sent.status == IBV_WC_SUCCESS);
    CHECK(sent.wr_id == 7);
    CHECK(sent.qp_num == x.from.qp()->qp_num);
  }
  CHECK(into.holds(sent_byte, 0, size));
  CHECK(into.holds(kept_byte, size, 1));
  CHECK(into.holds(sent_byte, size + 1, size));
}

TEST_CASE("several XRC targets of a domain receive by one shared receive queue")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  extended x;
  const verbs_device third;
  const target second(x.far, x.of_far);
  const endpoint other(third, of_initiator());
  connect(other, second);
  memory from(x.near, 8);
  memory from_third(third, 8);
  memory into(x.far, 16);
  REQUIRE(x.queue.post(1, into.sge(0, 8)) == 0);
  REQUIRE(x.queue.post(2, into.sge(8, 8)) == 0);
  request r(IBV_WR_SEND, {from_third.sge()});
  REQUIRE(post(other, r, x.queue.number) == 0);
  CHECK(x.queue.received.next().qp_num == second.qp->qp_num);
  CHECK(x.send(from.sge(), x.queue.number) == IBV_WC_SUCCESS);
  CHECK(x.queue.received.next().qp_num == x.to.qp->qp_num);
  CHECK(other.sent().next().status == IBV_WC_SUCCESS);
}

TEST_CASE("XRC writes, reads and atomics use the protection domain of the queue that they name")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  extended x;
  ibv_pd* const pd = x.far.api().alloc_pd(x.far.context());
  REQUIRE(pd != nullptr);
  {
    const shared_queue other(x.far, x.of_far, pd);
    constexpr std::size_t size = 300'000;
    memory own(x.near, size);
    memory first(x.far, size);
    memory second(x.far, size, all_access, pd);
    own.fill(sent_byte);
    const auto run = [&](request& r, const shared_queue& by)
    {
      REQUIRE(post(x.from, r, by.number) == 0);
      return x.from.sent().next().status;
    };
    for (const bool which : {false, true})
    {
      memory& there = which ? second : first;
      const shared_queue& by = which ? other : x.queue;
      there.fill(kept_byte);
      request write(IBV_WR_RDMA_WRITE, {own.sge(0, size / 2)});
      CHECK(run(write.remote(there.address(), there.key()), by) == IBV_WC_SUCCESS);
      REQUIRE(by.post(5, there.sge(0, 0)) == 0);
      request notify(IBV_WR_RDMA_WRITE_WITH_IMM, {own.sge(size / 2, size / 2)});
      CHECK(run(notify.remote(there.address(size / 2), there.key()), by) == IBV_WC_SUCCESS);
      const ibv_wc got = by.received.next();
      CHECK(got.status == IBV_WC_SUCCESS);
      CHECK(got.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
      CHECK(got.wr_id == 5);
      CHECK(there.holds(sent_byte));
      *there.word() = 40;
      memory result(x.near, 8);
      request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {result.sge()});
      CHECK(run(add.atomic(there.address(), there.key(), 2), by) == IBV_WC_SUCCESS);
      CHECK(*result.word() == 40);
      request swap(IBV_WR_ATOMIC_CMP_AND_SWP, {result.sge()});
      CHECK(run(swap.atomic(there.address(), there.key(), 42, 7), by) == IBV_WC_SUCCESS);
      CHECK(*there.word() == 7);
    }
    // Reads of both domains under way at once.
    memory back(x.near, 2 * size);
    std::vector<std::unique_ptr<request>> reads;
    for (const bool which : {false, true, false, true})
    {
      memory& there = which ? second : first;
      there.fill(which ? 2 : 1);
      reads.push_back(
        std::make_unique<request>(IBV_WR_RDMA_READ, std::vector{back.sge(which ? size : 0, size)}));
      reads.back()->remote(there.address(), there.key());
      REQUIRE(post(x.from, *reads.back(), which ? other.number : x.queue.number) == 0);
    }
    for (std::size_t i = 0; i != reads.size(); ++i)
      CHECK(x.from.sent().next().status == IBV_WC_SUCCESS);
    CHECK(back.holds(1, 0, size));
    CHECK(back.holds(2, size, size));

    request wrong(GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ), {own.sge()});
    CHECK(run(wrong.remote(second.address(), second.key()), x.queue) == IBV_WC_REM_ACCESS_ERR);
    CHECK(x.far.event() == IBV_EVENT_QP_ACCESS_ERR);
  }
  CHECK(x.far.api().dealloc_pd(pd) == 0);
}

TEST_CASE("an XRC request is refused when its domain has no such shared receive queue")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  extended x;
  const domain other(x.far);
  const shared_queue of_other(x.far, other);
  shared_queue gone(x.far, x.of_far);
  const std::uint32_t number_gone = gone.number;
  memory from(x.near, 8);
  memory into(x.far, 16);
  REQUIRE(gone.post(1, into.sge(0, 8)) == 0);
  REQUIRE(of_other.post(2, into.sge(8, 8)) == 0);
  CHECK(x.queue.post(3, into.sge(0, 8)) == 0);
  CHECK(x.send(from.sge(), x.queue.number) == IBV_WC_SUCCESS);
  const bool used = GENERATE(false, true);
  if (used)
    CHECK(x.send(from.sge(), gone.number) == IBV_WC_SUCCESS);
  gone.destroy();
  const std::uint32_t numbers[] = {0, 0xffffff, number_gone, of_other.number};
  const std::uint32_t number = numbers[GENERATE(0, 1, 2, 3)];
  request r(GENERATE(IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ), {from.sge()});
  r.remote(into.address(), into.key());
  REQUIRE(post(x.from, r, number) == 0);
  CHECK(x.from.sent().next().status == IBV_WC_REM_INV_REQ_ERR);
  CHECK(x.from.state() == IBV_QPS_ERR);
  CHECK(x.far.event() == IBV_EVENT_QP_REQ_ERR);
  CHECK(x.to.state() == IBV_QPS_ERR);
  CHECK_FALSE(of_other.received.poll());
}

TEST_CASE("an XRC send waits for a receive, and fails after rnr_retry attempts")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  pair_options o = of_initiator();
  o.rnr_retry = GENERATE(std::uint8_t{1}, std::uint8_t{7});
  extended x(o);
  memory from(x.near, 8);
  memory into(x.far, 8);
  request r(IBV_WR_SEND, {from.sge()});
  REQUIRE(post(x.from, r, x.queue.number) == 0);
  if (o.rnr_retry == 7)
  {
    REQUIRE(until([&] { return software::receiver_not_ready(x.from.qp()); }));
    REQUIRE(x.queue.post(1, into.sge()) == 0);
    CHECK(x.queue.received.next().status == IBV_WC_SUCCESS);
    CHECK(x.from.sent().next().status == IBV_WC_SUCCESS);
  }
  else
  {
    CHECK(x.from.sent().next().status == IBV_WC_RNR_RETRY_EXC_ERR);
  }
}

TEST_CASE("a shared receive queue can be destroyed while an XRC send waits for its receive")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  extended x;
  memory from(x.near, 8);
  request r(IBV_WR_SEND, {from.sge()});
  REQUIRE(post(x.from, r, x.queue.number) == 0);
  REQUIRE(until([&] { return software::receiver_not_ready(x.from.qp()); }));
  x.queue.destroy();
  CHECK(x.from.sent().next().status == IBV_WC_REM_INV_REQ_ERR);
}

TEST_CASE("a shared receive queue can be destroyed while a message for it arrives")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr std::size_t size = 3 << 20;
  constexpr unsigned count = 3;
  extended x;
  memory from(x.near, size);
  memory into(x.far, size);
  const std::size_t polls = GENERATE(0u, 1u, 3u, 10u, 30u);
  for (unsigned i = 0; i != count; ++i)
  {
    REQUIRE(x.queue.post(i, into.sge()) == 0);
    request r(IBV_WR_SEND, {from.sge()});
    REQUIRE(post(x.from, r, x.queue.number) == 0);
  }
  unsigned received = 0;
  for (std::size_t i = 0; i != polls; ++i)
    if (const auto wc = x.queue.received.poll())
    {
      CHECK(wc->status == IBV_WC_SUCCESS);
      ++received;
    }
  x.queue.destroy();
  unsigned carried_out = 0;
  bool refused = false;
  for (unsigned i = 0; i != count; ++i)
  {
    const ibv_wc_status status = x.from.sent().next().status;
    CAPTURE(status);
    if (status == IBV_WC_SUCCESS)
      ++carried_out;
    else
      CHECK((refused ? status == IBV_WC_WR_FLUSH_ERR
                     : status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR));
    refused = status != IBV_WC_SUCCESS;
  }
  while (const auto wc = x.queue.received.poll())
  {
    CHECK(wc->status == IBV_WC_SUCCESS);
    ++received;
  }
  CHECK(received == carried_out);
}

TEST_CASE("an XRC send that is too long for its receive fails on both sides")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  extended x;
  memory from(x.near, 9);
  memory into(x.far, 8);
  REQUIRE(x.queue.post(1, into.sge()) == 0);
  CHECK(x.send(from.sge(), x.queue.number) == IBV_WC_REM_INV_REQ_ERR);
  const ibv_wc got = x.queue.received.next();
  CHECK(got.status == IBV_WC_LOC_LEN_ERR);
  CHECK(got.qp_num == x.to.qp->qp_num);
}

TEST_CASE("an XRC initiator refuses the requests of its peer")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const verbs_device near;
  const verbs_device far;
  const domain of_far(far);
  const shared_queue queue(far, of_far);
  const endpoint a(near, of_initiator());
  const endpoint b(far, of_initiator());
  test::connect(a, b);
  memory from(near, 8);
  memory into(far, 8);
  request r(IBV_WR_RDMA_WRITE, {from.sge()});
  REQUIRE(post(a, r.remote(into.address(), into.key()), queue.number) == 0);
  CHECK(a.sent().next().status == IBV_WC_REM_INV_REQ_ERR);
}

TEST_CASE("an XRC initiator reaches a target of its own context, and not itself")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const verbs_device device;
  const domain in(device);
  const shared_queue queue(device, in);
  const target to(device, in);
  const endpoint from(device, of_initiator());
  const bool to_itself = GENERATE(false, true);
  if (to_itself)
    must(from.to_init() == 0 && from.to_ready_to_receive(from) == 0 && from.to_ready_to_send() == 0,
      "the states");
  else
    connect(from, to);
  memory bytes(device, 16);
  REQUIRE(queue.post(1, bytes.sge(8, 8)) == 0);
  request r(IBV_WR_SEND, {bytes.sge(0, 8)});
  REQUIRE(post(from, r, queue.number) == 0);
  CHECK(from.sent().next().status == (to_itself ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS));
  CHECK(queue.received.poll().has_value() == !to_itself);
}

TEST_CASE("an XRC initiator does not reach a queue pair of another service")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const verbs_device near;
  const verbs_device far;
  const endpoint a(near, of_initiator());
  const endpoint b(far);
  test::connect(a, b);
  memory from(near, 8);
  request r(IBV_WR_SEND, {from.sge()});
  REQUIRE(post(a, r, 1) == 0);
  CHECK(far.event() == IBV_EVENT_QP_FATAL);
  CHECK(a.sent().next().status != IBV_WC_SUCCESS);
}

TEST_CASE("the ibv_wr calls send to the shared receive queue of ibv_wr_set_xrc_srqn")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const verbs_device near;
  const verbs_device far;
  const domain of_far(far);
  const shared_queue queue(far, of_far);
  const target to(far, of_far);
  const completions sent(near);
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = sent.get();
  attr.qp_type = IBV_QPT_XRC_SEND;
  attr.cap = {8, 0, 4, 0, 128};
  attr.sq_sig_all = 1;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = near.pd();
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* const qp = verbs_get_ctx(near.context())->create_qp_ex(near.context(), &attr);
  REQUIRE(qp != nullptr);
  CHECK(qp->recv_cq == nullptr);
  end_name name;
  name.gid = near.gid();
  name.lid = near.lid();
  name.qp = qp->qp_num;
  to.to_ready_to_receive(name);
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = 1;
  REQUIRE(near.api().modify_qp(
            qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
    == 0);
  state.qp_state = IBV_QPS_RTR;
  state.path_mtu = IBV_MTU_1024;
  state.dest_qp_num = to.qp->qp_num;
  state.rq_psn = state.sq_psn = endpoint::first_psn;
  state.ah_attr.is_global = state.ah_attr.port_num = 1;
  state.ah_attr.grh.dgid = far.gid();
  state.ah_attr.grh.sgid_index = near.gid_index();
  REQUIRE(near.api().modify_qp(qp, &state,
            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
    == 0);
  state.qp_state = IBV_QPS_RTS;
  state.rnr_retry = 7;
  REQUIRE(near.api().modify_qp(qp, &state,
            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
              | IBV_QP_MAX_QP_RD_ATOMIC)
    == 0);
  memory from(near, 8);
  memory into(far, 8);
  from.fill(sent_byte);
  REQUIRE(queue.post(1, into.sge()) == 0);
  ibv_qp_ex* const qpx = software::qp_to_qp_ex(qp);
  REQUIRE(qpx != nullptr);
  const auto send = [&](std::optional<std::uint32_t> number)
  {
    ibv_wr_start(qpx);
    qpx->wr_id = 3;
    qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qpx);
    ibv_wr_set_sge(qpx, from.mr()->lkey, from.address(), 8);
    if (number)
      ibv_wr_set_xrc_srqn(qpx, *number);
    return ibv_wr_complete(qpx);
  };
  CHECK(send(std::nullopt) == EINVAL);
  CHECK(send(1u << 24) == EINVAL);
  CHECK(send(queue.number) == 0);
  CHECK(queue.received.next().status == IBV_WC_SUCCESS);
  CHECK(sent.next().wr_id == 3);
  CHECK(into.holds(sent_byte));
  CHECK(near.api().destroy_qp(qp) == 0);
}

TEST_CASE("an XRC domain cannot be closed while it is in use")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const verbs_device device;
  ibv_device_attr attr{};
  REQUIRE(device.api().query_device(device.context(), &attr) == 0);
  CHECK((attr.device_cap_flags & IBV_DEVICE_XRC) != 0);
  const domain used(device);
  {
    const target to(device, used);
    CHECK(ibv_close_xrcd(used.xrcd) == EBUSY);
  }
  {
    const shared_queue queue(device, used);
    CHECK(ibv_close_xrcd(used.xrcd) == EBUSY);
    CHECK(device.api().destroy_cq(queue.received.get()) == EBUSY);
  }
  errno = 0;
  CHECK(device.api().close_device(device.context()) == -1);
  CHECK(errno == EBUSY);
}

TEST_CASE("an XRC domain of a file is opened again with this file")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const verbs_device device;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  REQUIRE(file);
  const int fd = ::fileno(file.get());
  const auto refused = [&](int descriptor, int flags)
  {
    errno = 0;
    return open_domain(device, descriptor, flags) == nullptr ? errno : 0;
  };
  CHECK(refused(fd, 0) == EAGAIN);
  CHECK(refused(1'000'000, O_CREAT) == EBADF);
  ibv_xrcd* const made = open_domain(device, fd, O_CREAT | O_EXCL);
  REQUIRE(made != nullptr);
  CHECK(refused(fd, O_CREAT | O_EXCL) == EINVAL);
  ibv_xrcd* const again = open_domain(device, fd, 0);
  CHECK(again == made);
  ibv_xrcd* const without = open_domain(device);
  CHECK(without != made);
  CHECK(ibv_close_xrcd(made) == 0);
  CHECK(open_domain(device, fd, 0) == made);
  for (ibv_xrcd* const each : {again, made, without})
    CHECK(ibv_close_xrcd(each) == 0);
  CHECK(refused(fd, 0) == EAGAIN);
  ibv_xrcd_init_attr incomplete{IBV_XRCD_INIT_ATTR_FD, -1, O_CREAT};
  CHECK(ibv_open_xrcd(device.context(), &incomplete) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("ibv_open_qp opens a target of the domain, which lives until it is closed as often")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const verbs_device device;
  const domain used(device);
  const domain other(device);
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.xrcd = used.xrcd;
  const auto refused = [&]
  {
    errno = 0;
    return ibv_open_qp(device.context(), &attr) == nullptr && errno == EINVAL;
  };
  {
    const target to(device, used);
    attr.qp_num = to.qp->qp_num;
    ibv_qp* const opened = ibv_open_qp(device.context(), &attr);
    REQUIRE(opened != nullptr);
    CHECK(opened->qp_num == to.qp->qp_num);
    CHECK(device.api().destroy_qp(opened) == 0);
    CHECK(to.state() == IBV_QPS_RESET);
    attr.xrcd = other.xrcd;
    CHECK(refused());
    attr.xrcd = used.xrcd;
    attr.qp_type = IBV_QPT_XRC_SEND;
    CHECK(refused());
    attr.qp_type = IBV_QPT_XRC_RECV;
  }
  CHECK(refused()); // destroyed
}

TEST_CASE("the halves of an XRC connection refuse calls of the other half")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  extended x;
  memory bytes(x.near, 8);
  memory there(x.far, 8);
  CHECK(x.from.receive(1, bytes.sge()) != 0);
  request r(IBV_WR_SEND, {there.sge()});
  ibv_send_wr* bad = nullptr;
  CHECK(ibv_post_send(x.to.qp, &r.wr, &bad) == EINVAL);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  CHECK(ibv_post_recv(x.to.qp, &receive, &bad_receive) != 0);
  request beyond(IBV_WR_SEND, {bytes.sge()});
  CHECK(post(x.from, beyond, 1u << 24) == EINVAL);

  ibv_qp_init_attr plain{};
  plain.qp_type = IBV_QPT_XRC_RECV;
  errno = 0;
  CHECK(x.far.api().create_qp(x.far.pd(), &plain) == nullptr);
  CHECK(errno == EINVAL);
  plain.qp_type = IBV_QPT_RC;
  plain.send_cq = plain.recv_cq = x.queue.received.get();
  plain.cap.max_send_wr = 1;
  plain.srq = x.queue.srq;
  errno = 0;
  CHECK(x.far.api().create_qp(x.far.pd(), &plain) == nullptr);
  CHECK(errno == EINVAL);

  ibv_srq_init_attr basic{};
  basic.attr = {8, 1, 0};
  ibv_srq* const srq = x.far.api().create_srq(x.far.pd(), &basic);
  REQUIRE(srq != nullptr);
  std::uint32_t number = 0;
  CHECK(ibv_get_srq_num(srq, &number) == EOPNOTSUPP);
  CHECK(x.far.api().destroy_srq(srq) == 0);
}

} // namespace test::verbs_xrc_test
